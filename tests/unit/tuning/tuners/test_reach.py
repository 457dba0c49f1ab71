"""
How many trials the tuners need in spaces that were searched exhaustively, from a default of median speed.

`benchmarks/search_spaces.py` made the data. The parameters of the model-based tuner were chosen on TUNED_ON, and on two
convolutions that chance solves too soon to be a test. Numbers are medians over 20 seeds, random search's over 50.
"""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest
from searched_spaces import Searched, median_trials, searched

from mlc.tuning.tuners.model import ModelTuner
from mlc.tuning.tuners.trees import has_trees

TUNED_ON = "dense_16x1024x512"
SPACES = (TUNED_ON, "dense_32x768x256", "dense_96x512x512", "conv_256x256x14x3", "conv_1024x256x14x1")
PART = 0.2
"""The part of random search's trials within which the model-based tuner reaches 95 % of the best."""
MOST = 64.0
"""The trials within which it does."""
KNOBS_ALONE = {TUNED_ON: 0.2, "dense_96x512x512": 0.35}
"""The same part without the features of loops, for candidates that cannot be lowered."""


@cache
def chance(name: str) -> float:
    return median_trials(from_poor(name), "random", range(50))


def from_poor(name: str) -> Searched:
    return searched(name).from_a_poor_default()


def needed(name: str, trees: bool, loops: bool) -> float:
    if trees and not has_trees():
        pytest.skip("needs lightgbm, the extra mlc[tuning]")
    space = from_poor(name)
    features = space.features if loops else None
    return median(
        space.trials(ModelTuner(space.task, seed, features=features, trees=trees), most=130) for seed in range(20)
    )


@pytest.mark.parametrize("trees", [False, True], ids=["ridge", "trees"])
@pytest.mark.parametrize("name", SPACES)
def test_loops_and_knobs_against_chance(name: str, trees: bool) -> None:
    trials = needed(name, trees, loops=True)
    assert chance(name) >= 100
    assert trials <= MOST
    assert trials < PART * chance(name)


@pytest.mark.parametrize("trees", [False, True], ids=["ridge", "trees"])
@pytest.mark.parametrize("name", KNOBS_ALONE)
def test_knobs_alone_against_chance(name: str, trees: bool) -> None:
    trials = needed(name, trees, loops=False)
    assert trials <= MOST
    assert trials < KNOBS_ALONE[name] * chance(name)
