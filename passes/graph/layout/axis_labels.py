"""
Which axes of an op's operands and results are one loop: the labels of `graph-collapse-dims`.

As in an einsum, axes with the same label are the same loop, and every element of a result is computed from elements at
the same place of it. An axis without a label (None) is broadcast, or read at other places: a window, a normalised axis,
the axis of a concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import (
    BatchMatmulOp,
    BatchNormOp,
    BiasAddOp,
    BinaryOp,
    BroadcastToOp,
    ConcatenateOp,
    Conv2dOp,
    DenseOp,
    LayerNormOp,
    LayoutTransformOp,
    LookupOp,
    PadOp,
    PreluOp,
    SliceOp,
    SoftmaxOp,
    SplitOp,
    TakeOp,
    TransposeOp,
    UnaryOp,
    WhereOp,
    YieldOp,
    shape_of,
)
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.elementwise import RetypeOp
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.ops.quantize import QuantizingOp
from mlc.dialects.graph.ops.reduce import ReduceOp
from mlc.dialects.graph.pointwise import is_own_pointwise
from mlc.dialects.graph.types import axis_of

Labels = tuple[int | str | None, ...]
"""The label of each axis of one value."""


class OpLabels(NamedTuple):
    """The labels of an op's operands and of its results."""

    operands: Sequence[Labels]
    results: Sequence[Labels]


def labels_of(op: Operation) -> OpLabels | None:
    """The labels of an op's axes; None where nothing is known of the op."""
    if isinstance(op, YieldOp):
        return OpLabels([_all(v) for v in op.operands], [])
    if is_own_pointwise(op):
        return _broadcast(op)
    return next((rule(op) for kind, rule in _RULES.items() if isinstance(op, kind)), None)


def _rank(value: SSAValue) -> int:
    return len(shape_of(value.type))


def _all(value: SSAValue) -> Labels:
    return tuple(range(_rank(value)))


def _but(rank: int, without: Sequence[int]) -> Labels:
    return tuple(None if k in without else k for k in range(rank))


def _broadcast(op: Operation) -> OpLabels:
    """Labels by numpy's broadcasting; those that are the same for all operands count from the last axis."""
    (result,) = op.results
    rank = _rank(result)

    def of(value: SSAValue) -> Labels:
        shape = shape_of(value.type)
        whole = shape_of(result.type)[rank - len(shape) :]
        places = range(rank - len(shape), rank)
        return tuple(k if size == at else None for k, size, at in zip(places, shape, whole, strict=True))

    return OpLabels([of(v) for v in op.operands], [_all(result)])


def _first_alone(op: Operation) -> OpLabels:
    """The first operand and the result place by place; the others, vectors along an axis or scalars, have that axis."""
    x, *others = op.operands
    axis = axis_of(getattr(op, "axis", 0), _rank(x))
    return OpLabels([_all(x), *((axis,) * _rank(v) for v in others)], [_all(op.results[0])])


def _lookup(op: LookupOp) -> OpLabels:
    return OpLabels([_all(op.operands[0]), (None,)], [_all(op.result)])


def _along(op: Any, axes: Sequence[int]) -> OpLabels:
    """Every operand and result place by place but for some axes of all."""
    axes = [axis_of(axis, _rank(op.operands[0])) for axis in axes]
    return OpLabels([_but(_rank(v), axes) for v in op.operands], [_but(_rank(v), axes) for v in op.results])


def _layer_norm(op: LayerNormOp) -> OpLabels:
    rank = _rank(op.operands[0])
    kept = _but(rank, range(axis_of(op.axis, rank), rank))
    return OpLabels([kept, *((None,) * _rank(v) for v in op.operands[1:])], [kept])


def _pad(op: PadOp) -> OpLabels:
    return _along(op, [k for k in range(_rank(op.operands[0])) if any(op.pad_width[2 * k : 2 * k + 2])])


def _slice(op: SliceOp) -> OpLabels:
    bounds = zip(op.begin, op.end, op.strides, strict=True)
    return _along(op, [k for k, bound in enumerate(bounds) if bound != (0, END, 1)])


def _transpose(op: TransposeOp) -> OpLabels:
    return OpLabels([_all(op.operands[0])], [tuple(op.axes)])


def _reduce(op: ReduceOp) -> OpLabels:
    rank = _rank(op.operands[0])
    kept = _but(rank, op.reduced_axes)
    return OpLabels([_all(op.operands[0])], [kept if op.keepdims else tuple(k for k in kept if k is not None)])


def _take(op: TakeOp) -> OpLabels:
    x, indices = op.operands
    axis, looked = axis_of(op.axis, _rank(x)), tuple(f"i{k}" for k in range(_rank(indices)))
    labels = _but(_rank(x), [axis])
    return OpLabels([labels, looked], [(*labels[:axis], *looked, *labels[axis + 1 :])])


def _dense(op: DenseOp) -> OpLabels:
    x, weight = op.operands
    rows = _but(_rank(x), [_rank(x) - 1])
    return OpLabels([rows, (None,) * _rank(weight)], [rows])


def _batch_matmul(op: BatchMatmulOp) -> OpLabels:
    (result,) = op.results
    rank = _rank(result)
    batches = shape_of(result.type)[:-2]

    def of(value: SSAValue) -> Labels:
        sizes = shape_of(value.type)[:-2]
        places = range(rank - 2 - len(sizes), rank - 2)
        return (*(k if size == batches[k] else None for k, size in zip(places, sizes, strict=True)), None, None)

    return OpLabels([of(v) for v in op.operands], [_but(rank, [rank - 2, rank - 1])])


def _conv2d(op: Conv2dOp) -> OpLabels | None:
    kernel, parts = op.logical_sizes()[1], layout(op.data_layout).parts
    if (kernel["H"], kernel["W"]) != (1, 1) or op.strides != (1, 1) or any(op.padding):
        return None
    pixels = tuple(letter if letter in "HW" and not inner else None for letter, inner in parts)
    if _rank(op.result) != len(parts):
        return None  # the result is in another layout
    others = [(None,) * _rank(v) for v in op.operands[1:]]
    return OpLabels([pixels, *others], [pixels])


def _layout_transform(op: LayoutTransformOp) -> OpLabels:
    source, target = layout(op.src), layout(op.dst)
    whole = [axis for axis in source.axes if source.factors[axis] == target.factors[axis] == 1]
    of = [tuple(letter if letter in whole else None for letter, _ in one.parts) for one in (source, target)]
    return OpLabels(of[:1], of[1:])


_RULES: dict[type[Operation], Callable[[Any], OpLabels | None]] = {
    UnaryOp: _broadcast,
    RetypeOp: _broadcast,
    BinaryOp: _broadcast,
    WhereOp: _broadcast,
    PreluOp: _broadcast,
    BroadcastToOp: _broadcast,
    LookupOp: _lookup,
    BiasAddOp: _first_alone,
    BatchNormOp: _first_alone,
    QuantizingOp: _first_alone,
    SoftmaxOp: lambda op: _along(op, [op.axis]),
    ConcatenateOp: lambda op: _along(op, [op.axis]),
    SplitOp: lambda op: _along(op, [op.axis]),
    LayerNormOp: _layer_norm,
    PadOp: _pad,
    SliceOp: _slice,
    TransposeOp: _transpose,
    ReduceOp: _reduce,
    TakeOp: _take,
    DenseOp: _dense,
    BatchMatmulOp: _batch_matmul,
    Conv2dOp: _conv2d,
    LayoutTransformOp: _layout_transform,
}
"""Op class -> the labels of its ops."""
