"""
Winograd convolution: the stages pad, v1, v (the tiles' transform, one axis at a time), m (a product for each of the
t x t points), y1, y (the way back).

Tiles have one axis: number (n * TH + th) * TW + tw.
"""

from __future__ import annotations

from typing import Any

from mlc.dialects.graph.winograd import Conv2dWinogradOp, WinogradWeightOp, tiles
from mlc.lowering.graph_to_te import builder as te
from mlc.lowering.graph_to_te.builder import Tensor
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


@lowering(WinogradWeightOp)
def winograd_weight(op: Any, w: Tensor, g: Tensor) -> Tensor:
    """U[a, b] = sum over the taps of G[a, p] * G[b, q] * w[p, q]."""
    p, q = te.reduce_axis(g.shape[1], "p"), te.reduce_axis(g.shape[1], "q")

    def body(a: Any, b: Any, oc: Any, ic: Any, ii: Any, oi: Any) -> te.Reduction:
        weight = w[oc * op.block_out + oi, ic * op.block_in + ii, p, q]
        return te.sum(g[a, p] * g[b, q] * weight, axis=[p, q])

    return te.compute(shape_of_result(op), body, stage_name(op), reduce=[p, q])


@lowering(Conv2dWinogradOp)
def conv2d_winograd(op: Any, x: Tensor, u: Tensor, bt: Tensor, at: Tensor) -> Tensor:
    """The six stages."""
    n, oc, height, width, oi = shape_of_result(op)
    m, t = at.shape
    th, tw = tiles(height, m), tiles(width, m)
    count, ic, ii = n * th * tw, x.shape[1], x.shape[4]
    pad = _pad(op, x, th * m + t - m, tw * m + t - m)
    i, j = te.reduce_axis(t, "i"), te.reduce_axis(t, "j")
    v1 = te.compute(
        (t, ic, n * th, tw * m + t - m, ii),
        lambda a, c, h, w, k: te.sum(bt[a, i] * pad[h // th, c, h % th * m + i, w, k], axis=i),
        "v1", axes=["a", "ic", "th", "w", "ii"], reduce=[i], attrs=te.NO_INLINE,
    )  # fmt: skip
    v = te.compute(
        (t, t, ic, count, ii),
        lambda a, b, c, k, e: te.sum(bt[b, j] * v1[a, c, k // tw, k % tw * m + j, e], axis=j),
        "v", axes=["a", "b", "ic", "t", "ii"], reduce=[j], attrs=te.NO_INLINE,
    )  # fmt: skip
    ico, ici = te.reduce_axis(ic, "ic"), te.reduce_axis(ii, "ii")
    product = te.compute(
        (t, t, oc, count, oi),
        lambda a, b, o, k, e: te.sum(v[a, b, ico, k, ici] * u[a, b, o, ico, ici, e], axis=[ico, ici]),
        "m", axes=["a", "b", "oc", "t", "oi"], reduce=[ico, ici], attrs=te.NO_INLINE,
    )  # fmt: skip
    b, a = te.reduce_axis(t, "b"), te.reduce_axis(t, "a")
    y1 = te.compute(
        (t, m, oc, count, oi),
        lambda p, s, o, k, e: te.sum(at[s, b] * product[p, b, o, k, e], axis=b),
        "y1", axes=["a", "s", "oc", "t", "oi"], reduce=[b], attrs=te.NO_INLINE,
    )  # fmt: skip

    def out(q: Any, o: Any, h: Any, w: Any, e: Any) -> te.Reduction:
        return te.sum(at[h % m, a] * y1[a, w % m, o, (q * th + h // m) * tw + w // m, e], axis=a)

    return te.compute(
        (n, oc, height, width, oi), out, stage_name(op), axes=["n", "oc", "oh", "ow", "oi"], reduce=[a]
    )  # fmt: skip


def _pad(op: Any, x: Tensor, rows: int, columns: int) -> Tensor:
    """The picture with zeros around it, filled up to whole tiles."""
    top, left = op.padding[:2]

    def body(n: Any, c: Any, h: Any, w: Any, k: Any) -> Any:
        at = (n, c, h - top, w - left, k)
        return x.read(at, mask=te.condition([at[2], x.shape[2] - 1 - at[2], at[3], x.shape[3] - 1 - at[3]]))

    shape = (x.shape[0], x.shape[1], rows, columns, x.shape[4])
    return te.compute(shape, body, "pad", axes=["n", "ic", "h", "w", "ii"], attrs=te.NO_INLINE)
