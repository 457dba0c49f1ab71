"""
Runs one function of a module on arrays, whatever its level: what `mlc.interpret` and `mlc run-ir` do.

    graph, te, loop     the interpreters; a te.func with a sched.schedule runs as scheduled: the schedule is applied
    @main on buffers    its interpreter, and for each call that of the kernel's level
    llvm                native code
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation
from xdsl.traits import SymbolTable

from mlc.dialects import graph, loop, runtime, sched, te
from mlc.dialects.attributes import KERNEL_SIZES
from mlc.dialects.index import IndexMapAttr
from mlc.interp.errors import InterpreterError
from mlc.interp.graph import Weights
from mlc.interp.main import MainInterpreter, typed
from mlc.interp.observe import Observe
from mlc.interp.values import dtype_of, poisoned
from mlc.lowering.graph_to_te.kernel_sizes import kernel_symbols, size_attributes
from mlc.lowering.te_to_loop.convert import ConvertTeToLoop
from mlc.passes.loop.apply_schedule import ApplySchedulePass
from mlc.support.arithmetic import OWN, WIDE
from mlc.support.errors import UserError
from mlc.validation.execute import Facts, Module, RunnableFunction, make_runnable
from mlc.validation.inputs import RandomWeights, random_arrays
from mlc.validation.signature import (
    FunctionSignature,
    check_inputs,
    function_named,
    named_inputs,
    random_inputs,
    signature_of,
    symbol_name,
)

Inputs = Mapping[str, Any] | Sequence[Any]


@dataclass
class SeededWeights:
    """Random weights for a module of any level that comes without: each is drawn by its name and the seed."""

    module: ModuleOp
    seed: int = 0

    def array(self, name: str) -> Any:
        """The weight of this name."""
        for op in self.module.walk():
            param = op.attributes.get("param")
            if isinstance(op, memref.ViewOp) and isinstance(param, StringAttr) and param.data == name:
                t = op.result.type
                assert isinstance(t, MemRefType)
                types = ((tuple(t.get_shape()), dtype_of(t.element_type).name),)
                return random_arrays(types, self.seed + zlib.crc32(name.encode()))[0]
        return RandomWeights(self.module, self.seed).array(name)


@dataclass
class GivenWeights:
    """The arrays of a mapping."""

    arrays: Mapping[str, Any]

    def array(self, name: str) -> Any:
        """The weight of this name."""
        if name not in self.arrays:
            raise UserError(f"expected a weight '{name}', but got {', '.join(self.arrays) or 'none'}")
        return np.asarray(self.arrays[name])


def interpret_function(
    module: ModuleOp,
    inputs: Inputs,
    *,
    function: str | None = None,
    weights: Weights | None = None,
    wide: bool = False,
    observe: Observe | None = None,
    seed: int | None = None,
) -> dict[str, Any]:
    """
    The outputs by name of a function on arrays; with a `seed`, inputs that are not given are random.

    Raises UserError for inputs that do not fit, and for a function that cannot be run.
    """
    signature = signature_of(_defined(function_named(module, function)))
    if wide and signature.level in ("main", "llvm"):
        remedy = "run a level above: graph, te or loop"
        raise UserError(
            f"expected a function without fixed memory for wide floats, but got @{signature.function} "
            f"({'buffers' if signature.level == 'main' else 'llvm'}); {remedy}"
        )
    arrays = named_inputs(signature, inputs)
    if seed is not None:
        arrays = random_inputs(signature, arrays, seed)
    sizes = signature.symbol_values(arrays)
    unknown = [name for name in signature.symbols if name not in sizes]
    if unknown:
        raise UserError(f"expected a number for size '{unknown[0]}' of @{signature.function}; give it as an input")
    given = check_inputs(signature, arrays, sizes, wide)
    results = _Run(module, weights, wide, observe).function(signature, given, sizes)
    return dict(zip((o.name for o in signature.outputs), results, strict=True))


def run_main(
    module: ModuleOp, func: FuncOp, weights: Weights | None, arrays: Sequence[Any], sizes: Mapping[str, int]
) -> list[Any]:
    """The results of @main on buffers; `sizes` are the values of its symbols."""
    signature = signature_of(func)
    values = {name: sizes[name] for name in signature.symbols}
    return _Run(module, weights, wide=False, observe=None).function(signature, arrays, values)


def _defined(func: Operation) -> Operation:
    """The function, unless it is of no level that can be run."""
    if not isinstance(func, FuncOp | te.FuncOp | loop.FuncOp) and func.name != "llvm.func":
        message = f"expected a function of the level graph, te, loop or llvm, but got {func.name}"
        raise UserError(f"{message} @{symbol_name(func)}", func)
    return func


@dataclass
class _Run:
    """One run: the module, and what is said about all functions."""

    module: ModuleOp
    weights: Weights | None
    wide: bool
    observe: Observe | None

    def function(self, signature: FunctionSignature, arrays: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """The results of a function; what its interpreter refuses is a UserError."""
        try:
            if signature.level == "main":
                return self.main(signature, arrays, sizes)
            made = self.runnable(signature, sizes)
            return self.run(made, arrays)
        except UserError:
            raise
        except (InterpreterError, ValueError) as error:
            text = str(error)
            if "needs a weight store" in text:
                text = f"{text}; give weights, or random ones by a seed"
            raise UserError(f"@{signature.function} cannot be run: {text}", getattr(error, "op", None)) from error

    def runnable(self, signature: FunctionSignature, sizes: Mapping[str, int]) -> RunnableFunction:
        """A function below @main on buffers, ready to run at these sizes."""
        func, name, symbols = signature.func, signature.function, tuple(sizes[n] for n in signature.symbols)
        count = len(signature.inputs)
        shapes = [signature.shape(k, sizes) for k in range(count + len(signature.outputs))]
        types = tuple(
            (s, a.dtype.name)
            for s, a in zip(shapes, (*signature.inputs, *signature.outputs), strict=True)
            if s is not None
        )
        module = Module(self.module, {name: Facts(types[:count], types[count:], symbols)}, self.weights)
        module.observe = self.observe
        if signature.level == "graph":
            module.sizes[name] = dict(sizes)
        if isinstance(func, te.FuncOp) and (scheduled := apply_schedule(self.module, func)) is not None:
            func = scheduled
        made = make_runnable(module, func)
        if made is None:
            _refuse(func)
        return made

    def run(self, made: RunnableFunction, arrays: Sequence[Any]) -> list[Any]:
        """Run a function, in f64 if that is asked for."""
        if self.wide and not made.is_wide:
            raise UserError(f"expected a function without bitcasts of floats for wide floats, but got @{made.name}")
        results = made.run(arrays, WIDE if self.wide else OWN)
        if self.observe is not None and made.level == "llvm":
            self.observe(made.op, results)
        return results

    def main(self, signature: FunctionSignature, arrays: Sequence[Any], sizes: Mapping[str, int]) -> list[Any]:
        """@main on buffers."""
        assert isinstance(signature.func, FuncOp)
        count = len(signature.inputs)
        outputs: list[Any] = []
        for k, argument in enumerate(signature.outputs):
            shape = signature.shape(count + k, sizes)
            assert shape is not None
            outputs.append(poisoned(shape, argument.dtype))
        symbols = [sizes[name] for name in signature.symbols]
        MainInterpreter(self.call, self.param).run(signature.func, arrays, outputs, symbols)
        return outputs

    def param(self, name: str) -> Any:
        """A weight of @main."""
        if self.weights is None:
            raise UserError(f"expected weight '{name}', but got no weights; give them, or random ones by a seed")
        return self.weights.array(name)

    def call(self, op: runtime.CallOp, ins: Sequence[Any], outs: Sequence[Any], numbers: Sequence[int]) -> None:
        """A call of @main on buffers: run the kernel and write its outputs."""
        callee = SymbolTable.lookup_symbol(self.module, op.callee)
        if callee is None or not callee.regions or not callee.regions[0].blocks:
            raise UserError(f"expected kernel {op.callee} in the module, but it has none", op)
        signature = signature_of(callee)
        shapes = _shapes(signature, numbers) or [
            tuple(v.type.get_shape()) for v in (*op.ins, *op.outs) if isinstance(v.type, MemRefType)
        ]
        types = [a.dtype for a in (*signature.inputs, *signature.outputs)]
        arrays = [typed(m, s, t) for m, s, t in zip((*ins, *outs), shapes, types, strict=True)]
        inputs, outputs = arrays[: len(ins)], arrays[len(ins) :]
        if signature.level == "graph":
            sizes = signature.symbol_values({a.name: x for a, x in zip(signature.inputs, inputs, strict=True)})
        else:
            sizes = dict(zip(signature.symbols, numbers, strict=True))
        results = self.function(signature, [np.array(a) for a in inputs], sizes)
        for output, result in zip(outputs, results, strict=True):
            output[...] = result
        if self.observe is not None:
            self.observe(op, [np.array(o) for o in outputs])


def _shapes(signature: FunctionSignature, numbers: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The shapes of a kernel's inputs and outputs at the values of its size arguments; None for static ones."""
    func = signature.func
    if not numbers:
        return None
    rows = func.attributes.get(KERNEL_SIZES)
    if isinstance(func, FuncOp):
        rows = size_attributes(func, kernel_symbols(func)).get(KERNEL_SIZES)
    assert isinstance(rows, ArrayAttr)
    return [tuple(int(e.evaluate(numbers)) for e in row.data) for row in rows.data if isinstance(row, IndexMapAttr)]


