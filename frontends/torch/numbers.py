"""Numbers that follow from open sizes, `1 / x.shape[1]`: computed when the model runs, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import add, binary, cast, divide, multiply
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.torch.step import Step


@dataclass(frozen=True)
class Number:
    """A number by torch's expression of open sizes; `float()` of it is an error."""

    expression: Any
    source: str
    name: str

    def __float__(self) -> float:
        raise UserError(
            f"{self.source}: expected {self.name} to be a number, but it is {self.expression}; fix it with shapes="
        )


def tensor_of(step: Step, number: Number) -> Value:
    """A number as a tensor of one double."""
    return _value(step, number.expression, number)


def _value(step: Step, expr: Any, number: Number) -> Value:
    if expr.is_number:
        return step.array(np.array(float(expr)))
    kind = type(expr).__name__
    if kind in _COMPUTE:
        first, *others = (_value(step, part, number) for part in expr.args)
        for other in others or [None]:
            first = _COMPUTE[kind](step, first, other)
        return first
    try:
        size = step.program.sizes.size_of(expr)
    except UserError:
        float(number)
        raise
    return cast(step, step.array(size), np.float64)


_COMPUTE: dict[str, Callable[[Step, Value, Any], Value]] = {
    "Add": add,
    "Mul": multiply,
    "Pow": lambda step, x, y: binary(step, g.PowerOp, x, y),
    "FloatPow": lambda step, x, y: binary(step, g.PowerOp, x, y),
    "IntTrueDiv": divide,
    "FloatTrueDiv": divide,
    "ToFloat": lambda step, x, _: x,
    "OpaqueUnaryFn_sqrt": lambda step, x, _: step.emit(g.SqrtOp, x),
    "OpaqueUnaryFn_exp": lambda step, x, _: step.emit(g.ExpOp, x),
    "OpaqueUnaryFn_log": lambda step, x, _: step.emit(g.LogOp, x),
    "OpaqueUnaryFn_log2": lambda step, x, _: divide(step, step.emit(g.LogOp, x), float(np.log(2))),
}
"""sympy's name of a function of numbers -> the graph ops that compute it."""
