"""--emit: the format in which a module is written."""

from xdsl.dialects.builtin import ModuleOp

FORMATS = ("mlir", "c", "llvm-ir", "asm", "obj")


def emit(module: ModuleOp, what: str, target: str) -> str | bytes:
    """The loop kernels of a module as C99; a module all in the llvm dialect as LLVM IR text, assembly or an object."""
    if what == "c":
        from mlc.codegen.c import emit as c

        return c.print_module(module)
    from mlc.codegen.llvm.ir import print_module

    text = print_module(module)
    if what == "llvm-ir":
        return text
    from mlc.codegen import native

    return native.assemble(text, target) if what == "asm" else native.emit_object(text, target)
