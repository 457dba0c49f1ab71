"""What the methods of `mlc.Schedule` give and take: handles on blocks, loops and knobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.passes.loop.directives.kernel import Payload, name_of

if TYPE_CHECKING:
    from mlc.frontends.te.schedule import Schedule


@dataclass(frozen=True, repr=False)
class ScheduleHandle:
    """A value of a schedule: a block, a loop or a knob of `mlc.Schedule`."""

    schedule: Schedule
    value: SSAValue

    @property
    def name(self) -> str:
        """Its name in `print(schedule)`."""
        return self.value.name_hint or "?"

    def __repr__(self) -> str:
        return f"<{self.schedule.describe(self.value)}>"


class ScheduleBlock(ScheduleHandle):
    """A block: a stage of the operator, or what a directive made of one."""


class ScheduleLoop(ScheduleHandle):
    """A loop around blocks."""

    @property
    def extent(self) -> int | None:
        """The number of its iterations; None where that depends on a symbolic size."""
        return self.schedule.loop_at(self.value).extent

    @property
    def kind(self) -> str:
        """`serial`, `parallel`, `vectorized`, `unrolled`, or `bind:` and the axis of a device."""
        return self.schedule.loop_at(self.value).kind.data


class ScheduleKnob(ScheduleHandle):
    """An integer for tuning, to be used as a factor."""


def describe(payload: Payload) -> str:
    """A handle's meaning in one line."""
    if not isinstance(payload, loop.ForOp | loop.BlockOp):
        return f"knob of value {payload}"
    if isinstance(payload, loop.BlockOp):
        return name_of(payload)
    size = "a symbolic number of" if payload.extent is None else payload.extent
    return f"{name_of(payload)}: {size} iterations, {payload.kind.data}"
