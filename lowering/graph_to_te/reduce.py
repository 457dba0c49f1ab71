"""Reductions, softmax and normalisations: several stages each, in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f64
from xdsl.ir import Attribute, Operation

from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops import reduce as graph
from mlc.dialects.graph.types import product
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import ReduceAxis, Scalar, Tensor
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name

CustomReducer = Callable[..., te.Reduction]
REDUCERS: dict[type[Operation], CustomReducer] = {
    graph.SumOp: te.sum,
    graph.MaxOp: te.max,
    graph.MinOp: te.min,
    graph.ProdOp: te.prod,
}
EXTREMES: dict[type[Operation], CustomReducer] = {graph.ArgmaxOp: te.max, graph.ArgminOp: te.min}


def reduce_axes(sizes: Sequence[Dim]) -> list[ReduceAxis]:
    """One reduction axis a size: k, or k0, k1, ..."""
    return [te.reduce_axis(n, "k" if len(sizes) == 1 else f"k{i}") for i, n in enumerate(sizes)]


def merge(
    rank: int, axes: Sequence[int], kept: Sequence[te.IndexLike], reduced: Sequence[te.IndexLike]
) -> list[te.IndexLike]:
    """The indices of an operand: `reduced` at `axes`, `kept` at the others in order."""
    rest, inner = iter(kept), iter(reduced)
    return [next(inner) if a in axes else next(rest) for a in range(rank)]


def _reduce(op: graph.ReduceOp, x: Tensor, reducer: CustomReducer, name: str = "") -> Any:
    axes = op.reduced_axes
    ks = reduce_axes([x.shape[a] for a in axes])

    def body(*i: te.IndexExpr) -> te.Reduction:
        kept = [v for a, v in enumerate(i) if a not in axes] if op.keepdims else i
        return reducer(x.read(merge(x.ndim, axes, kept, ks)), axis=ks)

    return te.compute(shape_of_result(op), body, name or stage_name(op), reduce=ks)


def _plain(op: graph.ReduceOp, x: Tensor) -> Tensor:
    return _reduce(op, x, REDUCERS[type(op)])


def _indexed(op: graph.ArgmaxOp | graph.ArgminOp, x: Tensor) -> Tensor:
    """
    The extreme value of a row, then the least index of an element that equals it, or is NaN: all in vectors.

    A NaN is the extreme value of its row, as numpy has it. Indices count in 32 bits where they fit.
    """
    best, (axis,) = _reduce(op, x, EXTREMES[type(op)], "best"), op.reduced_axes
    size = x.shape[axis]
    index = "int32" if isinstance(size, int) and size <= te.max_value("int32") else "int64"
    k = te.reduce_axis(size)

    def first(*i: te.IndexExpr) -> te.Reduction:
        kept = [v for a, v in enumerate(i) if a != axis] if op.keepdims else i
        value = x.read(merge(x.ndim, [axis], kept, [k]))
        is_best = te.equal(value, best[i])
        if value.is_float:
            is_best = is_best | te.scalars.compare("not_equal", value, value)
        return te.min(te.where(is_best, te.cast(k, index), te.max_value(index)), axis=k)

    at = te.compute(shape_of_result(op), first, "first", reduce=[k])
    return te.compute(at.shape, lambda *i: te.cast(at[i], "int64"), stage_name(op)) if index != "int64" else at


for _op in REDUCERS:
    lowering(_op)(_plain)
for _op in EXTREMES:
    lowering(_op)(_indexed)


@lowering(graph.MeanOp)
def mean(op: graph.MeanOp, x: Tensor) -> Tensor:
    """The sum, then a scale."""
    total = _reduce(op, x, te.sum, "sum")
    count = product([x.shape[axis] for axis in op.reduced_axes])
    return te.compute(total.shape, lambda *i: _divided(total[i], count), "mean")


def _divided(x: Scalar, count: Dim) -> Scalar:
    if isinstance(count, DimExpr):
        element = x.type if x.is_float else f64
        return te.cast(te.cast(x, element) / _number(count, element), x.type)
    if x.is_float:
        return x * (1.0 / count)
    return te.cast(te.cast(x, "float64") / float(count), x.type)


def _number(count: DimExpr, element: Attribute) -> Scalar:
    """A symbolic size as a floating-point number, computed from the kernel's symbols."""
    total: Scalar | None = None
    for atoms, c in count.terms:
        whole = DimExpr({atoms: 1})
        known = atoms and whole in (te.current_stage().symbols or {})
        sizes = [whole] if known else [DimExpr({(atom,): 1}) for atom in atoms]
        factors = [te.cast(te.size(size), element) for size in sizes]
        part = factors[0] if factors else te.cast(te.size(1), element)
        for factor in factors[1:]:
            part = part * factor
        part = part if c == 1 else part * float(c)
        total = part if total is None else total + part
    assert total is not None
    return total


