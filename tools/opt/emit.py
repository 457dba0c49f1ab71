"""--emit: what a module is written as."""

from xdsl.dialects.builtin import ModuleOp

FORMATS = ("mlir", "llvm-ir", "asm", "obj")


def emit(module: ModuleOp, what: str, target: str) -> str | bytes:
    """The module, all of it in the llvm dialect, as LLVM IR text, assembly or an object file."""
    from mlc.codegen.llvm_ir import print_module

    text = print_module(module)
    if what == "llvm-ir":
        return text
    from mlc.codegen import native

    return native.assemble(text, target) if what == "asm" else native.emit_object(text, target)