def apply_schedule(module: ModuleOp, func: te.FuncOp) -> loop.FuncOp | None:
    """The loops of a te.func as the module's schedule of it says; None without a schedule."""
    name = func.sym_name.data
    schedules = [op for op in module.body.block.ops if isinstance(op, sched.ScheduleOp) and op.kernel_name == name]
    if not schedules:
        return None
    part = ModuleOp([func.clone(), *(op.clone() for op in schedules)])
    for module_pass in (ConvertTeToLoop(), ApplySchedulePass()):
        module_pass.apply(Context(), part)
    return next(op for op in part.body.block.ops if isinstance(op, loop.FuncOp))


def _refuse(func: Operation) -> NoReturn:
    """UserError that says why no interpreter runs a function: the first op that has no meaning at its level."""
    name = symbol_name(func)
    for op in func.walk() if isinstance(func, FuncOp) else ():
        if isinstance(op, graph.CallOp) and not isinstance(SymbolTable.lookup_symbol(op, op.callee), FuncOp):
            raise UserError(f"@{name} cannot be run: expected a function {op.callee} in the module", op)
        if not op.name.startswith("graph.") and op is not func and not isinstance(op, ReturnOp):
            raise UserError(f"@{name} cannot be run: the graph interpreter has no meaning for {op.name}", op)
    raise UserError(f"@{name} cannot be run: expected inputs and outputs of known sizes and element types", func)


__all__ = ["GivenWeights", "SeededWeights", "apply_schedule", "interpret_function"]
