"""Operations of operators that are no kernels of a model: counted in their te text."""

from __future__ import annotations

from math import prod

from mlc.dialects import te


def operations_of(func: te.FuncOp) -> int:
    """The operations of an operator: for each element of a stage those of its body, and one of the reduction."""
    total = 0
    for op in func.body.block.ops:
        if isinstance(op, te.ComputeOp):
            count = sum(1 for o in op.body.block.ops if o.name.startswith("arith.") and o.name != "arith.constant")
            total += prod(op.static_extents) * (count + (len(op.static_extents) > op.num_spatial))
    return total
