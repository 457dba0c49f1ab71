"""Running sums and products: neighbouring rows side by side, as scalars or as lanes of a tile."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.lowering.graph_to_te.extern import cumulative

CASES = [
    # shape, axis
    ((45, 67), 1),  # groups of rows, and a rest
    ((3, 67), -1),  # a single group
    ((67, 45), 0),  # lanes, and a rest
    ((40, 1), 0),
    ((2, 37, 5, 19), 1),
    ((1, 21, 33), 2),  # only the groups are several
    ((2, 3, 50), 2),
    ((41,), 0),
    ((4, 0, 40), 2),
]


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_values(target: str, threads: int, dtype: type) -> None:
    small = Small()
    for n, (shape, axis) in enumerate(CASES):
        at = small.const(axis)
        small.out(small.op("CumSum", small.x(*shape, dtype=dtype), at, exclusive=n % 2, reverse=n // 2 % 2))
        small.out(small.op("CumSum", small.x(*shape, dtype=dtype), at, exclusive=n // 2 % 2, reverse=1 - n % 2))
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_rows_added_to_the_one_before(target: str, threads: int, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cumulative, "STREAMED_BYTES", 0)
    monkeypatch.setattr(cumulative, "PIECE_BYTES", 40)  # rows of several pieces, and a rest
    small = Small()
    for shape, axis in CASES:
        for exclusive, reverse in product((0, 1), repeat=2):
            x, at = small.x(*shape, dtype=dtype), small.const(axis)
            small.out(small.op("CumSum", x, at, exclusive=exclusive, reverse=reverse))
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_every_pass_keeps_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cumulative, "STREAMED_BYTES", 0)
    small = Small()
    for shape, axis in ((7, 45), 0), ((3, 5, 20), 1):
        small.out(small.op("CumSum", small.x(*shape), small.const(axis), reverse=1))
    assert mlc.compile(small.proto(), threads=2, validate_each=True)


def test_rows_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """One loop over an axis carries the sums of 8 rows, or of 32 lanes."""
    small = Small()
    x = small.x(40, 64)
    small.out(small.op("CumSum", x, small.const(1)), small.op("CumSum", x, small.const(0)))
    compilation = Compilation(load_model(small.proto(), {}), Options(threads=1, keep=frozenset(["loop"])))
    compilation.write(tmp_path)
    assert "-> f32, f32, f32, f32, f32, f32, f32, f32 {" in compilation.texts["loop"]
    assert "-> vector<32xf32> {" in compilation.texts["loop"]


def test_threads_share_a_long_row_that_is_streamed(tmp_path: Path) -> None:
    small = Small()
    small.out(small.op("CumSum", small.x(256, 1100), small.const(0)))
    compilation = Compilation(load_model(small.proto(), {}), Options(threads=2, keep=frozenset(["loop"])))
    compilation.write(tmp_path)
    assert re.search(r"loop\.for %\d+ = 0 to 2 parallel", compilation.texts["loop"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3"])
def test_tiles_fit_the_registers(dtype: type, target: str) -> None:
    small = Small()
    small.out(small.op("CumSum", small.x(20, 777, dtype=dtype), small.const(0)))
    exe = mlc.compile(small.proto(), target=target, threads=1, cache=False)
    assert exe.report["warnings"] == []
