"""The loop of a session on made-up tasks: what is measured, in which order, and what the database holds then."""

from dataclasses import replace

import pytest
from tuning_farm import FakeFarm
from tuning_records import opened, ran, some_task

from mlc.tuning.results import ErrorCode
from mlc.tuning.session.search import INTERRUPTED, Plan, Search
from mlc.tuning.session.watch import Watcher
from mlc.tuning.space import STRATEGY

A, B = some_task("dense_a", "te.func @a"), replace(some_task("dense_b", "te.func @b"), weight=1)


def seconds(task, values):
    """The default takes 10 us, the candidate (16, 16) without unrolling 5 us, the strategy `rows` fails."""
    if values[STRATEGY] == "rows":
        return ErrorCode.RUN_TIMEOUT
    if values == {STRATEGY: "matmul", "tile": (16, 16), "unroll": 0}:
        return 5e-6
    return 10e-6 if values == task.space.default else 12e-6


class Heard(Watcher):
    """Keeps what it hears."""

    def __init__(self):
        self.trials, self.resumed = [], None

    def tasks(self, tasks, resumed):
        self.resumed = resumed

    def trial(self, number, values, result, standing):
        self.trials.append((number, values, result, standing))


def searched(tmp_path, tasks=(A, B), farm=None, **plan):
    farm, heard = farm or FakeFarm(seconds), Heard()
    with opened(tmp_path / "r.db") as database:
        search = Search(tasks, database, farm, Plan(**{"tuner": "grid", "round_size": 8, **plan}), heard)
        search.run()
        stored = {task.name: database.results(task) for task in tasks}
    return search, farm, heard, stored


def test_defaults_come_first_and_the_very_first_alone(tmp_path):
    _, farm, _, _ = searched(tmp_path, trials=20)
    assert farm.batches[0] == 1, "the first record is stored as soon as one candidate was built"
    assert [(one.task.name, one.values) for one in farm.measured[:2]] == [
        ("dense_a", A.space.default),
        ("dense_b", B.space.default),
    ]


def test_every_trial_is_stored_and_heard_of_in_that_order(tmp_path):
    search, farm, heard, stored = searched(tmp_path, trials=40)
    assert search.trials == len(farm.measured) == len(heard.trials) == sum(map(len, stored.values())) == 40
    assert search.reason == "all trials are done"
    assert [values for number, values, *_ in heard.trials if number == 0] == [values for values, _ in stored["dense_a"]]


def test_no_candidate_is_measured_twice_and_exhausted_spaces_end_the_search(tmp_path):
    search, farm, _, _ = searched(tmp_path, trials=1000)
    assert len(farm.measured) == 2 * A.space.size == 150
    assert len({(one.task.key, str(one.values)) for one in farm.measured}) == 150
    assert search.reason.startswith("every task has stopped")
    assert search.trails[0].errors == {"RUN_TIMEOUT": 3}


def test_the_estimate_of_the_latency_is_uses_times_best(tmp_path):
    _, _, heard, _ = searched(tmp_path, trials=1000)
    first, last = heard.trials[0][-1], heard.trials[-1][-1]
    assert first.latency == float("inf"), "a task has no time yet"
    assert last.default_latency == pytest.approx((3 + 1) * 10e-6)
    assert last.latency == pytest.approx((3 + 1) * 5e-6)


def test_another_session_measures_only_what_is_new(tmp_path):
    _, before, _, _ = searched(tmp_path, trials=30)
    _, after, heard, stored = searched(tmp_path, trials=30)
    assert heard.resumed == 30
    assert len(after.measured) == 30, "without resume a session has its own trials"
    assert not {str((m.task.key, m.values)) for m in before.measured} & {
        str((m.task.key, m.values)) for m in after.measured
    }
    assert sum(map(len, stored.values())) == 60


def test_with_resume_the_trials_of_the_database_count(tmp_path):
    searched(tmp_path, trials=30)
    _, farm, _, stored = searched(tmp_path, trials=50, resume=True)
    assert len(farm.measured) == 20
    assert sum(map(len, stored.values())) == 50
    search, farm, _, _ = searched(tmp_path, trials=50, resume=True)
    assert not farm.measured
    assert search.reason == "all trials are done"


def test_a_resumed_search_goes_where_an_uninterrupted_one_goes(tmp_path):
    """With one task and a tuner without chance the same candidates are measured in the same order."""
    (tmp_path / "whole").mkdir(), (tmp_path / "parts").mkdir()
    _, whole, _, _ = searched(tmp_path / "whole", (A,), trials=24)
    _, first, _, _ = searched(tmp_path / "parts", (A,), trials=9)
    _, second, _, _ = searched(tmp_path / "parts", (A,), trials=24, resume=True)
    assert [m.values for m in first.measured + second.measured] == [m.values for m in whole.measured]


def test_until_ends_the_search(tmp_path):
    search, farm, _, _ = searched(tmp_path, trials=1000, until=0.3)
    assert "gained" in search.reason
    assert len(farm.measured) < 150


