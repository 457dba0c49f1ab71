"""
LLVM IR text from a module of the `llvm` and `llvm_ext` dialects.

Goes in: `llvm.func` and `llvm.mlir.global` at the top, bodies of llvm and llvm_ext operations.
Comes out: a whole LLVM module: globals, functions, the prelude functions that are called, declarations of the
intrinsics, attributes of the target. Block arguments become phis; constants stand in their users.

One dispatch on the operation's class, one f-string an operation: about 5 us each (xDSL's own converter takes 23,
and drops alignment, fast-math flags of intrinsics and target attributes).
"""

from xdsl.dialects import builtin

from mlc.codegen.llvm import ops as _llvm_ops  # noqa: F401  # pyright: ignore[reportUnusedImport] fills the table of printers
from mlc.codegen.llvm.printer import LLVMPrinter
from mlc.targets.target import Target


def print_module(module: builtin.ModuleOp, *, target: Target | str | None = None, lines: bool = False) -> str:
    """
    Print a module of llvm and llvm_ext operations as LLVM IR text for a target.

    `lines` keeps the locations of the operations as debug information, of which assembly gets `.loc` directives.
    """
    printer = LLVMPrinter(None if target is None else Target.parse(target), lines)
    for op in module.body.block.ops:
        printer.top(op)
    return printer.text()
