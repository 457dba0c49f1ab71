"""The instruments of mlc-opt: printing the IR, and timing."""

import sys
import time
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.syntax.source_nodes import kernels_text

Print = Callable[[ModuleOp], str]
ALL: Collection[str] = frozenset({"*"})


@dataclass
class PrintIR:
    """Prints the module before and after the named passes, or all, or only where one changed it."""

    show: Print
    before_passes: Collection[str] = ()
    after_passes: Collection[str] = ()
    only_changes: bool = False
    after_failure: bool = False
    _text: str = ""

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if self.only_changes or self.after_failure:
            self._text = self.show(module)
        if _named(module_pass, self.before_passes):
            self._dump("Before", module_pass, self.show(module), module)

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if not _named(module_pass, self.after_passes):
            return
        text = self.show(module)
        if not self.only_changes or text != self._text:
            self._dump("After", module_pass, text, module)

    def failed(self, module_pass: ModulePass, module: ModuleOp, error: Exception) -> None:
        if self.after_failure:
            if not _named(module_pass, self.before_passes):
                self._dump("Before", module_pass, self._text, module)
            self._dump("After", module_pass, self.show(module), module, " Failed")

    def rejected(self, module_pass: ModulePass, module: ModuleOp, error: Exception) -> None:
        self.failed(module_pass, module, error)

    def _dump(self, when: str, module_pass: ModulePass, text: str, module: ModuleOp, how: str = "") -> None:
        name = f"{type(module_pass).__name__}{how} ({module_pass.name})"
        print(f"// -----// IR Dump {when} {name} //----- //\n{kernels_text(module)}{text}\n", file=sys.stderr)


def _named(module_pass: ModulePass, names: Collection[str]) -> bool:
    return names is ALL or module_pass.name in names


@dataclass
class PassTimer:
    """Measures the wall time of phases and passes for a table like mlir-opt's."""

    rows: list[tuple[str, float]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    _pass_started: float = 0.0

    def before(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self._pass_started = time.perf_counter()

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        self.rows.append((f"  {module_pass.name}", time.perf_counter() - self._pass_started))

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time a part of the tool that is not a pass; what passes took inside it is listed under it."""
        start, row = time.perf_counter(), len(self.rows)
        try:
            yield
        finally:
            self.rows.insert(row, (name, time.perf_counter() - start))

    def report(self) -> str:
        """The table."""
        total = time.perf_counter() - self.started
        known = sum(seconds for name, seconds in self.rows if not name.startswith(" "))
        rows = [*self.rows, ("Rest", total - known), ("Total", total)]
        title = "... Execution time report ..."
        rule = "===" + "-" * 73 + "==="
        lines = [rule, title.center(79).rstrip(), rule, f"  Total Execution Time: {total:.4f} seconds", ""]
        lines.append("  ----Wall Time----  ----Name----")
        lines += [f"  {s:8.4f} ({100 * s / total:5.1f}%)  {name}" for name, s in rows]
        return "\n".join(lines)
