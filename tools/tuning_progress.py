"""
The progress of `mlc tune`: a table of rich on a terminal, elsewhere at most one line in 10 seconds.

It is drawn only when a trial has ended, never while a kernel is timed: no thread of its own would disturb it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import inf
from typing import TYPE_CHECKING, TextIO

from mlc.tuning.session.report import duration, shortened
from mlc.tuning.session.watch import Standing, Watcher

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live

    from mlc.tuning.records.record import Comparison
    from mlc.tuning.results import MeasureResult
    from mlc.tuning.space import Values
    from mlc.tuning.task import Task

INTERVAL_S = 10.0
"""The least time between two lines where nobody watches."""

_REFRESH_S = 0.25
"""The least time between two pictures on a terminal."""

_ROWS = 16
"""Tasks in the picture: those with the most trials in the last rounds come first."""


class TuningState(Watcher):
    """What a session has told so far; `changed` is called when there is something to show."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock, self.start = clock, clock()
        self.names: list[str] = []
        self.known: list[Task] = []
        self.trials: list[int] = []
        self.costs: list[float] = []
        self.last: list[int] = []
        """The number of the last trial of each task."""
        self.standing = Standing(0, inf, inf)
        self.first_trial = 0.0
        self.doing = ""
        self.kept: dict[int, Comparison] = {}

    def tasks(self, tasks: Sequence[Task], resumed: int) -> None:
        """Keep the tasks."""
        self.known = list(tasks)
        self.trials, self.last = [0] * len(tasks), [0] * len(tasks)
        self.costs = [inf] * len(tasks)
        self.first_trial = self.clock()
        self.doing = "searching"
        self.changed()

    def trial(self, number: int, values: Values, result: MeasureResult, standing: Standing) -> None:
        """Keep the best of the task."""
        self.trials[number] += 1
        self.last[number] = standing.trials
        self.costs[number] = min(self.costs[number], result.cost)
        self.standing = standing
        self.changed()

    def phase(self, text: str, done: int, total: int) -> None:
        """Keep what the session does."""
        self.doing = f"{text} ({done} of {total})" if total else text
        self.changed()

    def compared(self, number: int, values: Values, comparison: Comparison, kept: bool) -> None:
        """Keep the comparison of a winner."""
        if kept:
            self.kept[number] = comparison
        self.changed()

    def changed(self) -> None:
        """Show it; a state alone shows nothing."""

    def line(self) -> str:
        """`tune: 42 s, 128 trials (3.1 a second), model 12.3 ms -> 11.2 ms (estimate), searching`."""
        seconds = self.clock() - self.start
        parts = [f"{seconds:.0f} s", f"{self.standing.trials} trials ({self.rate():.1f} a second)"]
        if self.standing.latency < inf:
            estimate = f"{duration(self.standing.default_latency)} -> {duration(self.standing.latency)}"
            parts.append(f"model {estimate} (estimate)")
        if self.standing.trials and self.doing == "searching":
            number = max(range(len(self.known)), key=self.last.__getitem__)
            parts.append(f"{shortened(self.known[number].name, 26)} {self.gflops(number)}")
        else:
            parts.append(self.doing)
        return f"tune: {', '.join(parts)}"

    def rate(self) -> float:
        """Trials a second since the first one began."""
        seconds = self.clock() - self.first_trial
        return self.standing.trials / seconds if seconds > 0 and self.standing.trials else 0.0

    def gflops(self, number: int) -> str:
        """The best of a task in this session."""
        cost = self.costs[number]
        return f"{self.known[number].flops / cost / 1e9:.1f} GFLOP/s" if cost < inf else "-"


class Lines(TuningState):
    """A line on a stream, at most one in `INTERVAL_S` seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.stream, self.told = stream, self.start

    def changed(self) -> None:
        """Write the line where the last one is old enough."""
        if self.clock() - self.told >= INTERVAL_S:
            self.told = self.clock()
            print(self.line(), file=self.stream, flush=True)


class LiveTable(TuningState):
    """A table of rich in place, drawn again after a trial."""

    def __init__(self, live: Live, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.live, self.drawn = live, -inf

    def changed(self) -> None:
        """Draw it where the last picture is old enough."""
        if self.clock() - self.drawn >= _REFRESH_S:
            self.drawn = self.clock()
            self.live.update(self.picture(), refresh=True)

    def picture(self) -> Group:
        """The line, and below it the tasks."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table("kernel", "trials", "best", "GFLOP/s", "kept", box=None, pad_edge=False)
        for column in table.columns[1:]:
            column.justify = "right"
        table.columns[0].overflow, table.columns[0].no_wrap = "ellipsis", True
        shown = sorted(range(len(self.known)), key=lambda n: (-self.last[n], n))[:_ROWS]
        for number in shown:
            task, kept = self.known[number], self.kept.get(number)
            uses = f"{task.weight} x " if task.weight > 1 else ""
            table.add_row(
                Text(f"{uses}{shortened(task.name, 36)}"),
                str(self.trials[number]),
                duration(self.costs[number]),
                self.gflops(number).removesuffix(" GFLOP/s"),
                f"x {kept.speedup:.2f}" if kept is not None else "",
            )
        hidden = len(self.known) - len(shown)
        return Group(Text(self.line()), table, *([Text(f"and {hidden} kernels more")] if hidden > 0 else []))


@contextmanager
def tuning_progress(stream: TextIO | None = None) -> Generator[TuningState]:
    """A watcher that shows the progress on stderr: a table where that is a terminal, else lines."""
    shown = stream or sys.stderr
    if not shown.isatty():
        yield Lines(shown)
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(file=shown), auto_refresh=False, transient=True) as live:
        yield LiveTable(live)


__all__ = ["INTERVAL_S", "Lines", "LiveTable", "TuningState", "tuning_progress"]
