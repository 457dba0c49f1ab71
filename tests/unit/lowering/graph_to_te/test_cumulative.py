"""Running sums and products: neighbouring rows side by side, as scalars or as lanes of a tile."""

from pathlib import Path

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

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


def test_rows_do_not_wait_for_one_another(tmp_path: Path) -> None:
    """One loop over an axis carries the sums of 8 rows, or of 16 lanes."""
    small = Small()
    x = small.x(40, 64)
    small.out(small.op("CumSum", x, small.const(1)), small.op("CumSum", x, small.const(0)))
    compilation = Compilation(load_model(small.proto(), {}), Options(threads=1, keep=frozenset(["loop"])))
    compilation.write(tmp_path)
    assert "-> f32, f32, f32, f32, f32, f32, f32, f32 {" in compilation.texts["loop"]
    assert "-> vector<16xf32> {" in compilation.texts["loop"]
