"""
Run a function of any level on numpy arrays: the graph, te and loop interpreters, C99 for large loop kernels, and native
code for the llvm level. `_MAKERS` has one function per level, which returns None for functions that it cannot run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import (
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import graph, loop
from mlc.dialects import te as te_dialect
from mlc.dialects.attributes import (
    GRAPH_KERNEL,
    NATIVE_CALLS,
    NATIVE_LIBRARIES,
    NATIVE_SCRATCH_BYTES,
    NATIVE_WORKSPACE_BYTES,
    texts_of,
)
from mlc.dialects.constants import integer
from mlc.dialects.graph.types import sizes_at
from mlc.dialects.runtime import CallOp as RuntimeCallOp
from mlc.interp import values as V
from mlc.interp.observe import Observe
from mlc.interp.sizes import (
    CASES,
    at_sizes,
    case_name,
    index_arguments,
    shapes_at,
    sizes_of,
    typical_of,
)
from mlc.support.arithmetic import OWN, Arithmetic
from mlc.support.dtypes import dtype_of
from mlc.validation.facts import constants_of, has_wide_form, narrowest, runs_in_parallel

if TYPE_CHECKING:
    from mlc.codegen.native import Library
    from mlc.validation.c_run import CKernel

Array = Any
Types = tuple[tuple[tuple[int, ...], str], ...]
INTERPRETED_LEVELS = ("graph", "te", "loop")
INTERPRETED_OPERATIONS = 100_000
"""Scalar operations above which a loop kernel runs as C99 instead of by the interpreter."""


Run = Callable[[Sequence[Array], Arithmetic], list[Array]]
"""Runs a function on its inputs in an arithmetic."""


@dataclass
class RunnableFunction:
    """A function that can be run, with the types of its inputs and outputs and the facts that validation needs."""

    name: str
    level: str
    op: Operation
    inputs: Types
    outputs: Types
    run: Run
    is_wide: bool = True
    """Whether it runs in wide arithmetic; native code does not, nor do kernels that cast the bits of floats."""
    as_c: CKernel | None = None
    """The kernel, if it runs as C99."""
    calls: tuple[str, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    """The values of the symbols of a graph-level function, by name."""
    symbols: tuple[int, ...] = ()
    """The values of a kernel's index arguments."""
    weights: Any = None
    """The weights that a graph-level function reads."""
    compile: Callable[[], object] | None = None
    """Makes the machine code that `run` calls, whose errors can end the process; None where an interpreter runs."""
    observed: Callable[[Sequence[Array], Observe], list[Array]] | None = None
    """Runs a graph-level function, and shows the results of each op."""

    # Both are asked only of functions that a pass changed, before the next pass changes them.

    @cached_property
    def epsilon(self) -> float:
        """Machine epsilon of the narrowest float type to which the function rounds; 0 if it has no floats."""
        return narrowest(self.op) if self.level in INTERPRETED_LEVELS else 0.0

    @cached_property
    def constants(self) -> dict[object, object]:
        """The float constants (`constant_key`, `parameter_key`), each with what identifies its content."""
        return constants_of(self.op, self.weights) if self.level in INTERPRETED_LEVELS else {}


@dataclass
class Facts:
    """The types and symbol values of a function in one case, as a level above had them."""

    inputs: Types
    outputs: Types
    symbols: tuple[int, ...] = ()


