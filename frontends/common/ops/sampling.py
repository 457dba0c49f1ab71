"""Reading pictures between their elements, at places that are computed at run time: a weighted sum of taps."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, UnequalSizes
from mlc.frontends.common.elementwise import add, binary, cast, divide, multiply, number, select, subtract
from mlc.frontends.common.movement import broadcast_to, index_axis, reshape, slice_axis, transpose
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like

Taps: TypeAlias = "list[tuple[Value, Value, Value | None]]"
"""The taps of one axis: (index as a float, weight, whether it is inside; None: it always is)."""


_LANES = 8
"""Channels from which pixels are read as rows of channels, whose vectors are as long as AVX2's."""


class Pixels:
    """
    A picture N x C x spatial whose elements are read at computed places, N x P of each axis.

    Places are the same for all channels. Where these fill vectors, and each element is read about once or more, the
    picture is turned to rows of channels, so that a place is one address and a weight one broadcast; otherwise the
    places fill the vectors. `reads` is the number of elements of a channel that are read.
    """

    def __init__(self, node: SourceNode, x: Value, reads: Dim) -> None:
        self.node = node
        self.n, self.c, *self.sizes = x.shape
        space = math.prod(self.sizes)
        static = all(isinstance(size, int) for size in (*x.shape, reads))
        self.as_rows = static and self.c >= _LANES and reads >= space
        flat = reshape(node, x, (self.n, self.c, space))
        self.rows = reshape(node, transpose(node, flat, (0, 2, 1)), (self.n * space, self.c)) if self.as_rows else flat

    def at(self, places: Sequence[Value]) -> Value:
        """The elements at integral places: N x C x P, or as rows N P x C."""
        node, flat = self.node, None
        for place, size in zip(places, self.sizes, strict=True):
            index = cast(node, place, np.int64)
            flat = index if flat is None else add(node, multiply(node, flat, size), index)
        assert flat is not None
        return self.near(flat)

    def near(self, address: Value, offset: int = 0) -> Value:
        """The elements `offset` behind addresses in a channel, N x P: N x C x P, or as rows N P x C."""
        node, count = self.node, address.shape[1]
        axis = 0 if self.as_rows else 2
        rows = slice_axis(node, self.rows, axis, offset, self.rows.shape[axis]) if offset else self.rows
        if not self.as_rows:
            index = broadcast_to(node, reshape(node, address, (self.n, 1, count)), (self.n, self.c, count))
            return node.emit(g.GatherElementsOp, rows, index, axis=2)
        if self.n != 1:
            first = node.array(np.arange(self.n).reshape(self.n, 1), like=address)
            address = add(node, address, multiply(node, first, math.prod(self.sizes)))
        return node.emit(g.TakeOp, rows, reshape(node, address, (self.n * count,)), axis=0)

    def weighted(self, elements: Value, weight: Value) -> Value:
        """What `at` read, multiplied by weights N x P or 1 x 1."""
        batch, count = weight.shape
        shape = (batch * count, 1) if self.as_rows else (batch, 1, count)
        return multiply(self.node, elements, reshape(self.node, weight, shape))

    def result(self, total: Value, count: Dim) -> Value:
        """A sum of what `at` read as N x C x P."""
        if not self.as_rows:
            return total
        return transpose(self.node, reshape(self.node, total, (self.n, count, self.c)), (0, 2, 1))


def weighted_sum(node: SourceNode, x: Value, taps: Sequence[Taps]) -> Value:
    """The sum over all combinations of one tap an axis: N x C x P."""
    total: Value | None = None
    count = taps[0][0][0].shape[1]
    pixels = Pixels(node, x, math.prod(map(len, taps)) * count)
    for combination in itertools.product(*taps):
        elements = pixels.at([place for place, _, _ in combination])
        weight: Value | None = None
        for _, factor, inside in combination:
            factor = factor if inside is None else select(node, inside, factor, 0)
            weight = factor if weight is None else multiply(node, weight, factor)
        assert weight is not None
        term = pixels.weighted(elements, weight)
        total = term if total is None else add(node, total, term)
    assert total is not None
    return pixels.result(total, count)


def linear_taps(node: SourceNode, at: Value, place: Callable[[Value], tuple[Value, Value | None]]) -> Taps:
    """The two elements around a coordinate; `place` maps indices that may be outside (BorderRule.place)."""
    low = node.emit(g.FloorOp, at)
    ratio = subtract(node, at, low)
    (first, a), (second, b) = place(low), place(add(node, low, 1.0))
    return [(first, subtract(node, 1.0, ratio), a), (second, ratio, b)]


