"""The reference interpreter of the graph level: calls each op's `evaluate` in program order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import SymbolTable

from mlc.dialects.graph import CallOp, ControlOp, FusedOp, GraphOp, ParamOp, YieldOp, static_shape
from mlc.dialects.graph.graph_numpy import evaluate, result_dtype
from mlc.dialects.graph.ops.structure import bound_symbols
from mlc.dialects.graph.types import Array, sizes_at
from mlc.interp.errors import NotInterpreted
from mlc.interp.graph_control import run_control
from mlc.interp.observe import Observe
from mlc.interp.sizes import at_sizes, solved, symbols_in
from mlc.support.arithmetic import OWN, Arithmetic
from mlc.support.dtypes import is_float_dtype


class Weights(Protocol):
    """The weight store from which `graph.param` reads its arrays."""

    def array(self, name: str) -> Any:
        """The array of this name."""
        ...


class Interpreter:
    """
    Runs functions of the graph level on numpy arrays.

    In the arithmetic `WIDE` every float is computed in f64. `observe` is called after each op.
    """

    def __init__(self, weights: Weights | None = None, arithmetic: Arithmetic = OWN, observe: Observe | None = None):
        self.weights = weights
        self.observe = observe
        self.arithmetic = arithmetic
        self.sizes: dict[str, int] = {}
        """The values of the symbols of the running function."""
        self._scope: Operation | None = None
        self._symbolic: dict[FuncOp, bool] = {}
        self._bound: dict[tuple[FuncOp, tuple[tuple[str, int], ...]], FuncOp] = {}
        self._originals: dict[Operation, Operation] = {}
        """The operations of functions with symbols, by those of the copies that run; filled for `observe`."""

    def run(self, func: FuncOp, inputs: Sequence[Any], sizes: Mapping[str, int] | None = None) -> list[Any]:
        """
        The results of a function on arrays, which must have the types of its arguments; ValueError if they have not.

        `sizes` are the values of its symbols; without them they are derived from the arrays' shapes.
        """
        if not self._is_symbolic(func):
            return self._run_static(func, inputs)
        outer = self.sizes, self._scope
        self.sizes = dict(sizes) if sizes is not None else solved(func, [np.asarray(a) for a in inputs])
        self._scope = func.parent_op() or self._scope
        key = func, tuple(sorted(self.sizes.items()))
        if key not in self._bound:
            bound = self._bound[key] = at_sizes(func, self.sizes)
            if self.observe is not None:
                self._originals.update(zip(bound.walk(), func.walk(), strict=True))
        try:
            return self._run_static(self._bound[key], inputs)
        finally:
            self.sizes, self._scope = outer

    def _is_symbolic(self, func: FuncOp) -> bool:
        if func not in self._symbolic:
            values = (*func.body.block.args, *(r for op in func.body.walk() for r in op.results))
            self._symbolic[func] = bool(symbols_in(v.type for v in values))
        return self._symbolic[func]

    def _run_static(self, func: FuncOp, inputs: Sequence[Any]) -> list[Any]:
        block = func.body.block
        name = func.sym_name.data
        if len(inputs) != len(block.args):
            raise ValueError(f"expected {len(block.args)} inputs of @{name}, but got {len(inputs)}")
        arrays = [self._checked(arg, a, i, name) for i, (arg, a) in enumerate(zip(block.args, inputs, strict=True))]
        return self._run_block(block, arrays)

    def _checked(self, arg: SSAValue, array: ArrayLike, index: int, name: str) -> Array:
        array = np.asarray(array)
        shape, dtype = static_shape(arg.type), result_dtype(arg.type)
        if array.shape != shape or array.dtype not in (dtype, result_dtype(arg.type, self.arithmetic)):
            raise ValueError(
                f"expected input {index} of @{name} with shape {shape} and dtype {dtype}, "
                f"but got {array.shape} and {array.dtype}"
            )
        return array.astype(result_dtype(arg.type, self.arithmetic), copy=False)

    def _run_block(self, block: Block, arrays: Sequence[Any]) -> list[Any]:
        values: dict[SSAValue, Any] = dict(zip(block.args, arrays, strict=True))
        left = {value: len(list(value.uses)) for value in values}
        for op in block.ops:
            operands = [values[operand] for operand in op.operands]
            if isinstance(op, ReturnOp | YieldOp):
                return operands
            results = self._run_op(op, operands)
            if self.observe is not None:
                self.observe(self._originals.get(op, op), results)
            for result, value in zip(op.results, results, strict=True):
                values[result] = value
                left[result] = sum(1 for _ in result.uses)
            for operand in op.operands:
                left[operand] -= 1
                if left[operand] <= 0:
                    values.pop(operand, None)  # the last use: large arrays are freed early
        return []

    def _run_op(self, op: Operation, operands: list[Any]) -> Sequence[Any]:
        if isinstance(op, ParamOp):
            return [self._param(op)]
        if isinstance(op, GraphOp):
            if type(op).evaluate is GraphOp.evaluate:
                raise NotInterpreted(f"expected class {type(op).__name__} of {op.name} to have a method 'evaluate'", op)
            return evaluate(op, operands, self.arithmetic)
        if isinstance(op, FusedOp):
            return self._run_block(op.body.block, operands)
        if isinstance(op, ControlOp):
            return run_control(op, operands, self._run_block, self.arithmetic)
        if isinstance(op, CallOp | FuncCallOp):
            callee = SymbolTable.lookup_symbol(self._scope or op, op.callee)
            if not isinstance(callee, FuncOp) or not callee.body.blocks:
                raise ValueError(f"expected a function with a body behind {op.name}, but {op.callee} has none")
            given = bound_symbols(op)
            own = dict(zip(given, sizes_at(given.values(), self.sizes), strict=True))
            return self.run(callee, operands, own or self.sizes or None)
        raise NotInterpreted(f"the graph interpreter has no meaning for {op.name}", op)

    def _param(self, op: ParamOp) -> Any:
        if self.weights is None:
            raise ValueError(f"graph.param {op.entry!r} needs a weight store, but none was given")
        array = self.weights.array(op.entry)
        if array.shape != static_shape(op.type) or array.dtype != result_dtype(op.type):
            raise ValueError(
                f"expected weight {op.entry!r} of type {op.type}, but the store has {array.shape} {array.dtype}"
            )
        if not self.arithmetic.wide or not is_float_dtype(array.dtype):
            return array
        held = array.astype(np.float64)
        return held if self.arithmetic.noise is None else self.arithmetic.noise(held, parameter_key(op.entry))


def parameter_key(name: str) -> object:
    """What identifies a weight among the constants that noise perturbs."""
    return f"param {name}"


def run_function(
    func: FuncOp, inputs: Sequence[Any], weights: Weights | None = None, arithmetic: Arithmetic = OWN
) -> list[Any]:
    """The results of a graph-level function on arrays."""
    return Interpreter(weights, arithmetic).run(func, inputs)


def main_function(module: ModuleOp, name: str = "main") -> FuncOp:
    """The function of this name."""
    func = SymbolTable.lookup_symbol(module, name)
    if not isinstance(func, FuncOp):
        raise ValueError(f"expected a function @{name} in the module, but found none")
    return func
