"""
Kernel ridge regression with its uncertainty, in numpy: the cost model for few measurements, and without lightgbm.

It is the posterior of a Gaussian process whose kernel is

    exp(-sum over groups g of weight_g * distance_g)  +  linear part of `means`

The weights, one for each group of features, are those of the highest likelihood among a few values each, found one
group after another. Features that say what the cost may be (an estimate by the analytic model, what other tasks
taught) come as `means`: they act linearly, far from any measurement too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mlc.tuning.tuners.encoding import Floats, Ints

_WEIGHTS = (0.0, 0.03, 0.1, 0.3, 1.0)
"""Weights of a group that are tried: 1 / distance at which two candidates have little in common."""
_START = 0.1
_NOISES = (0.003, 0.03, 0.2)
"""Parts of the variance that are noise, which are tried."""
_SWEEPS = 2
"""How often each group's weight is tried."""
_MEAN_VARIANCE = 4.0
"""The variance of the coefficients of `means`, where costs and means have variance 1."""
_LEAST_VARIANCE = 1e-6
_MOST_ROWS = 320
"""Measurements that are fitted: the fastest half of these and the last ones."""


@dataclass
class Prediction:
    """What candidates are expected to cost, and how sure that is."""

    ridge: Ridge
    costs: Floats
    """The expected costs."""
    variances: Floats
    """The variances of the standardised costs."""
    features: Floats
    means: Floats
    solved: Floats

    @property
    def deviations(self) -> Floats:
        """The standard deviations of the costs."""
        return np.sqrt(self.variances) * self.ridge.scale

    def part(self, rows: Ints) -> Prediction:
        """The prediction of some of the candidates."""
        solved = self.solved[:, rows]
        return Prediction(
            self.ridge, self.costs[rows], self.variances[rows], self.features[rows], self.means[rows], solved
        )

    def measure(self, row: int) -> None:
        """Lower the variances as if that candidate had been measured, whatever it costs."""
        one = slice(row, row + 1)
        prior = self.ridge.kernel(self.features, self.features[one], self.means, self.means[one])[:, 0]
        covariances = prior - self.solved.T @ self.solved[:, row]
        gains = covariances * covariances / (self.variances[row] + self.ridge.noise)
        self.variances = np.maximum(self.variances - gains, _LEAST_VARIANCE)


class Ridge:
    """A model of costs: `fit`, then `predict`."""

    def __init__(self, groups: Sequence[str]) -> None:
        names = list(dict.fromkeys(groups))
        self._columns = [[n for n, group in enumerate(groups) if group == name] for name in names]
        self._weights = np.full(len(names), _START)
        self.noise = _NOISES[1]
        self._ready = False

    def fit(self, features: Floats, costs: Floats, means: Floats | None = None) -> None:
        """Learn from candidates; `costs` are any numbers, less is better; `means` has one row a candidate."""
        means = np.zeros((len(features), 0)) if means is None else means
        if len(costs) > _MOST_ROWS:
            order = np.argsort(costs, kind="stable")[: _MOST_ROWS // 2]
            rows = np.union1d(order, np.arange(len(costs) - _MOST_ROWS // 2, len(costs)))
            features, costs, means = features[rows], costs[rows], means[rows]
        self._shift, self.scale = float(costs.mean()), float(costs.std()) or 1.0
        self._mean_shift, self._mean_scale = means.mean(axis=0), np.where(means.std(axis=0) > 0, means.std(axis=0), 1.0)
        self._features, self._targets = features, (costs - self._shift) / self.scale
        self._means = self._standard(means)
        distances = np.stack([self._distance(columns, features) for columns in self._columns])
        self._choose_weights(distances)
        self._factor, self._solved = self._solve(distances, self._weights, self.noise)[1:]
        self._ready = True

    def predict(self, features: Floats, means: Floats | None = None) -> Prediction:
        """What candidates are expected to cost."""
        assert self._ready, "fit comes first"
        given = self._standard(np.zeros((len(features), 0)) if means is None else means)
        cross = self.kernel(features, self._features, given, self._means)
        solved = np.asarray(np.linalg.solve(self._factor, cross.T), np.float64)
        own = 1.0 + _MEAN_VARIANCE * (given * given).sum(axis=1)
        variances = np.maximum(own - (solved * solved).sum(axis=0), _LEAST_VARIANCE)
        expected = cross @ self._solved * self.scale + self._shift
        return Prediction(self, expected, variances, features, given, solved)

    def kernel(self, a: Floats, b: Floats, a_means: Floats, b_means: Floats) -> Floats:
        """The covariance of two lists of candidates."""
        total = np.zeros((len(a), len(b)))
        for columns, weight in zip(self._columns, self._weights, strict=True):
            if weight > 0:
                for column in columns:
                    total += weight * np.abs(a[:, column, None] - b[None, :, column])
        return np.exp(-total) + _MEAN_VARIANCE * a_means @ b_means.T

    def _standard(self, means: Floats) -> Floats:
        return (means - self._mean_shift) / self._mean_scale

    def _distance(self, columns: list[int], features: Floats) -> Floats:
        return sum(
            (np.abs(features[:, c, None] - features[None, :, c]) for c in columns), np.zeros((len(features),) * 2)
        )

    def _choose_weights(self, distances: Floats) -> None:
        """Climb the likelihood, one group after another, from the weights of the last fit."""
        best = self._solve(distances, self._weights, self.noise)[0]
        for _ in range(_SWEEPS):
            before = best
            for at in range(len(self._weights)):
                for weight in _WEIGHTS:
                    tried = self._weights.copy()
                    tried[at] = weight
                    if tried.any() and (likelihood := self._solve(distances, tried, self.noise)[0]) > best + 1e-9:
                        best, self._weights = likelihood, tried
            for noise in _NOISES:
                if (likelihood := self._solve(distances, self._weights, noise)[0]) > best + 1e-9:
                    best, self.noise = likelihood, noise
            if best == before:
                return

    def _solve(self, distances: Floats, weights: Floats, noise: float) -> tuple[float, Floats, Floats]:
        """The log of the likelihood, with a penalty for weights far from the start; the factor; the solved targets."""
        kernel = np.exp(-np.tensordot(weights, distances, 1)) + _MEAN_VARIANCE * self._means @ self._means.T
        factor = np.asarray(np.linalg.cholesky(kernel + noise * np.eye(len(kernel))), np.float64)
        half = np.asarray(np.linalg.solve(factor, self._targets), np.float64)
        likelihood = -0.5 * float(half @ half) - float(np.log(np.diag(factor)).sum()) - 0.5 * float(weights.sum())
        return likelihood, factor, np.asarray(np.linalg.solve(factor.T, half), np.float64)
