"""ONNX ops that stand alone: determinants, windows put back together, counts of n-grams."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like
from mlc.frontends.onnx.tools import (
    add,
    binary,
    cast,
    concat,
    divide,
    element,
    full,
    iota,
    multiply,
    part,
    reduce,
    reshape,
    select,
    spread,
    subtract,
)


def _det(node: Node) -> Value:
    """Gaussian elimination: each step takes the largest pivot of the column that is left."""
    x = node.input(0)
    outer, size = x.shape[:-2], x.shape[-1]
    batch = math.prod(outer)
    rest = reshape(node, x, (batch, size, size))
    det = full(node, (batch,), 1, dtype_like(x))
    for left in range(size, 0, -1):
        column = node.emit(g.AbsOp, element(node, rest, 2, 0))
        best = node.emit(g.ArgmaxOp, column, axes=(1,), keepdims=True)
        chosen = reshape(node, node.emit(g.EqualOp, best, iota(node, (batch, left), 1)), (batch, left, 1))
        row = reduce(node, g.SumOp, select(node, chosen, rest, 0), [1], True)
        pivot = reshape(node, part(node, row, 2, 0, 1), (batch,))
        swapped = reshape(node, binary(node, g.GreaterOp, best, 0), (batch,))
        det = multiply(node, det, select(node, swapped, node.emit(g.NegOp, pivot), pivot))
        if left == 1:
            break
        rest = part(node, select(node, chosen, part(node, rest, 1, 0, 1), rest), 1, 1, left)
        safe = select(node, binary(node, g.EqualOp, pivot, 0), 1, pivot)
        factor = divide(node, part(node, rest, 2, 0, 1), reshape(node, safe, (batch, 1, 1)))
        rest = subtract(node, part(node, rest, 2, 1, left), multiply(node, factor, part(node, row, 2, 1, left)))
    return reshape(node, det, outer)


def _col2im(node: Node) -> Value:
    """Columns of windows added where the windows lie."""
    x = node.input(0)
    image, kernel = node.ints(1), node.ints(2)
    rank = len(image)
    strides, dilation = node.attr("strides", [1] * rank), node.attr("dilations", [1] * rank)
    pads = node.attr("pads", [0] * (2 * rank))
    room = [n + pads[a] + pads[a + rank] for a, n in enumerate(image)]
    blocks = [(room[a] - (kernel[a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(rank)]
    taps, count = math.prod(kernel), math.prod(blocks)
    if len(x.shape) != 3 or x.shape[1] % taps or x.shape[2] != count:
        raise node.fail(f"expected an input of N x (C * {taps}) x {count}, but got {list(x.shape)}")
    channels = x.shape[1] // taps
    windows = reshape(node, x, (x.shape[0], channels, taps, *blocks))
    total: Value | None = None
    for tap, offsets in enumerate(itertools.product(*map(range, kernel))):
        y = element(node, windows, 2, tap)
        for a, offset in enumerate(offsets):
            y = spread(node, y, 2 + a, strides[a], offset * dilation[a], room[a])
        total = y if total is None else add(node, total, y)
    assert total is not None
    for a, n in enumerate(image):
        total = part(node, total, 2 + a, pads[a], pads[a] + n)
    return total


def _tf_idf(node: Node) -> Value:
    """How often each n-gram of the pool occurs, with elements skipped or without; weighted."""
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
    """rows x n-grams: how often each occurs, its elements next to each other or up to `skips` apart."""
    count, length = grams.shape
    total = full(node, (rows.shape[0], count), 0, np.float32)
    for step in range(1, skips + 2):
        starts = rows.shape[1] - step * (length - 1)
        if starts <= 0:
            break
        hit: Value | None = None
        for k in range(length):
            items = part(node, rows, 1, step * k, step * k + starts)
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
