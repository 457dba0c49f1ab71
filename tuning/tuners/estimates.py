"""What the analytic model says of candidates that were lowered, and what it would say of the others, by their knobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from mlc.tuning.tuners.encoding import Encoding, Floats, Ints

Features: TypeAlias = Callable[[Sequence[int]], Floats]
"""
The features of candidates by their numbers, one row each, as in `loop_features.NAMES`: the first is the estimate.

It is infinite where the candidate is refused.
"""

_REFUSED = 3.0
"""How much worse than the worst estimate one that is refused counts, in powers of two."""
_RIDGE = 0.3
"""The penalty of the squares, by variance."""


class Estimates:
    """The logarithms of estimated cycles; candidates are lowered once."""

    def __init__(self, encoding: Encoding, features: Features) -> None:
        self._encoding, self._features = encoding, features
        self.lowered: dict[int, Floats] = {}
        """The features of the candidates that were lowered."""
        self.refused: set[int] = set()
        """Those of them that are refused."""
        self._fitted = 0

    def lower(self, indices: Sequence[int]) -> None:
        """Lower candidates that were not lowered before."""
        if indices:
            self.lowered |= dict(zip(indices, self._features(indices), strict=True))
            self.refused |= {index for index in indices if not np.isfinite(self.lowered[index][0])}

    def is_refused(self, index: int) -> bool:
        """Whether a candidate is known to be refused."""
        return index in self.refused

    def best(self) -> list[int]:
        """The candidates that were lowered and not refused, best estimate first."""
        valid = [index for index in self.lowered if not self.is_refused(index)]
        return sorted(valid, key=lambda index: float(self.lowered[index][0]))

    def of(self, indices: Sequence[int]) -> Floats:
        """The estimates of candidates: a guess for those that were not lowered."""
        result = self.guess(self._encoding.digits(indices))
        for at, index in enumerate(indices):
            if index in self.lowered:
                result[at] = self._finite(self.lowered[index][0])
        return result

    def loops_of(self, indices: Sequence[int]) -> Floats:
        """The features of the loops of candidates that were lowered; those of refused ones are 0."""
        rows = [self.lowered[index] for index in indices]
        return np.array([row if np.isfinite(row[0]) else np.zeros_like(row) for row in rows])

    def guess(self, digits: Ints) -> Floats:
        """The estimates of candidates by their knobs alone: ridge regression on the products of features."""
        if self._fitted < len(self.lowered):
            self._fit()
        return self._squares(self._encoding.features(digits)) @ self._weights + self._shift

    def _fit(self) -> None:
        indices = list(self.lowered)
        valid = [row[0] for row in self.lowered.values() if np.isfinite(row[0])]
        self._worst = max(valid, default=0.0)
        targets = np.array([self._finite(self.lowered[index][0]) for index in indices])
        features = self._encoding.of(indices)
        self._center, spread = features.mean(axis=0), features.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        squares = self._squares(features)
        self._shift = float(targets.mean())
        kernel = squares @ squares.T + _RIDGE * squares.shape[1] ** 0.5 * np.eye(len(squares))
        self._weights: Floats = squares.T @ np.linalg.solve(kernel, targets - self._shift)
        self._fitted = len(indices)

    def _finite(self, estimate: float) -> float:
        return estimate if np.isfinite(estimate) else self._worst + _REFUSED

    def _squares(self, features: Floats) -> Floats:
        """The features and the products of all pairs, standardised before."""
        standard = (features - self._center) / self._spread
        rows, columns = np.triu_indices(standard.shape[1])
        return np.hstack([standard, 0.5 * standard[:, rows] * standard[:, columns]])
