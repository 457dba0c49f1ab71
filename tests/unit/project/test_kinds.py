"""benchmarks/kinds.py: every kind compiles and has the values of onnxruntime at its smallest draw; how ratios count."""

import sys
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import mlc

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))
try:
    import beside
    import kinds
    import paired
    from beside import Settings, measure
    from contenders import has_bytes_as_weights_alone
    from kinds import markdown, selected, summary, thread_counts
    from workloads.catalogue import KINDS
finally:
    sys.path.remove(str(BENCHMARKS))

onnxruntime.set_default_logger_severity(3)


def values_of_onnxruntime(model: bytes, inputs: dict[str, np.ndarray]) -> list[np.ndarray] | None:
    """Its values without optimisations; None where it has no kernel for an operator's element type."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return None
    return session.run(None, inputs)


@pytest.mark.parametrize("name", KINDS)
def test_the_smallest_draw_has_the_values_of_onnxruntime(name: str) -> None:
    drawn = KINDS[name].draw(0, smallest=True)
    expected = values_of_onnxruntime(drawn.model.SerializeToString(), drawn.inputs)
    got = list(mlc.compile(drawn.model, threads=1)(drawn.inputs).values())
    if expected is None:
        assert name.startswith("bf16/"), "onnxruntime lacks bf16 alone"
        assert all(np.isfinite(one).all() for one in got)
        return
    for ours, theirs in zip(got, expected, strict=True):
        assert ours.shape == theirs.shape
        scale = max(float(np.max(np.abs(theirs), initial=0.0)), 1e-30)
        difference = np.max(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)), initial=0.0)
        assert difference <= KINDS[name].tolerance * scale


def test_a_seed_says_what_is_drawn() -> None:
    kind = KINDS["conv2d/3x3 middle"]
    assert kind.draw(5).sizes == kind.draw(5).sizes
    assert kind.draw(5).model.SerializeToString() == kind.draw(5).model.SerializeToString()
    assert len({kind.draw(seed).sizes for seed in range(8)}) > 1
    assert kind.draw(0, smallest=True).sizes == "c=64 h=28 w=28 out=64"


def test_there_are_at_least_120_kinds_of_many_families() -> None:
    assert len(KINDS) >= 120
    assert len({name.split("/")[0] for name in KINDS}) >= 20


def test_a_ratio_is_above_only_with_its_whole_interval() -> None:
    sure = paired.best_ratio([{"mlc": 2.0, "a": 1.0, "b": 4.0}, {"mlc": 2.02, "a": 1.0, "b": 4.0}] * 2, "mlc")
    assert sure is not None
    assert (sure.peer, sure.above) == ("a", True)
    assert sure.low < sure.mean < sure.high
    unsure = paired.best_ratio([{"mlc": 1.0, "a": 1.0}, {"mlc": 3.0, "a": 1.0}, {"mlc": 1.0, "a": 1.1}], "mlc")
    assert unsure is not None
    assert unsure.mean > 1.0
    assert not unsure.above
    assert paired.best_ratio([{"mlc": 1.0}], "mlc") is None


def test_what_is_above_is_measured_once_more_and_all_runs_count(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"a": [1.5, 0.8], "b": [0.9], "c": [1.2, 1.21]}

    def measured(kind: Any, args: Any, threads: int) -> beside.Entry:
        runs = [{"mlc": times[kind.name].pop(0) * near, "peer": 1.0} for near in (0.99, 1.0, 1.01)]
        return beside.Entry(kind.name, "", threads, runs, paired.best_ratio(runs, "mlc"))

    monkeypatch.setattr(kinds, "measure_kind", measured)
    times = {name: [one for one in several for _ in range(3)] for name, several in times.items()}
    found = kinds.run_kinds([SimpleNamespace(name=name) for name in times], SimpleNamespace(), 2, lambda _: None)
    assert [len(entry.runs) for entry in found] == [6, 3, 6]
    assert [entry.ratio.above for entry in found] == [False, False, True]
    assert not any(times.values())


def test_contenders_run_in_turns() -> None:
    order: list[str] = []
    runs = paired.runs_of({name: lambda n=name: order.append(n) for name in ("a", "b")}, 1e-6, 1)
    assert len(runs) == paired.RUNS
    assert all(set(one) == {"a", "b"} for one in runs)
    changes = sum(one != two for one, two in pairwise(order))
    assert changes >= 10 * paired.RUNS


def test_a_model_is_measured_and_reported(tmp_path: Path) -> None:
    drawn = KINDS["softmax/one row of 1000"].draw(0)
    path = tmp_path / "kind.onnx"
    path.write_bytes(drawn.model.SerializeToString())
    entry = measure("softmax", drawn.sizes, path, drawn.inputs, Settings(1, 1e-4))
    assert not entry.reason
    assert entry.ratio is not None
    assert entry.error < 1e-5
    assert "softmax" in entry.kernel
    assert "| softmax | rows=1 width=1000 |" in markdown([entry])
    assert summary([entry]).startswith(("1 measured", "0 measured"))


def test_peers_keep_activations_in_floats_where_the_model_does(tmp_path: Path) -> None:
    found: dict[str, bool] = {}
    for name in ("weights in bytes/DequantizeLinear by channel, MatMul", "matmul/square", "int8/conv 3x3"):
        path = tmp_path / "model.onnx"
        path.write_bytes(KINDS[name].draw(0, smallest=True).model.SerializeToString())
        found[name] = has_bytes_as_weights_alone(path)
    assert list(found.values()) == [True, False, False]


def test_a_peer_with_wrong_values_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the other peer agrees with mlc; where none does, the values of mlc are in question."""
    drawn = KINDS["softmax/one row of 1000"].draw(0)
    path = tmp_path / "kind.onnx"
    path.write_bytes(drawn.model.SerializeToString())
    (right,) = mlc.compile(drawn.model, threads=1)(drawn.inputs).values()

    def measured(**values: np.ndarray) -> Any:
        peers = {name: lambda: None for name in values}, {name: [one] for name, one in values.items()}
        monkeypatch.setattr(beside, "_peers", lambda *_: peers)
        return measure("softmax", drawn.sizes, path, drawn.inputs, Settings(1, 1e-4))

    entry = measured(a=right, b=right * 1.1)
    assert (list(entry.left_out), entry.reason, set(entry.runs[0])) == (["b"], "", {"mlc", "a"})
    assert "9.1e-02 away from those of mlc and the other peer" in markdown([entry])
    entry = measured(a=right * 1.1, b=right * 1.2)
    assert (entry.left_out, set(entry.runs[0])) == ({}, {"mlc", "a", "b"})
    assert entry.reason.startswith("values differ: 9.1e-02 of the greatest")


def test_what_fails_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "kind.onnx"
    path.write_bytes(b"no model")
    entry = measure("broken", "", path, {}, Settings(1, 1e-4))
    assert entry.ratio is None
    assert entry.reason
    assert f"- broken (): {entry.reason}" in markdown([entry])


def test_wrong_options_are_said() -> None:
    with pytest.raises(SystemExit, match="finds none; --list prints all"):
        selected("no such kind")
    with pytest.raises(SystemExit, match="expected a regular expression after --only, but got '\\('"):
        selected("(")
    with pytest.raises(SystemExit, match="expected --threads as in '1,2', but got 'two'"):
        thread_counts("two")
    with pytest.raises(SystemExit, match="expected --threads between 1 and"):
        thread_counts("0")
    assert [one.name for one in selected("^lrn/5")] == ["lrn/5 channels, 0.75"]
