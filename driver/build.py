"""`mlc.build`: one operator, from te or loop IR to a function on numpy arrays."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, MemRefType, ModuleOp, TensorType
from xdsl.ir import Attribute, BlockArgument, SSAValue

from mlc.dialects import loop, sched, te
from mlc.driver.cache import Cache, key_of
from mlc.driver.kernel import KernelCode, compile_kernel, kernel_passes
from mlc.driver.options import LEVELS, Options, current_context, level_in
from mlc.driver.pipeline.manager import make_context, parse_pipeline
from mlc.driver.pipeline.text import pass_text
from mlc.driver.toolchain import functions_object, load_code, pool_object
from mlc.runtime.arrays import TensorSpec, address_of, input_array, is_ready, output_array
from mlc.runtime.code import FUNCTIONS, POOL
from mlc.runtime.cpu import missing_features
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.states import CallState, StatePool
from mlc.support.abi import KERNEL
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError, located, warn
from mlc.support.ir_text import IRText
from mlc.support.threads import thread_count
from mlc.targets.cpu_features import used_features
from mlc.targets.target import Target

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from mlc.dialects.te_builder.builder import Tensor

Kernel: TypeAlias = te.FuncOp | loop.FuncOp
Specs: TypeAlias = tuple[list[TensorSpec], list[TensorSpec]]
"""The inputs and the outputs of a kernel."""
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Out: TypeAlias = "Array | Sequence[Array]"
"""The array to write the one output into, or one for each output."""
_DTYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "i1": "bool", "index": "int64"}


class Operator:
    """
    A compiled kernel: `c = op(a, b)`, or `op(a, b, out=c)`.

    `inputs` and `outputs` are its TensorSpecs; `text(level)` is its IR on a level: te, loop, llvm, llvm-ir or asm.
    """

    def __init__(self, name: str, specs: Specs, build: _Build) -> None:
        code = build.code()
        self.name = name
        self.inputs, self.outputs = map(tuple, specs)
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
        self._kernel = KERNEL(self._code.address(name))
        operands = len(self.inputs) + len(self.outputs) + 1
        sizes = code.scratch_bytes, code.workspace_bytes, operands
        self._states = StatePool(partial(CallState, self._code, self.threads, *sizes, self._functions))
        self._shapes = [spec.shape for half in specs for spec in half]
        self._dtypes = [dtype_of(spec.dtype) for half in specs for spec in half]

    def __call__(self, *inputs: ArrayLike, out: Out | None = None) -> Array | tuple[Array, ...]:
        """
        The output, or a tuple of the outputs; `out` gives the array(s) to write into.

        Raises ValueError for a wrong number of arrays and for a wrong shape or dtype.
        """
        self._functions.check(f"'{self.name}'")
        given: Any = (*inputs, out)
        ready = len(given) == len(self._shapes) and all(map(is_ready, given, self._dtypes, self._shapes))
        arrays: Sequence[Array] = given if ready else self._checked(inputs, out)
        state = self._states.take()
        try:
            operands = state.operands
            for index, array in enumerate(arrays):
                operands[index] = address_of(array)
            operands[len(arrays)] = state.workspace_at
            if status := self._kernel(state.at, state.rt):
                raise self._functions.failure(state.rt, f"'{self.name}'", status)
        finally:
            self._states.give(state)
        results: Any = arrays[len(self.inputs) :]
        if out is not None:  # return what was given, which may be no numpy array
            results = out if isinstance(out, list | tuple) else [out]
        return results[0] if len(self.outputs) == 1 else tuple(results)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the registered functions that it calls; it does not run before they are registered."""
        return self._functions.names

    def _checked(self, inputs: Sequence[ArrayLike], out: Out | None) -> list[Array]:
        """The inputs, contiguous, and the arrays to write into; ValueError if one does not fit."""
        if len(inputs) != len(self.inputs):
            raise ValueError(f"expected {len(self.inputs)} inputs of '{self.name}', but got {len(inputs)}")
        arrays = [input_array(a, spec) for a, spec in zip(inputs, self.inputs, strict=True)]
        return [*arrays, *self._results(out)]

    def _results(self, out: Out | None) -> list[Array]:
        """The arrays to write into."""
        if out is None:
            return [np.empty(spec.shape, dtype_of(spec.dtype)) for spec in self.outputs]
        given: list[Any] = list(out) if isinstance(out, list | tuple) else [out]
        if len(given) != len(self.outputs):
            raise ValueError(f"expected {len(self.outputs)} arrays in out, but got {len(given)}")
        return [output_array(array, spec) for array, spec in zip(given, self.outputs, strict=True)]

    def text(self, level: str) -> IRText:
        """The kernel's IR on a level: a string, which notebooks show in colour."""
        return IRText(self._build.text(level))


