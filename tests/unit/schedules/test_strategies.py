"""Every strategy, on small kernels of every family: scheduled native code gives what the unscheduled loops give."""

import numpy as np
import pytest
from native import buffers, parse, run_native, through
from strategy_cases import (
    CASES,
    dense_transposed,
)

import mlc
from mlc.dialects import loop
from mlc.interp.loop import run
from mlc.targets.target import native_target


def reference(text: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs with the outputs of the unscheduled loops."""
    func = next(iter(through(parse(text), "convert-te-to-loop").body.block.ops))
    assert isinstance(func, loop.FuncOp)
    arrays = buffers(func)
    n_in = len(arrays) - func.outputs.value.data
    return arrays, run(func, arrays[:n_in])


SCHEDULED = ("convert-te-to-loop", "loop-apply-schedule", "loop-tiles")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_strategy_gives_the_values_of_the_plain_loops(name: str, threads: int) -> None:
    arrays, expected = reference(CASES[name])
    module = through(parse(CASES[name]), f"te-add-schedule{{threads={threads}}}", *SCHEDULED)
    run_native(module, "k", arrays, threads)
    for got, want in zip(arrays[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


NARROW = ["dense ragged", "conv 3x3 prime", "depthwise", "depthwise padded", "softmax long", "max pool"]


@pytest.mark.parametrize("name", NARROW)
def test_strategy_on_narrower_vectors(name: str) -> None:
    arrays, expected = reference(CASES[name])
    module = through(parse(CASES[name]), "te-add-schedule{target=x86-64-v3}", *SCHEDULED)
    run_native(module, "k", arrays, 1, "x86-64-v3")
    for got, want in zip(arrays[-len(expected) :], expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_a_reduction_over_everything_runs_in_vectors() -> None:
    text = CASES["function of all"]
    module = through(parse(text), "te-add-schedule{target=x86-64-v3}", *SCHEDULED)
    assert "vector<32xf32>" in str(module)


SHAPES = {
    "transpose, large": "vector<16x16xf32>",  # squares that are transposed in registers
    "transpose from blocks": "vector<16x16xf32>",
    "max pool, plain": "vector<4x32xf32>",  # lanes along the row, not along the window; rows share what they read
    "sum pool, plain padded": "vector<3x32xf32>",
}


@pytest.mark.parametrize("name", SHAPES)
def test_register_tiles(name: str) -> None:
    module = through(parse(CASES[name]), "te-add-schedule{target=x86-64-v4}", *SCHEDULED)
    assert SHAPES[name] in str(module)


def test_a_kept_axis_of_size_one_gives_no_lanes():
    text = """
    te.func @argmax(%x: tensor<200x300xf32>) -> tensor<200x1xi64> {
      %best, %at = te.compute "best" (%i : 200, %kept : 1) reduce (%k : 300) argmax {
        %0 = te.read %x[%i, %k] : f32
        %1 = arith.index_cast %k : index to i64
        te.yield %0, %1 : f32, i64
      } : tensor<200x1xf32>, tensor<200x1xi64>
      te.return %at : tensor<200x1xi64>
    }"""
    op = mlc.build(text, threads=1)
    assert f"vector<{4 * native_target().lanes('f32')}xf32>" in op.text("loop")
    x = np.random.default_rng(0).standard_normal((200, 300)).astype(np.float32)
    np.testing.assert_array_equal(op(x), x.argmax(axis=1, keepdims=True))


@pytest.mark.parametrize(("target", "tile"), [("x86-64-v4", "vector<1x64xf32>"), ("x86-64-v3", "vector<4x8xf32>")])
def test_one_row_of_sums_over_lanes_reads_whole_lines_of_one_column(target: str, tile: str) -> None:
    text = dense_transposed(1, 40, 200)
    arrays, expected = reference(text)
    module = through(parse(text), f"te-add-schedule{{target={target}}}", *SCHEDULED)
    assert tile in str(module)
    module = through(parse(text), "te-add-schedule", *SCHEDULED)
    run_native(module, "k", arrays, 1)
    np.testing.assert_allclose(arrays[-1], expected[0], rtol=2e-5, atol=2e-5)
