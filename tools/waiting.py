"""Progress for a person who waits: a bar of rich on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

Show = Callable[[str, int, int], None]
"""What is being done, how much of it is done, and how much there is (0: not known)."""


@contextmanager
def progress() -> Generator[Show]:
    """A function that shows what is being done, on stderr where that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda text, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda text, done, total: bar.update(task, description=text, completed=done, total=total or None)
