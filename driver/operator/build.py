"""`mlc.build`: one operator, from te or loop IR to a function on numpy arrays."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects import loop, sched, te
from mlc.driver.cache import Cache, key_of
from mlc.driver.kernels.kernel import KernelCode, compile_kernel, kernel_passes
from mlc.driver.memory_options import MemoryOptions
from mlc.driver.operator.arguments import Kernel, KernelArguments
from mlc.driver.operator.binds import bound
from mlc.driver.operator.source import OperatorLike, operator_source
from mlc.driver.options import LEVELS, Options, current_context, level_in
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.driver.pipeline.text import pass_text
from mlc.driver.toolchain import functions_object, load_code, pool_object
from mlc.runtime.arrays import address_of, is_ready
from mlc.runtime.code import FUNCTIONS, POOL
from mlc.runtime.cpu import missing_features
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.sizes import symbolic_buffer_bytes
from mlc.runtime.states import CallState, StatePool
from mlc.support.abi import KERNEL
from mlc.support.display.ir_text import IRText
from mlc.support.errors import UserError, located, warn
from mlc.support.threads import thread_count
from mlc.targets.cpu_features import used_features
from mlc.targets.target import Target, TargetLike, target_text
from mlc.validation.intrinsics import check_intrinsics

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mlc.driver.operator.arguments import Array, Out
    from mlc.driver.operator.binds import Binds


class Operator:
    """
    A compiled kernel: `c = op(a, b)`, or `op(a, b, out=c)`.

    `inputs` and `outputs` are its TensorSpecs; `text(level)` is its IR on a level: te, loop, llvm, llvm-ir or asm.
    """

    def __init__(self, name: str, arguments: KernelArguments, build: _Build) -> None:
        code = build.code()
        self.name = name
        self.inputs, self.outputs = tuple(arguments.inputs), tuple(arguments.outputs)
        self.threads = build.options.threads
        self._build = build
        target = Target.parse(build.options.target)
        used = used_features(target.architecture, target.cpu, target.features)
        reason = missing_features(used, target.architecture) if target.architecture == os.uname().machine else None
        if reason is not None:
            raise UserError(reason)
        objects = {name: code.object, POOL: pool_object(target, build.cache)}
        if code.functions:
            objects[FUNCTIONS] = functions_object(code.functions, target, build.cache)
        self._code = load_code(objects, code.libraries)
        self._functions = CalledFunctions(code.functions)
        self._arguments, self._bytes = arguments, (code.workspace_bytes, code.symbolic_bytes)
        self._kernel = KERNEL(self._code.address(name))
        operands = len(self.inputs) + len(self.outputs) + len(arguments.sizes) + 1
        sizes = code.scratch_bytes, code.workspace_bytes, operands
        self._states = StatePool(partial(CallState, self._code, self.threads, *sizes, self._functions))
        self._shapes = [spec.shape for spec in (*self.inputs, *self.outputs)]
        self._dtypes = arguments.dtypes
        self._results = self._shapes[len(self.inputs) :], self._dtypes[len(self.inputs) :]

    def __call__(self, *inputs: ArrayLike, out: Out | None = None) -> Array | tuple[Array, ...]:
        """
        The output, or a tuple of the outputs; `out` gives the array(s) to write into.

        Raises ValueError for a wrong number of arrays and for a wrong shape or dtype.
        """
        self._functions.check(f"'{self.name}'")
        arrays, sizes = self._ready(inputs, out), ()
        if arrays is None:
            arrays, sizes = self._arguments.bind(inputs, out, self.name)
        state = self._states.take()
        try:
            self._reserve(state, sizes)
            operands = state.operands
            for index, array in enumerate(arrays):
                operands[index] = address_of(array)
            for index, size in enumerate(sizes, len(arrays)):
                operands[index] = size
            operands[len(arrays) + len(sizes)] = state.workspace_at
            if status := self._kernel(state.at, state.rt):
                raise self._functions.failure(state.rt, f"'{self.name}'", status)
        finally:
            self._states.give(state)
        results: Any = arrays[len(self.inputs) :]
        if out is not None:  # return what was given, which may be no numpy array
            results = out if isinstance(out, list | tuple) else [out]
        return results[0] if len(self.outputs) == 1 else tuple(results)

    def _ready(self, inputs: tuple[ArrayLike, ...], out: Out | None) -> Sequence[Array] | None:
        """The arrays of a call that need neither checks nor conversions, with new ones for the outputs; else None."""
        if out is not None:
            inputs = (*inputs, out)
        fits = len(inputs) == len(self._shapes) - (len(self.outputs) if out is None else 0)
        if not (fits and self._arguments.is_static and all(map(is_ready, inputs, self._dtypes, self._shapes))):
            return None
        arrays: Any = inputs
        return arrays if out is not None else [*arrays, *map(np.empty, *self._results)]

    def _reserve(self, state: CallState, sizes: Sequence[int]) -> None:
        """A workspace that is large enough for buffers of these sizes."""
        static, rows = self._bytes
        if rows and (needed := static + symbolic_buffer_bytes(rows, sizes, self.threads)) > len(state.workspace):
            state.resize(needed, 1)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the registered functions that it calls; it does not run before they are registered."""
        return self._functions.names

    def text(self, level: str) -> IRText:
        """The kernel's IR on a level: a string, which notebooks show in colour."""
        return IRText(self._build.text(level))