class _Build:
    """The compilation of one operator; `text` repeats it for the IR of a level."""

    def __init__(
        self, kernel: Kernel, schedule: sched.ScheduleOp | None, options: Options, cache: Cache | None
    ) -> None:
        self.name = kernel.sym_name.data
        self.ops = [kernel] if schedule is None else [kernel, schedule]
        self.options, self.cache = options, cache
        self.passes = kernel_passes(options, "loop" if isinstance(kernel, loop.FuncOp) else "te")
        if schedule is not None:
            skipped = {"te-factor-reductions", "te-inline", "te-add-schedule"}
            self.passes = [one for one in self.passes if one.name not in skipped]
        if schedule is not None and isinstance(kernel, loop.FuncOp):
            others = [one for one in self.passes if one.name != "loop-apply-schedule"]
            self.passes = [*parse_pipeline("loop-apply-schedule"), *others]

    def code(self) -> KernelCode:
        """The compiled kernel, from the cache if it has it."""
        how = ",".join(map(pass_text, self.passes)) + self.options.key() + Target.parse(self.options.target).features
        key = key_of([*map(str, self.ops), how])
        if self.cache is not None and (data := self.cache.kernel(key)) is not None:
            return KernelCode.unpack(data)
        code = compile_kernel(self.ops, make_context(), self.passes, self.options)
        for warning in code.warnings:
            warn(None, f"kernel '{self.name}': {warning}")
        if self.cache is not None:
            self.cache.publish_kernel(key, code.pack())
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
def build(
    func: Kernel | ModuleOp | str | Tensor | Sequence[Tensor],
    schedule: sched.ScheduleOp | str | None = None,
    target: str = "native",
    *,
    opt_level: int | None = None,
    threads: int | None = None,
    cache: bool = True,
) -> Operator:
    """
    Compile one operator.

    `func` is a te.func or loop.func op, IR text of one (a sched.schedule may stand beside it), or `mlc.te` tensors:
    the outputs, or inputs and outputs in the order of the call. `schedule` is a sched.schedule op or its text; without
    one a strategy chooses. All sizes are static.

    Raises UserError for anything else, for IR that does not verify, and for a schedule of another kernel.
    """
    kernel, found = _kernel_of(func)
    if schedule is not None:
        found = _schedule_of(schedule)
    if found is not None and found.kernel.string_value() != kernel.sym_name.data:
        raise UserError(f"expected a schedule of @{kernel.sym_name.data}, but got one of {found.kernel}")
    context = current_context()
    options = Options(target, level_in(context, opt_level), thread_count(threads), context=context)
    builder = _Build(kernel, found, options, Cache.default() if cache else None)
    return Operator(builder.name, _specs(kernel), builder)


def _kernel_of(
    func: Kernel | ModuleOp | str | Tensor | Sequence[Tensor],
) -> tuple[Kernel, sched.ScheduleOp | None]:
    """The kernel, and the schedule beside it in a text or module."""
    if isinstance(func, str):
        func = _parsed(func)
    if isinstance(func, ModuleOp):
        ops = list(func.body.block.ops)
        kernels = [op for op in ops if isinstance(op, te.FuncOp | loop.FuncOp)]
        schedules = [op for op in ops if isinstance(op, sched.ScheduleOp)]
        if len(kernels) != 1 or len(schedules) > 1 or len(ops) != len(kernels) + len(schedules):
            names = ", ".join(op.name for op in ops) or "nothing"
            raise UserError(f"expected one te.func or loop.func, and at most one sched.schedule, but got {names}")
        return kernels[0], schedules[0] if schedules else None
    if isinstance(func, te.FuncOp | loop.FuncOp):
        return func, None
    return _from_tensors(func), None


