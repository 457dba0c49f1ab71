"""Kernels of target `c`: the loops are printed as C99, which the C compiler makes an object of."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.codegen.c.call import prototypes
from mlc.codegen.c.prelude import PRELUDE
from mlc.codegen.c.program.kernel import CKernelText, print_kernel
from mlc.codegen.external import compile_c
from mlc.dialects import loop
from mlc.driver.pipeline.manager import parse_pipeline

_FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-w")
_BEGIN, _END = "loop-partition", "convert-loop-to-llvm"
"""For C, loop-scalarize is inserted before the first of these passes, and passes from the second on are left out."""


def c_passes(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """The passes of a kernel that is printed as C, given the passes that lower it to the llvm dialect."""
    names = [one.name for one in passes]
    first, last = names.index(_BEGIN), names.index(_END)
    return [*passes[:first], *parse_pipeline("loop-scalarize"), *passes[first:last]]


def c_object(module: ModuleOp, threads: int) -> tuple[bytes, CKernelText]:
    """The object and the C text of the kernel in a module of loops."""
    kernel = next(op for op in module.body.block.ops if isinstance(op, loop.FuncOp))
    symbol, kernel.sym_name = kernel.sym_name.data, StringAttr("kernel")
    named = f'int32_t kernel(void **, mlc_runtime *) __asm__("{symbol}");\n'  # a symbol may hold dots
    made = print_kernel(kernel, threads=threads > 1, prefix="")
    shared = '#include "mlc_runtime.h"\n#define MLC_LOCAL\n'
    source = f"{shared}{PRELUDE}\n{prototypes(kernel)}{named}{made.text}"
    return compile_c(source, _FLAGS, f"'{symbol}'"), made
