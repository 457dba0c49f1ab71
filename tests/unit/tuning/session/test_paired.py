"""The confidence interval of a speed-up: against published quantiles, by enumeration, and by its coverage."""

import math
import random
from itertools import product

import pytest

from mlc.tuning.session.paired import critical_rank, speed_up


@pytest.mark.parametrize(
    ("rounds", "published"), [(6, 0), (7, 2), (8, 3), (10, 8), (12, 13), (15, 25), (20, 52), (25, 89)]
)
def test_the_ranks_are_those_of_wilcoxons_table(rounds, published):
    assert critical_rank(rounds, 0.95) == published + 1


@pytest.mark.parametrize("rounds", [3, 6, 9])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_rank_is_that_of_all_signs(rounds, level):
    sums = [sum(n * sign for n, sign in enumerate(signs, 1)) for signs in product((0, 1), repeat=rounds)]
    fits = [k for k in range(max(sums)) if sum(s < k for s in sums) / len(sums) <= (1 - level) / 2]
    assert critical_rank(rounds, level) == max(fits)


def test_equal_ratios_give_an_interval_of_one_point():
    found = speed_up([2.0, 4.0, 6.0, 8.0, 2.0, 3.0, 9.0], [1.0, 2.0, 3.0, 4.0, 1.0, 1.5, 4.5])
    assert (found.low, found.estimate, found.high) == pytest.approx((2.0, 2.0, 2.0))


def test_too_few_rounds_say_nothing():
    found = speed_up([2.0] * 5, [1.0] * 5)
    assert (found.low, found.high) == (0.0, math.inf)
    assert found.estimate == pytest.approx(2.0)


def test_what_slows_a_round_down_slows_both():
    """Drift of the machine cancels in the pairs; one outlier does not move the interval."""
    drift = [1.0, 1.3, 2.0, 1.1, 5.0, 1.0, 1.7, 1.2, 3.0, 1.0]
    before = [1.10 * d for d in drift]
    before[4] *= 30
    found = speed_up(before, drift)
    assert found.low == pytest.approx(1.10)
    assert found.estimate == pytest.approx(1.10)


def test_the_interval_holds_the_truth_as_often_as_it_says():
    rng = random.Random(7)
    held = 0
    for _ in range(1000):
        after = [math.exp(rng.gauss(0, 0.1)) for _ in range(15)]
        before = [1.05 * math.exp(rng.gauss(0, 0.1)) for _ in range(15)]
        found = speed_up(before, after)
        held += found.low <= 1.05 <= found.high
    assert 930 <= held <= 970


def test_rounds_are_paired():
    with pytest.raises(ValueError, match="shorter"):
        speed_up([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="at least one round"):
        speed_up([], [])
