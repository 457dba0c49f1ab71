"""
The values that the knobs of a strategy take: those given for the kernel, else the strategy's own choice.

A strategy asks `ScheduleBuilder.choose(name, candidates, default)`; the schedule that it writes begins with what it
asked, as `sched.knob` ops. Candidates follow from the kernel and the target, never from the values of other knobs.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects.builtin import DictionaryAttr

from mlc.dialects.sched import KnobValue, knob_attribute, knob_text, knob_value
from mlc.support.errors import UserError
from mlc.support.records import ALGORITHM

STRATEGY = "strategy"
"""The name of the strategy among the values given for a kernel."""
AUTO = 0
"""The candidate of a size by which the cost model decides, for the other values that are given."""
BY_MODEL = "auto"
"""The candidate of a name by which the cost model decides."""
SWITCH = (BY_MODEL, "on", "off")
"""The candidates of a decision."""

_GIVEN: ContextVar[Mapping[str, KnobValue] | None] = ContextVar("mlc_knobs", default=None)


@contextmanager
def given(values: Mapping[str, KnobValue] | None) -> Generator[None]:
    """Let the knobs of strategies take these values inside a `with` statement; those that are missing their default."""
    token = _GIVEN.set(values)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def chosen(name: str, candidates: tuple[KnobValue, ...], default: KnobValue) -> KnobValue:
    """The value of a knob; UserError for one that is not among its candidates."""
    values = _GIVEN.get()
    value = default if values is None else values.get(name, default)
    if value not in candidates:
        known = ", ".join(map(knob_text, candidates))
        raise UserError(f"expected knob '{name}' among [{known}], but got {knob_text(value)}")
    return value


def sizes(extent: int, default: int, most: int, step: int = 1) -> tuple[int, ...]:
    """
    Candidates for the size of a tile along an axis, ascending, multiples of `step`, at most `most`.

    The default, powers of two, and every size that cuts the axis into even pieces: of 100, 34 but not 33.
    """
    most = max(default, min(most, _up(extent, step)))
    even = {n for n in range(step, most + 1, step) if _up(-(-extent // -(-extent // n)), step) == n}
    powers = {step << k for k in range(12) if step << k <= most}
    return tuple(sorted(even | powers | {default}))


def switched(value: KnobValue, by_model: bool) -> bool:
    """What a switch says: on, off, or what the model says."""
    return by_model if value == BY_MODEL else value == "on"


def blocks(most: int) -> tuple[int, ...]:
    """Candidates for the number of tiles in a block: the model's choice, and powers of two up to `most`."""
    return (AUTO, *(1 << k for k in range(max(0, most - 1).bit_length() + 1) if 1 << k <= most))


def values_attribute(values: Mapping[str, KnobValue]) -> DictionaryAttr:
    """The values of knobs as an attribute."""
    return DictionaryAttr({name: knob_attribute(value) for name, value in values.items()})


def values_of(attribute: DictionaryAttr) -> dict[str, KnobValue]:
    """The values that an attribute holds."""
    return {name: knob_value(value) for name, value in attribute.data.items()}


def expect_known(strategy: str, values: Iterable[str], known: Iterable[str]) -> None:
    """UserError where a value is given for a knob that the strategy does not have."""
    unknown = sorted(set(values) - {STRATEGY, ALGORITHM} - set(known))
    if unknown:
        raise UserError(f"strategy '{strategy}' has no knob '{unknown[0]}' for this kernel")


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
