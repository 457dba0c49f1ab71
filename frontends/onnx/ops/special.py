"""ONNX ops of no family: Det, Col2Im, TfIdfVectorizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import add, binary, cast, divide, full, iota, multiply, reduce, select, subtract
from mlc.frontends.common.movement import concat, index_axis, reshape, slice_axis
from mlc.frontends.common.ops.col2im import col2im
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node


def _det(node: Node) -> Value:
    """Gaussian elimination with partial pivoting."""
    x = node.input(0)
    outer, size = x.shape[:-2], x.shape[-1]
    batch = math.prod(outer)
    rest = reshape(node, x, (batch, size, size))
    det = full(node, (batch,), 1, dtype_like(x))
    for left in range(size, 0, -1):
        column = node.emit(g.AbsOp, index_axis(node, rest, 2, 0))
        best = node.emit(g.ArgmaxOp, column, axes=(1,), keepdims=True)
        chosen = reshape(node, node.emit(g.EqualOp, best, iota(node, (batch, left), 1)), (batch, left, 1))
        row = reduce(node, g.SumOp, select(node, chosen, rest, 0), [1], True)
        pivot = reshape(node, slice_axis(node, row, 2, 0, 1), (batch,))
        swapped = reshape(node, binary(node, g.GreaterOp, best, 0), (batch,))
        det = multiply(node, det, select(node, swapped, node.emit(g.NegOp, pivot), pivot))
        if left == 1:
            break
        rest = slice_axis(node, select(node, chosen, slice_axis(node, rest, 1, 0, 1), rest), 1, 1, left)
        safe = select(node, binary(node, g.EqualOp, pivot, 0), 1, pivot)
        factor = divide(node, slice_axis(node, rest, 2, 0, 1), reshape(node, safe, (batch, 1, 1)))
        rest = subtract(
            node, slice_axis(node, rest, 2, 1, left), multiply(node, factor, slice_axis(node, row, 2, 1, left))
        )
    return reshape(node, det, outer)


def _col2im(node: Node) -> Value:
    image, kernel = node.ints(1), node.ints(2)
    rank = len(image)
    strides, dilation = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    return col2im(node, node.input(0), image, kernel, strides, dilation, node.attr("pads", [0] * (2 * rank)))


def _tf_idf(node: Node) -> Value:
    """The counts of each n-gram of the pool, with up to max_skip_count elements skipped, weighted."""
    x = node.input(0)
    pool = node.attr("pool_int64s")
    if pool is None:
        raise node.fail("expected a pool of integers, but got one of strings")
    rows = reshape(node, x, (1, *x.shape)) if len(x.shape) == 1 else x
    rows = cast(node, rows, np.int64)
    counts, places = node.attr("ngram_counts"), node.attr("ngram_indexes")
    first, last, skips = (node.attr(name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    found: list[Value] = []
    columns: list[int] = []
    done = 0
    for index, start in enumerate(counts):
        length = index + 1
        grams = np.array(pool[start : counts[index + 1] if index + 1 < len(counts) else len(pool)]).reshape(-1, length)
        if len(grams) and first <= length <= last:
            found.append(_occurrences(node, rows, grams, skips if length > 1 else 0))
            columns += places[done : done + len(grams)]
        done += len(grams)
    width = max(places) + 1
    hot = (np.arange(width)[:, None] == np.array(columns)[None, :]).astype(np.float32)
    result = node.emit(g.DenseOp, concat(node, found, 1), node.array(hot))
    result = _weighted(node, result, node.attr("mode"), node.attr("weights"))
    return reshape(node, result, (width,)) if len(x.shape) == 1 else result


def _occurrences(node: Node, rows: Value, grams: np.ndarray, skips: int) -> Value:
    """rows x n-grams: the count of each, with its elements adjacent or up to `skips` elements between them."""
    count, length = grams.shape
    total = full(node, (rows.shape[0], count), 0, np.float32)
    for step in range(1, skips + 2):
        starts = rows.shape[1] - step * (length - 1)
        if starts <= 0:
            break
        hit: Value | None = None
        for k in range(length):
            items = slice_axis(node, rows, 1, step * k, step * k + starts)
            items = reshape(node, items, (rows.shape[0], 1, starts))
            one = node.emit(g.EqualOp, items, node.array(grams[:, k].reshape(1, count, 1).astype(np.int64)))
            hit = one if hit is None else node.emit(g.LogicalAndOp, hit, one)
        assert hit is not None
        total = add(node, total, reduce(node, g.SumOp, cast(node, hit, np.float32), [2]))
    return total


def _weighted(node: Node, counts: Value, mode: str, weights: Sequence[float] | None) -> Value:
    if mode == "TF":
        return counts
    if mode == "IDF":
        counts = cast(node, binary(node, g.GreaterOp, counts, 0), np.float32)
    return counts if weights is None else multiply(node, counts, node.array(np.array(weights), like=counts))


CONVERTERS: dict[str, Converter] = {"Det": _det, "Col2Im": _col2im, "TfIdfVectorizer": _tf_idf}
