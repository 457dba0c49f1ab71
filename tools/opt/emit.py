"""--emit: the format in which a module is written."""

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects import loop
from mlc.support.errors import UserError

FORMATS = ("mlir", "c", "llvm-ir", "asm", "obj")


def emit(module: ModuleOp, what: str, target: str) -> str | bytes:
    """The loop kernels of a module as C99; a module all in the llvm dialect as LLVM IR text, assembly or an object."""
    if what == "c":
        from mlc.codegen.c import emit as c

        if not any(isinstance(op, loop.FuncOp) for op in module.walk()):
            raise UserError("expected a loop.func in a module for C, but got none; docs/levels.md lowers one to it")
        return c.print_module(module)
    from mlc.codegen.llvm.ir import print_module

    text = print_module(module)
    if what == "llvm-ir":
        return text
    from mlc.codegen import native

    return native.assemble(text, target) if what == "asm" else native.emit_object(text, target)
