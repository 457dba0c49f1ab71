"""
How many trials the tuners need in spaces that were searched exhaustively, from a default of median speed.

`benchmarks/search_spaces.py` made the data. The parameters of the model-based tuner were chosen on TUNED_ON. Bars are
medians over 20 seeds against random search's over 50; what each space reaches is in its bar, not in a common one.
"""

from __future__ import annotations

from statistics import median

import pytest
from searched_spaces import median_trials, searched

from mlc.tuning.tuners.model import ModelTuner
from mlc.tuning.tuners.trees import has_trees

TUNED_ON = "dense_16x1024x512"
BARS = {TUNED_ON: (0.2, 64.0), "dense_96x512x512": (0.35, 64.0)}
"""The part of random search's trials, and the trials, within which the knobs alone lead to 95 % of the best."""


@pytest.mark.parametrize("trees", [False, True], ids=["ridge", "trees"])
@pytest.mark.parametrize("name", BARS)
def test_knobs_alone_against_chance(name: str, trees: bool) -> None:
    if trees and not has_trees():
        pytest.skip("needs lightgbm, the extra mlc[tuning]")
    space = searched(name).from_a_poor_default()
    chance = median_trials(space, "random", range(50))
    needed = median(space.trials(ModelTuner(space.task, seed, trees=trees), most=130) for seed in range(20))
    part, most = BARS[name]
    assert chance >= 100
    assert needed <= most
    assert needed < part * chance
