"""
Run a function of any level on numpy arrays: the graph, te and loop interpreters, C99 for large loop kernels, and native
code for the llvm level. One `Runner` a level says which functions it can run, and with which types.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerAttr, MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from mlc.dialects import loop
from mlc.interp import values as V
from mlc.interp.compare import epsilon

if TYPE_CHECKING:
    from mlc.codegen.native import Library

Array = Any
Types = tuple[tuple[tuple[int, ...], str], ...]
OPERATIONS = 1_000_000
"""Loop kernels with more scalar operations than this run as C99."""


@dataclass
class Executable:
    """A function that can be run: what it takes and gives, and how many terms its results sum."""

    name: str
    level: str
    op: Operation
    inputs: Types
    outputs: Types
    run: Callable[[Sequence[Array]], list[Array]]
    wide: Callable[[Sequence[Array]], list[Array]] | None = None
    length: int = 1
    c: float = 0.0
    calls: tuple[str, ...] = ()
    epsilon: float = 0.0
    """That of the narrowest float type to which the function rounds."""


@dataclass
class Module:
    """The functions of a module that can be run. `known` gives the types of kernels whose llvm form lost them."""

    module: ModuleOp
    known: dict[str, tuple[Types, Types]] = field(default_factory=dict)
    weights: Any = None
    record: Callable[[str, Sequence[Array]], None] | None = None

    @cached_property
    def library(self) -> Library:
        """The module's machine code, compiled once for all its kernels."""
        from mlc.codegen.llvm_ir import print_module
        from mlc.codegen.native import Library, emit_object

        part = ModuleOp([op.clone() for op in self.module.body.block.ops if op.name.startswith("llvm.")])
        return Library.load([emit_object(print_module(part))])

    def executables(self) -> list[Executable]:
        """Callers first, so that they record the inputs of what they call."""
        found: list[Executable] = []
        for op in self.module.body.block.ops:
            maker = _MAKERS.get(op.name)
            made = maker(self, op) if maker is not None and op.regions[0].blocks else None
            if made is not None:
                found.append(made)
        return sorted(found, key=lambda e: not e.calls)


def types_of(types: Sequence[Attribute]) -> Types | None:
    """Shapes and dtypes of tensors or buffers; None where one is not static."""
    found: list[tuple[tuple[int, ...], str]] = []
    for t in types:
        if not isinstance(t, TensorType | MemRefType) or any(n < 0 for n in t.get_shape()):
            return None
        try:
            found.append((tuple(t.get_shape()), V.dtype_of(t.element_type).name))
        except TypeError:
            return None
    return tuple(found)


# --- graph -------------------------------------------------------------------------------------------------------


def _graph(m: Module, func: Operation) -> Executable | None:
    assert isinstance(func, FuncOp)
    from mlc.dialects.graph import CallOp, GraphOp
    from mlc.interp.graph import Interpreter

    ins, outs = types_of(func.function_type.inputs.data), types_of(func.function_type.outputs.data)
    if ins is None or outs is None or not all(_is_graph(op) for op in func.body.walk()):
        return None
    record = m.record

    class Recording(Interpreter):
        """Hands the inputs of what is called to `record`."""

        def run(self, func: FuncOp, inputs: Sequence[Any]) -> list[Any]:
            if record is not None:
                record(func.sym_name.data, inputs)
            return super().run(func, inputs)

    ops = [op for op in func.walk() if isinstance(op, GraphOp)]
    return Executable(
        func.sym_name.data,
        "graph",
        func,
        ins,
        outs,
        lambda arrays: list(Recording(m.weights).run(func, arrays)),
        lambda arrays: list(Interpreter(m.weights, np.float64).run(func, arrays)),
        math.prod(op.reduction_length() for op in ops if op.reduction_length() > 1),
        max((op.tolerance for op in ops), default=0.0),
        tuple(op.callee.string_value() for op in func.walk() if isinstance(op, CallOp)),
        max((_epsilon(result.type) for op in ops for result in op.results), default=0.0),
    )


def _epsilon(t: Attribute) -> float:
    """That of a tensor's elements, where they are floats narrower than f32."""
    element = t.element_type if isinstance(t, TensorType) else t
    return epsilon(V.dtype_of(element)) if isinstance(element, BFloat16Type | Float16Type) else 0.0


def _is_graph(op: Operation) -> bool:
    from xdsl.traits import SymbolTable

    if op.name == "graph.call":
        return isinstance(SymbolTable.lookup_symbol(op, op.properties["callee"]), FuncOp)  # pyright: ignore
    return op.name.startswith("graph.") or op.name in ("func.func", "func.return")


# --- te ----------------------------------------------------------------------------------------------------------