def _cubic_weights(node: SourceNode, ratio: Value) -> list[Value]:
    """The weights of Keys' cubic convolution, a = -0.75, for the taps -1, 0, 1 and 2."""
    a = -0.75
    other = subtract(node, 1.0, ratio)

    def near(t: Value) -> Value:  # ((a + 2) t - (a + 3)) t t + 1
        inner = add(node, multiply(node, t, a + 2), -(a + 3))
        return add(node, multiply(node, multiply(node, inner, t), t), 1.0)

    def far(t: Value) -> Value:  # ((a s - 5 a) s + 8 a) s - 4 a, s = t + 1
        s = add(node, t, 1.0)
        inner = add(node, multiply(node, add(node, multiply(node, s, a), -5 * a), s), 8 * a)
        return add(node, multiply(node, inner, s), -4 * a)

    return [far(ratio), near(ratio), near(other), far(other)]


def _inside(node: SourceNode, at: Value, size: Dim) -> Value:
    """Whether an index names one of `size` elements."""
    above = binary(node, g.GreaterEqualOp, at, 0.0)
    return node.emit(g.LogicalAndOp, above, binary(node, g.LessOp, at, number(node, size, at)))


def clamped(node: SourceNode, at: Value, size: Dim) -> Value:
    """An index clamped to an axis of `size` elements."""
    if isinstance(size, int):
        return node.emit(g.ClipOp, at, min=0.0, max=float(size - 1))
    return binary(node, g.MinimumOp, binary(node, g.MaximumOp, at, 0.0), number(node, size - 1, at))


def _reflected(node: SourceNode, at: Value, low: float, size: Dim) -> Value:
    """A coordinate reflected at both ends of the axis, `low` and as far beyond the last element, until it is inside."""
    between = size - 1 if low == 0 else size
    if isinstance(between, int) and between <= 0:
        return multiply(node, at, 0.0)
    span = number(node, between, at)
    high = add(node, span, low) if isinstance(span, Value) else span + low
    if isinstance(span, Value):
        span = binary(node, g.MaximumOp, span, 1.0)  # of one element all coordinates are 0
    away = node.emit(g.AbsOp, add(node, at, -low))
    turns = node.emit(g.FloorOp, divide(node, away, span))
    rest = subtract(node, away, multiply(node, turns, span))
    half = multiply(node, turns, 0.5)
    even = binary(node, g.EqualOp, node.emit(g.FloorOp, half), half)
    return select(node, even, add(node, rest, low), subtract(node, high, rest))


def _interpolated(node: SourceNode, x: Value, sizes: Sequence[int], at: Sequence[Value], zeros: bool) -> Value:
    """
    Linear interpolation at coordinates N x P of each axis, of which all neighbours are in a padded picture: N x C x P.

    Coordinates are clamped to the picture, or with `zeros` to its padding, whose elements are zeros. So no tap needs a
    mask, and the 2^axes taps of a place lie at constant distances: one address is computed for all of them. That pays
    for few channels: where a place is a row of many, reading those takes longer than computing it, and so does padding.
    """
    before, after = (1, 2) if zeros else (0, 1)
    width = [0, 0, 0, 0, *(pad for _ in sizes for pad in (before, after))]
    padded = node.emit(g.PadOp, x, pad_width=tuple(width), value=0.0)
    steps = [math.prod(size + before + after for size in sizes[k + 1 :]) for k in range(len(sizes))]
    ratios: list[Value] = []
    address: Value | None = None
    for one, size, step in zip(at, sizes, steps, strict=True):
        place = node.emit(g.ClipOp, one, min=float(-before), max=float(size - 1 + before))
        low = node.emit(g.FloorOp, place)
        ratios.append(subtract(node, place, low))
        part = multiply(node, cast(node, low, np.int64), step)
        address = part if address is None else add(node, address, part)
    assert address is not None
    pixels = Pixels(node, padded, 2 ** len(sizes) * address.shape[1])
    return pixels.result(_lerp(pixels, add(node, address, before * sum(steps)), 0, ratios, steps), address.shape[1])


