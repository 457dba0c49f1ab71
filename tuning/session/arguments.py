"""The arguments of `mlc.tune` that say how long and by which tuner to search, checked."""

from __future__ import annotations

import math
from typing import get_args

from mlc.support.errors import UserError
from mlc.tuning.farm import Evaluation
from mlc.tuning.session.search import Plan
from mlc.tuning.tuners.protocol import TunerKind


def plan_of(
    trials: int | None,
    seconds: float | None,
    tuner: str,
    seed: int,
    resume: bool,
    until: float | str | None,
    early_stopping: int | None,
    evaluation: Evaluation | None,
    device: str | None,
) -> Plan:
    """The plan of a session; UserError for an argument out of range."""
    return Plan(
        trials=_counted("trials", trials),
        seconds=_positive("seconds", seconds),
        tuner=_known_tuner(tuner),
        seed=seed,
        resume=resume,
        until=_part(until),
        early_stopping=_counted("early_stopping", early_stopping),
        evaluation=evaluation or Evaluation(),
        device=device,
    )


def _known_tuner(tuner: str) -> str:
    kinds = get_args(TunerKind)
    if tuner not in kinds:
        raise UserError(f"expected a tuner among {', '.join(kinds)}, but got '{tuner}'")
    return tuner


def _counted(name: str, value: int | None) -> int | None:
    if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
        raise UserError(f"expected {name} to be a number of candidates, at least 1, but got {value!r}")
    return value


def _positive(name: str, value: float | None) -> float | None:
    if value is not None and not 0 < value < math.inf:
        raise UserError(f"expected {name} to be above 0, but got {value!r}")
    return value


def _part(until: float | str | None) -> float | None:
    """A part from 0 to 1, given as a number or as percents in a text."""
    if until is None:
        return None
    try:
        is_percent = isinstance(until, str) and until.strip().endswith("%")
        part = float(str(until).strip().removesuffix("%")) / (100 if is_percent else 1)
    except ValueError:
        part = 0.0
    if not 0 < part < 1:
        raise UserError(f"expected until to be a part of the latency such as '5%' or 0.05, but got {until!r}")
    return part


__all__ = ["plan_of"]
