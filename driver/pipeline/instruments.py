"""
Instruments, which watch the passes of a pipeline: `PassContext(instruments=[Timing(), DumpIR("dumps")])`.

An instrument has any of these methods (driver/pipeline/manager.py calls them):

    enter_context(context), exit_context(context)    the PassContext is entered and left
    should_run(pass, module)                         False leaves the pass out; those that a context requires run anyway
    before(pass, module)                             the pass will run, unless this returns False
    after(pass, module)                              the pass has succeeded
    failed(pass, module, error)                      the pass has raised
    rejected(pass, module, error)                    the verifier or an instrument has refused the pass's result
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.syntax.source_nodes import kernels_of, kernels_text, symbol_name
from mlc.driver.pipeline.registry import is_pass, pass_names
from mlc.support.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from mlc.driver.pipeline.context import PassContext

When = Literal["before", "after", "change"]
_NAME_LENGTH = 100
"""Characters of a kernel's name in a file's name."""


@dataclass
class Timing:
    """Seconds by pass, in the order in which passes first ran; `print(timing)` gives a table."""

    seconds: dict[str, float] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    _started: list[float] = field(default_factory=list)

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self._started.append(time.perf_counter())

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        name, spent = module_pass.name, time.perf_counter() - self._started.pop()
        self.seconds[name] = self.seconds.get(name, 0.0) + spent
        self.runs[name] = self.runs.get(name, 0) + 1

    def failed(self, module_pass: ModulePass, module: ModuleOp, error: Exception) -> None:
        self._started.pop()

    def tree(self) -> list[tuple[str, list[tuple[str, float, int]]]]:
        """By level (`graph`, `te`, `loop`, `convert`): the passes with their seconds and runs."""
        levels: dict[str, list[tuple[str, float, int]]] = {}
        for name, spent in self.seconds.items():
            levels.setdefault(name.partition("-")[0], []).append((name, spent, self.runs[name]))
        return list(levels.items())

    def __str__(self) -> str:
        lines = ["   seconds   runs  pass"]
        for level, rows in self.tree():
            lines.append(f"{sum(row[1] for row in rows):10.4f}         {level}")
            lines += [f"{spent:10.4f} {runs:6}    {name}" for name, spent, runs in rows]
        lines.append(f"{sum(self.seconds.values()):10.4f} {sum(self.runs.values()):6}  all")
        return "\n".join(lines)


@dataclass
class DumpIR:
    """
    Write the module to numbered files: `0003-graph-fuse-ops-after.mlir`, and where it is one kernel, with its name:
    `0042-te-inline-after-dense_relu_0a1b2c3d.mlir`. The first lines name the kernels in it and their source nodes.

    `when` is "before", "after" (default) or "change" (after, where the pass changed something); `passes` names those to
    watch, all by default.
    """

    directory: str | Path
    when: When = "after"
    passes: Collection[str] | None = None
    show: Callable[[ModuleOp], str] = str
    written: list[Path] = field(default_factory=list)
    _before: str = ""

    def __post_init__(self) -> None:
        if self.when not in ("before", "after", "change"):
            raise UserError(f"expected when to be 'before', 'after' or 'change', but got {self.when!r}")
        for name in self.passes or ():
            if not is_pass(name):
                raise UserError(f"unknown pass '{name}'{did_you_mean(name, pass_names())}")

    def enter_context(self, context: PassContext) -> None:
        """Make the directory before the first pass runs."""
        Path(self.directory).mkdir(parents=True, exist_ok=True)

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self._before = self.show(module) if self._watches(module_pass) else ""
        if self._before and self.when == "before":
            self._write(module_pass, "before", self._before, module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if self._watches(module_pass) and self.when != "before":
            text = self.show(module)
            if self.when == "after" or text != self._before:
                self._write(module_pass, "after", text, module)

    def failed(self, module_pass: ModulePass, module: ModuleOp, error: Exception) -> None:
        self._write(module_pass, "failed", self._before or self.show(module), module)

    def _watches(self, module_pass: ModulePass) -> bool:
        return self.passes is None or module_pass.name in self.passes

    def _write(self, module_pass: ModulePass, when: str, text: str, module: ModuleOp) -> None:
        path = Path(self.directory) / f"{len(self.written):04}-{module_pass.name}-{when}{_kernel_suffix(module)}.mlir"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{kernels_text(module)}{text}\n")
        self.written.append(path)


def _kernel_suffix(module: ModuleOp) -> str:
    """`-NAME` for a module that holds one kernel and no @main, else nothing."""
    kernels = list(kernels_of(module))
    if len(kernels) != 1 or any(symbol_name(op) == "main" for op in module.body.ops):
        return ""
    return "-" + re.sub(r"[^\w.-]", "_", kernels[0])[:_NAME_LENGTH]


@dataclass
class Veto:
    """Leave passes out: those for which the function is true of (pass, module)."""

    refuses: Callable[[ModulePass, ModuleOp], bool]
    left_out: list[str] = field(default_factory=list)

    def should_run(self, module_pass: ModulePass, module: ModuleOp) -> bool:
        if self.refuses(module_pass, module):
            self.left_out.append(module_pass.name)
            return False
        return True


def validating() -> Any:
    """Run every function in the reference interpreters before and after each pass; stop where a value changes."""
    from mlc.validation.validate_each import ValidateInstrument

    return ValidateInstrument()


__all__ = ["DumpIR", "Timing", "Veto", "validating"]
