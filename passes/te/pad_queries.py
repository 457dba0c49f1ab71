"""
te-pad-queries: an attention of an open number of queries computes whole blocks of queries.

In: two products with a softmax between them, the number N of queries open, and a pointwise stage at the end.
Out: all stages but the last one have N rounded up to whole blocks of the target. A stage in front of them holds the
queries, with zeros behind the last one, a block's queries next to each other. Only this stage and the last one look at
where the queries end, so that no block of scores is partial.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import DYNAMIC_INDEX, AnyFloat, FloatAttr, IntegerAttr, IntegerType, ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import te
from mlc.dialects.index import Index, IndexMapAttr, compact, dim
from mlc.passes.te.tidy import replace_read
from mlc.targets.cost.attention import open_query_block
from mlc.targets.target import Target


@dataclass(frozen=True)
class OpenAttention:
    """The stages of an attention of an open number of queries."""

    scores: te.ComputeOp
    rest: list[te.ComputeOp]
    """The stages behind the scores; the last one gives the result."""
    query: te.ReadOp
    """The read of the queries."""

    @property
    def axis(self) -> int:
        """The axis of the queries in each stage."""
        return self.scores.num_spatial - 2

    @property
    def padded(self) -> list[te.ComputeOp]:
        """The stages that compute whole blocks."""
        return [self.scores, *self.rest[:-1]]


@dataclass(frozen=True)
class PadQueriesPass(ModulePass):
    """
    Whole blocks of 32 queries of an attention of an open number of queries.

    `%s = te.compute "s" (%i : %N, %j : %M) reduce (%k : 64) sum { %q[%i, %k] * %key[%j, %k] }`
    ->
    `%p = te.compute "s_queries" (%k : 64, %i : (%N + 31) floordiv 32 * 32) { %q[%i, %k] mask (%N - 1 - %i) else 0.0 }`
    `%s = te.compute "s" (%i : (%N + 31) floordiv 32 * 32, %j : %M) reduce (%k : 64) sum { %p[%k, %i] * %key[%j, %k] }`
    """

    name = "te-pad-queries"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = open_query_block(Target.parse(self.target))
        for func in op.body.block.ops:
            if isinstance(func, te.FuncOp) and (found := open_attention(func)) is not None:
                pad(found, block)


def pad(attention: OpenAttention, block: int) -> None:
    """Make the stage of the queries, and round the number of queries up in all stages but the last one."""
    scores = attention.scores
    queries = hold_queries(scores, attention.query)
    for stage, axis in ((queries, queries.num_spatial - 1), *((st, attention.axis) for st in attention.padded)):
        for read in _reads(stage):
            if stage.axes[axis] in read.indices and not isinstance(read.tensor.owner, Operation):
                mask_read(read, stage, axis)
        extents = list(stage.extents.data)
        extents[axis] = (extents[axis] + (block - 1)).floordiv(block) * block
        stage.properties["extents"] = IndexMapAttr.get(extents)


def hold_queries(scores: te.ComputeOp, query: te.ReadOp) -> te.ComputeOp:
    """A stage of the queries as the scores read them: batch axes, then channels, then queries."""
    n = scores.num_spatial
    order = [*range(n - 2), *range(n, len(scores.axes)), n - 2]
    axes = [scores.axes[k] for k in order]
    region, body = te.build_body(len(order))
    to: dict[SSAValue, SSAValue] = dict(zip(axes, body.args, strict=True))
    for old, new in to.items():
        new.name_hint = old.name_hint
    held = te.ReadOp.make(query.tensor, query.map.data, [to.get(v, v) for v in query.indices])
    body.add_ops([held, te.YieldOp.create(operands=[held.result])])
    extents = [scores.extents.data[k] for k in order]
    t = TensorType(query.result.type, [e.const if e.is_const else DYNAMIC_INDEX for e in extents])
    stage = te.ComputeOp.make(f"{scores.stage_name}_queries", extents, [], None, [t], region, scores.symbols)
    stage.location = scores.location
    stage.results_[0].name_hint = "queries"
    assert scores.parent is not None
    scores.parent.insert_op_before(stage, scores)
    replace_read(query, te.ReadOp.make(stage.results_[0], [dim(k) for k in range(len(order))], axes))
    return stage


def mask_read(read: te.ReadOp, stage: te.ComputeOp, axis: int) -> None:
    """`%q[%i]` -> `%q[%i] mask (%N - 1 - %i) else 0.0`; a mask that is there stays, with what it gives."""
    otherwise = read.otherwise
    if otherwise is None:
        zero = arith.ConstantOp(_zero(read.result.type))
        assert read.parent is not None
        read.parent.insert_op_before(zero, read)
        otherwise = zero.result
    operands = list(read.indices)
    size = stage.extents.data[axis].substitute(lambda d: dim(d + len(operands)))
    inside = size - 1 - dim(operands.index(stage.axes[axis]))
    mask = [*(read.mask.data if read.mask is not None else ()), inside]
    exprs, used = compact([*read.map.data, *mask], [*operands, *stage.symbols])
    rank = len(read.map.data)
    replace_read(read, te.ReadOp.make(read.tensor, exprs[:rank], used, exprs[rank:], otherwise))


def _zero(t: Attribute) -> FloatAttr | IntegerAttr:
    if isinstance(t, AnyFloat):
        return FloatAttr(0.0, t)
    assert isinstance(t, IntegerType)
    return IntegerAttr(0, t)


def _reads(stage: te.ComputeOp) -> list[te.ReadOp]:
    return [op for op in stage.body.block.ops if isinstance(op, te.ReadOp)]


# --- which kernels are an attention of an open number of queries ----------------------------------------------------


def open_attention(func: te.FuncOp) -> OpenAttention | None:
    """The stages of a kernel that is an attention of an open number of queries; None of any other."""
    stages = func.stages
    products = [st for st in stages if _is_product(st)]
    if len(products) != 2 or func.scans or len(stages) < 4 or stages[0] is not products[0]:
        return None
    scores, *rest = stages
    axis = scores.num_spatial - 2
    if axis < 0 or scores.extents.data[axis].is_const or (query := _query(scores)) is None:
        return None
    last = rest[-1]
    if last.combiner is not None or [*func.return_op.values] != [*last.results_]:
        return None
    size = _size(scores, axis)
    if any(axis >= st.num_spatial or _size(st, axis) != size or not _keeps_rows(st, axis) for st in rest[:-1]):
        return None
    if not all(_row_of(read, axis) is not None for read in _reads(last) if isinstance(read.tensor.owner, te.ComputeOp)):
        return None
    return OpenAttention(scores, rest, query)


def _is_product(stage: te.ComputeOp) -> bool:
    product = stage.yield_op.values[0].owner
    if stage.combiner is None or stage.combiner.data != "sum" or not isinstance(product, arith.MulfOp):
        return False
    return all(isinstance(v.owner, te.ReadOp) for v in product.operands)


def _query(scores: te.ComputeOp) -> te.ReadOp | None:
    """The factor of the scores that moves with the queries, where it alone does, and not with the keys."""
    row, column = scores.axes[scores.num_spatial - 2 : scores.num_spatial]
    moving = [read for read in _reads(scores) if row in read.indices]
    if len(moving) != 1 or column in moving[0].indices or moving[0].mask is not None:
        return None
    if isinstance(moving[0].tensor.owner, Operation) or any(isinstance(v.owner, Operation) for v in moving[0].indices):
        return None
    return moving[0]


def _size(stage: te.ComputeOp, axis: int) -> tuple[tuple[Index, ...], list[SSAValue]]:
    """The size of an axis, over the symbols that occur in it."""
    return compact([stage.extents.data[axis]], stage.symbols)


def _keeps_rows(stage: te.ComputeOp, axis: int) -> bool:
    """Whether rows depend on the same rows of other stages, and no position is computed from the number of a row."""
    row, reads = stage.axes[axis], _reads(stage)
    if any(_row_of(read, axis) is not row for read in reads if isinstance(read.tensor.owner, te.ComputeOp)):
        return False
    numbered = any(isinstance(op, te.IndexOp) and row in op.args for op in stage.body.block.ops)
    if numbered and any(isinstance(v.owner, Operation) for read in reads for v in read.indices):
        return False
    return all(isinstance(use.operation, te.ReadOp) for result in stage.results_ for use in result.uses)


def _row_of(read: te.ReadOp, axis: int) -> SSAValue | None:
    """The index of a read along an axis, where it is a plain one that occurs there only."""
    at = read.map.data[axis]
    used = [k for k, e in enumerate(read.map.data) if at.dims() & e.dims()]
    plain = [v for k, v in enumerate(read.indices) if at == dim(k)]
    return plain[0] if plain and used == [axis] and read.mask is None else None
