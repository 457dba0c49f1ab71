"""Gradient-boosted trees by lightgbm, with a loss on ranks; the extra `mlc[tuning]` installs it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from mlc.tuning.tuners.encoding import Floats

_ROUNDS = 60
_LEVELS = 31
"""Grades of relevance: lightgbm ranks by integers, of which it takes 31 by default."""


def has_trees() -> bool:
    """Whether lightgbm is installed."""
    return find_spec("lightgbm") is not None


class Trees:
    """A ranking of candidates: `predict` gives numbers that are lower for faster ones, scaled like the costs."""

    def __init__(self, seed: int) -> None:
        self._model: Any = None
        self._parameters = {
            "objective": "lambdarank",
            "lambdarank_truncation_level": 64,
            "label_gain": list(range(_LEVELS)),
            "learning_rate": 0.15,
            "num_leaves": 8,
            "min_data_in_leaf": 2,
            "min_sum_hessian_in_leaf": 1e-6,
            "min_data_in_bin": 1,
            "lambda_l2": 1.0,
            "feature_fraction": 0.7,
            "seed": seed,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbose": -1,
        }

    def fit(self, features: Floats, costs: Floats) -> None:
        """Learn the order of candidates; less cost is better."""
        lightgbm: Any = import_module("lightgbm")
        span = float(costs.max() - costs.min()) or 1.0
        grades = np.rint((costs.max() - costs) / span * (_LEVELS - 1)).astype(np.int32)
        data = lightgbm.Dataset(features, grades, group=[len(grades)], free_raw_data=False)
        self._model = lightgbm.train(self._parameters, data, _ROUNDS)
        scores = self._scores(features)
        spread = float(scores.var())
        self._slope = float(((scores - scores.mean()) * (costs - costs.mean())).mean()) / spread if spread > 0 else 0.0
        self._shift = float(costs.mean()) - self._slope * float(scores.mean())

    def predict(self, features: Floats) -> Floats:
        """The expected costs of candidates."""
        return self._shift + self._slope * self._scores(features)

    def _scores(self, features: Floats) -> Floats:
        return np.asarray(self._model.predict(features), np.float64)
