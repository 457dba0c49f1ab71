"""The random tuner's order: uniform, without repetition, at a cost that does not depend on the size of the space."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from random import Random

import pytest
from tuning_spaces import made_up_task

from mlc.tuning.space import Knob, Part, Space
from mlc.tuning.tuners.protocol import make_tuner
from mlc.tuning.tuners.shuffle import LazyShuffle


def test_each_order_is_as_likely() -> None:
    random = Random(0)
    orders: Counter[tuple[int, ...]] = Counter()
    for _ in range(6000):
        shuffle = LazyShuffle(4, random)
        orders[tuple(shuffle.take() for _ in range(4))] += 1
    assert set(orders) == set(permutations(range(4)))
    assert all(abs(count - 250) < 75 for count in orders.values())


def test_nothing_is_left_after_the_last_one() -> None:
    shuffle = LazyShuffle(1, Random(0))
    assert shuffle.take() == 0
    with pytest.raises(IndexError, match="all numbers were taken"):
        shuffle.take()


def test_a_space_that_no_list_holds() -> None:
    knobs = tuple(Knob(f"k{n}", tuple(range(1000)), 0) for n in range(8))
    tuner = make_tuner("random", made_up_task(Space((Part("s", knobs),))), seed=3)
    seen = [index for _ in range(20) for index in tuner.propose(50)]
    assert len(set(seen)) == 1000
    assert max(seen) > 10**23 > min(seen[1:])
