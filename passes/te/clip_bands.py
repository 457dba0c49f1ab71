"""
te-clip-bands: a softmax whose scores are masked outside of a band of diagonals reads the allowed blocks of keys alone.

In: an attention `e = exp(s - max_k s), sum_k e, sum_k e * v`, s some scores plus -1e9 where `%i - %k >= 0` fails.
Out: the same, whose three sums and maxima read blocks of keys with a mask: where no query of a block of queries sees
any of these keys, the neutral element stands for them. Loops marked `band` then leave them out (loop-partition).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp, f32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import te
from mlc.dialects.index import Index, const, dim
from mlc.passes.te.tidy import replace_read
from mlc.targets.cost.attention import band_block, query_block
from mlc.targets.target import Target

MASKED = -1e4
"""
What is added to a score, or stands for it, so that it counts as masked: exp(score + MASKED - maximum) is 0 in f32.

Models write -1e4, -1e9, the lowest float or -inf; scores are far smaller than 1e4.
"""


@dataclass(frozen=True)
class Band:
    """The keys that query i sees: from `i + lower` to `i + upper`, both included; None for no bound."""

    lower: int | None
    upper: int | None

    def sees_some(self, queries: int, keys: int) -> bool:
        """Whether each query sees a key."""
        lower, upper = self.lower, self.upper
        if lower is not None and (lower + queries > keys or (upper is not None and upper < lower)):
            return False
        return upper is None or upper >= 0


@dataclass(frozen=True)
class MaskedSoftmax:
    """A softmax of scores with a band: the stage of the scores, and the reads that a mask may shorten."""

    scores: te.ComputeOp
    band: Band
    maximum: te.ReadOp
    sums: list[te.ReadOp]


@dataclass(frozen=True)
class ClipBandsPass(ModulePass):
    """
    Masks of whole blocks of keys, for the blocks of 32 queries and 56 keys of this target.

    `reduce (%k : 2048) max { te.read %s[%i, %k] }`
    -> `reduce (%k : 2048) max { te.read %s[%i, %k] mask ((%i floordiv 32 * 32 + 31) floordiv 56 - %k floordiv 56)
    else -inf }`, likewise for the sums, with 0.
    """

    name = "te-clip-bands"

    target: str = "native"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.parse(self.target)
        for func in op.body.block.ops:
            if isinstance(func, te.FuncOp):
                for stage in func.stages:
                    if (found := masked_softmax(stage)) is not None:
                        clip(found, target)


def clip(softmax: MaskedSoftmax, target: Target) -> None:
    """Mask the reads of the maxima and the sums."""
    *_, queries, keys = softmax.scores.static_extents
    block = query_block(queries, keys, target, band=True)
    step = band_block(keys, block, target)
    if keys <= step:
        return
    mask_read(softmax.maximum, softmax.band, block, step, float("-inf"))
    for read in softmax.sums:
        mask_read(read, softmax.band, block, step, 0.0)


def mask_read(read: te.ReadOp, band: Band, block: int, step: int, neutral: float) -> None:
    """`%s[%i, %k]` -> `%s[%i, %k] mask (..) else neutral`, the mask over blocks of queries and of keys."""
    stage = read.parent_op()
    assert isinstance(stage, te.ComputeOp)
    assert read.parent is not None
    spans = dict(zip(stage.axes, stage.ranges, strict=True))
    ranges = [spans[v] or (0, 0) for v in read.indices]
    *_, i, k = read.map.data
    first = i.floordiv(block, ranges) * block
    mask: list[Index] = []
    if band.upper is not None:
        mask.append((first + (block - 1 + band.upper)).floordiv(step, ranges) - k.floordiv(step, ranges))
    if band.lower is not None:
        mask.append(k.floordiv(step, ranges) - (first + band.lower).floordiv(step, ranges))
    if not (mask := [e for e in mask if e.bounds(ranges)[0] < 0]):
        return
    otherwise = arith.ConstantOp(FloatAttr(neutral, f32))
    read.parent.insert_op_before(otherwise, read)
    replace_read(read, te.ReadOp.make(read.tensor, read.map.data, list(read.indices), mask, otherwise.result))


# --- which stages are a softmax with a band ----------------------------------------------------------------------


def masked_softmax(stage: te.ComputeOp) -> MaskedSoftmax | None:
    """The softmax of a stage of masked scores; None of any other stage."""
    if stage.combiner is not None or stage.symbols or stage.num_spatial < 2 or len(stage.results_) != 1:
        return None
    band = band_of(stage)
    if band is None or not band.sees_some(*stage.static_extents[-2:]):
        return None
    readers = reads_of(stage)
    maximum = next((r for r in readers if _reduces(r, "max")), None)
    exp = next((r for r in readers if maximum is not None and _is_exponential(r, maximum)), None)
    if maximum is None or exp is None or len(readers) != 2:
        return None
    inner = exp.parent_op()
    assert isinstance(inner, te.ComputeOp)
    sums = reads_of(inner)
    plain = all(_reduces(r, "sum") and r.mask is None for r in sums)
    return MaskedSoftmax(stage, band, maximum, sums) if sums and plain else None


def reads_of(stage: te.ComputeOp) -> list[te.ReadOp]:
    """The reads of a stage's result; [] where something else uses it, such as the kernel's return."""
    users = [use.operation for use in stage.results_[0].uses]
    return [op for op in users if isinstance(op, te.ReadOp)] if all(isinstance(op, te.ReadOp) for op in users) else []


def _reduces(read: te.ReadOp, combiner: str) -> bool:
    """Whether a stage is a sum or maximum of the elements that it reads, or of products of them, over the last axis."""
    stage = read.parent_op()
    if not isinstance(stage, te.ComputeOp) or stage.combiner is None or stage.combiner.data != combiner:
        return False
    axes, n = list(stage.axes), stage.num_spatial
    if len(axes) != n + 1 or any(v not in axes for v in read.indices):
        return False
    at = [e.substitute(lambda d: dim(axes.index(read.indices[d]))) for e in read.map.data]
    if at[-1] != dim(n) or any(e.uses(n) for e in at[:-1]):
        return False
    value = stage.yield_op.values[0]
    product = value.owner
    if combiner == "sum" and isinstance(product, arith.MulfOp) and read.result.has_one_use():
        return read.result in product.operands
    return value is read.result


def _is_exponential(read: te.ReadOp, maximum: te.ReadOp) -> bool:
    """Whether a stage is `exp(s[.., %i, %k] - m[.., %i])`, m the maxima."""
    stage, maxima = read.parent_op(), maximum.parent_op()
    if not isinstance(stage, te.ComputeOp) or not isinstance(maxima, te.ComputeOp) or stage.combiner is not None:
        return False
    if [*read.indices] != [*stage.axes] or [*read.map.data] != [dim(d) for d in range(len(stage.axes))]:
        return False
    exp = stage.yield_op.values[0].owner
    difference = exp.operands[0].owner if isinstance(exp, math.ExpOp) else None
    if not isinstance(difference, arith.SubfOp) or difference.lhs is not read.result:
        return False
    other = difference.rhs.owner
    if not isinstance(other, te.ReadOp) or other.tensor is not maxima.results_[0] or len(stage.results_) != 1:
        return False
    return [*other.indices] == [*stage.axes[:-1]] and [*other.map.data] == [dim(d) for d in range(len(other.indices))]


# --- bands -------------------------------------------------------------------------------------------------------


def band_of(stage: te.ComputeOp) -> Band | None:
    """The band of diagonals of a stage's scores: every score outside of it is masked. None if there is no such band."""
    if not _reads_scores_alone(stage):
        return None
    axes = list(stage.axes)
    row, column = len(axes) - 2, len(axes) - 1
    lower: int | None = None
    upper: int | None = None
    for e in required(stage.yield_op.values[0], axes):
        distance = Index(0, ((row, -1), (column, 1)))
        if (rest := e - distance).is_const:  # column - row - lower >= 0
            lower = max(-rest.const, -rest.const if lower is None else lower)
        elif (rest := e + distance).is_const:
            upper = min(rest.const, rest.const if upper is None else upper)
    return Band(lower, upper) if lower is not None or upper is not None else None


