"""Scatters that are written as loops: rows of updates are tiles, and one that is out of bounds leaves its place."""

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.lowering.graph_to_te.extern import kernels

RNG = np.random.default_rng(0)
CASES = [
    # shape, indices that may repeat
    ((50, 64), RNG.integers(-50, 50, (90, 1))),  # whole tiles
    ((50, 77), RNG.integers(0, 50, (3, 30, 1))),  # and a rest
    ((50, 33), RNG.integers(0, 50, (40, 1))),  # of one element
    ((9, 8, 5), RNG.integers(0, 8, (20, 2))),
    ((9, 3, 40), RNG.integers(0, 9, (20, 1))),
    ((300,), RNG.integers(0, 300, (70, 1))),  # single elements
]


@pytest.fixture(autouse=True)
def _loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_GATHERED_UPDATES", 0)


def scatter(small: Small, shape: tuple, indices: np.ndarray, dtype: type, reduction: str) -> None:
    """Updates of the elements or rows at these indices, as an output."""
    rows = (*indices.shape[:-1], *shape[indices.shape[-1] :])
    x, u = small.x(*shape, dtype=dtype), small.x(*rows, dtype=dtype)
    small.out(small.op("ScatterND", x, small.const(indices), u, reduction=reduction))


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_rows(reduction: str, dtype: type, threads: int, target: str) -> None:
    small = Small()
    for shape, indices in CASES:
        if reduction == "none":  # the order of updates of one place is nobody's
            depth = indices.shape[-1]
            indices = np.unique(indices.reshape(-1, depth) % shape[:depth], axis=0)
        scatter(small, shape, indices, dtype, reduction)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_places_out_of_bounds_are_left_out() -> None:
    small = Small()
    x, i, u = small.x(6, 40), small.x(3, 1, dtype=np.int64), small.x(3, 40)
    small.out(small.op("ScatterND", x, i, u))
    exe = mlc.compile(small.proto(), threads=1, cache=False)
    inputs = {x: np.zeros((6, 40), np.float32), i: np.array([[2], [9], [-7]]), u: np.ones((3, 40), np.float32)}
    got = next(iter(exe(inputs).values()))
    np.testing.assert_array_equal(got, np.repeat([[0], [0], [1], [0], [0], [0]], 40, axis=1))


def test_every_pass_keeps_the_values() -> None:
    small = Small()
    for shape, indices in CASES[:3]:
        scatter(small, shape, indices, np.float32, "add")
    assert mlc.compile(small.proto(), threads=2, validate_each=True)