def _te(m: Module, func: Operation) -> Executable | None:
    from mlc.dialects import te as dialect
    from mlc.interp import te

    assert isinstance(func, dialect.FuncOp)
    t = func.function_type
    ins, outs = types_of(t.inputs.data), types_of(t.outputs.data)
    if ins is None or outs is None:
        return None
    length = math.prod(math.prod(s.static_extents[s.num_spatial :]) for s in func.stages)
    return Executable(
        func.sym_name.data,
        "te",
        func,
        ins,
        outs,
        lambda arrays: list(te.run(func, arrays)),
        lambda arrays: list(te.run(func, arrays, wide=True)),
        length,
    )


# --- loop --------------------------------------------------------------------------------------------------------


def _loop(m: Module, func: Operation) -> Executable | None:
    from mlc.interp import loop as interp

    assert isinstance(func, loop.FuncOp)
    ins, outs, symbols = interp.arguments(func)
    inputs, outputs = types_of(ins), types_of(outs)
    if inputs is None or outputs is None or symbols:
        return None
    large = count_operations(func) > OPERATIONS
    return Executable(
        func.sym_name.data,
        "loop",
        func,
        inputs,
        outputs,
        (lambda arrays: _c(func, arrays)) if large else (lambda arrays: interp.run(func, arrays, shuffle=0)),
        None if large else (lambda arrays: interp.run(func, arrays, wide=True)),
        reduction_length(func),
    )


def _c(func: loop.FuncOp, arrays: Sequence[Array]) -> list[Array]:
    from mlc.codegen import c_run

    return c_run.run(func, arrays)


def count_operations(func: loop.FuncOp) -> int:
    """About how many scalar operations a kernel runs: lanes, times the iterations of the loops around."""

    def count(op: Operation) -> int:
        inner = sum(count(o) for region in op.regions for block in region.blocks for o in block.ops)
        if isinstance(op, loop.ForOp):
            return inner * (op.extent if op.extent is not None else 8)
        lanes = [math.prod(loop.shape_of(v.type)) for v in (*op.results, *op.operands)]
        return inner + max(lanes, default=1)

    return sum(count(op) for op in func.body.block.ops)


def reduction_length(func: loop.FuncOp) -> int:
    """How many terms the results sum: reduction axes of blocks, or loops that carry values and lanes that combine."""
    length = 1
    for op in func.walk():
        if isinstance(op, loop.BlockOp):
            length *= math.prod(op.static_extents[op.num_spatial :])
        elif isinstance(op, loop.ForOp) and op.results:
            length *= op.extent or 1
        elif isinstance(op, loop.ReduceOp):
            length *= math.prod(loop.shape_of(op.value.type)) // math.prod(loop.shape_of(op.result.type))
    return length


# --- llvm --------------------------------------------------------------------------------------------------------


def _llvm(m: Module, func: Operation) -> Executable | None:
    name = func.properties["sym_name"].data  # pyright: ignore
    if name not in m.known:
        return None
    ins, outs = m.known[name]
    return Executable(name, "llvm", func, ins, outs, lambda arrays: _native(m.library, func, name, outs, arrays))


def _native(library: Library, func: Operation, name: str, outs: Types, arrays: Sequence[Array]) -> list[Array]:
    """Call one kernel, on two threads where there are so many."""
    from mlc.runtime.abi import KERNEL
    from mlc.runtime.pool import Pool

    results = [V.poisoned(shape, np.dtype(numpy_dtype(d))) for shape, d in outs]
    workspace = np.empty(_bytes(func, "mlc.workspace_bytes") + 64, np.uint8)
    kept = [*(np.ascontiguousarray(a) for a in arrays), *results]
    aligned = (workspace.ctypes.data + 63) // 64 * 64
    args = (ctypes.c_void_p * (len(kept) + 1))(*(a.ctypes.data for a in kept), aligned)
    rt = Pool.get().rt(_bytes(func, "mlc.scratch_bytes"))
    code = KERNEL(library.address(name))(ctypes.addressof(args), rt.address)
    if code:
        raise RuntimeError(f"expected @{name} to return 0, but got {code}")
    return results


def _bytes(func: Operation, attribute: str) -> int:
    value = func.attributes.get(attribute)
    return value.value.data if isinstance(value, IntegerAttr) else 0


def numpy_dtype(name: str) -> Any:
    """The dtype of a name; numpy does not know bfloat16 by its own."""
    if name != "bfloat16":
        return name
    import ml_dtypes

    return ml_dtypes.bfloat16


_MAKERS: dict[str, Callable[[Module, Operation], Executable | None]] = {
    "func.func": _graph,
    "te.func": _te,
    "loop.func": _loop,
    "llvm.func": _llvm,
}
