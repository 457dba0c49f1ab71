"""
Winograd convolution: v (input transform of the tiles), m (a matrix product for each of the t x t points), y (output
transform). Tiles have one axis, (n * TH + th) * TW + tw; with symbolic sizes three: n, th and tw.

A transform `M d M^T` is two stages: the columns, `M d` (v_columns, y_columns), and the rows (v, y). Each is a
straight-line sum of a tile's elements along one axis. An element of the result selects its sum by its position; a
schedule that unrolls or vectorizes the positions folds the selects, and each sum is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlc.dialects.graph.ops.winograd import MATRICES, Conv2dWinogradOp, Matrix, WinogradWeightOp, tiles
from mlc.dialects.graph.types import Dim, product
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import IndexExpr, Scalar, Tensor
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


@lowering(WinogradWeightOp)
def winograd_weight(op: WinogradWeightOp, w: Tensor, g: Tensor) -> Tensor:
    """U[a, b] = sum over the taps of G[a, p] * G[b, q] * w[p, q]."""
    p, q = te.reduce_axis(g.shape[1], "p"), te.reduce_axis(g.shape[1], "q")

    def body(a: IndexExpr, b: IndexExpr, oc: IndexExpr, ic: IndexExpr, ii: IndexExpr, oi: IndexExpr) -> te.Reduction:
        weight = w[oc * op.block_out + oi, ic * op.block_in + ii, p, q]
        return te.sum(g[a, p] * g[b, q] * weight, axis=[p, q])

    return te.compute(shape_of_result(op), body, stage_name(op), reduce=[p, q])


@dataclass(frozen=True)
class Tiles:
    """The axes that number the tiles: one, or three with symbolic sizes."""

    count: tuple[Dim, Dim, Dim]

    @property
    def flat(self) -> bool:
        """Whether all sizes are static."""
        return all(isinstance(n, int) for n in self.count)

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The extents of the axes."""
        return (product(self.count),) if self.flat else self.count

    @property
    def names(self) -> list[str]:
        """The names of the axes."""
        return ["t"] if self.flat else ["n", "th", "tw"]

    def place(self, at: Sequence[IndexExpr]) -> tuple[IndexExpr, IndexExpr, IndexExpr]:
        """(n, th, tw) of the tile at an index."""
        if not self.flat:
            n, row, column = at
            return n, row, column
        (k,), (_, th, tw) = at, self.count
        return k // (tw * th), k // tw % th, k % tw

    def index(self, n: IndexExpr, row: IndexExpr, column: IndexExpr) -> tuple[IndexExpr, ...]:
        """The index of a tile."""
        _, th, tw = self.count
        return ((n * th + row) * tw + column,) if self.flat else (n, row, column)


@lowering(Conv2dWinogradOp)
def conv2d_winograd(op: Conv2dWinogradOp, x: Tensor, u: Tensor) -> Tensor:
    """The stages of the convolution; each transform is two stages, columns and then rows."""
    n, _, height, width, _ = shape_of_result(op)
    grid = Tiles((n, tiles(height, op.tile), tiles(width, op.tile)))
    return _output(op, grid, _products(op, grid, _input(op, grid, x), u))


def _input(op: Conv2dWinogradOp, grid: Tiles, x: Tensor) -> Tensor:
    """The transform of the input's tiles: its columns, then its rows."""
    bt, _, _ = MATRICES[op.tile]
    m, t = op.tile, op.tile + 2
    ic, ii = x.shape[1::3]
    top, left = op.padding[:2]

    def column_sums(c: IndexExpr, a: IndexExpr, b: IndexExpr, *rest: IndexExpr) -> Scalar:
        *k, e = rest
        q, row, column = grid.place(k)
        row, w = row * m - top, column * m - left + b

        def pixel(i: int) -> Scalar:
            h = row + i
            return x.read((q, c, h, w, e), mask=te.condition([h, x.shape[2] - 1 - h, w, x.shape[3] - 1 - w]))

        return transformed(bt, [pixel(i) for i in range(t)], a)

    def row_sums(c: IndexExpr, a: IndexExpr, b: IndexExpr, *rest: IndexExpr) -> Scalar:
        return transformed(bt, [columns[(c, a, j, *rest)] for j in range(t)], b)

    shape, axes = (ic, t, t, *grid.shape, ii), ["ic", "a", "b", *grid.names, "ii"]
    columns = te.compute(shape, column_sums, "v_columns", axes=axes, attrs=te.NO_INLINE)
    return te.compute(shape, row_sums, "v", axes=axes, attrs=te.NO_INLINE)