@lowering(graph.SoftmaxOp, graph.LogSoftmaxOp)
def softmax(op: graph.SoftmaxOp | graph.LogSoftmaxOp, x: Tensor) -> Tensor:
    """Stages: maximum, exponentials, reciprocal of their sum, product; for log_softmax, the difference instead."""
    axis = op.axis % x.ndim
    logarithm = isinstance(op, graph.LogSoftmaxOp)
    rows = x.shape[:axis] + x.shape[axis + 1 :]

    def row(i: Sequence[te.IndexLike]) -> tuple[te.IndexLike, ...]:
        return (*i[:axis], *i[axis + 1 :])

    def along(
        t: Tensor, reducer: CustomReducer, name: str, f: Callable[[Tensor, tuple[te.IndexLike, ...]], Scalar]
    ) -> Tensor:
        k = te.reduce_axis(x.shape[axis])

        def body(*i: te.IndexExpr) -> te.Reduction:
            return reducer(f(t, (*i[:axis], k, *i[axis:])), axis=k)

        return te.compute(rows, body, name, reduce=[k])

    top = along(x, te.max, "max", lambda t, i: t[i])
    if logarithm:
        total = along(x, te.sum, "sum", lambda t, i: te.exp_nonpositive(t[i] - top[row(i)]))
        return te.compute(x.shape, lambda *i: x[i] - top[row(i)] - te.log(total[row(i)]), stage_name(op))
    e = te.compute(x.shape, lambda *i: te.exp_nonpositive(x[i] - top[row(i)]), "exp")
    total = along(e, te.sum, "sum", lambda t, i: t[i])
    scale = te.compute(rows, lambda *i: 1.0 / total[i], "scale")  # one division a row
    return te.compute(x.shape, lambda *i: e[i] * scale[row(i)], stage_name(op))


def normalize(
    x: Tensor, axes: Sequence[int], epsilon: float
) -> tuple[Callable[[Sequence[te.IndexLike]], Scalar], list[int]]:
    """Stages for mean and 1 / standard deviation over `axes`; the function from indices to the normalised element."""
    rest = [a for a in range(x.ndim) if a not in axes]
    rows = [x.shape[a] for a in rest]
    count = product([x.shape[a] for a in axes])

    def total(name: str, f: Callable[[list[te.IndexLike], Sequence[te.IndexExpr]], Scalar]) -> Tensor:
        ks = reduce_axes([x.shape[a] for a in axes])
        return te.compute(rows, lambda *i: te.sum(f(merge(x.ndim, axes, i, ks), i), axis=ks), name, reduce=ks)

    sums = total("mean_sum", lambda at, i: x.read(at))
    means = te.compute(rows, lambda *i: _divided(sums[i], count), "mean")

    def square(at: list[te.IndexLike], i: Sequence[te.IndexExpr]) -> Scalar:
        d = x.read(at) - means[tuple(i)]
        return d * d

    squares = total("var_sum", square)
    scales = te.compute(rows, lambda *i: te.rsqrt(_divided(squares[i], count) + epsilon), "scale")

    def normalized(i: Sequence[te.IndexLike]) -> Scalar:
        r = tuple(i[a] for a in rest)
        return (x.read(i) - means[r]) * scales[r]

    return normalized, rest


@lowering(graph.LayerNormOp)
def layer_norm(op: graph.LayerNormOp, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Mean, variance, then the normalizing stage."""
    first = op.axis % x.ndim
    f, _ = normalize(x, range(first, x.ndim), op.epsilon)
    return te.compute(x.shape, lambda *i: f(i) * gamma[i[first:]] + beta[i[first:]], stage_name(op))


@lowering(graph.InstanceNormOp)
def instance_norm(op: graph.InstanceNormOp, x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """Each channel of each image on its own."""
    f, _ = normalize(x, range(2, x.ndim), op.epsilon)
    return te.compute(x.shape, lambda *i: f(i) * gamma[i[1]] + beta[i[1]], stage_name(op))


@lowering(graph.BatchNormOp)
def batch_norm(op: graph.BatchNormOp, x: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, var: Tensor) -> Tensor:
    """A scale for each channel, then one multiplication and addition an element."""
    axis = op.axis % x.ndim

    def factor(c: te.IndexExpr) -> Scalar:
        return gamma[c] * te.rsqrt(var[c] + op.epsilon)

    scale = te.compute(gamma.shape, factor, "scale")

    def body(*i: te.IndexExpr) -> Scalar:
        c = i[axis]
        return (x[i] - mean[c]) * scale[c] + beta[c]

    return te.compute(x.shape, body, stage_name(op))
