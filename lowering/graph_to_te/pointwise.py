"""
Checks that the te of a pointwise op of one's own is pointwise, as its `kind` and `layout_rule` say.

Fusion computes such an op wherever its result is needed, and layouts change around it: a te that reads other places, or
computes with its place or with sizes, would give wrong values there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, TensorType
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.graph.base import BROADCAST, ELEMENTWISE, GraphOp
from mlc.dialects.graph.pointwise import is_own, own_rule
from mlc.dialects.graph.types import Tensor, shape_of, tensor
from mlc.dialects.index import Index, dim
from mlc.support.errors import UserError

KINDS = {ELEMENTWISE: "ELEMENTWISE", BROADCAST: "BROADCAST"}
"""The kinds whose te is checked, and their names in the op's class."""

TOTAL = {
    "te.read", "te.yield", "arith.constant", "arith.select", "arith.cmpf", "arith.cmpi", "arith.andi", "arith.ori",
    "arith.xori", "arith.addf", "arith.subf", "arith.mulf", "arith.negf", "arith.maximumf", "arith.minimumf",
    "arith.extf", "arith.truncf", "math.absf", "math.exp", "math.tanh", "math.erf", "math.sin", "math.cos",
    "math.floor", "math.ceil", "math.trunc", "math.roundeven", "math.fma",
}  # fmt: skip
"""Scalar ops that give finite numbers for finite operands of moderate size."""


def check_pointwise(op: Operation, stages: Sequence[te.ComputeOp]) -> None:
    """UserError if an op of another dialect says that it is pointwise, and one of its te stages is not."""
    if not isinstance(op, GraphOp) or not is_own(type(op)) or op.kind not in KINDS:
        return
    for stage in stages:
        why = _departure(op, stage)
        if why is not None:
            raise UserError(
                f"expected the te of {op.name} to be pointwise, as its kind {KINDS[op.kind]} says, but stage "
                f"'{stage.stage_name}' {why}"
            )
        why = _dependence(stage) if own_rule(type(op)) else None
        if why is not None:
            raise _depends(op, f"stage '{stage.stage_name}' {why}")
    if own_rule(type(op)) and _differs(op, stages):
        raise _depends(op, "it computes other scalars for operands of other sizes")


def _depends(op: GraphOp, why: str) -> UserError:
    return UserError(
        f"expected the te of {op.name} to compute alike in every layout, as its layout_rule '{op.layout_rule}' says, "
        f'but {why}; declare layout_rule = "fixed"'
    )


def _departure(op: GraphOp, stage: te.ComputeOp) -> str | None:
    """How a stage is not pointwise, with the remedy; None where it is."""
    if stage.num_spatial != len(stage.axes):
        return 'reduces over axes; declare kind = REDUCTION or OPAQUE, and layout_rule = "fixed"'
    numbers = {axis: dim(k) for k, axis in enumerate(stage.axes)}
    for read in stage.body.block.ops:
        if not isinstance(read, te.ReadOp):
            continue
        if any(v not in numbers for v in read.indices):
            return "reads at a computed index; declare kind = INJECTIVE or OPAQUE"
        exprs = [e.substitute(lambda d, r=read: numbers[r.indices[d]]) for e in read.map.data]
        found = _departure_of(op, exprs, _sizes(read.tensor), len(stage.axes))
        if found is not None:
            return found
    return None


def _departure_of(op: GraphOp, exprs: Sequence[Index], sizes: Sequence[int], rank: int) -> str | None:
    """How one read departs from the place of the result."""
    aligned = [dim(rank - len(exprs) + k) for k in range(len(exprs))]
    moving = [(e, place) for e, place, size in zip(exprs, aligned, sizes, strict=True) if size != 1 or not e.is_const]
    if op.kind == ELEMENTWISE and len(exprs) != rank:
        return f"reads an operand of rank {len(exprs)} for a result of rank {rank}; declare kind = BROADCAST"
    if all(e == place for e, place in moving):
        return None
    if op.kind == BROADCAST and op.layout_rule != "broadcast":
        used = [e for e, _ in moving]
        if all(any(e == dim(k) for k in range(rank)) for e in used) and len(set(map(str, used))) == len(used):
            return None
    at = "[" + ", ".join(_text(e) for e in exprs) + "]"
    if op.kind == BROADCAST and op.layout_rule == "broadcast" and all(e.is_affine for e in exprs):
        return (
            f'reads an operand at {at}, which is not numpy\'s broadcasting; declare layout_rule = "fixed", or '
            "kind = INJECTIVE where elements are moved"
        )
    return f"reads an operand at {at} for the element at its own place; declare kind = INJECTIVE or OPAQUE"


