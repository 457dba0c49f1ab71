"""The code of a program around its kernels: @main, the thread pool, and the probes that measure the machine."""

import pickle
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlc.dialects.syntax.source_nodes import symbol_name
from mlc.driver.cache import Cache
from mlc.driver.kernels.kernel import text_of
from mlc.driver.kernels.workers import Job
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.toolchain import runtime_objects
from mlc.lowering.graph_to_main.separate_pools import separate_pools
from mlc.lowering.main_to_llvm.convert import MAIN
from mlc.targets.target import Target

_EFFORT = 10
"""The effort of compiling @main. Source: 70 to 90 ms on Zen 4, where a convolution of effort 8 takes 60 to 70."""


@dataclass
class ProgramCode:
    """The object files of a program around its kernels."""

    objects: dict[str, bytes]
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """@main's text on each level that the options keep."""
    seconds: float = 0.0

    def pack(self) -> bytes:
        """As bytes."""
        return pickle.dumps(self)

    @staticmethod
    def unpack(data: bytes) -> "ProgramCode":
        """The code that `pack` made bytes of, in this process or in a worker of it."""
        code = pickle.loads(data)
        assert isinstance(code, ProgramCode)
        return code


def program_job(
    main: FuncOp, kernels: Collection[str], ctx: Context, options: Options, host: Target, cache: Cache | None
) -> Job:
    """The job that compiles @main on buffers, which calls `kernels`; nothing of it waits for them."""
    work = partial(_compiled, main, kernels, ctx, options, host, cache)
    return Job("main", (), work, "the program's function", effort=_EFFORT)


def _compiled(
    main: FuncOp, kernels: Collection[str], ctx: Context, options: Options, host: Target, cache: Cache | None
) -> bytes:
    from mlc.codegen.llvm.ir import print_module
    from mlc.codegen.native import assemble, emit_object

    start = time.perf_counter()
    program = main.clone()
    texts: dict[str, Callable[[], str]] = {
        level: partial(text_of, ModuleOp([main.clone()]), options) for level in ("te", "loop") if level in options.keep
    }
    if options.memory.separate:
        separate_pools(program)
    module = ModuleOp([program])
    run_passes(module, ctx, ["program"])
    text = print_module(module, target=host)
    code = ProgramCode({MAIN: emit_object(text, host)})
    texts |= {"llvm-ir": lambda: text, "asm": lambda: assemble(text, host)}
    if "llvm" in options.keep:
        for op in list(module.body.block.ops):
            if symbol_name(op) in kernels:
                op.detach()  # declared here, defined beside it
        texts["llvm"] = partial(text_of, module, options)
    code.texts = {level: made() for level, made in texts.items() if level in options.keep}
    if cache is not None:  # else the compiling process makes them, and keeps them
        code.objects |= runtime_objects(host, cache)
    code.seconds = time.perf_counter() - start
    return code.pack()


__all__ = ["ProgramCode", "program_job"]
