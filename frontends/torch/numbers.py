"""Numbers computed from symbolic sizes, such as `1 / x.shape[1]`: at run time, in f64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy  # pyright: ignore[reportMissingTypeStubs] sympy ships none

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, binary, cast, divide, multiply
from mlc.frontends.common.values import Value
from mlc.frontends.torch.guards import arguments
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.torch.call import AtenCall


@dataclass(frozen=True)
class SymbolicNumber:
    """A number as torch's expression of symbolic sizes; `float()` of it is a UserError."""

    expression: Any
    source: str
    name: str

    def __float__(self) -> float:
        raise UserError(
            f"{self.source}: expected {self.name} to be a number, but it is {self.expression}; fix it with shapes="
        )


def tensor_of(call: AtenCall, number: SymbolicNumber) -> Value:
    """A number as an f64 scalar."""
    return _value(call, number.expression, number)


def _value(call: AtenCall, expr: sympy.Expr, number: SymbolicNumber) -> Value:
    if expr.is_number:
        return call.array(np.array(float(expr)))
    kind = type(expr).__name__
    if kind in _COMPUTE:
        first, *others = (_value(call, part, number) for part in arguments(expr))
        for other in others or [None]:
            first = _COMPUTE[kind](call, first, other)
        return first
    try:
        size = call.importer.sizes.size_of(expr)
    except UserError:
        float(number)
        raise
    return cast(call, call.array(size), np.float64)


_COMPUTE: dict[str, Callable[[AtenCall, Value, Any], Value]] = {
    "Add": add,
    "Mul": multiply,
    "Pow": lambda call, x, y: binary(call, g.PowerOp, x, y),
    "FloatPow": lambda call, x, y: binary(call, g.PowerOp, x, y),
    "IntTrueDiv": divide,
    "FloatTrueDiv": divide,
    "ToFloat": lambda call, x, _: x,
    "OpaqueUnaryFn_sqrt": lambda call, x, _: call.emit(g.SqrtOp, x),
    "OpaqueUnaryFn_exp": lambda call, x, _: call.emit(g.ExpOp, x),
    "OpaqueUnaryFn_log": lambda call, x, _: call.emit(g.LogOp, x),
    "OpaqueUnaryFn_log2": lambda call, x, _: divide(call, call.emit(g.LogOp, x), float(np.log(2))),
}
"""The name of the sympy function -> the graph ops that compute it."""
