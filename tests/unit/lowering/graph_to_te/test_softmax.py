"""Softmax says that the exponentials of a row minus its maximum are of numbers that are not positive, down to LLVM."""

from pathlib import Path

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_exponentials_of_a_row_minus_its_maximum(name: str, axis: int, tmp_path: Path) -> None:
    small = Small()
    small.out(small.op(name, small.x(37, 53), axis=axis))
    levels = ("te", "loop", "llvm-ir")
    options = Options(target="x86-64-v3", threads=1, keep=frozenset(levels))
    compilation = Compilation(load_model(small.proto(), {}), options)
    compilation.write(tmp_path)
    te, loop, ir = (compilation.texts[level] for level in levels)
    for text in (te, loop):
        assert text.count("math.exp") == text.count("te.nonpositive") > 0
    assert "@mlc.exp_nonpositive." in ir
    assert "@mlc.exp." not in ir
    exe = mlc.compile(small.proto(), target="x86-64-v3", threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_rows_of_f64_and_of_infinities() -> None:
    small = Small()
    small.out(small.op("Softmax", small.op("Cast", small.x(3, 50), to=11), axis=1))
    exe = mlc.compile(small.proto(), threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []
    single = Small()
    single.out(single.op("Softmax", single.x(3, 50), axis=1))
    exe = mlc.compile(single.proto(), threads=1, cache=False)
    (x,) = exe.inputs
    rows = np.zeros((3, 50), np.float32)
    rows[0, 1:], rows[1, 7], rows[2, 7] = -np.inf, 200, np.nan
    (found,) = exe({x.name: rows}).values()
    np.testing.assert_array_equal(found[:2], np.eye(50, dtype=np.float32)[[0, 7]])
    assert np.isnan(found[2]).all()
