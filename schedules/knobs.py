"""
Knobs of strategies: where a strategy asks `knob(name, candidates, default)`, tuning may answer with another value.

    rows = knob("rows", (4, 6, 8, 12), tile.rows)      # the analytic choice, unless values are in force

Without values in force a knob is its default. While a `choosing` is in force it is asked, and keeps the knobs that it
was asked for: so the space of a strategy is found by running it, and a candidate is the strategy run with its values.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar, cast

from mlc.support.errors import UserError

V = TypeVar("V", int, str, tuple[int, ...])


@dataclass
class Choosing:
    """The values of knobs in force, and the knobs that a strategy asked for: candidates and default by name."""

    values: Mapping[str, int | str | tuple[int, ...]]
    asked: dict[str, tuple[tuple[int | str | tuple[int, ...], ...], int | str | tuple[int, ...]]] = field(
        default_factory=dict[str, "tuple[tuple[int | str | tuple[int, ...], ...], int | str | tuple[int, ...]]"]
    )


_IN_FORCE: ContextVar[Choosing | None] = ContextVar("mlc_knobs", default=None)


def knob(name: str, candidates: Sequence[V], default: V) -> V:
    """
    The value of a knob: that in force, else its default.

    The candidates follow from the kernel and the target, never from other knobs; the default, which the analytic model
    gives, is one of them or joins them.
    """
    choosing = _IN_FORCE.get()
    if choosing is None:
        return default
    known = tuple(candidates) if default in candidates else (*candidates, default)
    choosing.asked.setdefault(name, (known, default))
    value = choosing.values.get(name, default)
    if type(value) is not type(default):
        raise UserError(f"expected a value of knob '{name}' such as {default!r}, but got {value!r}")
    return cast(V, value)


@contextmanager
def choosing(values: Mapping[str, int | str | tuple[int, ...]] | None = None) -> Generator[Choosing]:
    """Let these values answer for knobs inside a `with` statement; None: all defaults."""
    found = Choosing(values or {})
    token = _IN_FORCE.set(found)
    try:
        yield found
    finally:
        _IN_FORCE.reset(token)


__all__ = ["Choosing", "choosing", "knob"]
