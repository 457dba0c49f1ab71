"""te-factor-reductions: move factors that do not depend on the axes of a sum out of the sum."""

from __future__ import annotations

import math

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from mlc.dialects import scalar, te
from mlc.dialects.index import Index, dim


class FactorReductionsPass(ModulePass):
    """
    Where it makes fewer products: `sum_k (e[i, k] * s[i]) * v[k, j] = (sum_k e[i, k] * v[k, j]) * s[i]`.

    `%p = te.compute "p" (%i : 64, %k : 64) { %e[%i, %k] * %s[%i] }`
    `%o = te.compute "o" (%i : 64, %j : 8) reduce (%k : 64) sum { %p[%i, %k] * %v[%k, %j] }`
    ->
    `%o = te.compute "o" (%i : 64, %j : 8) reduce (%k : 64) sum { %e[%i, %k] * %v[%k, %j] }`
    `%q = te.compute "o_scaled" (%i : 64, %j : 8) { %o[%i, %j] * %s[%i] }`

    An attention then divides by the sums of its scores after the second product, which has fewer elements.
    """

    name = "te-factor-reductions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, te.FuncOp):
                for stage in func.stages:
                    factor_stage(stage)


def factor_stage(stage: te.ComputeOp) -> None:
    """Rewrite one sum of products, if an operand is itself a product with a factor that the sum does not depend on."""
    if stage.combiner is None or stage.combiner.data != "sum":
        return
    product = stage.yield_op.values[0].owner
    if not isinstance(product, arith.MulfOp) or product.result.type != f32:
        return
    for value in product.operands:
        read = value.owner
        if isinstance(read, te.ReadOp) and read.mask is None and (found := _factor(stage, read)) is not None:
            _rewrite(stage, *found)
            return


def _factor(stage: te.ComputeOp, read: te.ReadOp) -> tuple[te.ComputeOp, te.ReadOp, list[Index]] | None:
    """(the stage that is read, its factor, the indices of the factor in terms of the sum's axes)."""
    inner = read.tensor.owner
    if not isinstance(inner, te.ComputeOp) or inner.combiner is not None or len(list(read.tensor.uses)) != 1:
        return None
    if math.prod(stage.static_extents[: stage.num_spatial]) > math.prod(inner.static_extents):
        return None
    product = inner.yield_op.values[0].owner
    if not isinstance(product, arith.MulfOp):
        return None
    numbers = {axis: k for k, axis in enumerate(stage.axes)}
    at = {axis: e.substitute(lambda d: dim(numbers[read.indices[d]])) for axis, e in _positions(inner, read, numbers)}
    for value in product.operands:
        factor = value.owner
        if not isinstance(factor, te.ReadOp) or factor.mask is not None or any(v not in at for v in factor.indices):
            continue
        exprs = [e.substitute(lambda d, f=factor: at[f.indices[d]]) for e in factor.map.data]
        if all(d < stage.num_spatial for e in exprs for d in e.dims()):
            return inner, factor, exprs
    return None


def _positions(inner: te.ComputeOp, read: te.ReadOp, numbers: dict[SSAValue, int]) -> list[tuple[SSAValue, Index]]:
    """Each axis of the stage that is read, and its index expression; [] if an index is not an axis."""
    if any(v not in numbers for v in read.indices):
        return []
    return list(zip(inner.axes, read.map.data, strict=True))


def _rewrite(stage: te.ComputeOp, inner: te.ComputeOp, factor: te.ReadOp, at: list[Index]) -> None:
    """Remove the factor from the stage that is read, and multiply the sum by it in a new stage."""
    product = inner.yield_op.values[0].owner
    assert isinstance(product, arith.MulfOp)
    rest = product.rhs if product.lhs is factor.result else product.lhs
    tensor = factor.tensor
    inner.yield_op.operands[0] = rest
    _erase_unused(product, factor)
    result = stage.results_[0]
    assert isinstance(result.type, TensorType)
    n = stage.num_spatial
    region, block = te.build_body(n)
    for axis, old in zip(block.args, stage.axes, strict=False):
        axis.name_hint = old.name_hint
    own = te.ReadOp.make(result, [dim(k) for k in range(n)], block.args)
    scale = te.ReadOp.make(tensor, at, block.args)
    scaled = scalar.make(arith.MulfOp, own.result, scale.result)
    block.add_ops([own, scale, scaled, te.YieldOp.create(operands=[scaled.results[0]])])
    extents = stage.extents.data[:n]
    new = te.ComputeOp.make(f"{stage.stage_name}_scaled", extents, [], None, [result.type], region, stage.symbols)
    new.location = stage.location
    Rewriter.insert_op(new, InsertPoint.after(stage))
    new.results_[0].name_hint = result.name_hint
    result.replace_uses_with_if(new.results_[0], lambda use: use.operation is not own)


def _erase_unused(*ops: Operation) -> None:
    for op in ops:
        if not any(result.first_use for result in op.results):
            op.detach()
            op.erase()
