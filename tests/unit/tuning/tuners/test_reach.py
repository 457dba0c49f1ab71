"""
How many trials the tuners need in spaces that were searched exhaustively, from a default of median speed.

`benchmarks/search_spaces.py` made the data. The parameters of the model-based tuner were chosen on TUNED_ON; the other
spaces were looked at only to be reported.
"""

from __future__ import annotations

from statistics import median

import pytest
from searched_spaces import FOLDER, Searched, median_trials, searched

from mlc.tuning.tuners.model import ModelTuner
from mlc.tuning.tuners.trees import has_trees

TUNED_ON = ("dense_16x1024x512", "dense_96x512x512")
NAMES = sorted(path.stem for path in FOLDER.glob("*.npz"))
HARD = 100
"""Trials that random search needs, in the median, where a model has something to show."""


def model_trials(space: Searched, seeds: range, *, trees: bool, lowers: bool) -> float:
    """The median of the trials of the model-based tuner, with or without the features of loops."""
    features = space.features if lowers else None
    tuners = [ModelTuner(space.task, seed, features=features, trees=trees) for seed in seeds]
    return median(space.trials(tuner, most=200) for tuner in tuners)


def test_there_are_hard_spaces_of_both_kinds() -> None:
    hard = [name for name in NAMES if median_trials(searched(name), "random", range(50)) >= HARD]
    assert any(name.startswith("conv") for name in hard)
    assert any(name.startswith("dense") for name in hard)


@pytest.mark.parametrize("trees", [False, True], ids=["ridge", "trees"])
@pytest.mark.parametrize("name", NAMES)
def test_a_fifth_of_the_trials_of_chance(name: str, trees: bool) -> None:
    if trees and not has_trees():
        pytest.skip("needs lightgbm, the extra mlc[tuning]")
    space = searched(name).from_a_poor_default()
    chance = median_trials(space, "random", range(50))
    needed = model_trials(space, range(20), trees=trees, lowers=True)
    assert needed <= 64
    assert needed < (0.2 * chance if chance >= HARD else chance)


@pytest.mark.parametrize("name", NAMES)
def test_the_ridge_on_knobs_alone_needs_less_than_half_of_chance(name: str) -> None:
    space = searched(name).from_a_poor_default()
    chance = median_trials(space, "random", range(50))
    if chance >= HARD:
        assert model_trials(space, range(20), trees=False, lowers=False) < 0.5 * chance


def test_one_space_quickly() -> None:
    space = searched(TUNED_ON[1]).from_a_poor_default()
    assert model_trials(space, range(3), trees=False, lowers=True) <= 24