def _text(e: Index) -> str:
    """An index expression with the axes i0, i1, ..."""
    return e.text(lambda d: f"i{d}")


def _sizes(value: SSAValue) -> Sequence[int]:
    t = value.type
    assert isinstance(t, TensorType)
    return t.get_shape()


def _dependence(stage: te.ComputeOp) -> str | None:
    """How a stage computes with its place, or with a size that is known at run time."""
    block = stage.body.block
    for op in block.ops:
        if isinstance(op, te.ReadOp):
            if op.mask is not None:
                return "reads under a mask of its place"
        elif any(isinstance(v.type, IndexType) and isinstance(v, BlockArgument) for v in op.operands):
            inside = any(v in stage.axes for v in op.operands)
            return "computes with its place" if inside else "computes with a size"
    return None


def _differs(op: GraphOp, stages: Sequence[te.ComputeOp]) -> bool:
    """Whether the op computes other scalars on operands with two more axes: then it depends on their sizes."""
    types: list[Tensor] = []
    for type in op.input_types:
        types.append(tensor((3, *shape_of(type), 2), type.element_type))
    try:
        twin = _stages_of(op, types)
    except Exception:
        return False  # layouts stay plain around an op that takes no other rank; its own code may unpack one
    return [_scalars(one) for one in twin] != [_scalars(one) for one in stages]


def _scalars(stage: te.ComputeOp) -> list[tuple[str, dict[str, Attribute]]]:
    """The scalar ops of a stage with their properties, except for where they read."""
    kept = ("map", "mask")
    return [(op.name, {k: v for k, v in op.properties.items() if k not in kept}) for op in stage.body.block.ops]


def _stages_of(op: GraphOp, types: Sequence[Tensor]) -> list[te.ComputeOp]:
    """The te stages of the op on operands of these types."""
    from mlc.dialects.graph.base import Sample
    from mlc.lowering.graph_to_te.agreement import kernel_of
    from mlc.lowering.graph_to_te.convert import convert_kernel

    attrs = {name: getattr(op, name) for name in op.declared}
    kernel: func.FuncOp = kernel_of(type(op), Sample(tuple(types), attrs))
    return convert_kernel(kernel, checked=False).stages


def is_total(op: GraphOp) -> bool:
    """Whether the te of an op gives finite numbers for all finite operands of moderate size, as far as is known."""
    try:
        stages = _stages_of(op, op.input_types)
    except Exception:
        return False  # the lowering reports it
    return all(_is_total(inner) for stage in stages for inner in stage.body.block.ops)


def lowers(op: GraphOp) -> bool:
    """Whether the te of an op takes operands of its types: a te may be written for one rank."""
    try:
        _stages_of(op, op.input_types)
    except Exception:
        return False
    return True


def _is_total(op: Operation) -> bool:
    if op.name in TOTAL:
        return True
    if op.name == "arith.divf":
        divisor = op.operands[1]
        return _least(divisor) > 0 or _constant(divisor) not in (None, 0.0)
    if op.name in ("math.log", "math.rsqrt"):
        return _least(op.operands[0]) > 0
    return op.name == "math.sqrt" and _least(op.operands[0]) >= 0


def _constant(value: SSAValue) -> float | None:
    """The number that a scalar is, if it is a constant."""
    op = value.owner
    if not isinstance(op, arith.ConstantOp):
        return None
    number = op.value
    return float(number.value.data) if isinstance(number, FloatAttr | IntegerAttr) else None


def _least(value: SSAValue, depth: int = 32) -> float:
    """A lower bound of a scalar; -inf where none is known."""
    op = value.owner
    if not isinstance(op, Operation) or depth == 0:
        return -math.inf
    if (number := _constant(value)) is not None:
        return number
    if op.name in ("math.exp", "math.absf", "math.sqrt"):
        return 0.0
    if op.name == "arith.mulf" and op.operands[0] is op.operands[1]:
        return 0.0
    bounds = [_least(v, depth - 1) for v in op.operands]
    match op.name:
        case "arith.addf":
            return sum(bounds)
        case "arith.mulf" | "arith.divf":
            return 0.0 if min(bounds) >= 0 else -math.inf
        case "arith.maximumf":
            return max(bounds)
        case "arith.minimumf":
            return min(bounds)
        case "arith.select":
            return min(bounds[1:])
        case _:
            return -math.inf


__all__ = ["check_pointwise", "is_total", "lowers"]
