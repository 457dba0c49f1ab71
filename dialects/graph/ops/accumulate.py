"""Accumulation of narrow products in a wider type: the `out_dtype` of convolutions and dense layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.types import FLOATS, Tensor, element_type, numpy_dtype

if TYPE_CHECKING:
    from mlc.dialects.graph.ops.conv import Conv2dOp
    from mlc.dialects.graph.ops.conv_transpose import Conv2dTransposeOp
    from mlc.dialects.graph.ops.matmul import DenseOp
    from mlc.dialects.graph.types import Array


def accumulator(out_dtype: str, x: Tensor, w: Tensor, what: str) -> Attribute:
    """
    The element type of the sums: that of both operands, or a wider `out_dtype`: floats for floats and for a weight of
    8 or 16 bits, int32 for signed and unsigned integers.
    """
    given = (x.element_type, w.element_type)
    if not out_dtype:
        if given[0] != given[1]:
            raise VerifyException(f"expected {what} with the same element type, or an out_dtype, but got {x} and {w}")
        return given[0]
    wide = element_type(out_dtype)
    if wide == i32 and all(isinstance(t, IntegerType) and 1 < t.width.data < 32 for t in given):
        return wide
    if is_short_integer(given[1]) and isinstance(wide, FLOATS):
        given = (given[0], wide)
    if any(not isinstance(t, FLOATS) or _bits(t) > _bits(wide) for t in (*given, wide)):
        raise VerifyException(
            f"expected {what} of floats no wider than {out_dtype}, the out_dtype (or integers of 8 or 16 bits and "
            f"int32), but got {x} and {w}"
        )
    return wide


def is_short_integer(t: Attribute) -> bool:
    """Whether this is an integer type of 8 or 16 bits, all of whose values are f32."""
    return isinstance(t, IntegerType) and t.width.data in (8, 16)


def _bits(t: Attribute) -> int:
    return t.bitwidth if isinstance(t, FLOATS) else 0


def widened(op: Conv2dOp | Conv2dTransposeOp | DenseOp, *arrays: Array) -> tuple[Array, ...]:
    """The operands converted to the type of the sums; unchanged in an f64 reference run."""
    if not op.out_dtype:
        return arrays
    dtype = numpy_dtype(element_type(op.out_dtype))
    return tuple(a if a.dtype.itemsize >= dtype.itemsize else a.astype(dtype) for a in arrays)
