"""The paired check: what is kept is surely faster than the default."""

import pytest
from tuning_farm import FakeFarm
from tuning_records import opened, ran, some_task

from mlc.tuning.farm import Evaluation
from mlc.tuning.records.record import Comparison
from mlc.tuning.results import ErrorCode
from mlc.tuning.session.confirm import CANDIDATES, ROUNDS, Confirmation, compared
from mlc.tuning.session.watch import Watcher

TASK = some_task()
FAST, LUCKY, SLOW = TASK.space[3], TASK.space[4], TASK.space[5]


def confirmed(database, seconds, noise=lambda _: 1.0):
    farm = FakeFarm(seconds, noise=noise)
    return Confirmation(database, farm, Evaluation()).run([TASK], Watcher())[0], farm


def stored(database):
    for values, cost in ((TASK.space.default, 10e-6), (FAST, 8e-6), (LUCKY, 7e-6), (SLOW, 20e-6)):
        database.add(TASK, values, ran(cost))


def test_the_winner_is_the_surest_not_the_luckiest(tmp_path):
    with opened(tmp_path / "r.db") as database:
        stored(database)
        truth = {str(TASK.space.default): 10e-6, str(FAST): 8e-6, str(LUCKY): 11e-6}
        checked, farm = confirmed(database, lambda _, values: truth[str(values)], lambda turn: 1 + turn % 5)
        assert checked.is_faster
        assert dict(checked.values) == FAST
        assert checked.comparison.low == pytest.approx(1.25)
        record = database.best(TASK)
        assert dict(record.values) == FAST
        assert record.comparison.speedup == pytest.approx(1.25)
        assert record.comparison.rounds == ROUNDS
    assert [one.values for one in farm.compared] == [TASK.space.default, LUCKY, FAST], "the slow one is not compared"


def test_what_is_not_surely_faster_is_not_kept(tmp_path):
    with opened(tmp_path / "r.db") as database:
        stored(database)
        turns = iter(range(1000))

        def noisy(_, values):
            factor = (0.9, 1.1, 1.02, 0.97)[next(turns) % 4]
            return 10e-6 if values == TASK.space.default else factor * 10e-6

        checked, _ = confirmed(database, noisy)
        assert not checked.is_faster
        assert checked.comparison.low <= 1
        assert database.best(TASK) is None


def test_an_earlier_winner_that_fails_now_gives_way_to_the_default(tmp_path):
    with opened(tmp_path / "r.db") as database:
        stored(database)
        database.keep(TASK, SLOW, Comparison(8e-6, 10e-6, 1.2, 1.3, 15))
        truth = {str(SLOW): 20e-6, str(TASK.space.default): 10e-6}
        checked, farm = confirmed(database, lambda _, values: truth.get(str(values), 12e-6))
        assert SLOW in [one.values for one in farm.compared]
        assert not checked.is_faster
        assert dict(database.best(TASK).values) == TASK.space.default


def test_an_earlier_winner_stays_where_it_wins_again(tmp_path):
    with opened(tmp_path / "r.db") as database:
        stored(database)
        database.keep(TASK, SLOW, Comparison(5e-6, 10e-6, 1.9, 2.1, 15))
        truth = {str(SLOW): 5e-6, str(TASK.space.default): 10e-6}
        checked, _ = confirmed(database, lambda _, values: truth.get(str(values), 9e-6))
        assert checked.is_faster
        assert dict(checked.values) == SLOW


@pytest.mark.parametrize("only", [[], [TASK.space.default], [FAST]])
def test_nothing_is_compared_where_nothing_can_win(tmp_path, only):
    with opened(tmp_path / "r.db") as database:
        for values in only:
            database.add(TASK, values, ran(1e-6))
        checked, farm = confirmed(database, lambda *_: 1e-6)
        assert checked is None
        assert not farm.compared


def test_candidates_that_the_space_has_lost_are_not_compared(tmp_path):
    lost = {"strategy": "matmul", "tile": (7, 7), "unroll": 0}
    with opened(tmp_path / "r.db") as database:
        stored(database)
        database.add(TASK, lost, ran(1e-6))
        _, farm = confirmed(database, lambda *_: 1e-6)
        assert lost not in [one.values for one in farm.compared]


def test_a_candidate_that_fails_in_the_check_is_not_kept(tmp_path):
    with opened(tmp_path / "r.db") as database:
        stored(database)
        truth = {str(FAST): ErrorCode.RUNTIME_DEVICE, str(LUCKY): ErrorCode.RUN_TIMEOUT}
        checked, _ = confirmed(database, lambda _, values: truth.get(str(values), 10e-6))
        assert checked is None
        assert database.best(TASK) is None


def test_the_level_of_each_interval_rises_with_the_candidates():
    default = [ran(1.0 + 0.01 * n) for n in range(ROUNDS)]
    rounds = [ran(0.9 + 0.017 * ((7 * n) % ROUNDS)) for n in range(ROUNDS)]
    alone, among = compared(default, rounds), compared(default, rounds, CANDIDATES)
    assert among.low < alone.low < alone.high < among.high
    assert among.level == alone.level == 0.95