@dataclass
class Module:
    """The functions of a module that can be run; `known` has the types of kernels (by case) that a lowering dropped."""

    module: ModuleOp
    known: dict[str, Facts] = field(default_factory=dict)
    weights: Any = None
    record: Callable[[str, Sequence[Array], dict[str, int]], None] | None = None
    sizes: dict[str, dict[str, int]] = field(default_factory=dict)
    """The values of the symbols with which functions were called, by the function's name in a case."""
    observe: Observe | None = None
    """Called after each op that an interpreter runs; loop kernels then run in the interpreter whatever their size."""

    @cached_property
    def text(self) -> str:
        """The module's text."""
        return str(self.module)

    @cached_property
    def library(self) -> Library:
        """The module's machine code, compiled once for all its kernels."""
        from mlc.codegen.functions import functions_text
        from mlc.codegen.jit import load_libraries
        from mlc.codegen.llvm.ir import print_module
        from mlc.codegen.native import Library, emit_object
        from mlc.targets.target import native_target

        part = ModuleOp([op.clone() for op in self.module.body.block.ops if op.name.startswith("llvm.")])
        load_libraries([name for op in part.body.block.ops for name in texts_of(op, NATIVE_LIBRARIES)])
        calls = emit_object(functions_text(self.functions, native_target()))
        return Library.load([emit_object(print_module(part)), calls])

    @cached_property
    def functions(self) -> list[str]:
        """The names of the registered functions that the machine code calls."""
        return sorted({name for op in self.module.body.block.ops for name in texts_of(op, NATIVE_CALLS)})

    def executables(self) -> Iterator[RunnableFunction]:
        """The functions, callers first. Run each before requesting the next: callers record their callees' inputs."""
        ops = [op for op in self.module.body.block.ops if op.name in _MAKERS and op.regions[0].blocks]
        for op in sorted(ops, key=lambda op: not any(inner.name == "graph.call" for inner in op.walk())):
            for case in CASES:
                made = _MAKERS[op.name](self, op, case)
                if made is not None:
                    yield made
                if made is None or not (made.sizes or made.symbols):
                    break


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


