"""Ranges of values for quantising: all that was seen, a percentile, or the best for their distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from mlc.passes.graph.precision.quantize import parameters
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

BINS = 2048
"""Bins of a histogram."""
QUANTIZED_LEVELS = 256
"""Values of an 8-bit integer."""
CLIP_FRACTIONS = tuple(k / 64 for k in range(8, 65))
"""Fractions of the largest magnitude that "kl" and "mse" try as ends of the range."""


Counts: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
"""A number for each bin."""


class Histogram:
    """Counts of values in `BINS` equal bins from the least to the largest; the bins widen with the range."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.counts: Counts = np.zeros(BINS)

    def add(self, array: ArrayLike) -> None:
        """Count the values of an array; UserError for infinities and NaN."""
        values = np.asarray(array, np.float32).reshape(-1)
        if not np.isfinite(values).all():
            raise UserError("expected finite values to calibrate with, but got infinities or NaN")
        if not values.size:
            return
        low, high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        if high > low and (low, high) != (self.low, self.high):
            centres, counts = self.centres, self.counts
            self.low, self.high = low, high
            self.counts = np.histogram(centres, BINS, (low, high), weights=counts)[0]
        if self.high > self.low:
            self.counts = self.counts + np.histogram(values, BINS, (self.low, self.high))[0]

    @property
    def centres(self) -> Counts:
        """The middle of each bin."""
        return self.low + (np.arange(BINS) + 0.5) * (self.high - self.low) / BINS


Range = tuple[float, float]


def minmax(histogram: Histogram, percentile: float) -> Range:
    """All that was seen."""
    return histogram.low, histogram.high


def by_percentile(histogram: Histogram, percentile: float) -> Range:
    """The part of the values that is asked for, the rest cut off evenly at both ends."""
    total = histogram.counts.sum()
    if not total:
        return histogram.low, histogram.high
    below = np.cumsum(histogram.counts) / total
    cut = (1 - percentile / 100) / 2 if histogram.low < 0 < histogram.high else 1 - percentile / 100
    width = (histogram.high - histogram.low) / BINS
    low = histogram.low + width * int(np.searchsorted(below, cut, "right")) if histogram.low < 0 else 0.0
    high = histogram.low + width * (int(np.searchsorted(below, 1 - cut)) + 1) if histogram.high > 0 else 0.0
    return min(low, 0.0), max(min(high, histogram.high), 0.0)


def by_divergence(histogram: Histogram, percentile: float) -> Range:
    """The range whose 256 levels diverge least (Kullback and Leibler) from what was seen."""
    counts = _without_zeros(histogram)
    if not counts.sum():
        return histogram.low, histogram.high
    far = max(-histogram.low, histogram.high)
    ranges = [(max(histogram.low, -far * part), min(histogram.high, far * part)) for part in CLIP_FRACTIONS]
    return ranges[int(np.argmin([_divergence(histogram, counts, *one) for one in ranges]))]


def _without_zeros(histogram: Histogram) -> Counts:
    """The counts with the peak at 0 cut to the height of the bins beside it: any range keeps 0 exactly."""
    counts = histogram.counts.copy()
    at = min(int(np.searchsorted(histogram.centres, 0.0)), BINS - 1)
    for place in {max(at - 1, 0), at}:
        beside = [counts[k] for k in (place - 2, place + 2) if 0 <= k < BINS]
        counts[place] = min(counts[place], max(beside))
    return counts


def _divergence(histogram: Histogram, counts: Counts, low: float, high: float) -> float:
    """How far the distribution in levels is from the one that was seen, what lies outside cut to the ends."""
    inside = (histogram.centres >= low) & (histogram.centres <= high)
    seen = counts * inside
    level = np.clip(((histogram.centres - low) / (high - low) * QUANTIZED_LEVELS).astype(int), 0, QUANTIZED_LEVELS - 1)
    places = np.flatnonzero(inside)
    p = seen.copy()
    p[places[0]] += counts[: places[0]].sum()
    p[places[-1]] += counts[places[-1] + 1 :].sum()
    filled = p > 0
    sums = np.bincount(level, seen, QUANTIZED_LEVELS)
    bins = np.maximum(np.bincount(level, filled.astype(float), QUANTIZED_LEVELS), 1)
    q = np.where(filled, (sums / bins)[level], 0.0)
    p, q = p / p.sum(), q / max(q.sum(), 1e-30)
    both = p > 0
    return float((p[both] * np.log(p[both] / np.maximum(q[both], 1e-12))).sum())


def by_error(histogram: Histogram, percentile: float) -> Range:
    """The range whose 256 levels are nearest to what was seen: the least sum of squares."""
    centres, counts = histogram.centres, histogram.counts
    best, chosen = np.inf, minmax(histogram, percentile)
    for part in CLIP_FRACTIONS:
        for low, high in {(histogram.low * part, histogram.high * part), (histogram.low, histogram.high * part)}:
            scale, zero = parameters(low, high)
            levels = np.clip(np.round(centres / scale) + zero, 0, QUANTIZED_LEVELS - 1)
            error = float((counts * ((levels - zero) * scale - centres) ** 2).sum())
            if error < best:
                best, chosen = error, (low, high)
    return chosen


METHODS: dict[str, Callable[[Histogram, float], Range]] = {
    "minmax": minmax,
    "percentile": by_percentile,
    "kl": by_divergence,
    "mse": by_error,
}
"""How a range is chosen, by name."""
