"""What every kind of tuner holds to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_spaces import failed, made_up_task, ran, tiles

from mlc.support.errors import UserError
from mlc.tuning.space import Knob, Part, Space
from mlc.tuning.tuners.protocol import make_tuner

KINDS = ["grid", "random", "ga", "model", "evolution"]

knobs = st.integers(1, 4).flatmap(
    lambda count: st.integers(0, count - 1).map(lambda default: (tuple(range(count)), default))
)
parts = st.lists(knobs, max_size=3)
spaces = st.lists(parts, min_size=1, max_size=3).map(
    lambda all_parts: Space(
        tuple(
            Part(f"s{n}", tuple(Knob(f"k{m}", candidates, default) for m, (candidates, default) in enumerate(part)))
            for n, part in enumerate(all_parts)
        )
    )
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12)
@given(space=spaces, seed=st.integers(0, 3), data=st.data())
def test_every_candidate_is_given_once_and_an_error_is_never_best(
    kind: str, space: Space, seed: int, data: st.DataObject
) -> None:
    task = made_up_task(space)
    tuner = make_tuner(kind, task, seed)
    told = data.draw(st.sets(st.integers(0, space.size - 1), max_size=3))
    costs = {index: data.draw(st.one_of(st.none(), st.floats(1e-6, 1.0))) for index in range(space.size)}
    tuner.update([(index, failed() if costs[index] is None else ran(costs[index])) for index in sorted(told)])
    seen: list[int] = []
    while batch := tuner.propose(data.draw(st.integers(3, 9))):
        seen += batch
        tuner.update([(index, failed() if (cost := costs[index]) is None else ran(cost)) for index in batch])
    assert len(seen) == len(set(seen)) == space.size - len(told)
    assert set(seen) | told == set(range(space.size))
    default = space.index_of(space.default)
    assert default in told or seen[0] == default
    valid = {index: cost for index, cost in costs.items() if cost is not None}
    if not valid:
        assert tuner.best is None
    else:
        assert tuner.best is not None
        assert tuner.best[1] == min(valid.values()) == costs[tuner.best[0]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_seed_fixes_the_search(kind: str) -> None:
    task = made_up_task(Space((tiles(),)))

    def search(seed: int) -> list[int]:
        tuner, seen = make_tuner(kind, task, seed), []
        while len(seen) < 40:
            batch = tuner.propose(8)
            seen += batch
            tuner.update([(index, ran(1e-6 * (1 + index % 17))) for index in batch])
        return seen

    assert search(1) == search(1)
    assert kind == "grid" or search(1) != search(2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_may_come_before_the_results_of_the_last_one(kind: str) -> None:
    task = made_up_task(Space((tiles(),)))
    tuner = make_tuner(kind, task, 0)
    seen = [index for _ in range(200) for index in tuner.propose(3)]
    assert len(seen) == len(set(seen)) == task.space.size
    assert tuner.propose(1) == []
    assert tuner.propose(0) == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="expected a tuner among model, random, grid, ga, evolution, but got 'xgb'"):
        make_tuner("xgb", made_up_task(Space((tiles(),))))
