"""Quantising and back, element by element."""

from __future__ import annotations

from xdsl.dialects.builtin import i32

from mlc.dialects.graph.ops import quantize as graph
from mlc.dialects.graph.types import axis_of
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


def _at(op: graph.QuantizingOp, parameter: Tensor, indices: tuple[te.IndexExpr, ...]) -> Scalar:
    """The scale or zero point of an element."""
    return parameter.read([indices[axis_of(op.axis, len(indices))]] if parameter.shape else [])


@lowering(graph.QuantizeOp)
def quantize(op: graph.QuantizeOp, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Round, add the zero point, clip, convert."""
    low, high = graph.float_range(op.type.element_type)

    def body(*i: te.IndexExpr) -> Scalar:
        rounded = te.round(x[i] / _at(op, scale, i)) + te.cast(_at(op, zero, i), x.element)
        return te.cast(te.minimum(te.maximum(rounded, low), high), op.type.element_type)

    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.DequantizeOp)
def dequantize(op: graph.DequantizeOp, q: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Subtract the zero point exactly, then multiply."""

    def body(*i: te.IndexExpr) -> Scalar:
        centred = te.cast(q[i], i32) - te.cast(_at(op, zero, i), i32)
        return te.cast(centred, op.type.element_type) * _at(op, scale, i)

    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.LookupOp)
def lookup(op: graph.LookupOp, q: Tensor, table: Tensor) -> Tensor:
    """A gather from the table."""
    return te.compute(shape_of_result(op), lambda *i: table.read([te.cast(q[i], "int64")]), stage_name(op))