def _graph(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    assert isinstance(func, FuncOp)
    from mlc.dialects.graph import CallOp
    from mlc.interp.graph import Interpreter

    if not all(_is_graph(op) for op in func.body.walk()):
        return None
    name = case_name(func.sym_name.data, case)
    sizes = m.sizes.get(name) or sizes_of(func, case)
    at = at_sizes(func, sizes) if sizes else func
    ins, outs = types_of(at.function_type.inputs.data), types_of(at.function_type.outputs.data)
    if ins is None or outs is None:
        return None
    record = m.record

    class Recording(Interpreter):
        """An interpreter that passes the inputs of each callee to `record`."""

        def run(self, func: FuncOp, inputs: Sequence[Any], sizes: Mapping[str, int] | None = None) -> list[Any]:
            if record is not None:
                record(case_name(func.sym_name.data, case), inputs, dict(sizes or {}))
            return super().run(func, inputs, sizes)

    def run(arrays: Sequence[Array], arithmetic: Arithmetic) -> list[Array]:
        recording = arithmetic == OWN
        one = (Recording if recording else Interpreter)(m.weights, arithmetic, m.observe)
        return list(one.run(func, arrays, sizes or None))

    return RunnableFunction(
        name,
        "graph",
        func,
        ins,
        outs,
        run,
        calls=tuple(op.callee.string_value() for op in func.walk() if isinstance(op, CallOp)),
        sizes=sizes,
        symbols=_kernel_symbols(func, sizes),
        weights=m.weights,
        observed=lambda arrays, observe: list(Interpreter(m.weights, OWN, observe).run(func, arrays, sizes or None)),
    )


def _kernel_symbols(func: FuncOp, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The values of the index arguments that a kernel has below the graph level."""
    if not sizes or GRAPH_KERNEL not in func.attributes:
        return ()
    from mlc.lowering.graph_to_te.convert import kernel_symbols

    return sizes_at(kernel_symbols(func), sizes)


def _name(func: Operation) -> str:
    name = func.properties["sym_name"]
    assert isinstance(name, StringAttr)
    return name.data


def _is_graph(op: Operation) -> bool:
    from xdsl.traits import SymbolTable

    if isinstance(op, graph.CallOp):
        return isinstance(SymbolTable.lookup_symbol(op, op.callee), FuncOp)
    return isinstance(op, graph.GraphOp) or op.name.startswith("graph.") or op.name in ("func.func", "func.return")


# --- @main on buffers --------------------------------------------------------------------------------------------


def _function(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    """A function of graph ops, or @main on buffers."""
    return _graph(m, func, case) or _main(m, func, case)


def _main(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    """@main on buffers, which calls the kernels of the module; its types and sizes are those of its graph form."""
    from mlc.validation.interpret import run_main

    assert isinstance(func, FuncOp)
    name = case_name(func.sym_name.data, case)
    facts = m.known.get(name)
    if facts is None or not any(isinstance(op, RuntimeCallOp) for op in func.walk()):
        return None
    sizes = m.sizes.get(name, {})

    def run(arrays: Sequence[Array], arithmetic: Arithmetic) -> list[Array]:
        assert not arithmetic.wide
        return run_main(m.module, func, m.weights, arrays, sizes)

    return RunnableFunction(name, "main", func, facts.inputs, facts.outputs, run, is_wide=False, sizes=sizes)


# --- te ----------------------------------------------------------------------------------------------------------


def _symbols(m: Module, func: Operation, args: Sequence[SSAValue], case: int) -> tuple[int, ...] | None:
    """The values of a kernel's index arguments; None if they are unknown, or there is no such case."""
    if not any(isinstance(a.type, IndexType) for a in args):
        return None if case else ()
    known = m.known.get(case_name(_name(func), case))
    if known is not None:
        return known.symbols
    return None if case else typical_of(func)


def _types_at(func: Operation, types: Sequence[Attribute], symbols: Sequence[int]) -> Types | None:
    """The types of a kernel's inputs and outputs at these values of its symbols."""
    if not symbols:
        return types_of(types)
    shapes = shapes_at(func, symbols)
    if shapes is None or len(shapes) != len(types):
        return None
    static: list[Attribute] = []
    for t, shape in zip(types, shapes, strict=True):
        assert isinstance(t, TensorType | MemRefType)
        static.append(type(t)(t.element_type, shape))
    return types_of(static)


def _te(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    from mlc.interp import te

    assert isinstance(func, te_dialect.FuncOp)
    t = func.function_type
    tensors = [one for one in t.inputs.data if not isinstance(one, IndexType)]
    symbols = _symbols(m, func, func.args, case)
    types = None if symbols is None else _types_at(func, [*tensors, *t.outputs.data], symbols)
    if symbols is None or types is None:
        return None
    return RunnableFunction(
        case_name(func.sym_name.data, case),
        "te",
        func,
        types[: len(tensors)],
        types[len(tensors) :],
        lambda arrays, arithmetic: list(te.run(func, [*arrays, *symbols], arithmetic=arithmetic, observe=m.observe)),
        is_wide=has_wide_form(func),
        symbols=symbols,
    )


# --- loop --------------------------------------------------------------------------------------------------------


def _loop(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    from mlc.interp import loop as interp
    from mlc.validation import c_run

    assert isinstance(func, loop.FuncOp)
    ins, outs, _ = interp.arguments(func)
    symbols = _symbols(m, func, func.args, case)
    types = None if symbols is None else _types_at(func, [*ins, *outs], symbols)
    if symbols is None or types is None:
        return None
    inputs, outputs = types[: len(ins)], types[len(ins) :]
    given = index_arguments(func.args, symbols)

    def arguments(arrays: Sequence[Array], arithmetic: Arithmetic) -> list[Any]:
        made = [V.poisoned(shape, arithmetic.dtype(dtype_of(name))) for shape, name in outputs] if symbols else []
        return [*arrays, *made, *symbols]

    # as C99, kernels are a hundred times as fast, and races are found, which the interpreter finds only where the order
    # of the iterations matters
    kernel = c_run.CKernel(func, given)
    calls = any(isinstance(op, loop.ExternCallOp) for op in func.walk())
    large = (m.observe is None and not calls) and (
        kernel.operations > INTERPRETED_OPERATIONS or (runs_in_parallel(func) and c_run.has_compiler())
    )

    def run(arrays: Sequence[Array], arithmetic: Arithmetic) -> list[Array]:
        if large:
            return kernel.run(arguments(arrays, arithmetic), arithmetic)
        shuffle = None if m.observe else 0
        return interp.run(
            func, arguments(arrays, arithmetic), shuffle=shuffle, arithmetic=arithmetic, observe=m.observe
        )

    return RunnableFunction(
        case_name(func.sym_name.data, case),
        "loop",
        func,
        inputs,
        outputs,
        run,
        is_wide=has_wide_form(func),
        as_c=kernel if large else None,
        symbols=symbols,
    )


# --- llvm --------------------------------------------------------------------------------------------------------


def _llvm(m: Module, func: Operation, case: int) -> RunnableFunction | None:
    name = _name(func)
    facts = m.known.get(case_name(name, case))
    if facts is None:
        return None
    ins, outs, symbols = facts.inputs, facts.outputs, facts.symbols

    def run(arrays: Sequence[Array], arithmetic: Arithmetic) -> list[Array]:
        assert not arithmetic.wide
        return _native(m, func, name, facts, arrays)

    # the tasks of its parallel loops are functions of their own
    functions = (_name(op) for op in m.module.body.block.ops if op.name == "llvm.func")
    parts = tuple(part for part in functions if part.startswith(f"{name}."))
    made = case_name(name, case), "llvm", func, ins, outs, run
    return RunnableFunction(*made, is_wide=False, calls=parts, symbols=symbols, compile=lambda: m.library)


def _native(m: Module, func: Operation, name: str, facts: Facts, arrays: Sequence[Array]) -> list[Array]:
    """Call one kernel, its tasks one by one."""
    from mlc.lowering.memory.kernel_buffers import symbolic_bytes
    from mlc.runtime.functions import CalledFunctions
    from mlc.runtime.sizes import symbolic_buffer_bytes
    from mlc.support.abi import KERNEL
    from mlc.validation.tasks_apart import TasksApart, symbolic_parts

    rt = TasksApart(integer(func.attributes.get(NATIVE_SCRATCH_BYTES)) or 0)
    results = [V.poisoned(shape, dtype_of(d)) for shape, d in facts.outputs]
    rows = symbolic_bytes(func) if facts.symbols else []
    behind = symbolic_buffer_bytes(rows, facts.symbols, rt.struct.threads) if facts.symbols else 0
    static = integer(func.attributes.get(NATIVE_WORKSPACE_BYTES)) or 0
    workspace = np.empty(static + behind + 64, np.uint8)
    kept = [*(np.ascontiguousarray(a) for a in arrays), *results]
    aligned = (workspace.ctypes.data + 63) // 64 * 64
    shared, part = symbolic_parts(rows, facts.symbols)
    rt.add_parts(workspace[aligned - workspace.ctypes.data + static + shared :], part)
    given = [*(a.ctypes.data for a in kept), *facts.symbols, aligned]
    args = (ctypes.c_void_p * len(given))(*given)
    functions = CalledFunctions(m.functions)
    functions.attach(rt.address)
    functions.check(f"@{name}")
    code = KERNEL(m.library.address(name))(ctypes.addressof(args), rt.address)
    if rt.shared:
        raise RuntimeError(f"a task of @{name} writes the scratch memory of another thread")
    if code:
        raise functions.failure(rt.address, f"@{name}", code)
    return results


_MAKERS: dict[str, Callable[[Module, Operation, int], RunnableFunction | None]] = {
    "func.func": _function,
    "te.func": _te,
    "loop.func": _loop,
    "llvm.func": _llvm,
}


def make_runnable(module: Module, func: Operation) -> RunnableFunction | None:
    """One function of a module in its first case; None if it cannot be run."""
    make = _MAKERS.get(func.name)
    return None if make is None else make(module, func, 0)
