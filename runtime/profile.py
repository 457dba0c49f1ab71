"""Profiles of compiled models: each kernel's time, work, and share of the machine's peaks."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mlc.runtime.peaks import Machine

COMPUTE = "compute"


class Event(NamedTuple):
    """One thing that ran, in nanoseconds of the monotonic clock: a call (thread -1), or a thread's part of it."""

    call: int
    thread: int
    task: int
    start: int
    end: int


@dataclass(frozen=True)
class KernelProfile:
    """Time and work of one call of a kernel, or of `count` calls together."""

    kernel: str
    seconds: float
    """Median over the repetitions."""
    flops: int
    bytes: int
    """The bytes of its operands: each read or written once."""
    origins: tuple[str, ...]
    """The source nodes that the kernel computes."""
    least_seconds: float = 0.0
    """Minimum over the repetitions, which a busy machine disturbs less."""
    schedule: str = ""
    """The strategy that chose its schedule, the register tile of its main stage, the parallel loop."""
    compute_seconds: float = 0.0
    """Seconds that its flops take at the machine's FMA peak."""
    memory_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Seconds that reading its operands takes, by level of memory, at that level's bandwidth."""
    count: int = 1
    device: str = ""
    """The device that it is compiled for; "" in a program of one device."""

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return self.flops / self.seconds / 1e9

    @property
    def gbytes(self) -> float:
        """GB/s of operands."""
        return self.bytes / self.seconds / 1e9

    @property
    def intensity(self) -> float:
        """Flops a byte."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def percent_of_peak(self) -> float:
        """Percent of the machine's FMA peak."""
        return 100 * self.compute_seconds / self.seconds

    @property
    def percent_of_bandwidth(self) -> float:
        """Percent of the bandwidth of the levels of memory that its operands are in."""
        return 100 * sum(self.memory_seconds.values()) / self.seconds

    @property
    def bound(self) -> str:
        """The bound of the roofline model: "compute", or the level of memory that takes longest."""
        memory = self.memory_seconds
        if self.compute_seconds >= sum(memory.values()):
            return COMPUTE
        return max(memory, key=lambda name: memory[name])

    @property
    def percent_of_roof(self) -> float:
        """Percent of its bound."""
        return max(self.percent_of_peak, self.percent_of_bandwidth)

    def facts(self) -> dict[str, Any]:
        """All figures by name, derived ones included."""
        names = ("gflops", "gbytes", "intensity", "percent_of_peak", "percent_of_bandwidth", "percent_of_roof", "bound")
        return asdict(replace(self, memory_seconds=dict(self.memory_seconds))) | {n: getattr(self, n) for n in names}


def merged(rows: Iterable[KernelProfile]) -> list[KernelProfile]:
    """The calls of each kernel as one row, the longest first."""
    groups: dict[str, list[KernelProfile]] = {}
    for row in rows:
        groups.setdefault(row.kernel, []).append(row)
    return sorted(map(together, groups.values()), key=lambda row: -row.seconds)


def together(rows: Sequence[KernelProfile]) -> KernelProfile:
    """Several calls of one kernel as one row."""
    memory: dict[str, float] = {}
    for row in rows:
        for level, seconds in row.memory_seconds.items():
            memory[level] = memory.get(level, 0.0) + seconds
    return replace(
        rows[0],
        seconds=sum(row.seconds for row in rows),
        least_seconds=sum(row.least_seconds for row in rows),
        flops=sum(row.flops for row in rows),
        bytes=sum(row.bytes for row in rows),
        origins=tuple(dict.fromkeys(name for row in rows for name in row.origins)),
        compute_seconds=sum(row.compute_seconds for row in rows),
        memory_seconds=memory,
        count=sum(row.count for row in rows),
    )


class Profile(list[KernelProfile]):
    """The calls of a model, in order; `print` it for a table by kernel, the slowest first."""

    def __init__(self, rows: Iterable[KernelProfile], machine: "Machine", events: Sequence[Event] = ()) -> None:
        super().__init__(rows)
        self.machine = machine
        """The peaks of this machine for the number of threads that ran."""
        self.events = tuple(events)
        """The time line of one run: the calls, and each thread's tasks of them."""

    @property
    def rows(self) -> list[KernelProfile]:
        """The calls, in order."""
        return list(self)

    @property
    def kernels(self) -> list[KernelProfile]:
        """A row for each kernel, all of its calls together, the slowest first."""
        return merged(self)

    @property
    def seconds(self) -> float:
        """All calls together."""
        return sum(row.seconds for row in self)

    def table(self, width: int = 100) -> str:
        """A table by kernel, as text of that width."""
        from mlc.runtime.report.table import text

        return text(self, width)

    def __str__(self) -> str:
        return self.table()

    def facts(self) -> dict[str, Any]:
        """The machine and the calls as data."""
        return {"machine": asdict(self.machine), "seconds": self.seconds, "calls": [row.facts() for row in self]}

    def to_json(self) -> str:
        """The machine and the calls as JSON."""
        return json.dumps(self.facts(), indent=1)

    def save_trace(self, path: "str | os.PathLike[str]") -> None:
        """Write one run as a Chrome trace, for ui.perfetto.dev or chrome://tracing."""
        from mlc.runtime.report.trace import trace

        Path(path).write_text(json.dumps(trace(self)))

    def plot(self, path: "str | os.PathLike[str]", title: str = "") -> None:
        """Draw the roofline: an .svg, or (with the extra `plot`) a .png or .pdf."""
        from mlc.runtime.report.roofline import plot

        plot(self, Path(path), title)