def test_time_ends_the_search_inside_a_round(tmp_path):
    now = [0.0]

    def slow(task, values):
        now[0] += 1.0
        return seconds(task, values)

    farm = FakeFarm(slow)
    with opened(tmp_path / "r.db") as database:
        plan = Plan(tuner="grid", seconds=4.5, round_size=64)
        search = Search([A], database, farm, plan, clock=lambda: now[0])
        search.run()
        assert len(database.results(A)) == 5
    assert search.reason == "the time is up"


class Interrupting(Watcher):
    def __init__(self, at):
        self.at = at

    def trial(self, number, values, result, standing):
        if standing.trials == self.at:
            raise KeyboardInterrupt


def test_ctrl_c_ends_the_search_and_keeps_all_results(tmp_path):
    farm = FakeFarm(seconds)
    with opened(tmp_path / "r.db") as database:
        search = Search([A, B], database, farm, Plan(tuner="grid", trials=100, round_size=8), Interrupting(13))
        search.run()
        assert search.is_interrupted
        assert search.reason == INTERRUPTED
        assert sum(len(database.results(task)) for task in (A, B)) == 13 == search.trials
    with opened(tmp_path / "r.db") as database:
        other = Search([A, B], database, FakeFarm(seconds), Plan(tuner="grid", trials=14, resume=True))
        other.run()
        assert other.trials == 1, "its leases were given back"


def test_two_sessions_on_one_database_share_the_work(tmp_path):
    """What another one holds is left to it; what another one stored is learned."""
    with opened(tmp_path / "r.db") as other, opened(tmp_path / "r.db") as database:
        held = A.space[5]
        assert other.lease(A, held, 60)
        farm = FakeFarm(seconds)
        search = Search([A], database, farm, Plan(tuner="grid", trials=1000, round_size=8))
        other.add(A, A.space[7], ran(1e-6))
        search.run()
        measured = [m.values for m in farm.measured]
        assert held not in measured
        assert A.space[7] not in measured
        assert len(measured) == A.space.size - 2
        assert search.budget.latency == pytest.approx(3 * 1e-6), "the foreign result counts"


def test_a_full_disk_stops_with_one_diagnostic_and_closes_the_farm_iterator(tmp_path):
    closed = []

    class Farm(FakeFarm):
        def measure(self, inputs, evaluation, device=None):
            try:
                yield from super().measure(inputs, evaluation, device)
            finally:
                closed.append(True)

    with opened(tmp_path / "r.db") as database:
        database.add = lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
        with pytest.raises(OSError, match="No space"):
            Search([A], database, Farm(seconds), Plan(tuner="grid", trials=4)).run()
    assert closed == [True]


def test_what_a_learning_tuner_predicts_stands_beside_what_was_measured(tmp_path):
    """After enough trials the predictions order candidates as their times do, better than chance."""

    def by_unroll(task, values):
        return (1.0 if values.get("unroll") else 2.0) * 1e-5 * values["tile"][0] if "tile" in values else 9e-4

    search, *_ = searched(tmp_path, (A,), FakeFarm(by_unroll), tuner="model", trials=60)
    predicted = [(point.predicted, -point.cost) for point in search.trails[0].points if point.predicted is not None]
    assert len(predicted) > 20
    pairs = [(a, b) for a in predicted for b in predicted if a[1] < b[1]]
    assert sum(a[0] < b[0] for a, b in pairs) > 0.7 * len(pairs)


def test_what_records_recommend_is_measured_before_what_the_tuner_proposes(tmp_path):
    best, hint = {STRATEGY: "matmul", "tile": (16, 16), "unroll": 0}, A.space[A.space.size // 2]
    with opened(tmp_path / "r.db") as database:
        database.add(some_task("dense_z", "te.func @z"), best, ran(5e-6))
        database.add(some_task("dense_z", "te.func @z"), A.space[1], ran(7e-6))
        database.add(A, hint, replace(ran(1e-3), machine={"device": "tvm"}))
    _, farm, _, stored = searched(tmp_path, [A], trials=20)
    early = [one.values for one in farm.measured[:4]]
    assert early[0] == A.space.default
    assert early[1:3] == [hint, best], "what TVM's log says of the kernel, then the best of a similar one"
    assert len({str(values) for values, _ in stored["dense_a"]}) == len(stored["dense_a"]) == 20


def test_results_of_another_compiler_teach_the_tuner(tmp_path, monkeypatch):
    from mlc.tuning.session import search as module

    told = []
    make = module.make_tuner
    monkeypatch.setattr(module, "make_tuner", lambda *given, **named: told.append(given[-1]) or make(*given, **named))
    with opened(tmp_path / "r.db") as database:
        database.add(A, A.space[3], replace(ran(1e-3), machine={"device": "tvm"}))
    searched(tmp_path, [A], trials=2)
    ((task, results),) = told[0]
    assert (task, [dict(values) for values, _ in results]) == (A, [A.space[3]])
