"""AutoTVM's genetic search against steps computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from tuning_spaces import failed, made_up_task, measured, ran, smooth_cost, tiles

from mlc.tuning.space import Knob, Part, Space
from mlc.tuning.tuners.genes import Genes
from mlc.tuning.tuners.genetic import GeneticTuner, best_of

TWO_KNOBS = Space((Part("s", (Knob("a", tuple(range(10)), 0), Knob("b", tuple(range(10)), 0))),))


class Scripted(Random):
    """Random numbers that the test writes; `weights` holds what choices were drawn by."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self.numbers = list(numbers)
        self.weights: list[list[float]] = []

    def random(self) -> float:
        return self.numbers.pop(0)

    def randrange(self, *_: int) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] as it is called here
        return int(self.numbers.pop(0))

    def choices(self, population: Sequence[int], weights: Sequence[float]) -> list[int]:  # pyright: ignore[reportIncompatibleMethodOverride] as it is called here
        self.weights.append([round(weight, 6) for weight in weights])
        return [population[int(self.numbers.pop(0))]]


def test_one_generation_by_hand() -> None:
    tuner = GeneticTuner(made_up_task(TWO_KNOBS, flops=12), population=4, elites=2)
    tuner.random = Scripted([21, 43, 65])  # the first generation: the default (0) and these
    assert tuner.propose(4) == [0, 21, 43, 65]
    children = [
        # parents 1 and 3 (21: a=1 b=2; 65: a=5 b=6), cut after one digit: a=1 b=6; no mutation -> 61
        [1, 3, 1, 0.5, 0.5],
        # parents 3 and 1, cut after none: the second parent, 21, was visited: digit 1 becomes 9 -> a=1 b=9
        [3, 1, 0, 0.5, 0.5, 1, 9],
        # parents 2 and 3 (43: a=3 b=4), cut after one: a=3 b=6; digit 0 mutates to 7 -> a=7 b=6
        [2, 3, 1, 0.05, 7, 0.1],
        # parents 1 and 2, cut after one: a=1 b=4
        [1, 2, 1, 0.9, 0.9],
    ]
    script = Scripted([number for child in children for number in child])
    tuner.random = script
    tuner.update([(0, failed()), (21, ran(3.0)), (43, ran(12.0)), (65, ran(2.0))])
    assert tuner.propose(10) == [61, 91, 67, 41]
    assert not script.numbers
    assert script.weights[:2] == [[0.0, 4.0, 1.0, 6.0], [0.0, 0.0, 1.0, 6.0]]  # FLOP/s; the first parent is out
    assert tuner.elites == [(65, 6.0), (21, 4.0)]


def test_elites_of_old_generations_are_parents() -> None:
    tuner = GeneticTuner(made_up_task(TWO_KNOBS, flops=12), seed=1, population=4, elites=2)
    tuner.update([(index, ran(12.0 / (1 + place))) for place, index in enumerate(tuner.propose(4))])
    kept = list(tuner.elites)
    assert [score for _, score in kept] == [4.0, 3.0]
    script = Scripted([4, 5, 1, 0.0, 9, 0.0, 9])
    second = tuner.propose(4)
    tuner.random = script
    with pytest.raises(IndexError):  # the script ends after the first child; its weights are what counts
        tuner.update([(index, ran(24.0)) for index in second])
    assert script.weights[0] == [0.5] * 4 + [4.0, 3.0]
    assert tuner.elites == kept


def test_what_is_left_of_a_small_space_is_the_last_generation() -> None:
    space = Space((Part("s", (Knob("a", tuple(range(7)), 3),)),))
    tuner = GeneticTuner(made_up_task(space), population=4)
    first = tuner.propose(9)
    assert len(first) == 4
    tuner.update([(index, ran(1.0)) for index in first])
    assert tuner.propose(9) == sorted(set(range(7)) - set(first))


def test_the_best_of_a_pool() -> None:
    assert best_of([(1, 0.5), (2, 3.0), (3, 2.0)], 2) == [(2, 3.0), (3, 2.0)]


def test_generations_get_faster() -> None:
    space = Space((tiles(8), tiles(8, "other")))
    task = made_up_task(space)
    tuner, means = GeneticTuner(task, seed=0, population=20), list[float]()
    for _ in range(6):
        batch = tuner.propose(20)
        tuner.update(measured(task, batch, smooth_cost))
        means.append(sum(smooth_cost(space[index]) for index in batch) / len(batch))
    assert means[-1] < 0.75 * means[0]


def test_genes_are_candidates() -> None:
    space = Space((tiles(3), Part("plain", ()), tiles(4, "other")))
    genes = Genes(space)
    assert [genes.index(genes.digits(index)) for index in range(space.size)] == list(range(space.size))
    assert genes.dims == [3, 3, 3, 2, 2, 4, 4, 2, 2]
    assert Genes(Space((tiles(3),))).dims == [3, 3, 2, 2]