def _products(op: Conv2dWinogradOp, grid: Tiles, v: Tensor, u: Tensor) -> Tensor:
    """The product of the transformed tiles and weights at each of the t x t points."""
    t, each, ii = op.tile + 2, u.shape[3], v.shape[-1]
    oc, oi = u.shape[2::3]
    ico, ici = te.reduce_axis(each, "ic"), te.reduce_axis(ii, "ii")

    def multiplied_at(o: IndexExpr, a: IndexExpr, b: IndexExpr, *rest: IndexExpr) -> te.Reduction:
        *k, e = rest
        first = o // (oc // op.groups) * each if op.groups > 1 else 0
        return te.sum(v[(ico + first, a, b, *k, ici)] * u[a, b, o, ico, ici, e], axis=[ico, ici])

    return te.compute(
        (oc, t, t, *grid.shape, oi), multiplied_at, "m", axes=["oc", "a", "b", *grid.names, "oi"], reduce=[ico, ici],
        attrs=te.NO_INLINE,
    )  # fmt: skip


def _output(op: Conv2dWinogradOp, grid: Tiles, products: Tensor) -> Tensor:
    """The transform of the products to the pixels of the result: its columns, then its rows."""
    shape = shape_of_result(op)
    _, _, at = MATRICES[op.tile]
    m, t, block = op.tile, op.tile + 2, shape[-1]
    oc, oi = products.shape[0], products.shape[-1]

    def column_sums(o: IndexExpr, a: IndexExpr, b: IndexExpr, *rest: IndexExpr) -> Scalar:
        return transformed(at, [products[(o, i, b, *rest)] for i in range(t)], a)

    summed = te.compute(
        (oc, m, t, *grid.shape, oi), column_sums, "y_columns", axes=["oc", "a", "b", *grid.names, "oi"],
        attrs=te.NO_INLINE,
    )  # fmt: skip

    def out(q: IndexExpr, o: IndexExpr, h: IndexExpr, w: IndexExpr, e: IndexExpr) -> Scalar:
        k, channel = grid.index(q, h // m, w // m), o * block + e
        values = [summed[(channel // oi, h % m, b, *k, channel % oi)] for b in range(t)]
        return transformed(at, values, w % m)

    return te.compute(shape, out, stage_name(op), axes=["n", "oc", "oh", "ow", "oi"], attrs=te.NO_INLINE)


def transformed(matrix: Matrix, x: Sequence[Scalar], at: IndexExpr) -> Scalar:
    """Element `at` of `matrix @ x`, as a chain of selects, which fold where `at` is constant."""
    *first, chosen = multiplied(matrix, x)
    for k, value in reversed(list(enumerate(first))):
        chosen = te.where(at <= k, value, chosen)
    return chosen


def multiplied(matrix: Matrix, x: Sequence[Scalar]) -> list[Scalar]:
    """
    `matrix @ x` in few operations.

    Columns that are equal up to signs share x + y and x - y; rows that are equal up to signs share e + o and e - o.
    """
    rows = [list(row) for row in matrix]
    terms = list(x)
    for p, q in _pairs([list(column) for column in zip(*rows, strict=True)]):
        terms[p], terms[q] = terms[p] + terms[q], terms[p] - terms[q]
        for row in rows:
            row[p], row[q] = (row[p], 0.0) if row[p] == row[q] else (0.0, row[p])
    results: list[Scalar | None] = [None] * len(rows)
    for p, q in _pairs(rows):
        even = _sum([c if c == d else 0.0 for c, d in zip(rows[p], rows[q], strict=True)], terms)
        odd = _sum([c if c != d else 0.0 for c, d in zip(rows[p], rows[q], strict=True)], terms)
        results[p], results[q] = even + odd, even - odd
    return [_sum(row, terms) if done is None else done for row, done in zip(rows, results, strict=True)]


def _pairs(rows: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Adjacent rows that are equal up to the signs of some, but not all, of their elements."""
    found: list[tuple[int, int]] = []
    for p in range(len(rows) - 1):
        same = [c == d for c, d in zip(rows[p], rows[p + 1], strict=True) if c or d]
        magnitudes = list(map(abs, rows[p])) == list(map(abs, rows[p + 1]))
        if magnitudes and any(same) and not all(same) and not any(p in pair for pair in found):
            found.append((p, p + 1))
    return found


def _sum(coefficients: Sequence[float], terms: Sequence[Scalar]) -> Scalar:
    """The sum of the products: a term with factor 1 first, so that the others are added by one operation each."""
    used = sorted(((c, x) for c, x in zip(coefficients, terms, strict=True) if c), key=lambda one: one[0] != 1)
    (c, total), *rest = used
    total = total if c == 1 else total * c
    for c, x in rest:
        total = total + x if c == 1 else total - x if c == -1 else te.fma(x, c, total)
    return total
