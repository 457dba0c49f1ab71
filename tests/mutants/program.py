"""Runs programs in the middle of a pipeline: @main by the graph interpreter, one kernel in its form of then."""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from races import without_races
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from mlc.codegen.llvm.ir import print_module
from mlc.codegen.native import Library, emit_object
from mlc.codegen.pool.loaded import Pool
from mlc.dialects import loop, te
from mlc.dialects.graph import CallOp
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.structure import bound_symbols
from mlc.dialects.graph.types import sizes_at, static_shape
from mlc.interp import loop as loop_interpreter
from mlc.interp import te as te_interpreter
from mlc.interp import values
from mlc.interp.graph import Interpreter
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols
from mlc.lowering.memory.kernel_buffers import symbolic_bytes
from mlc.runtime.sizes import symbolic_buffer_bytes
from mlc.support.abi import KERNEL
from mlc.support.dtypes import dtype_of
from mlc.validation import c_run

Array = Any
LARGEST_INTERPRETED = 300_000
"""Elements of a kernel's inputs and outputs above which its loops run as C."""


def name_of(op: Operation) -> str:
    """The symbol of a function."""
    name = op.properties.get("sym_name")
    return name.data if isinstance(name, StringAttr) else ""


class Kernels:
    """The graph-level forms of a model's kernels and their symbols, noted while they are there."""

    def __init__(self) -> None:
        self.functions: dict[str, FuncOp] = {}
        self.symbols: dict[str, Sequence[Dim]] = {}

    def note(self, module: ModuleOp) -> None:
        """Keep the kernels of a module on the graph level."""
        for op in module.body.block.ops:
            if isinstance(op, FuncOp) and "graph.kernel" in op.attributes:
                self.functions[op.sym_name.data] = op.clone()
                self.symbols[op.sym_name.data] = kernel_symbols(op)


class ProgramInterpreter(Interpreter):
    """The graph interpreter for @main; one kernel runs in its lowered form, the others on the graph level."""

    def __init__(self, weights: Any, kernels: Kernels, lowered: Operation | None = None, races: bool = False) -> None:
        super().__init__(weights)
        self.kernels = kernels
        self.lowered = lowered
        self.run_kernel = kernel_runner(lowered, races) if lowered is not None else None

    def _run_op(self, op: Operation, operands: list[Any]) -> Sequence[Any]:
        if not isinstance(op, CallOp) or op.callee.string_value() not in self.kernels.functions:
            return super()._run_op(op, operands)
        name = op.callee.string_value()
        given = bound_symbols(op)
        sizes = dict(zip(given, sizes_at(given.values(), self.sizes), strict=True)) or self.sizes
        if self.lowered is None or name_of(self.lowered) != name or self.run_kernel is None:
            return self.run(self.kernels.functions[name], operands, sizes or None)
        symbols = sizes_at(self.kernels.symbols[name], sizes) if sizes else ()
        outputs = [(static_shape(r.type), values.dtype_of(r.type.element_type)) for r in op.results]
        return self.run_kernel(operands, outputs, symbols)


def kernel_runner(func: Operation, races: bool = False) -> Any:
    """
    A function of (inputs, shapes and dtypes of the outputs, symbols) that runs a kernel of any level.

    With `races` it raises Race where parallel iterations of loops depend on each other.
    """
    if isinstance(func, te.FuncOp):
        return lambda inputs, outputs, symbols: run_stages(func, inputs, outputs, symbols)
    if isinstance(func, loop.FuncOp):
        return lambda inputs, outputs, symbols: run_loops(func, inputs, outputs, symbols, races)
    return NativeKernel(func).run


def as_declared(arrays: Sequence[Array], types: Sequence[Any]) -> list[Array]:
    """Arrays of bytes as the signless integers that kernels declare below the graph level."""
    dtypes = [values.dtype_of(t.element_type) for t in types]
    return [
        np.asarray(a if a.dtype.kind not in "iu" or a.dtype == d else a.view(d), order="C")
        for a, d in zip(arrays, dtypes, strict=True)
    ]


def as_wanted(arrays: Sequence[Array], outputs: Sequence[Any]) -> list[Array]:
    """Results as the integers that the graph level has."""
    return [
        a.view(d) if a.dtype.kind in "iu" and a.dtype != d else a for a, (_, d) in zip(arrays, outputs, strict=True)
    ]


def run_stages(func: te.FuncOp, inputs: Sequence[Array], outputs: Sequence[Any], symbols: Sequence[int]) -> list[Array]:
    """Run a kernel of stages."""
    arrays = as_declared(inputs, func.function_type.inputs.data[: len(inputs)])
    return as_wanted(te_interpreter.run(func, [*arrays, *symbols]), outputs)


