"""bf16 and f16: how far models are off those in f32, that each pass keeps what they compute, and what is refused."""

from typing import Any

import numpy as np
import pytest
from small_graphs import Small, onnxruntime_results
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.driver.options import PRECISIONS
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.passes.graph.precision.narrow_products import multiplies_narrow
from mlc.support.errors import UserError
from mlc.tools import cli


def convolutions(s: Small, channels: int = 32) -> None:
    """A stem, an inverted bottleneck with its residual, pools, a concatenation, a classifier."""

    def conv(x: str, inputs: int, outputs: int, kernel: int, **attributes: Any) -> str:
        pad = kernel // 2
        w = s.w(outputs, inputs // attributes.get("group", 1), kernel, kernel)
        s.weights[w] *= 1 / np.sqrt(kernel * kernel * inputs / attributes.get("group", 1))
        return s.op("Conv", x, w, s.w(outputs), pads=[pad] * 4, **attributes)

    x = s.op("Relu", conv(s.x(1, 3, 22, 18), 3, channels, 3, strides=[2, 2]))
    wide = s.op("Relu", conv(x, channels, 4 * channels, 1))
    deep = s.op("Relu", conv(wide, 4 * channels, 4 * channels, 3, group=4 * channels))
    x = s.op("Add", conv(deep, 4 * channels, channels, 1), x)
    x = s.op("Concat", x, s.op("Relu", conv(x, channels, 24, 3)), axis=1)
    x = s.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = s.op("Relu", conv(x, channels + 24, 40, 3))
    x = s.op("Flatten", s.op("GlobalAveragePool", x))
    s.out(s.op("Gemm", x, s.w(40, 10), s.w(10)))


def transformer(s: Small, tokens: int = 12, width: int = 64, heads: int = 4) -> None:
    """One layer: attention by heads, a residual and a layer norm, the feed-forward part."""

    def linear(x: str, inputs: int, outputs: int) -> str:
        w = s.w(inputs, outputs)
        s.weights[w] *= 1 / np.sqrt(inputs)
        return s.op("Add", s.op("MatMul", x, w), s.w(outputs))

    def head(x: str) -> str:
        split = s.op("Reshape", linear(x, width, width), s.const([1, tokens, heads, width // heads]))
        return s.op("Transpose", split, perm=[0, 2, 1, 3])

    def norm(x: str) -> str:
        return s.op("LayerNormalization", x, s.w(width, positive=True), s.w(width))

    x = s.x(1, tokens, width)
    q, k, v = head(x), head(x), head(x)
    scores = s.op("Div", s.op("MatMul", q, s.op("Transpose", k, perm=[0, 1, 3, 2])), s.const(4.0, np.float32))
    mixed = s.op("Transpose", s.op("MatMul", s.op("Softmax", scores), v), perm=[0, 2, 1, 3])
    x = norm(s.op("Add", linear(s.op("Reshape", mixed, s.const([1, tokens, width])), width, width), x))
    hidden = s.op("Tanh", linear(x, width, 4 * width))
    s.out(norm(s.op("Add", linear(hidden, 4 * width, width), x)))


def groups(s: Small, width: int = 24) -> None:
    """Convolutions of 4 groups, then of 4 groups of 18 channels, and a product of 5 rows by 72 columns."""

    def conv(x: str, inputs: int, outputs: int) -> str:
        w = s.w(outputs * 4, inputs, 3, 3)
        s.weights[w] *= 1 / np.sqrt(9 * inputs)
        return s.op("Relu", s.op("Conv", x, w, pads=[1] * 4, group=4))

    x = conv(conv(s.x(1, 4 * width, 9, 14), width, 18), 18, 20)
    x = s.op("Reshape", s.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), s.const([-1, 40]))
    w = s.w(40, 72)
    s.weights[w] *= 1 / np.sqrt(40)
    s.out(s.op("Relu", s.op("MatMul", s.op("Slice", x, s.const([0]), s.const([5])), w)))


MODELS = {"convolutions": convolutions, "transformer": transformer, "groups": groups}


@pytest.fixture(scope="module", params=MODELS)
def small(request: pytest.FixtureRequest) -> Small:
    model = Small(case=request.param)
    MODELS[request.param](model)
    return model


@pytest.mark.parametrize(
    ("precision", "largest", "target"),
    [
        ("bf16", 2e-2, "native"),
        ("bf16", 2e-2, "native,-avx512bf16"),
        ("bf16", 2e-2, "x86-64-v3"),
        ("f16", 2e-3, "native"),
        ("f16", 2e-3, "x86-64-v3"),
    ],
)
def test_the_error_is_that_of_the_precision(small: Small, precision: str, largest: float, target: str) -> None:
    (wanted,) = onnxruntime_results(small)
    exe = mlc.compile(mlc.load(small.proto()), target=target, threads=1, precision=precision, cache=False)
    (found,) = exe(small.arrays).values()
    assert (found.dtype, found.shape) == (np.float32, wanted.shape)
    relative = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
    assert exe.report["precision"] == precision
    multiplies = multiplies_narrow(precision, mlc.Target.parse(target))
    if multiplies:  # the estimate is about what was measured
        assert relative / 8 < exe.report["relative_error"] < relative * 8
    assert relative < largest
    assert relative > largest / 1e4 or not multiplies


def test_words_behind_the_last_column_are_not_loaded() -> None:
    """72 columns are four and a half vectors of words, and a tile of more masks whole ones: Zen 5 multiplies them."""
    s = Small(case="groups")
    groups(s)
    for target in ("znver4", "znver5"):
        mlc.compile(mlc.load(s.proto()), target=target, threads=1, precision="bf16", cache=False)


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_keeps_what_a_bf16_model_computes(name: str) -> None:
    s = Small(case=name)
    MODELS[name](s, 16)
    mlc.compile(mlc.load(s.proto()), threads=2, precision="bf16", validate_each=True)


def test_weights_that_are_used_once_are_stored_as_f16() -> None:
    s = Small(case="row")
    s.out(s.op("MatMul", s.x(1, 64), s.w(64, 96)))
    (wanted,) = onnxruntime_results(s)
    sizes = {}
    for precision in PRECISIONS:
        exe = mlc.compile(mlc.load(s.proto()), threads=1, precision=precision, cache=False)
        sizes[precision] = exe.artifact.model["weights_bytes"]
        np.testing.assert_allclose(exe(s.arrays)[s.outputs[0]], wanted, atol=0.2 if precision == "bf16" else 2e-2)
    assert sizes["f16"] == sizes["bf16"] < 0.6 * sizes["f32"]


def test_precisions_by_name() -> None:
    with pytest.raises(UserError, match="expected precision to be one of f32, bf16, f16, but got 'int8'"):
        mlc.compile("model.onnx", precision="int8")
    with pytest.raises(UserError, match="expected a precision of f32, bf16, f16, but got 'half'"):
        run_passes(ModuleOp([]), make_context(), ["graph-to-mixed-precision{precision=half}"])


def test_a_precision_below_its_level_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    s = Small(case="row")
    s.out(s.op("MatMul", s.x(2, 64), s.w(64, 96)))
    for level, warned in ((2, True), (3, False)):
        mlc.compile(mlc.load(s.proto()), threads=1, precision="bf16", opt_level=level, cache=False)
        said = capsys.readouterr().err
        assert (
            "precision='bf16' changes nothing: graph-to-mixed-precision, a pass of -O3, does not run" in said
        ) is warned


def test_run_tells_how_far_outputs_are_off(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import onnx

    s = Small(case="row")
    s.out(s.op("MatMul", s.x(2, 64), s.w(64, 96)))
    path = str(tmp_path / "row.onnx")
    onnx.save(s.proto(), path)
    assert cli.run(["run", path, "--random", "--threads", "1", "--precision", "bf16", "--compare-f32"]) == 0
    assert "off f32 by at most" in capsys.readouterr().out
    assert cli.run(["run", path, "--random", "--compare-f32"]) == 1
    assert "expected a model file and --precision bf16 or f16 beside --compare-f32" in capsys.readouterr().err
