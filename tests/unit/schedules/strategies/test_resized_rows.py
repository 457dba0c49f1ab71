"""Pictures whose columns are computed as quotients, in several vectors a row: unrolled, and onnxruntime's values."""

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

MODES = ["align_corners", "half_pixel", "asymmetric"]
WIDTHS = [(33, 128), (70, 140), (90, 64), (48, 131)]


def model(widths: list[tuple[int, int]]) -> Small:
    """Pictures of 5 rows, resized to 7 rows, by each mode."""
    small = Small()
    for before, after in widths:
        for mode in MODES:
            x = small.x(1, 3, 5, before)
            sizes = small.const(np.array([1, 3, 7, after]))
            small.out(small.op("Resize", x, "", "", sizes, mode="linear", coordinate_transformation_mode=mode))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(WIDTHS)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize(("after", "unrolled"), [(140, True), (60, False), (2100, False)])
def test_pieces_of_a_row_are_unrolled_where_they_are_few(after: int, unrolled: bool, tmp_path) -> None:
    """A row of one piece has constant places as it is; AVX-512 has pieces of 64 columns."""
    options = Options(target="x86-64-v4", keep=frozenset(["te"]))
    compilation = Compilation(load_model(model([(70, after)]).proto(), {}), options)
    compilation.write(tmp_path)
    assert ("sched.unroll" in compilation.texts["te"]) == unrolled