def _reads_scores_alone(stage: te.ComputeOp) -> bool:
    """Whether a stage reads one element: with a further mask, a query might see no key at all."""
    return sum(isinstance(op, te.ReadOp) for op in stage.body.block.ops) == 1


def required(value: SSAValue, axes: list[SSAValue]) -> list[Index]:
    """Expressions over the axes; if one of them is negative, the value is masked (or the condition is false)."""
    op = value.owner
    if isinstance(op, arith.AddfOp | arith.AndIOp):
        return [e for v in op.operands for e in required(v, axes)]
    if isinstance(op, arith.CmpiOp):
        return _compared(op, axes, holds=True)
    if not isinstance(op, arith.SelectOp):
        return []
    if _is_masked(op.rhs):
        return [*required(op.cond, axes), *required(op.lhs, axes)]
    if _is_masked(op.lhs) and isinstance(test := op.cond.owner, arith.CmpiOp):
        return [*_compared(test, axes, holds=False), *required(op.rhs, axes)]
    return []


def _is_masked(value: SSAValue) -> bool:
    op = value.owner
    if not isinstance(op, arith.ConstantOp):
        return False
    if isinstance(op.value, FloatAttr):
        return op.value.value.data <= MASKED
    return isinstance(op.value, IntegerAttr) and op.value.value.data == 0


COMPARED: dict[str, tuple[int, int]] = {"slt": (-1, -1), "sle": (-1, 0), "sgt": (1, -1), "sge": (1, 0)}
"""Predicate -> (s, c): `x ? y` holds exactly where `s * (x - y) + c >= 0`."""
OPPOSITE = {"slt": "sge", "sle": "sgt", "sgt": "sle", "sge": "slt"}


def _compared(op: arith.CmpiOp, axes: list[SSAValue], *, holds: bool) -> list[Index]:
    """The comparison of two index expressions as one that is not negative where it holds, or fails."""
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    a, b = _index(op.lhs, axes), _index(op.rhs, axes)
    if name not in COMPARED or a is None or b is None:
        return []
    sign, more = COMPARED[name if holds else OPPOSITE[name]]
    return [(a - b) * sign + more]


def _index(value: SSAValue, axes: list[SSAValue]) -> Index | None:
    """An integer value as an expression over the axes."""
    op = value.owner
    if value in axes:
        return dim(axes.index(value))
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return const(op.value.value.data)
    if isinstance(op, arith.IndexCastOp):
        return _index(op.operands[0], axes)
    if isinstance(op, te.IndexOp) and all(v in axes for v in op.operands):
        operands: list[SSAValue] = list(op.operands)
        return op.map.data[0].substitute(lambda d: dim(axes.index(operands[d])))
    return None
