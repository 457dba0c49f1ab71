"""
One line of an AutoTVM log, version 0.2, as Python data and back.

    {"input": [target, task, args, kwargs],
     "config": {"index": 252, "code_hash": null, "entity": [["tile_ow", "sp", [-1, 7]], ["unroll_kw", "ot", true]]},
     "result": [[0.0004, 0.0005], 0, 1.3, 1600000000.0], "version": 0.2, "tvm_version": "0.8.0"}

A failed measurement has the one cost 1e9 and an error number (mlc.tuning.results.ErrorCode, which are TVM's).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, cast

from mlc.support.errors import UserError
from mlc.tuning.results import FOREIGN, ErrorCode, MeasureResult

VERSION = 0.2
"""The version of the lines that are read and written."""
FAILED = 1e9
"""The cost, in seconds, that stands for a failure."""
WRITTEN_BY = "0.8.0"
"""The version of TVM whose templates written lines are for."""

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
Entity: TypeAlias = tuple[str, str, "list[int] | list[str] | str | int | bool"]
"""(name, "sp" split | "re" order | "an" annotations | "ot" other, value); the outermost size of a split may be -1."""


@dataclass(frozen=True)
class TvmRecord:
    """A line: a task by its template and arguments, a configuration, and what was measured."""

    target: str
    task: str
    """The template's name, e.g. conv2d_NCHWc.x86."""
    args: list[Json]
    entities: tuple[Entity, ...]
    index: int
    """The configuration's number: mixed radix over the template's entities, the first one least significant."""
    costs: tuple[float, ...]
    error: int = 0
    all_cost: float = 0.0
    """Seconds that building and measuring took."""
    timestamp: float = 0.0
    kwargs: Mapping[str, Json] | None = None
    code_hash: str | None = None
    tvm_version: str = WRITTEN_BY

    @property
    def text(self) -> str:
        """The line, without its end."""
        entity = [[name, tag, value] for name, tag, value in self.entities]
        return json.dumps(
            {
                "input": [self.target, self.task, self.args, dict(self.kwargs or {})],
                "config": {"index": self.index, "code_hash": self.code_hash, "entity": entity},
                "result": [list(self.costs), self.error, self.all_cost, self.timestamp],
                "version": VERSION,
                "tvm_version": self.tvm_version,
            }
        )

    @property
    def result(self) -> MeasureResult:
        """What was measured, as mlc holds it; TVM's costs are seconds of a call."""
        code = ErrorCode(self.error) if self.error in set(ErrorCode) else ErrorCode.UNKNOWN_ERROR
        seconds = self.costs if code is ErrorCode.NO_ERROR else ()
        message = "" if code is ErrorCode.NO_ERROR else f"TVM's error {self.error}"
        machine = {"device": FOREIGN, "target": self.target}
        return MeasureResult(seconds, code, message, 0.0, self.all_cost, self.timestamp, machine)

    @property
    def values(self) -> dict[str, list[int] | list[str] | str | int | bool]:
        """The entities' values by name."""
        return {name: value for name, _, value in self.entities}


def costs_of(result: MeasureResult) -> tuple[tuple[float, ...], int]:
    """The costs and the error number that TVM writes for a result."""
    return (result.seconds, 0) if result.error is ErrorCode.NO_ERROR else ((FAILED,), int(result.error))


def parse_line(line: str, place: str = "") -> TvmRecord | None:
    """
    Read a line; None for an empty one and for a comment (`#`).

    Raises UserError at `place` for what is no line of version 0.2.
    """
    if not line.strip() or line.startswith("#"):
        return None
    try:
        data = json.loads(line)
    except ValueError as error:
        raise UserError(f"expected a JSON line of an AutoTVM log, but got {line[:40]!r}", place=place) from error
    if not isinstance(data, dict) or "input" not in data or "config" not in data:
        raise UserError(f"expected an AutoTVM line with input and config, but got {line[:40]!r}", place=place)
    found = cast("dict[str, Json]", data)
    if found.get("version") != VERSION:
        raise UserError(f"expected an AutoTVM line of version {VERSION}, but got {found.get('version')!r}", place=place)
    try:
        return _record(found)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(f"expected a whole AutoTVM line, but got {line[:60]!r} ({error!r})", place=place) from error


def _record(data: dict[str, Json]) -> TvmRecord:
    target, task, args, kwargs = cast("tuple[str, str, list[Json], dict[str, Json]]", data["input"])
    config = cast("dict[str, Json]", data["config"])
    costs, error, all_cost, timestamp = cast("tuple[list[float], int, float, float]", data["result"])
    entities = cast("list[tuple[str, str, list[int]]]", config["entity"])
    return TvmRecord(
        str(target),
        str(task),
        list(args),
        tuple((str(name), str(tag), value) for name, tag, value in entities),
        int(cast(int, config["index"])),
        tuple(costs),
        int(error),
        all_cost,
        timestamp,
        dict(kwargs),
        cast("str | None", config.get("code_hash")),
        str(data.get("tvm_version", "")),
    )


def parse_log(text: str, place: str = "") -> list[TvmRecord]:
    """All lines of a log."""
    lines = text.splitlines()
    found = (parse_line(line, f"{place}:{number}" if place else "") for number, line in enumerate(lines, 1))
    return [one for one in found if one is not None]


def pick_best(records: list[TvmRecord]) -> list[TvmRecord]:
    """The record of the least mean cost of each task and target, without failures, in the order of the tasks."""
    best: dict[str, TvmRecord] = {}
    for one in records:
        key = json.dumps([one.target, one.task, one.args])
        if one.error == 0 and one.costs and (key not in best or _mean(one) < _mean(best[key])):
            best[key] = one
    return list(best.values())


def _mean(record: TvmRecord) -> float:
    return sum(record.costs) / len(record.costs)