def _lerp(pixels: Pixels, address: Value, offset: int, ratios: Sequence[Value], steps: Sequence[int]) -> Value:
    """The value between the pixels `offset` behind an address and their neighbours along the axes of `steps`."""
    if not ratios:
        return pixels.near(address, offset)
    node, (ratio, *others), (step, *rest) = pixels.node, ratios, steps
    first, second = (_lerp(pixels, address, offset + k * step, others, rest) for k in (0, 1))
    other = subtract(node, 1.0, ratio)  # the difference of two pixels would make NaN of an infinite one
    return add(node, pixels.weighted(first, other), pixels.weighted(second, ratio))


class BorderRule:
    """How coordinates and indices outside of an axis are read: zeros, border or reflection."""

    def __init__(self, node: SourceNode, mode: str, size: Dim, corners: bool):
        self.node, self.mode, self.size = node, mode, size
        self.low = 0.0 if corners else -0.5

    def coordinate(self, at: Value) -> Value:
        """A coordinate after the rule, before taps are chosen."""
        if self.mode == "border":
            return clamped(self.node, at, self.size)
        return _reflected(self.node, at, self.low, self.size) if self.mode == "reflection" else at

    def place(self, at: Value) -> tuple[Value, Value | None]:
        """The index that is read in place of one, and whether that one is inside (None: it counts as inside)."""
        if self.mode == "zeros":
            return clamped(self.node, at, self.size), _inside(self.node, at, self.size)
        moved = _reflected(self.node, at, self.low, self.size) if self.mode == "reflection" else at
        return clamped(self.node, moved, self.size), None


def grid_sample(node: SourceNode, x: Value, grid: Value, mode: str, border: str, corners: bool) -> Value:
    """
    N x C x spatial, read at the places of a grid: N x outs x axes coordinates from -1 to 1, the last axis first.

    `mode` is nearest, linear or cubic, `border` zeros, border or reflection (BorderRule). With `corners` -1 and 1 are
    the centres of the first and the last element, otherwise their outer edges.
    """
    n, c, *sizes = x.shape
    outs = grid.shape[1:-1]
    if mode not in ("linear", "nearest", "cubic") or border not in ("zeros", "border", "reflection"):
        raise node.fail(f"expected mode linear, nearest or cubic and a known padding_mode, but got {mode}, {border}")
    if grid.shape[-1] != len(sizes) or grid.shape[0] != n:
        message = f"expected a grid of {n} x .. x {len(sizes)}, but got {list(grid.shape)}"
        raise UnequalSizes(message, (grid.shape[-1], len(sizes)), (grid.shape[0], n))
    flat = cast(node, reshape(node, grid, (n, math.prod(outs), len(sizes))), dtype_like(x))
    places: list[Value] = []
    for axis, size in enumerate(sizes):
        at = add(node, index_axis(node, flat, -1, len(sizes) - 1 - axis), 1.0)
        at = multiply(node, multiply(node, at, number(node, size - 1 if corners else size, at)), 0.5)
        places.append(at if corners else add(node, at, -0.5))
    rules = [BorderRule(node, border, size, corners) for size in sizes]
    count, known = math.prod(outs), [size for size in sizes if isinstance(size, int)]
    static = isinstance(count, int) and isinstance(c, int) and len(known) == len(sizes)
    if mode == "linear" and static and c < _LANES and 2 ** len(sizes) * count >= math.prod(known):
        if border == "reflection":
            places = [rule.coordinate(at) for rule, at in zip(rules, places, strict=True)]
        total = _interpolated(node, x, known, places, border == "zeros")
    else:
        total = weighted_sum(
            node, x, [_grid_taps(node, at, mode, rule) for rule, at in zip(rules, places, strict=True)]
        )
    return reshape(node, total, (n, c, *outs))


def _grid_taps(node: SourceNode, at: Value, mode: str, border: BorderRule) -> Taps:
    """The elements that a coordinate reads along one axis."""
    if mode == "nearest":
        place, inside = border.place(border.coordinate(node.emit(g.RoundOp, at)))
        return [(node.emit(g.RoundOp, place), node.array(np.ones((1, 1)), like=at), inside)]
    if mode == "linear":
        return linear_taps(node, border.coordinate(at), border.place)
    at = at if border.mode == "border" else border.coordinate(at)  # each of the four is at the border, then
    low = node.emit(g.FloorOp, at)
    weights = _cubic_weights(node, subtract(node, at, low))
    places = [border.place(add(node, low, float(k - 1))) for k in range(4)]
    return [(place, weight, inside) for (place, inside), weight in zip(places, weights, strict=True)]
