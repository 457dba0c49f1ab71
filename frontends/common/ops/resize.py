"""Resizing: as graph.resize2d if that has the same meaning, otherwise axis by axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops.resize import AS_STEP, COORDINATES, MODES
from mlc.frontends.common.ops.resize_axis import resize_axis
from mlc.frontends.common.ops.resize_rule import ResizeRule
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.common.windows import as_2d, to_1d, to_2d


def resize(
    node: SourceNode,
    x: Value,
    size: Sequence[Dim],
    steps: Sequence[Fraction] | None,
    rule: ResizeRule,
    roi: Mapping[int, tuple[float, float]] | None = None,
) -> Value:
    """
    `x` with `size` elements along each axis.

    `steps` has the inverse of the scale of each axis; None if it is the ratio of the sizes. `roi` has the part of an
    axis that is read, for the coordinates tf_crop_and_resize.
    """
    if not _is_resize2d(rule, size, steps, x):
        return _by_axes(node, x, size, steps, rule, roi)
    picture = to_2d(node, x) if len(x.shape) == 3 else x
    attrs = {"mode": rule.mode, "coordinates": rule.coordinates, "rounding": rule.rounding}
    if steps is None and any(isinstance(n, DimExpr) for n in size[2:]):
        steps = [
            Fraction(1),
            Fraction(1),
            *(_fixed_ratio(n, out) for n, out in zip(x.shape[2:], size[2:], strict=True)),
        ]
    step = () if steps is None else tuple(n for s in as_2d(steps[2:], Fraction(1)) for n in s.as_integer_ratio())
    known = tuple(AS_STEP if isinstance(n, DimExpr) else n for n in as_2d(size[2:], 1))
    y = node.emit(g.Resize2dOp, picture, size=known, step=step, **attrs)
    return to_1d(node, y) if len(x.shape) == 3 else y


def _ratio(size: Dim, out: Dim) -> Fraction | None:
    """The inverse of the scale of an axis; None if it is not the same for all values of the symbols."""
    if not isinstance(size, DimExpr) and not isinstance(out, DimExpr):
        return Fraction(size, out)
    for a, b, turned in ((out, size, True), (size, out, False)):
        (x, c), (y, d) = DimExpr.of(a).terms[0], DimExpr.of(b).terms[0]
        if x == y and a * d == b * c:
            return Fraction(d, c) if turned else Fraction(c, d)
    return None


def _fixed_ratio(size: Dim, out: Dim) -> Fraction:
    """The ratio of an axis that has one (_is_resize2d)."""
    ratio = _ratio(size, out)
    assert ratio is not None
    return ratio


def _is_resize2d(rule: ResizeRule, size: Sequence[Dim], steps: Sequence[Fraction] | None, x: Value) -> bool:
    """Whether graph.resize2d has the same meaning."""
    known = rule.mode in MODES and rule.coordinates in COORDINATES and not (rule.antialias or rule.exclude_outside)
    whole = steps is None or all(scaled(o, s) == n for n, s, o in zip(x.shape, steps, size, strict=True))
    exact = whole or rule.coordinates not in ("align_corners", "pytorch_half_pixel")
    floats = rule.mode == "nearest" or np.dtype(dtype_like(x)) == np.float32
    pairs = [pair for pair in zip(x.shape[2:], size[2:], strict=True) if any(isinstance(n, DimExpr) for n in pair)]
    if pairs and rule.coordinates in ("align_corners", "pytorch_half_pixel"):
        return False
    if steps is None and any(_ratio(*pair) is None for pair in pairs):
        return False
    return len(x.shape) in (3, 4) and list(size[:2]) == list(x.shape[:2]) and known and exact and floats


def _by_axes(
    node: SourceNode,
    x: Value,
    size: Sequence[Dim],
    steps: Sequence[Fraction] | None,
    rule: ResizeRule,
    roi: Mapping[int, tuple[float, float]] | None,
) -> Value:
    for axis, out in enumerate(size):
        known = isinstance(out, int) and isinstance(x.shape[axis], int)
        scale = float(1 / steps[axis]) if steps is not None else out / x.shape[axis] if known else None
        own = None if roi is None else roi.get(axis, (0.0, 1.0))
        if out != x.shape[axis] or scale not in (None, 1.0) or own not in (None, (0.0, 1.0)):
            x = resize_axis(node, x, axis, out, scale, own, rule)
    return x


def scaled_sizes(shape: Sequence[Dim], scales: Mapping[int, float]) -> tuple[list[Dim], list[Fraction]]:
    """The sizes after scaling some axes, each rounded down; and the inverse of the scale of each axis."""
    factors = {axis: exact(scale) for axis, scale in scales.items()}
    all_factors = [factors.get(axis, Fraction(1)) for axis in range(len(shape))]
    return [scaled(n, f) for n, f in zip(shape, all_factors, strict=True)], [1 / f for f in all_factors]


def scaled(size: Dim, factor: Fraction) -> Dim:
    """A size times a factor, rounded down."""
    return size * factor.numerator // factor.denominator


def exact(scale: float) -> Fraction:
    """The simplest fraction that is the scale in single precision: `0.33333334 -> 1/3`."""
    simple = Fraction(scale).limit_denominator(1024)
    return simple if np.float32(simple) == np.float32(scale) else Fraction(scale)
