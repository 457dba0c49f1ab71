"""Pictures padded by edge and reflect: onnxruntime's values, and rows in vectors, each at one computed place."""

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

SIZES = [(7, 40), (30, 9), (5, 133)]


def model(mode: str, sizes: list[tuple[int, int]]) -> Small:
    """Relu, Pad and Sigmoid of pictures; channels, rows and columns are padded."""
    small = Small()
    for k, (h, w) in enumerate(sizes):
        x = small.op("Relu", small.x(2, 3, h, w))
        pads = small.const(np.array([0, 1, 3, 4, 0, k, 2, 5]))
        small.out(small.op("Sigmoid", small.op("Pad", x, pads, mode=mode)))
    return small


@pytest.mark.parametrize("mode", ["edge", "reflect"])
@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(mode: str, target: str, threads: int) -> None:
    small = model(mode, SIZES)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_a_row_has_one_place_and_three_masked_loads_a_vector(mode: str, tmp_path) -> None:
    options = Options(target="x86-64-v3", keep=frozenset(["te", "loop"]))
    compilation = Compilation(load_model(model(mode, [(30, 64)]).proto(), {}), options)
    compilation.write(tmp_path)
    masked = [line for line in compilation.texts["te"].splitlines() if "te.read" in line and "mask" in line]
    assert len(masked) == 3  # in front of the last axis, behind it, and inside
    loads = [line for line in compilation.texts["loop"].splitlines() if "loop.load" in line]
    assert loads
    assert all("vector<" in line for line in loads)
