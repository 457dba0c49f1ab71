"""Locations of llvm operations as debug lines: `.loc` directives in assembly, and no other instruction."""

import pytest
from xdsl.context import Context
from xdsl.dialects import builtin, llvm
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.parser import Parser

from mlc.codegen.llvm.ir import print_module
from mlc.codegen.native import assemble

TEXT = """
llvm.func @f(%p : !llvm.ptr, %q : !llvm.ptr) {
  %x = llvm.load %p : !llvm.ptr -> f32
  %y = llvm.fmul %x, %x : f32
  llvm.store %y, %q : f32, !llvm.ptr
  llvm.return
}
"""


def module(lines: dict[str, int]) -> builtin.ModuleOp:
    """The module, its operations of these names at these lines."""
    context = Context()
    for dialect in (builtin.Builtin, llvm.LLVM):
        context.load_dialect(dialect)
    parsed = Parser(context, TEXT).parse_module()
    for op in parsed.walk():
        if op.name in lines:
            op.location = FileLineColLoc(StringAttr("kernel"), IntAttr(lines[op.name]), IntAttr(0))
    return parsed


@pytest.mark.parametrize("target", ["native", "x86-64-v2", "aarch64"])
def test_instructions_follow_their_line(target: str):
    located = module({"llvm.load": 7, "llvm.fmul": 8, "llvm.store": 9})
    text = assemble(print_module(located, target=target, lines=True), target)
    lines = [int(line.split()[2]) for line in text.splitlines() if line.startswith("\t.loc")]
    assert [line for line in lines if line] == [7, 8, 9]
    assert ".debug_info" not in text


def test_debug_lines_change_no_instruction():
    located = module({"llvm.load": 7, "llvm.store": 9})

    def instructions(lines: bool) -> list[str]:
        text = assemble(print_module(located, target="native", lines=lines))
        return [line for line in text.splitlines() if line.startswith("\t") and not line.startswith("\t.")]

    assert instructions(True) == instructions(False)
    assert len(instructions(True)) >= 3


def test_locations_are_not_printed_unless_asked_for():
    assert "!dbg" not in print_module(module({"llvm.load": 7}), target="native")
