"""A record: a candidate of a task, its result, the versions under which it was measured, and its paired check."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TypeAlias, cast

from mlc.support.records import json_values
from mlc.tuning.results import ErrorCode, MeasureResult
from mlc.tuning.space import STRATEGY, Knob, KnobValue, Part, Space, Values, from_json

FORMAT = 1
"""The version of the database's tables and of an exported line; a newer one is refused."""

TaskKey: TypeAlias = tuple[str, str, int]
"""The hash of a kernel's te text, the target's description, the number of threads."""


@dataclass(frozen=True)
class Comparison:
    """The paired check of a candidate against the default choice: both are measured in turns, round by round."""

    seconds: float
    """The candidate's median over the rounds, for a call."""
    default_seconds: float
    """The default's."""
    low: float
    """The confidence interval's lower end of the speed-up, default over candidate: above 1 means faster."""
    high: float
    rounds: int
    level: float = 0.95
    """The probability that the interval holds the speed-up."""

    @property
    def speedup(self) -> float:
        """How many times as fast as the default the candidate is, by the medians."""
        return self.default_seconds / self.seconds


@dataclass(frozen=True)
class Record:
    """What is known of one candidate."""

    kernel_hash: str
    target: str
    threads: int
    name: str
    """The kernel's name, for people."""
    values: Values
    result: MeasureResult
    strategy_version: str
    """The version of the strategy that wrote the schedule (schedules/registry.py)."""
    compiler: str
    """mlc's version."""
    comparison: Comparison | None = None
    """The paired check that it passed; None where it was only measured."""

    @property
    def key(self) -> TaskKey:
        """The key of the task."""
        return self.kernel_hash, self.target, self.threads

    @property
    def strategy(self) -> str:
        """The strategy that its values are for."""
        return str(self.values.get(STRATEGY, ""))


def values_text(values: Values) -> str:
    """The values as JSON in one form, by which equal candidates are found."""
    return json.dumps(json_values(values), sort_keys=True, separators=(",", ":"))


def values_of(text: str) -> dict[str, KnobValue]:
    """The values of `values_text`."""
    return from_json(json.loads(text))


def comparison_text(comparison: Comparison) -> str:
    """The paired check as JSON."""
    return json.dumps(asdict(comparison))


def comparison_of(text: str | None) -> Comparison | None:
    """The paired check of `comparison_text`."""
    return Comparison(**json.loads(text)) if text else None


def result_json(result: MeasureResult) -> dict[str, object]:
    """A result as JSON holds it."""
    return {**asdict(result), "error": int(result.error)}


def result_of(data: Mapping[str, object]) -> MeasureResult:
    """The result of `result_json`; ValueError, TypeError or KeyError where it is none."""
    return MeasureResult(
        tuple(map(float, cast("list[float]", data["seconds"]))),
        ErrorCode(cast(int, data["error"])),
        str(data["message"]),
        float(cast(float, data["build_seconds"])),
        float(cast(float, data["run_seconds"])),
        float(cast(float, data["timestamp"])),
        {str(k): str(v) for k, v in cast("dict[str, str]", data["machine"]).items()},
    )


def space_text(space: Space) -> str:
    """A space as JSON: `[[strategy, [[knob, [candidate, ...], default], ...]], ...]`; a third item is the algorithm."""
    parts = [
        [p.strategy, [[k.name, list(map(_plain, k.candidates)), _plain(k.default)] for k in p.knobs], p.algorithm][
            : 3 if p.algorithm else 2
        ]
        for p in space.parts
    ]
    return json.dumps(parts, separators=(",", ":"))


def space_of(text: str) -> Space:
    """The space of `space_text`."""
    return Space(
        tuple(
            Part(
                strategy,
                tuple(Knob(n, tuple(map(_value, found)), _value(default)) for n, found, default in knobs),
                *algorithm,
            )
            for strategy, knobs, *algorithm in json.loads(text)
        )
    )


def _plain(value: KnobValue) -> int | str | list[int]:
    return list(value) if isinstance(value, tuple) else value


def _value(value: int | str | list[int]) -> KnobValue:
    return tuple(value) if isinstance(value, list) else value