def _parsed(text: str) -> ModuleOp:
    """The module of an IR text; an error names its line and column."""
    from mlc.driver.load import parse_module

    return parse_module(text, "<build>")


def _schedule_of(schedule: sched.ScheduleOp | str) -> sched.ScheduleOp:
    if isinstance(schedule, str):
        ops = list(_parsed(schedule).body.block.ops)
        if len(ops) != 1 or not isinstance(ops[0], sched.ScheduleOp):
            raise UserError("expected the text of one sched.schedule as schedule")
        return ops[0]
    if not isinstance(schedule, sched.ScheduleOp):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise UserError(f"expected a sched.schedule op or its text as schedule, but got {type(schedule).__name__}")
    return schedule


def _from_tensors(tensors: Tensor | Sequence[Tensor]) -> te.FuncOp:
    """The kernel of mlc.te tensors; unlisted placeholders follow in the order in which they are read."""
    from mlc.dialects.te_builder.builder import Tensor
    from mlc.dialects.te_builder.builder import func as te_func

    several = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
    given = [t for t in several if isinstance(t, Tensor) and t.value is not None]
    if not given or len(given) < len(several):
        raise UserError(f"expected a te.func, loop.func, IR text or mlc.te tensors, but got {tensors!r:.80}")
    outputs = [t for t in given if not isinstance(t.value, BlockArgument)]
    inputs: dict[SSAValue, Tensor] = {t.value: t for t in given if isinstance(t.value, BlockArgument)}
    seen: set[SSAValue] = set()
    for tensor in outputs:
        if tensor.value is not None:
            _collect(tensor.value, inputs, seen)
    if not outputs:
        raise UserError("expected at least one computed tensor among the mlc.te tensors, but got only placeholders")
    return te_func(outputs[-1].name or "operator", list(inputs.values()), outputs)


def _collect(value: SSAValue, inputs: dict[SSAValue, Tensor], seen: set[SSAValue]) -> None:
    """Add the placeholders that a tensor is computed from."""
    from mlc.dialects.te_builder.builder import read_by, tensor_of
    from mlc.dialects.te_extern import ExternOp

    if value in seen:
        return
    seen.add(value)
    if isinstance(value, BlockArgument):
        inputs.setdefault(value, tensor_of(value))
        return
    assert isinstance(value.owner, te.ComputeOp | ExternOp)
    for tensor in read_by(value.owner):
        _collect(tensor, inputs, seen)


def _specs(kernel: Kernel) -> Specs:
    """The specs of the kernel's inputs and outputs."""
    if isinstance(kernel, te.FuncOp):
        results = [(f"output{i}", t) for i, t in enumerate(kernel.function_type.outputs)]
        return [_spec(a.name_hint or f"input{a.index}", a.type) for a in kernel.body.block.args], [
            _spec(name, t) for name, t in results
        ]
    assert isinstance(kernel.outputs, IntegerAttr)
    specs = [_spec(a.name_hint or f"arg{a.index}", a.type) for a in kernel.body.block.args]
    first = len(specs) - kernel.outputs.value.data
    return specs[:first], specs[first:]


def _spec(name: str, type_: Attribute) -> TensorSpec:
    if not isinstance(type_, TensorType | MemRefType):
        raise UserError(f"expected operand '{name}' to be a tensor or memref, but got {type_}")
    shape = tuple(type_.get_shape())
    if any(size < 0 for size in shape):
        raise UserError(f"expected static sizes of operand '{name}', but got {type_}")
    element = str(type_.element_type)
    dtype = _DTYPES.get(element) or element.replace("ui", "uint").replace("si", "int")
    return TensorSpec(name, shape, dtype.replace("i", "int") if dtype[0] == "i" and dtype[1:].isdigit() else dtype)