def run_loops(
    func: loop.FuncOp, inputs: Sequence[Array], outputs: Sequence[Any], symbols: Sequence[int], races: bool
) -> list[Array]:
    """Run a kernel of loops: by the interpreter, parallel iterations in random order; large ones as C."""
    ins, outs, _ = loop_interpreter.arguments(func)
    made = [
        values.poisoned(shape, values.dtype_of(t.element_type)) for (shape, _), t in zip(outputs, outs, strict=True)
    ]
    arguments = [*as_declared(inputs, ins), *made, *symbols]
    if races:
        return as_wanted(without_races(func)(arguments), outputs)
    if work(func, arguments) > LARGEST_INTERPRETED:
        return as_wanted(c_run.run(func, arguments), outputs)
    return as_wanted(loop_interpreter.run(func, arguments, shuffle=0), outputs)


def work(func: loop.FuncOp, arguments: Sequence[Any]) -> int:
    """An estimate of the operations that a kernel runs: of each op, the iterations of the loops around it."""
    indices = [a for a in func.args if isinstance(a.type, IndexType)]
    given = dict(zip(indices, arguments[len(arguments) - len(indices) :], strict=True))

    def inside(op: Operation, times: int) -> int:
        if isinstance(op, loop.ForOp):
            known = [given.get(v, 8) for v in op.indices]
            times *= max(1, int((op.upper - op.lower).evaluate(known)))
        return times + sum(inside(o, times) for region in op.regions for block in region.blocks for o in block.ops)

    return inside(func, 1)


class NativeKernel:
    """A kernel as machine code, run by two threads."""

    def __init__(self, func: Operation) -> None:
        module = func.parent_op()
        assert isinstance(module, ModuleOp)
        self.func, self.name = func, name_of(func)
        part = ModuleOp([op.clone() for op in reachable(module, func)])
        self.library = Library.load([emit_object(print_module(part))])

    def run(self, inputs: Sequence[Array], outputs: Sequence[Any], symbols: Sequence[int]) -> list[Array]:
        """Call the kernel."""
        rt = Pool.get(2).rt(number(self.func, "mlc.scratch_bytes"))
        results = [values.poisoned(shape, dtype) for shape, dtype in outputs]
        behind = symbolic_buffer_bytes(symbolic_bytes(self.func), symbols, rt.struct.threads) if symbols else 0
        workspace = np.empty(number(self.func, "mlc.workspace_bytes") + behind + 64, np.uint8)
        kept = [*(np.ascontiguousarray(a) for a in inputs), *results]
        given = [*(a.ctypes.data for a in kept), *symbols, (workspace.ctypes.data + 63) // 64 * 64]
        args = (ctypes.c_void_p * len(given))(*given)
        code = KERNEL(self.library.address(self.name))(ctypes.addressof(args), rt.address)
        if code:
            raise RuntimeError(f"expected @{self.name} to return 0, but got {code}")
        return results


def reachable(module: ModuleOp, func: Operation) -> list[Operation]:
    """A function and those that it refers to, directly or through others, in the order of the module."""
    named = {name_of(op): op for op in module.body.block.ops}
    found, left = {name_of(func)}, [func]
    while left:
        for op in left.pop().walk():
            for attribute in op.properties.values():
                name = attribute.string_value() if isinstance(attribute, SymbolRefAttr) else ""
                if name in named and name not in found:
                    found.add(name)
                    left.append(named[name])
    return [op for name, op in named.items() if name in found]


def number(op: Operation, attribute: str) -> int:
    """An integer attribute of an operation, or 0."""
    value = op.attributes.get(attribute)
    return value.value.data if isinstance(value, IntegerAttr) else 0


def drawn(types: Sequence[tuple[tuple[int, ...], str]], seed: int) -> list[Array]:
    """Random arrays: floats normally distributed, bytes over their whole range, wider integers in 0..3."""
    rng, found = np.random.default_rng(seed), list[Array]()
    for shape, name in types:
        dtype = dtype_of(name)
        if dtype.kind in "iub":
            limits = np.iinfo(dtype) if dtype.kind in "iu" and dtype.itemsize == 1 else None
            low, high = (limits.min, limits.max) if limits else (0, 2 if dtype.kind == "b" else 4)
            found.append(rng.integers(low, high, shape).astype(dtype))
        else:
            found.append(rng.standard_normal(shape).astype(dtype))
    return found


def differ(expected: Sequence[Array], got: Sequence[Array], part: float = 1e-3) -> bool:
    """Whether some output differs by more than `part` of its largest absolute value."""
    for a, b in zip(expected, got, strict=True):
        x, y = (np.asarray(v).astype(np.float64) for v in (a, b))
        if x.shape != y.shape:
            return True
        with np.errstate(all="ignore"):
            known = np.isfinite(x)
            if not np.isfinite(y[known]).all():
                return True
            largest = np.abs(x[known]).max(initial=0.0)
            moved = np.abs(x[known] - y[known]).max(initial=0.0)
        if moved > part * largest:
            return True
    return False
