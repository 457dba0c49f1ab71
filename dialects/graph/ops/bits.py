"""Bitwise ops on integers, and bit casts."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from xdsl.dialects.builtin import IntegerType, i1
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import GraphOp, Sample, given_type
from mlc.dialects.graph.ops.elementwise import BinaryOp, RetypeOp, UnaryOp
from mlc.dialects.graph.types import Array, Tensor, numpy_dtype, shape_of, tensor


def _check_integers(type: Tensor) -> None:
    if not isinstance(type.element_type, IntegerType) or type.element_type == i1:
        raise VerifyException(f"expected operands of integers, but got {type}; insert a graph.cast")


class BitwiseOp(BinaryOp):
    """The base of the bitwise ops on two integers."""

    elements = "any"

    def infer_types(self) -> list[Tensor]:
        _check_integers(self.input_types[0])
        return super().infer_types()

    @classmethod
    def samples(cls) -> list[Sample]:
        pairs = (("int32", (4,), (4,)), ("uint8", (2, 3, 4), (3, 1)), ("int64", (2, 1), (2, 5)))
        return [Sample((tensor(a, dtype), tensor(b, dtype)), integers=(0, 7)) for dtype, a, b in pairs]


def _bitwise(name: str, formula: str, meaning: Callable[..., Any]) -> dict[str, Any]:
    return {
        "__doc__": f"`{formula}` of integers, broadcast: `%2 = graph.{name} %0, %1 : tensor<2x3xi32>`.",
        "__module__": __name__,
        "name": f"graph.{name}",
        "meaning": staticmethod(meaning),
    }


BitwiseAndOp = type("BitwiseAndOp", (BitwiseOp,), _bitwise("bitwise_and", "x & y", lambda np, x, y, op: x & y))
BitwiseOrOp = type("BitwiseOrOp", (BitwiseOp,), _bitwise("bitwise_or", "x | y", lambda np, x, y, op: x | y))
BitwiseXorOp = type("BitwiseXorOp", (BitwiseOp,), _bitwise("bitwise_xor", "x ^ y", lambda np, x, y, op: x ^ y))
ShiftLeftOp = type(
    "ShiftLeftOp", (BitwiseOp,), _bitwise("shift_left", "x << y", lambda np, x, y, op: np.left_shift(x, y))
)
ShiftRightOp = type(
    "ShiftRightOp",
    (BitwiseOp,),
    _bitwise("shift_right", "x >> y, the sign kept where there is one", lambda np, x, y, op: np.right_shift(x, y)),
)


class BitwiseNotOp(UnaryOp):
    """`~x`, all bits of integers flipped: `%1 = graph.bitwise_not %0 : tensor<4xi32>`."""

    name = "graph.bitwise_not"
    elements = "any"

    @staticmethod
    def meaning(np: ModuleType, x: Array, op: BitwiseNotOp) -> Array:
        """Each element's complement."""
        return ~x

    def infer_types(self) -> list[Tensor]:
        _check_integers(self.input_types[0])
        return super().infer_types()

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((4,), "int32"),)), Sample((tensor((2, 3), "uint8"),))]


class BitcastOp(RetypeOp):
    """The same bits read as elements of another type: `graph.bitcast %0 : (tensor<4xf32>) -> tensor<4xi32>`."""

    name = "graph.bitcast"

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        given = given_type(self)
        if i1 in (x.element_type, given.element_type):
            raise VerifyException(f"expected elements that are not i1, but got {x} and {given}; use graph.cast")
        if _width(x) != _width(given):
            raise VerifyException(f"expected a result with elements as wide as those of {x}, but got {given}")
        return [tensor(shape_of(x), given.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        dtype = numpy_dtype(self.input_types[0].element_type)
        return (np.ascontiguousarray(arrays[0].astype(dtype)).view(numpy_dtype(self.type.element_type)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((5,), "int32"),), result=tensor((5,), "uint32")),
            Sample((tensor((2, 3), "float32"),), result=tensor((2, 3), "int32")),
        ]


def _width(type: Tensor) -> int:
    element: Any = type.element_type
    return element.bitwidth


OPS: list[type[GraphOp]] = [
    BitwiseAndOp, BitwiseOrOp, BitwiseXorOp, ShiftLeftOp, ShiftRightOp, BitwiseNotOp, BitcastOp,
]  # fmt: skip
