"""What a candidate will cost: kernel ridge regression, and trees beside it as measurements add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mlc.tuning.tuners.encoding import Floats
from mlc.tuning.tuners.ridge import Prediction, Ridge
from mlc.tuning.tuners.trees import Trees, has_trees

if TYPE_CHECKING:
    from mlc.tuning.tuners.encoding import Encoding

_TREES_FROM = 24
"""Measurements from which on trees are trained."""
_TREES_HALF = 128
"""Measurements at which the predictions of the trees and of the ridge have equal weight."""
_ERROR = 0.5
"""How much worse than the slowest candidate one that failed counts, in the logarithm of seconds."""
_FAST = float(np.log(2.0))
"""The logarithm of a slowdown beyond the best up to which costs are told apart exactly: by a factor of two."""


class CostModel:
    """The logarithm of seconds by features: `fit` on what was measured, then `predict`."""

    def __init__(self, encoding: Encoding, seed: int, trees: bool | None = None) -> None:
        self._ridge = Ridge(encoding.groups)
        self._trees = Trees(seed) if (has_trees() if trees is None else trees) else None
        self._trees_weight = 0.0
        self._needs_loops = False

    def fit(
        self, features: Floats, seconds: Sequence[float], means: Floats | None = None, loops: Floats | None = None
    ) -> None:
        """
        Learn from candidates; infinite seconds are errors.

        `means` are further features that act linearly, `loops` (`loop_features`) such as only trees can use.
        """
        costs = targets(seconds)
        self._ridge.fit(features, costs, means)
        self._trees_weight = 0.0
        if self._trees is not None and len(costs) >= _TREES_FROM and costs.std() > 0:
            self._trees_weight = len(costs) / (len(costs) + _TREES_HALF)
            self._needs_loops = loops is not None
            self._trees.fit(_side_by_side(features, means, loops), costs)

    def predict(self, features: Floats, means: Floats | None = None, loops: Floats | None = None) -> Prediction:
        """The expected logarithms of seconds of candidates; by the ridge alone without the `loops` of `fit`."""
        prediction = self._ridge.predict(features, means)
        if self._trees is not None and self._trees_weight > 0 and self._needs_loops == (loops is not None):
            word = self._trees.predict(_side_by_side(features, means, loops))
            prediction.costs = (1 - self._trees_weight) * prediction.costs + self._trees_weight * word
        return prediction


def targets(seconds: Sequence[float]) -> Floats:
    """
    The logarithms of seconds; an error counts as somewhat slower than the slowest.

    Beyond twice the least seconds they grow ever more slowly, in the same order: how slow a slow candidate is teaches
    little about which one is fastest, but a few that are fifty times as slow would make up most of the variance.
    """
    given = np.array(seconds, np.float64)
    valid = np.isfinite(given) & (given > 0)
    logs = np.log(np.where(valid, given, 1.0))
    if valid.any():
        near = float(logs[valid].min()) + _FAST
        logs = np.minimum(logs, near) + np.log1p(np.maximum(logs - near, 0.0))
    worst = float(logs[valid].max()) if valid.any() else 0.0
    return np.where(valid, logs, worst + _ERROR)


def _side_by_side(features: Floats, *others: Floats | None) -> Floats:
    return np.hstack([features, *(other for other in others if other is not None)])
