"""
The entities of a template's configuration, which are values of its knobs, and how each is applied to a schedule.

`size`, `perm`, `anns` and `val` are what TVM's SplitEntity, ReorderEntity, AnnotateEntity and OtherEntityEntity hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlc.frontends.te.schedule import Schedule
from mlc.frontends.te.schedule_handles import ScheduleBlock, ScheduleLoop
from mlc.support.errors import UserError
from mlc.tuning.space import KnobValue

Scalar: TypeAlias = int | float | str | bool | tuple[int, ...] | None
"""What a knob of `define_knob` chooses among."""


@dataclass(frozen=True)
class SplitEntity:
    """The extents that a loop is split into, outer to inner; the first may be -1: inferred."""

    size: tuple[int, ...]

    @property
    def value(self) -> KnobValue:
        """The value of the knob."""
        return self.size

    def apply(self, schedule: Schedule, block: ScheduleBlock, loop: ScheduleLoop) -> list[ScheduleLoop]:
        """Split a loop around the block; the loops that it becomes, outer to inner."""
        _check_block(block)
        if len(self.size) == 1:
            return [loop]
        return schedule.split(loop, [None if size == -1 else size for size in self.size])


@dataclass(frozen=True)
class ReorderEntity:
    """An order of loops: the number of the loop that stands at each place."""

    perm: tuple[int, ...]

    @property
    def value(self) -> KnobValue:
        """The value of the knob."""
        return self.perm

    def apply(self, schedule: Schedule, block: ScheduleBlock, loops: Sequence[ScheduleLoop]) -> list[ScheduleLoop]:
        """Reorder the loops around the block, given as they were defined; the loops in their new order."""
        _check_block(block)
        _check_count(loops, len(self.perm))
        ordered = [loops[number] for number in self.perm]
        if len(ordered) > 1:
            schedule.reorder(*ordered)
        return ordered


@dataclass(frozen=True)
class AnnotateEntity:
    """What is done with each loop: none, unroll or vec."""

    anns: tuple[str, ...]

    @property
    def value(self) -> KnobValue:
        """The value of the knob: the words in one text."""
        return " ".join(self.anns)

    def apply(
        self,
        schedule: Schedule,
        block: ScheduleBlock,
        loops: Sequence[ScheduleLoop],
        max_unroll: int | None = None,
        vec_size: Sequence[int] | None = None,
    ) -> list[ScheduleLoop]:
        """
        Unroll and vectorize the loops around the block, given as they were defined.

        A loop of more than `max_unroll` iterations is not unrolled, one of another extent than those of `vec_size` is
        not vectorized.
        """
        _check_block(block)
        _check_count(loops, len(self.anns))
        for loop, word in zip(loops, self.anns, strict=True):
            extent = loop.extent
            if word == "unroll" and (max_unroll is None or (extent is not None and extent <= max_unroll)):
                schedule.unroll(loop)
            elif word == "vec" and (vec_size is None or extent in vec_size):
                schedule.vectorize(loop)
        return list(loops)


@dataclass(frozen=True)
class OtherEntity:
    """A scalar."""

    val: Scalar

    @property
    def value(self) -> KnobValue:
        """The value of the knob: what is no integer, text or list of integers as its text in Python."""
        if isinstance(self.val, bool) or not isinstance(self.val, int | str | tuple):
            return repr(self.val)
        return self.val


Entity: TypeAlias = SplitEntity | ReorderEntity | AnnotateEntity | OtherEntity


def _check_block(block: ScheduleBlock) -> None:
    if not isinstance(block, ScheduleBlock):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a block of the schedule, as s[name] gives, but got {block!r}")


def _check_count(loops: Sequence[ScheduleLoop], count: int) -> None:
    if len(loops) != count:
        raise UserError(f"expected the {count} loops that the entity was defined for, but got {len(loops)}")
