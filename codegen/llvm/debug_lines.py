"""
Locations of llvm operations as LLVM debug information: the lines of another text, from which the operations come.

An operation's FileLineColLoc becomes its `!dbg`; in assembly these are `.loc` directives and nothing else, so that
the instructions stay the same.
"""

from collections.abc import Callable

from xdsl.dialects import llvm
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation


class DebugLines:
    """Writes the metadata of one module; `node` returns the number of a metadata node with the given content."""

    def __init__(self, node: Callable[[str], str]) -> None:
        self.node = node
        self.file = node('!DIFile(filename: "kernel", directory: "")')
        unit = f'language: DW_LANG_C99, file: {self.file}, producer: "mlc", isOptimized: true, runtimeVersion: 0'
        self.unit = node(f"distinct !DICompileUnit({unit}, emissionKind: DebugDirectivesOnly)")
        self.type = node(f"!DISubroutineType(types: {node('!{null}')})")
        self.scope = ""

    def module(self) -> list[str]:
        """The lines that a module needs: its compile unit, and the version of the metadata."""
        version = self.node('!{i32 2, !"Debug Info Version", i32 3}')
        return [f"!llvm.dbg.cu = !{{{self.unit}}}", f"!llvm.module.flags = !{{{version}}}"]

    def enter(self, op: llvm.FuncOp) -> str:
        """The attachment of a function that is printed next."""
        facts = f"file: {self.file}, line: 1, type: {self.type}, unit: {self.unit}, spFlags: DISPFlagDefinition"
        name = op.sym_name.data
        self.scope = self.node(f'distinct !DISubprogram(name: "{name}", scope: {self.file}, {facts})')
        return f"!dbg {self.scope}"

    def located(self, text: str, op: Operation) -> str:
        """An instruction with the line of its operation; line 0 stands for none."""
        line = op.location.line.data if isinstance(op.location, FileLineColLoc) else 0
        first, newline, rest = text.partition("\n")
        return f"{first}, !dbg {self.node(f'!DILocation(line: {line}, column: 0, scope: {self.scope})')}{newline}{rest}"
