"""
The profile of a model that the vm runs.

One call is run, and the segments that it runs are noted. Each is then profiled as AOT code of the same kernels, on the
inputs of its first run. A segment that runs several times, as in a loop, counts that often with the times of that run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlc.runtime.arrays import Array
from mlc.runtime.profile import Event, Profile, together
from mlc.runtime.symbolic import open_executable
from mlc.runtime.vm.machine import Register, VirtualMachine
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.runtime.vm.segment import Segment


@dataclass
class _Runs:
    """The runs of a segment on inputs of the same shapes."""

    segment: Segment
    arrays: list[Array]
    """The inputs of the first one."""
    count: int = 0


def profile_of(machine: VirtualMachine, arguments: Sequence[Register], repeat: int) -> Profile:
    """The profile of the kernels that a call runs; UserError if it runs none."""
    found: dict[Any, _Runs] = {}

    def note(segment: Segment, arrays: Sequence[Array]) -> None:
        key = id(segment), tuple(array.shape for array in arrays)
        if key not in found:
            found[key] = _Runs(segment, [array.copy() for array in arrays])
        found[key].count += 1

    machine.run(0, arguments, note)
    profiles = [(_profiled(runs, repeat), runs.count) for runs in found.values() if runs.segment.code.kernels]
    if not profiles:
        raise UserError("expected a call that runs kernels, but this one runs none")
    rows = [together([row] * count) for profile, count in profiles for row in profile]
    return Profile(rows, profiles[0][0].machine, _one_after_another([profile for profile, _ in profiles]))


def _profiled(runs: _Runs, repeat: int) -> Profile:
    segment = runs.segment
    executable = open_executable(segment.artifact, segment.threads, "aot", segment.toolchain)
    return executable.profile(dict(zip(segment.inputs, runs.arrays, strict=True)), repeat)


def _one_after_another(profiles: Sequence[Profile]) -> list[Event]:
    """The events of profiles on one time line, with the numbers of their calls in all of the rows."""
    events: list[Event] = []
    calls, end = 0, 0
    for profile in profiles:
        begin = min((event.start for event in profile.events), default=0)
        shift = end - begin
        events += [
            event._replace(call=event.call + calls, start=event.start + shift, end=event.end + shift)
            for event in profile.events
        ]
        calls, end = calls + len(profile), max((event.end for event in events), default=0)
    return events


__all__ = ["profile_of"]
