"""The model-based tuner and its parts: what it learns, how it searches large spaces, what other tasks teach it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from statistics import median

import numpy as np
import pytest
from tuning_spaces import failed, made_up_task, measured, ran, smooth_cost, tiles

from mlc.tuning.space import STRATEGY, Knob, Part, Space, Values
from mlc.tuning.task import Task
from mlc.tuning.tuners.anneal import Annealer
from mlc.tuning.tuners.cost_model import targets
from mlc.tuning.tuners.encoding import Encoding, Floats
from mlc.tuning.tuners.estimates import Estimates
from mlc.tuning.tuners.genes import Genes
from mlc.tuning.tuners.model import ModelTuner
from mlc.tuning.tuners.protocol import History, Tuner, make_tuner
from mlc.tuning.tuners.ridge import Ridge
from mlc.tuning.tuners.transfer import Lesson

SMALL = Space((tiles(8),))
LARGE = Space((tiles(60, "tiled"), tiles(8, "other")))


def trials(tuner: Tuner, task: Task, goal: float, most: int = 400) -> int:
    """Candidates until one costs at most the goal."""
    count = 0
    while count < most and (batch := tuner.propose(8)):
        for index in batch:
            count += 1
            if smooth_cost(task.space[index]) <= goal:
                return count
        tuner.update(measured(task, batch, smooth_cost))
    return count


def least(space: Space) -> float:
    return min(smooth_cost(values) for values in space)


@pytest.mark.parametrize("kind", ["model", "evolution"])
def test_a_cost_model_needs_fewer_trials_than_chance(kind: str) -> None:
    task, goal = made_up_task(SMALL), least(SMALL) * 1.01
    chance = median(trials(make_tuner("random", task, seed), task, goal) for seed in range(20))
    assert median(trials(ModelTuner(task, seed, trees=False), task, goal) for seed in range(5)) < 0.4 * chance
    assert median(trials(make_tuner(kind, task, seed), task, goal) for seed in range(5)) < 0.4 * chance


def test_a_large_space_is_annealed() -> None:
    task = made_up_task(LARGE)
    assert task.space.size > 4096
    assert trials(ModelTuner(task, 0, trees=False), task, least(SMALL) * 1.2) < 100


def test_estimates_come_first_and_refused_candidates_last() -> None:
    task = made_up_task(SMALL)
    costs = [smooth_cost(values) for values in SMALL]
    refused = {index for index in range(SMALL.size) if index % 5 == 0}

    def features(indices: Sequence[int]) -> Floats:
        return np.array([[inf if i in refused else np.log2(costs[i] * 1e9), 1.0] for i in indices])

    tuner = ModelTuner(task, 0, features=features, trees=False)
    first = tuner.propose(8)
    assert first[0] == SMALL.index_of(SMALL.default)
    assert not refused & set(first[1:])
    middle = median(costs)
    assert sum(costs[index] < middle for index in first[1:]) >= 6


def test_predictions_follow_what_was_measured() -> None:
    task = made_up_task(SMALL)
    tuner = ModelTuner(task, 0, history_of(SMALL), trees=False)
    assert tuner.predict([0, 1]) == []
    for _ in range(4):
        tuner.update(measured(task, tuner.propose(8), smooth_cost))
    order = sorted(range(SMALL.size), key=lambda index: smooth_cost(SMALL[index]))
    fast, slow = tuner.predict(order[:10]), tuner.predict(order[-10:])
    assert min(fast) > max(slow)


def test_errors_are_slower_than_all_that_ran() -> None:
    costs = targets([1.0, inf, 2.0])
    assert costs[1] > costs[2] > costs[0] == 0.0
    assert targets([inf, inf]).tolist() == [0.5, 0.5]


def test_differences_of_slow_candidates_count_less() -> None:
    costs = targets([1.0, 1.1, 2.0, 20.0, 22.0, 200.0])
    assert costs[1] - costs[0] == pytest.approx(np.log(1.1))
    assert costs[2] - costs[0] == pytest.approx(np.log(2.0))
    assert costs[4] - costs[3] < 0.5 * np.log(1.1)
    assert (np.diff(costs) > 0).all()
    assert np.diff(costs[[0, 3, 5]])[1] < 0.5 * np.diff(costs[[0, 3, 5]])[0]


def test_errors_everywhere_do_not_end_the_search() -> None:
    task = made_up_task(SMALL)
    tuner = ModelTuner(task, 0)
    seen: set[int] = set()
    while batch := tuner.propose(16):
        assert not seen & set(batch)
        seen |= set(batch)
        tuner.update([(index, failed()) for index in batch])
    assert len(seen) == SMALL.size
    assert tuner.best is None


def test_ridge_interpolates_and_knows_where_it_was() -> None:
    points = np.linspace(0.0, 4.0, 9)[:, None]
    ridge = Ridge(["x"])
    ridge.fit(points, np.sin(points[:, 0]))
    told = ridge.predict(np.array([[1.25], [30.0]]))
    assert told.costs[0] == pytest.approx(np.sin(1.25), abs=0.1)
    assert told.deviations[1] > 3 * told.deviations[0]


def test_what_a_batch_will_measure_is_no_longer_uncertain() -> None:
    points = np.array([[0.0], [1.0], [8.0]])
    ridge = Ridge(["x"])
    ridge.fit(points, np.array([0.0, 1.0, 0.5]))
    told = ridge.predict(np.array([[4.0], [4.1], [20.0]]))
    before = told.deviations.copy()
    told.measure(0)
    assert told.deviations[0] < 0.7 * before[0]
    assert told.deviations[1] < 0.7 * before[1]
    assert told.deviations[2] > 0.8 * before[2]


def test_means_act_linearly_beyond_the_measurements() -> None:
    ridge = Ridge(["x"])
    x = np.zeros((6, 1))
    means = np.arange(6.0)[:, None]
    ridge.fit(x, 3.0 * means[:, 0], means)
    assert ridge.predict(np.zeros((1, 1)), np.array([[10.0]])).costs[0] == pytest.approx(30.0, rel=0.1)


def test_guesses_of_estimates_follow_the_products_of_sizes() -> None:
    encoding = Encoding(SMALL)
    real = [values["rows"] * values["columns"][1] for values in SMALL]  # pyright: ignore[reportOperatorIssue, reportIndexIssue] sizes
    estimates = Estimates(encoding, lambda indices: np.log2([[float(real[index])] for index in indices]))
    estimates.lower(list(range(0, SMALL.size, 3)))
    guesses = estimates.guess(encoding.digits(range(SMALL.size)))
    assert np.abs(guesses - np.log2(np.array(real, float))).max() < 1.0
    assert estimates.best()[0] in [index for index, size in enumerate(real) if size == 1]


def test_annealing_finds_the_peak_and_keeps_its_chains() -> None:
    knobs = tuple(Knob(f"k{n}", tuple(range(20)), 0) for n in range(6))
    genes = Genes(Space((Part("s", knobs),)))
    annealer = Annealer(genes, np.random.default_rng(0))
    goal = np.array([3, 17, 8, 0, 19, 11])

    def score(digits: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Floats:
        return -np.abs(digits - goal).sum(axis=1).astype(float)

    first = annealer.search(score, 16, set(), [])
    again = annealer.search(score, 16, set(), [])
    top = genes.index(goal.tolist())
    scores = score(np.array([genes.digits(index) for index in again]))
    assert len(again) == 16
    assert scores.tolist() == sorted(scores, reverse=True)
    assert max(score(np.array([genes.digits(index) for index in first]))) <= scores[0]
    assert scores[0] >= -3
    assert top not in annealer.search(score, 16, {top}, [top])


def shifted(values: Values) -> float:
    """Another task of the strategy: the same tiles are good, all of it is slower."""
    return 7.5 * smooth_cost(values)


def history_of(space: Space) -> History:
    values = [space[index] for index in range(0, space.size, 4)]
    return [(made_up_task(space, "dense_2"), [(one, ran(shifted(one))) for one in values])]


def test_records_of_another_task_shorten_the_search() -> None:
    task, goal = made_up_task(SMALL), least(SMALL) * 1.01
    alone = median(trials(ModelTuner(task, seed, trees=False), task, goal) for seed in range(5))
    taught = median(
        trials(ModelTuner(task, seed, history_of(Space((tiles(7),))), trees=False), task, goal) for seed in range(5)
    )
    assert taught < 0.5 * alone


def test_misleading_records_do_not_end_the_search() -> None:
    task, goal = made_up_task(SMALL), least(SMALL) * 1.01
    wrong: History = [(made_up_task(SMALL, "x_1"), [(one, ran(1 / smooth_cost(one))) for one in SMALL])]
    assert trials(ModelTuner(task, 0, wrong, trees=False), task, goal) <= SMALL.size // 2


def test_records_of_other_strategies_teach_nothing() -> None:
    encoding = Encoding(SMALL)
    assert not Lesson(encoding, history_of(Space((tiles(7, "winograd"),))))
    assert encoding.of_values({STRATEGY: "winograd", "rows": 1}) is None
    assert Lesson(encoding, history_of(SMALL))


def test_features_of_values_are_those_of_their_number() -> None:
    space = Space((tiles(5), tiles(4, "other")))
    encoding = Encoding(space)
    for index in range(0, space.size, 7):
        row = encoding.of_values(space[index])
        assert row is not None
        assert row.tolist() == encoding.of([index])[0].tolist()
