"""Quantized tensors: integers q that represent `(q - zero) * scale`, with one scale per tensor or per channel."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import BROADCAST, GraphOp, Sample
from mlc.dialects.graph.op_attributes import Int
from mlc.dialects.graph.types import Array, Tensor, axis_of, element_type, is_float, shape_of, tensor


class QuantizingOp(GraphOp):
    """The base of quantize and dequantize: a scale and a zero point, per tensor or per index of `axis`."""

    kind = BROADCAST
    layout_rule = "fixed"
    arity = (3, 3)
    axis = Int(1)

    def check_parameters(self, data: Tensor, quantised: Attribute) -> None:
        """Check scale and zero point against the data tensor."""
        _, scale, zero = self.input_types
        bits = quantised.width.data if isinstance(quantised, IntegerType) else 0
        if bits not in (8, 16, 32):
            raise VerifyException(f"expected quantised values of 8, 16 or 32 bits, but got {quantised}")
        if not is_float(scale) or zero.element_type != quantised:
            raise VerifyException(
                f"expected a scale of floats and a zero point of {quantised}, but got {scale} and {zero}"
            )
        shape, size = shape_of(scale), shape_of(data)
        if shape != shape_of(zero):
            raise VerifyException(f"expected one zero point for each scale, but got {scale} and {zero}")
        if shape and (len(shape) != 1 or not size or shape[0] != size[axis_of(self.axis, len(size))]):
            raise VerifyException(f"expected one scale, or one for each place of axis {self.axis}, but got {scale}")

    def along(self, parameter: Array, rank: int) -> Array:
        """An array of parameters in the shape that broadcasts to the data."""
        if parameter.ndim == 0:
            return parameter
        return parameter.reshape([-1 if k == axis_of(self.axis, rank) else 1 for k in range(rank)])


class QuantizeOp(QuantizingOp):
    """
    `saturate(round(x / scale) + zero)`, halves to even; the result has the zero point's type.

    `graph.quantize %x, %s, %z {axis = 0} : (tensor<2x3xf32>, tensor<2xf32>, tensor<2xi8>) -> tensor<2x3xi8>`
    """

    name = "graph.quantize"

    def infer_types(self) -> list[Tensor]:
        x, _, zero = self.input_types
        if not is_float(x):
            raise VerifyException(f"expected floats to quantise, but got {x}")
        self.check_parameters(x, zero.element_type)
        return [tensor(shape_of(x), zero.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, scale, zero = arrays[0], *(self.along(a, arrays[0].ndim) for a in arrays[1:])
        q = np.rint(x / scale) + zero.astype(x.dtype)
        return (np.clip(q, *float_range(self.type.element_type)).astype(zero.dtype),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 3, 4)), tensor(()), tensor((), "uint8")), low=0.1),
            Sample((tensor((2, 3, 4)), tensor((3,)), tensor((3,), "int8")), low=0.1),
        ]


class DequantizeOp(QuantizingOp):
    """
    `(q - zero) * scale`.

    `graph.dequantize %q, %s, %z : (tensor<2x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<2x3xf32>`
    """

    name = "graph.dequantize"

    def infer_types(self) -> list[Tensor]:
        q, scale, _ = self.input_types
        self.check_parameters(q, q.element_type)
        return [tensor(shape_of(q), scale.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        q, scale, zero = arrays[0], *(self.along(a, arrays[0].ndim) for a in arrays[1:])
        return ((q.astype(np.int32) - zero.astype(np.int32)).astype(scale.dtype) * scale,)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 3, 4), "uint8"), tensor(()), tensor((), "uint8"))),
            Sample((tensor((2, 3, 4), "int8"), tensor((4,)), tensor((4,), "int8")), {"axis": -1}),
            Sample((tensor((2, 3), "int32"), tensor((3,)), tensor((3,), "int32"))),
        ]


class LookupOp(GraphOp):
    """
    A table look-up of bytes, element by element: `table[q]`.

    `graph.lookup %q, %table : (tensor<2x3xui8>, tensor<256xi8>) -> tensor<2x3xi8>`
    """

    name = "graph.lookup"
    kind = BROADCAST
    layout_rule = "fixed"
    arity = (2, 2)

    def infer_types(self) -> list[Tensor]:
        q, table = self.input_types
        if q.element_type != element_type("uint8"):
            raise VerifyException(f"expected unsigned bytes to look up, but got {q}")
        if shape_of(table) != (256,):
            raise VerifyException(f"expected a table of 256 elements, one for each byte, but got {table}")
        return [tensor(shape_of(q), table.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        return (arrays[1][arrays[0]],)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 3, 20), "uint8"), tensor((256,), "uint8"))),
            Sample((tensor((7,), "uint8"), tensor((256,), "int8"))),
        ]


def is_unsigned(element: Attribute) -> bool:
    """Whether an element type is of unsigned integers."""
    return isinstance(element, IntegerType) and element.signedness.data is Signedness.UNSIGNED


def integer_range(element: Attribute) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    assert isinstance(element, IntegerType)
    bits = element.width.data
    return (0, (1 << bits) - 1) if is_unsigned(element) else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def float_range(element: Attribute) -> tuple[float, float]:
    """The smallest and the largest integer of a type that f32 represents exactly."""
    low, high = integer_range(element)
    return float(low), float(high if high < 1 << 24 else high + 1 - (1 << (high.bit_length() - 24)))


OPS: Sequence[type[GraphOp]] = [QuantizeOp, DequantizeOp, LookupOp]
