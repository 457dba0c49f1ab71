"""The time of a compilation as a tree of phases: `mlc compile --timing`."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass


class PhaseTimer:
    """Seconds by phase; a phase inside another is its child. As an instrument it times each pass, too."""

    def __init__(self) -> None:
        self.seconds: dict[tuple[str, ...], float] = {}
        self._stack: list[str] = []
        self._started = 0.0
        self._begin = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time what happens inside."""
        self._stack.append(name)
        path = tuple(self._stack)
        self.seconds.setdefault(path, 0.0)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[path] += time.perf_counter() - start
            self._stack.pop()

    def add(self, name: str, seconds: float) -> None:
        """Note seconds that were measured elsewhere, as a child of the current phase."""
        path = (*self._stack, name)
        self.seconds[path] = self.seconds.get(path, 0.0) + seconds

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """A pass begins."""
        self._started = time.perf_counter()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        """A pass has ended."""
        self.add(module_pass.name, time.perf_counter() - self._started)

    def rows(self) -> list[tuple[str, float]]:
        """The tree as ("phase/child", seconds), parents first."""
        order = {path: index for index, path in enumerate(self.seconds)}

        def position(path: tuple[str, ...]) -> list[int]:
            return [order.get(path[: n + 1], 0) for n in range(len(path))]

        return [("/".join(path), self.seconds[path]) for path in sorted(self.seconds, key=position)]

    def total(self) -> float:
        """Seconds since the beginning."""
        return time.perf_counter() - self._begin


def table(rows: Sequence[tuple[str, float]], total: float) -> str:
    """The tree as text; `rows` as from PhaseTimer.rows."""
    lines = ["   seconds      %  phase"]
    for path, seconds in rows:
        depth = path.count("/")
        name = "  " * depth + path.rpartition("/")[2]
        lines.append(f"{seconds:10.4f} {100 * seconds / (total or 1):6.1f}  {name}")
    lines.append(f"{total:10.4f}  100.0  total")
    return "\n".join(lines)
