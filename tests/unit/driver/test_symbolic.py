"""Models of symbolic sizes: compiled once, run at many; what does not fit is refused by name."""

import numpy as np
import pytest
from symbolic_models import POINTWISE, PRODUCT, SOFTMAX, softmax

import mlc
from mlc.dialects.graph.dims import DimExpr, basis
from mlc.frontends.onnx.symbols import InputSymbols
from mlc.runtime.sizes import Sizes, evaluate, text
from mlc.support.errors import UserError

SIZES = (1, 2, 3, 7, 15, 16, 17, 63, 64, 65, 127, 200)


def compiled(tmp_path, source, threads=1):
    path = tmp_path / "model.mlir"
    path.write_text(source)
    return mlc.compile(path, threads=threads, cache=False)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("source", "reference"),
    [(POINTWISE, lambda x: np.exp(x) + x), (SOFTMAX, softmax), (PRODUCT, lambda x, w: np.maximum(x @ w.T, 0))],
    ids=["pointwise", "softmax", "product"],
)
def test_one_compilation_is_right_at_many_sizes(tmp_path, source, reference, threads):
    exe = compiled(tmp_path, source, threads)
    rng = np.random.default_rng(0)
    for n in SIZES:
        shapes = [[n if isinstance(s, str) else s for s in spec.shape] for spec in exe.inputs]
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        (y,) = exe({spec.name: a for spec, a in zip(exe.inputs, arrays, strict=True)}).values()
        np.testing.assert_allclose(y, reference(*arrays), rtol=1e-4, atol=1e-5)


def test_outputs_can_be_given_and_kernels_profiled(tmp_path):
    exe = compiled(tmp_path, POINTWISE)
    assert exe.inputs[0].shape == ("N", 70)
    x, out = np.ones((3, 70), np.float32), np.empty((3, 70), np.float32)
    assert exe({"input0": x}, {"output0": out})["output0"] is out
    np.testing.assert_allclose(out, np.exp(x) + x, rtol=1e-5)
    with pytest.raises(ValueError, match=r"expected output 'output0' of shape \(3, 70\), but got \(4, 70\)"):
        exe({"input0": x}, {"output0": np.empty((4, 70), np.float32)})


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"input0": np.ones((3, 71), np.float32)}, "expected axis 1 of input 'input0' to be 70, but got 71"),
        ({"input0": np.ones(3, np.float32)}, r"expected input 'input0' of rank 2, but got shape \(3,\)"),
        ({"input0": np.ones((3, 70))}, "expected input 'input0' of dtype float32, but got float64"),
        ({}, "expected inputs input0, but input 'input0' is missing"),
        ({"x": 1}, "expected inputs input0, but got an unknown input 'x'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(tmp_path, inputs, message):
    with pytest.raises(ValueError, match=message):
        compiled(tmp_path, POINTWISE)(inputs)


def test_kernel_by_kernel(tmp_path):
    (tmp_path / "model.mlir").write_text(PRODUCT)
    whole, stepped = (mlc.compile(tmp_path / "model.mlir", executor=e, threads=1) for e in ("aot", "steps"))
    rng = np.random.default_rng(0)
    for n in (300, 5, 64):
        given = {"input0": rng.standard_normal((n, 40)), "input1": rng.standard_normal((50, 40))}
        given = {name: array.astype(np.float32) for name, array in given.items()}
        assert np.array_equal(stepped(given)["output0"], whole(given)["output0"])
        profile = stepped.profile(given, repeat=1)
        assert [row.flops for row in profile] == [2 * n * 40 * 50 + n * 50]
        assert [row.bytes for row in profile] == [4 * (n * 40 + 50 * 40 + n * 50)]


H32 = [[32, ["H"]]]
MODEL = {
    "symbols": [["H", 1, 4, 1]],
    "inputs": [["x", [1, H32], "float32"], ["y", [[[8, ["H"]], [1, []]]], "float32"]],
    "outputs": [["z", [[[1, [[[[1, ["H"]], [1, []]], 2]]]]], "float32"]],
    "buffers": [[[[64, ["H"]]], []], [128, [0]], [64, [0, 1]]],
}


def test_sizes_follow_from_shapes():
    bound = Sizes(MODEL).bind([(1, 96), (25,)])
    assert (bound.symbols, bound.outputs, bound.offsets, bound.bytes) == ((3,), ((2,),), (0, 192, 320), 384)
    assert text(H32) == "H * 32"
    assert evaluate(MODEL["outputs"][0][1][0], {"H": 4}) == 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(1, 40), (9,)], r"expected axis 1 of input 'x' \(H\) from 32 to 128 in steps of 32, but got 40"),
        ([(1, 160), (9,)], "from 32 to 128 in steps of 32, but got 160"),
        ([(1, 64), (18,)], r"expected axis 0 of input 'y' to be 17 \(H \* 8 \+ 1\), but got 18"),
    ],
)
def test_sizes_that_do_not_agree_are_refused(shapes, message):
    with pytest.raises(ValueError, match=message):
        Sizes(MODEL).bind(shapes)


def test_symbols_that_stand_in_two_inputs_must_agree():
    model = {**MODEL, "inputs": [["x", [H32], "float32"], ["y", [H32], "float32"]]}
    message = r"expected axis 0 of input 'y' to be 64, as axis 0 of input 'x' says \(H\), but got 96"
    with pytest.raises(ValueError, match=message):
        Sizes(model).bind([(64,), (96,)])


def test_a_symbol_may_follow_from_a_size_and_others():
    size = [[2, ["M"]], [1, ["H"]], [3, []]]
    model = {**MODEL, "symbols": [["M", 1, 9, 1], ["H", 1, 4, 1]], "inputs": [["y", [size], "f"], ["x", [H32], "f"]]}
    assert Sizes(model).bind([(13,), (64,)]).values == {"H": 2, "M": 4}
    for length in (10, 12, 25):
        with pytest.raises(
            ValueError, match=rf"axis 0 of input 'y' \(M\) from 7 to 23 in steps of 2, but got {length}"
        ):
            Sizes(model).bind([(length,), (64,)])


@pytest.mark.parametrize("span", [(1,), (-1, 5), (0, 0), (5, 1), (1, 2, 0), "12", (1.0, 2), (33, 63, 32)])
def test_ranges_of_symbols_are_checked(span):
    with pytest.raises(UserError, match="symbol 'H'"):
        InputSymbols({"H": span})


def test_sizes_compare_where_that_is_known():
    h, w = DimExpr.symbol("H"), DimExpr.symbol("W")
    assert h > 0
    assert h * 2 + 1 > h
    assert not h < 1
    with pytest.raises(Exception, match="expected sizes that compare whatever they are, but got H and W"):
        _ = h < w
    assert basis([h * w, (h + 1) // 2]) == [h * w, h]
