"""Products with matrices that an index chooses from a few, as a mixture chooses its experts: one product with all."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AddOp,
    BatchMatmulOp,
    ClipOp,
    DenseOp,
    EqualOp,
    FullOp,
    IotaOp,
    LessOp,
    ReshapeOp,
    TakeOp,
    TransposeOp,
    WhereOp,
    shape_of,
)
from mlc.dialects.graph.types import axis_of, dtype_name, element_of, is_float, static_shape, tensor
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op
from mlc.targets.cost.thresholds import CHOSEN_ELEMENT, MOST_COPIES, WEIGHT_ELEMENT

CHOSEN_MATRICES = Rules()


class _Chosen(NamedTuple):
    """The operands of a product of rows with matrices in which an index for each row chooses its matrix."""

    rows: SSAValue
    shape: tuple[int, int, int]
    """Of the rows: indices, rows for each, depth."""
    matrices: SSAValue
    indices: SSAValue
    order: tuple[int, int, int]
    """The axes of the matrices, from (outputs, matrices, depth)."""


@CHOSEN_MATRICES.on(BatchMatmulOp)
def product_with_chosen_matrices(op: BatchMatmulOp, rw: Rewriter) -> Replacement:
    """
    `x @ take(w, i) == concatenate(x where i == 0, x where i == 1, ..) @ concatenate(w)`: no matrix is copied.

    The other rows are zeros, so that sums have further terms of zero. A matrix that holds an infinity makes them NaN.
    """
    chosen = _chosen(op)
    if chosen is None:
        return None
    (picks, rows, depth), (count, *_) = chosen.shape, static_shape(chosen.matrices.type)
    if not _pays(count, picks, rows):
        return None
    numbers = rw.make(IotaOp, result=tensor((1, 1, count, 1), element_of(chosen.indices)), axis=2)
    hot = rw.make(EqualOp, _places(chosen.indices, count, rw), numbers)
    x = rw.insert(ReshapeOp.make(chosen.rows, shape=(picks, rows, 1, depth)))
    apart = rw.make(WhereOp, hot, x, rw.insert(FullOp.make((), 0.0, dtype_name(element_of(x)))))
    weight = rw.make(TransposeOp, chosen.matrices, axes=chosen.order)
    outputs = static_shape(weight.type)[0]
    product = rw.make(
        DenseOp,
        rw.insert(ReshapeOp.make(apart, shape=(picks * rows, count * depth))),
        rw.insert(ReshapeOp.make(weight, shape=(outputs, count * depth))),
    )
    return rw.insert(ReshapeOp.make(product, result=op.type))


def _chosen(op: BatchMatmulOp) -> _Chosen | None:
    """The rows and matrices of a product of floats [n, rows, k] @ take(w), or take(w) @ [n, k, 1]; None for others."""
    shapes = [shape_of(value.type) for value in op.operands]
    if not is_float(op.type) or not all(is_static(shape) and len(shape) == 3 for shape in shapes):
        return None
    for side, other in ((1, 0), (0, 1)):
        take, rows = defining_op(op.operands[side], TakeOp), op.operands[other]
        if take is None or axis_of(take.axis, 3) != 0 or len(shape_of(take.operands[1].type)) != 1:
            continue
        matrices, indices = take.operands
        right = side == 1
        depth_last = right != (op.transpose_a if right else op.transpose_b)
        n, *sizes = static_shape(rows.type)
        m, k = sizes if depth_last else sizes[::-1]
        alike = m == 1 or (right and depth_last)  # one row or column has the same elements in both orders
        if n != static_shape(indices.type)[0] or not alike or not is_constant(matrices):
            continue
        outputs_first = op.transpose_b if right else not op.transpose_a
        return _Chosen(rows, (n, m, k), matrices, indices, (1, 0, 2) if outputs_first else (2, 0, 1))
    return None


def _pays(count: int, picks: int, rows: int) -> bool:
    """Whether one product with all matrices takes less than copies of the chosen ones; in sums for each element."""
    together = count * (picks * rows + WEIGHT_ELEMENT)
    return together < picks * (rows + CHOSEN_ELEMENT) or picks > MOST_COPIES * count


def _places(indices: SSAValue, count: int, rw: Rewriter) -> SSAValue:
    """The indices as [n, 1, 1, 1], from 0 on, as a take reads them."""
    picks, name = static_shape(indices.type)[0], dtype_name(element_of(indices))
    indices = rw.insert(ReshapeOp.make(indices, shape=(picks, 1, 1, 1)))
    zero, size = (rw.insert(FullOp.make((), number, name)) for number in (0, count))
    from_end = rw.make(AddOp, indices, size)
    return rw.make(ClipOp, rw.make(WhereOp, rw.make(LessOp, indices, zero), from_end, indices), min=0, max=count - 1)
