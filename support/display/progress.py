"""A progress bar on standard error for work that takes longer than a second; nothing where that is no terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS = 1.0
"""Time that passes before a bar appears."""


class ProgressBar:
    """A bar that appears once work takes long: `bar.update("compiling kernels", 3, 23)`, `bar.close()`."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def update(self, text: str, done: int, total: int | None = None) -> None:
        """Show what is done; without a total, the bar only moves."""
        if not sys.stderr.isatty() or time.perf_counter() - self._start < DELAY_SECONDS:
            return
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress

            self._progress = Progress(console=Console(stderr=True), transient=True)
            self._task = self._progress.add_task(text, total=total)
            self._progress.start()
        if self._task is not None:
            self._progress.update(self._task, description=text, completed=done, total=total)

    def close(self) -> None:
        """Remove the bar."""
        if self._progress is not None:
            self._progress.stop()
        self._progress = self._task = None