def operator_passes(kernel: Kernel, schedule: sched.ScheduleOp | None, options: Options) -> list[ModulePass]:
    """The passes of one operator down to llvm; where it has a schedule, those that would choose one are left out."""
    passes = kernel_passes(options, "loop" if isinstance(kernel, loop.FuncOp) else "te")
    if schedule is not None:
        skipped = {"te-factor-reductions", "te-inline", "te-clip-bands", "te-pad-queries", "te-add-schedule"}
        passes = [one for one in passes if one.name not in skipped]
    if schedule is not None and isinstance(kernel, loop.FuncOp):
        others = [one for one in passes if one.name != "loop-apply-schedule"]
        passes = [*parse_pipeline("loop-apply-schedule"), *others]
    return passes


class _Build:
    """The compilation of one operator; `text` repeats it for the IR of a level."""

    def __init__(
        self,
        kernel: Kernel,
        schedule: sched.ScheduleOp | None,
        intrinsics: Sequence[sched.IntrinsicOp],
        options: Options,
        cache: Cache | None,
    ) -> None:
        self.name = kernel.sym_name.data
        self.ops = [kernel] if schedule is None else [*intrinsics, kernel, schedule]
        self.options, self.cache = options, cache
        self.passes = operator_passes(kernel, schedule, options)

    def code(self) -> KernelCode:
        """The compiled kernel, from the cache if it has it."""
        how = ",".join(map(pass_text, self.passes)) + self.options.key() + Target.parse(self.options.target).features
        key = key_of([*map(str, self.ops), how])
        records = self.options.records
        for one in [] if self.cache is None else self.cache.keys(key, records):
            if self.cache is not None and (data := self.cache.kernel(one)) is not None:
                return KernelCode.unpack(data)
        code = compile_kernel(self.ops, make_context(), self.passes, self.options)
        for warning in code.warnings:
            warn(None, f"kernel '{self.name}': {warning}")
        if self.cache is not None:
            self.cache.publish_kernel(self.cache.note_asked(key, records, code.asked), code.pack())
            self.cache.trim()
        return code

    def text(self, level: str) -> str:
        """The kernel's IR on a level."""
        if level not in LEVELS[1:]:
            raise UserError(f"expected a level among {', '.join(LEVELS[1:])}, but got '{level}'")
        options = dataclasses.replace(self.options, keep=frozenset({level}))
        texts = compile_kernel(self.ops, make_context(), self.passes, options).texts
        if level not in texts:
            raise UserError(f"the operator was built from loop IR: it has no text on level '{level}'")
        return texts[level]


@located()
def lower(func: OperatorLike, schedule: sched.ScheduleOp | str | None = None) -> ModuleOp:
    """
    The loops of one operator, as a module with a loop.func: as the schedule leaves them, or one nest for each stage.

    `func` and `schedule` are those of `mlc.build`; without a schedule none is chosen. Raises UserError as it does.
    """
    source = operator_source(func, schedule)
    module = ModuleOp([op.clone() for op in source.ops])
    passes = ["convert-te-to-loop"] if isinstance(source.kernel, te.FuncOp) else []
    passes += ["loop-apply-schedule"] if source.schedule is not None else []
    run_passes(module, make_context(), parse_pipeline(",".join(passes)) if passes else [])
    return module


@located()
def build(
    func: OperatorLike,
    schedule: sched.ScheduleOp | str | None = None,
    target: TargetLike = "native",
    *,
    opt_level: int | None = None,
    threads: int | None = None,
    cache: bool = True,
    binds: Binds | None = None,
    memory_planner: str = "best",
    memory_seed: int = 0,
) -> Operator:
    """
    Compile one operator.

    `func` is a te.func or loop.func op, IR text of one (a sched.schedule may stand beside it), or `mlc.te` tensors:
    the outputs, or inputs and outputs in the order of the call, or an `mlc.Schedule`, which is built for its own target
    unless `target` names another. `schedule` is a sched.schedule op or its text; without one a strategy chooses. Sizes
    may be open (te.var): the arrays of each call tell them. `binds` maps a placeholder or result, or its name, to a
    te.buffer: an array that lies so is computed on in place, another one is refused. `memory_planner` places the
    buffers inside the kernel (lowering/memory/planners.py); "hill-climb" draws with `memory_seed`.

    Raises UserError for anything else, for IR that does not verify, and for a schedule of another kernel.
    """
    source = operator_source(func, schedule)
    if source.target is not None and target == "native":
        target = source.target
    kernel = source.kernel
    if binds:
        kernel = bound(kernel, binds)
    context = current_context()
    memory = MemoryOptions(memory_planner, memory_seed)
    level, number = level_in(context, opt_level), thread_count(threads)
    options = Options(target_text(target), level, number, context=context, memory=memory)
    check_intrinsics(source.intrinsics)
    builder = _Build(kernel, source.schedule, source.intrinsics, options, Cache.default() if cache else None)
    return Operator(builder.name, KernelArguments(kernel), builder)
