"""
Gathers, scatters and small sorts as te stages, which cannot write to computed places.

A scatter is a reduction over the updates of each element: the last one, or their sum, product, maximum or minimum. A
sort counts for each element how many come before it. Both take time proportional to a product of sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from mlc.dialects.graph.ops import indexing as graph
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.dialects.te_builder.scalars import compare
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


def _wrapped(at: Scalar, size: int) -> Scalar:
    """An index as i64, with negative values wrapped."""
    if at.kind == 2:
        return te.cast(at, "int64")
    at = te.cast(at, "int64")
    return te.where(at < 0, at + size, at)


def _clamped(at: Scalar, size: int) -> Scalar:
    """An index wrapped and clamped to the axis."""
    return te.minimum(te.maximum(_wrapped(at, size), 0), size - 1)


@lowering(graph.GatherElementsOp)
def gather_elements(op: graph.GatherElementsOp, x: Tensor, indices: Tensor) -> Tensor:
    """One read, whose index along the axis is itself read from `indices`."""
    axis = op.axis % x.ndim

    def body(*i: te.IndexExpr) -> Scalar:
        return x.read([*i[:axis], _clamped(indices[i], x.shape[axis]), *i[axis + 1 :]])

    return te.compute(shape_of_result(op), body, stage_name(op))


@lowering(graph.GatherRowsOp)
def gather_rows(op: graph.GatherRowsOp, x: Tensor, indices: Tensor) -> Tensor:
    """One read, whose index after the batch dimensions is itself read from `indices`."""
    batch, lead = op.batch_dims, indices.ndim

    def body(*i: te.IndexExpr) -> Scalar:
        return x.read([*i[:batch], _clamped(indices[i[:lead]], x.shape[batch]), *i[lead:]])

    return te.compute(shape_of_result(op), body, stage_name(op))


Hit = Callable[[], Scalar]
Update = Callable[[te.IndexLike | Scalar], Scalar]
Places = Callable[[Sequence[te.IndexExpr], te.IndexLike | Scalar], tuple[Hit, Update]]
"""(indices of an element, number of an update) -> (whether that update writes the element, its value by number)."""

_COMBINE: dict[str, tuple[Callable[..., te.Reduction], Callable[[Scalar, Scalar], Scalar]]] = {
    "add": (te.sum, lambda x, y: x + y),
    "mul": (te.prod, lambda x, y: x * y),
    "max": (te.max, te.maximum),
    "min": (te.min, te.minimum),
}


def _scatter(
    op: graph.ScatterElementsOp | graph.ScatterNdOp, x: Tensor, count: int, named: int, places: Places
) -> Tensor:
    """The elements of x, each combined with its updates, which depend on its first `named` indices only."""
    if not count:
        return x
    k = te.reduce_axis(count)
    if op.reduction == "none":

        def last(*i: te.IndexExpr) -> te.Reduction:
            hit, _ = places(i, k)
            return te.max(te.where(hit(), te.cast(k, "int64"), -1), axis=k)

        winner = te.compute(x.shape[:named], last, "winner", attrs=te.NO_INLINE)

        def chosen(*i: te.IndexExpr) -> Scalar:
            w = winner[i[:named]]
            _, update = places(i, te.maximum(w, 0))
            return te.where(w >= 0, update(te.maximum(w, 0)), x[i])

        return te.compute(x.shape, chosen, stage_name(op))
    reducer, combine = _COMBINE[op.reduction]
    neutral = {"add": 0, "mul": 1}.get(op.reduction)

    def total(*i: te.IndexExpr) -> te.Reduction:
        hit, update = places(i, k)
        return reducer(te.where(hit(), update(k), x[i] if neutral is None else neutral), axis=k)

    sums = te.compute(x.shape, total, "updates", attrs=te.NO_INLINE)
    return te.compute(x.shape, lambda *i: combine(x[i], sums[i]), stage_name(op))


@lowering(graph.ScatterElementsOp)
def scatter_elements(op: graph.ScatterElementsOp, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Updates along one axis."""
    axis = op.axis % x.ndim
    size = x.shape[axis]

    def places(i: Sequence[te.IndexExpr], k: te.IndexLike | Scalar) -> tuple[Hit, Update]:
        mask = te.condition([n - 1 - i[a] for a, n in enumerate(indices.shape) if a != axis])

        def update(m: te.IndexLike | Scalar) -> Scalar:
            if not isinstance(m, Scalar):
                return updates.read([*i[:axis], m, *i[axis + 1 :]], mask=mask)
            # a gather, which must stay in bounds for elements without an update, too
            sizes = zip(i, updates.shape, x.shape, strict=True)
            inner = [j if n == s else j % n for j, n, s in sizes]
            return updates.read([*inner[:axis], m, *inner[axis + 1 :]])

        def hit() -> Scalar:
            at = indices.read([*i[:axis], k, *i[axis + 1 :]], mask=mask)
            found = te.equal(_wrapped(at, size), te.cast(i[axis], "int64"))
            return found & te.holds(mask) if mask.exprs else found

        return hit, update

    return _scatter(op, x, indices.shape[axis], x.ndim, places)


@lowering(graph.ScatterNdOp)
def scatter_nd(op: graph.ScatterNdOp, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Updates of slices."""
    depth = indices.shape[1]

    def places(i: Sequence[te.IndexExpr], k: te.IndexLike | Scalar) -> tuple[Hit, Update]:
        def hit() -> Scalar:
            ones = [te.equal(_wrapped(indices[k, d], x.shape[d]), te.cast(i[d], "int64")) for d in range(depth)]
            return reduce(Scalar.__and__, ones)

        return hit, lambda m: updates[(m, *i[depth:])]

    return _scatter(op, x, indices.shape[0], depth, places)


@lowering(graph.ArgsortOp)
def argsort(op: graph.ArgsortOp, x: Tensor) -> Tensor:
    """A stage for the rank of each element, then one that inverts the permutation."""
    axis = op.axis % x.ndim
    size = x.shape[axis]

    def rank(*i: te.IndexExpr) -> te.Reduction:
        k = te.reduce_axis(size)
        mine, other = x[i], x[(*i[:axis], k, *i[axis + 1 :])]
        less, more = (mine, other) if op.descending else (other, mine)
        better, same = less < more, te.equal(other, mine)
        if mine.kind == 0:  # NaNs come behind all numbers, and are alike
            better |= te.equal(less, less) & compare("not_equal", more, more)
            same |= compare("not_equal", less, less) & compare("not_equal", more, more)
        before = te.cast(k, "int64") < te.cast(i[axis], "int64")
        first = better | (same & before)
        return te.sum(te.cast(first, "int64"), axis=k)

    ranks = te.compute(x.shape, rank, "rank", attrs=te.NO_INLINE)

    def place(*i: te.IndexExpr) -> te.Reduction:
        k = te.reduce_axis(size)
        mine = te.equal(ranks[(*i[:axis], k, *i[axis + 1 :])], te.cast(i[axis], "int64"))
        return te.sum(te.where(mine, te.cast(k, "int64"), 0), axis=k)

    return te.compute(shape_of_result(op), place, stage_name(op))
