"""The lowering of a scan's stages: the step is counted from the first one that is computed."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects import te
from mlc.dialects.index import Index, IndexMapAttr, dim


def from_first_step(stage: te.ComputeOp, first: int) -> te.ComputeOp:
    """
    A copy of a scan's stage whose first axis counts from the first computed step.

    `(%t : 16) { te.read %h[%t - 1] }` -> `(%t : 15) { te.read %h[%t] }` where the scan begins at step 1.
    """
    copy = stage.clone()
    axis = copy.axes[0]
    copy.properties["extents"] = IndexMapAttr.get([copy.extents.data[0] - first, *copy.extents.data[1:]])
    values = [op for op in copy.body.block.ops if not isinstance(op, te.ReadOp | te.IndexOp) and axis in op.operands]
    for op in copy.body.block.ops:
        if isinstance(op, te.ReadOp):
            _shift(op, op.indices, axis, first)
        elif isinstance(op, te.IndexOp):
            _shift(op, op.args, axis, first)
    for op in values:
        step = te.IndexOp.make(dim(0) + first, [axis])
        copy.body.block.insert_op_before(step, op)
        op.operands = [step.result if v is axis else v for v in op.operands]
    return copy


def _shift(op: te.ReadOp | te.IndexOp, indices: Sequence[SSAValue], axis: SSAValue, by: int) -> None:
    """Add a number to an axis in the expressions of an op."""
    at = {k for k, v in enumerate(indices) if v is axis}

    def shifted(exprs: Sequence[Index]) -> IndexMapAttr:
        return IndexMapAttr.get(e.substitute(lambda d: dim(d) + by if d in at else dim(d)) for e in exprs)

    if at:
        op.properties["map"] = shifted(op.map.data)
        if isinstance(op, te.ReadOp) and op.mask is not None:
            op.properties["mask"] = shifted(op.mask.data)
