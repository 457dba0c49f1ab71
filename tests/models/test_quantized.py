"""Quantised models beside onnxruntime, and float models quantised by calibration."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from small_graphs import Small, mismatches, onnxruntime_results
from test_precision import convolutions, transformer

import mlc
from mlc.driver.calibrate import Histogram, by_divergence, by_error, by_percentile, minmax
from mlc.driver.compilation import Compilation
from mlc.driver.options import Options
from mlc.driver.quantize import PREPARE, observe
from mlc.driver.simulate import Simulation, units_of
from mlc.driver.timing import Timing
from mlc.passes.errors import UserError
from mlc.passes.graph.quantize import parameters, quantisable
from mlc.passes.graph.weights import attach_store
from mlc.passes.manager import make_context, run_passes

TARGETS = ["native", "native,-avx512vnni", "x86-64-v3", "x86-64"]


class Reader(CalibrationDataReader):
    """A few random pictures."""

    def __init__(self, small: Small) -> None:
        rng = np.random.default_rng(1)
        self.left = [{n: rng.standard_normal(a.shape).astype(a.dtype) for n, a in small.arrays.items()} for _ in "abc"]

    def get_next(self) -> Any:
        return self.left.pop() if self.left else None


def quantised(small: Small, tmp_path: Any, signed: bool = False, per_channel: bool = True) -> onnx.ModelProto:
    """The model as onnxruntime quantises it: pairs of QuantizeLinear and DequantizeLinear round every op."""
    source, result = str(tmp_path / "f32.onnx"), str(tmp_path / "int8.onnx")
    onnx.save(small.proto(), source)
    activation = QuantType.QInt8 if signed else QuantType.QUInt8
    quantize_static(
        source,
        result,
        Reader(small),
        quant_format=QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=activation,
        weight_type=QuantType.QInt8,
    )
    return onnx.load(result)


def plain_results(proto: onnx.ModelProto, arrays: Any) -> list[Any]:
    """What onnxruntime computes, unoptimized: in floats between the pairs."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return InferenceSession(proto.SerializeToString(), options).run(None, arrays)


def step(values: Any) -> float:
    """The distance between neighbouring values of a quantised output."""
    return float(np.diff(np.unique(values)).min())


def graph_text(model: mlc.Model) -> str:
    """The graph that is compiled."""
    compilation = Compilation(model, Options("native", 3, 1, keep=frozenset({"graph"})), None, Timing())
    compilation.optimize()
    return compilation.texts["graph"]


@pytest.fixture(scope="module")
def network() -> Small:
    small = Small(case="net")
    convolutions(small)
    return small


@pytest.mark.parametrize(("signed", "per_channel"), [(False, True), (True, True), (False, False)])
def test_quantised_models_are_within_a_step_of_onnxruntime(
    network: Small, tmp_path: Any, signed: bool, per_channel: bool
) -> None:
    proto = quantised(network, tmp_path, signed, per_channel)
    (wanted,) = plain_results(proto, network.arrays)
    for target in TARGETS[:1] if signed or not per_channel else TARGETS:
        exe = mlc.compile(mlc.load(proto), threads=1, target=target, cache=False)
        (found,) = exe(network.arrays).values()
        assert np.abs(found - wanted).max() <= 1.01 * step(wanted), target
        assert found.argmax() == wanted.argmax()
    text = graph_text(mlc.load(proto))
    assert text.count('out_dtype = "int32"') == 6  # 5 convolutions and the classifier; the depthwise one is in floats
    assert "graph.quantize" not in text
    assert "graph.dequantize" not in text


def test_a_quantised_transformer(tmp_path: Any) -> None:
    small = Small(case="layer")
    transformer(small)
    proto = quantised(small, tmp_path)
    (wanted,) = plain_results(proto, small.arrays)
    (found,) = mlc.compile(mlc.load(proto), threads=1, cache=False)(small.arrays).values()
    assert np.abs(found - wanted).max() <= 2.01 * step(wanted)
    assert graph_text(mlc.load(proto)).count('out_dtype = "int32"') >= 4


BYTES = (np.uint8, np.int8)


def integers(small: Small, data_types: Any = BYTES, weight_types: Any = BYTES) -> None:
    """Ops on integers, with zero points of data and of weights, signed and unsigned."""
    rng = np.random.default_rng(5)

    def some(low: int, high: int, *shape: int, dtype: Any) -> Any:
        return rng.integers(low, high, shape).astype(dtype)

    def data(dtype: Any, *shape: int) -> str:
        name = small.x(*shape, dtype=dtype)
        small.arrays[name] = some(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, *shape, dtype=dtype)
        return name

    def weight(dtype: Any, *shape: int) -> str:
        return small.const(some(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, *shape, dtype=dtype), dtype)

    for x in data_types:
        for w in weight_types:
            zx, zw = small.const(11, x), small.const(128 if w is np.uint8 else 0, w)
            small.out(small.op("MatMulInteger", data(x, 5, 64), weight(w, 64, 128), zx, small.const(7, w)))
            picture, kernel = data(x, 1, 16, 9, 7), weight(w, 24, 16, 3, 3)
            small.out(small.op("ConvInteger", picture, kernel, zx, zw, pads=[1, 1, 1, 1]))
            scales = [small.const(s, np.float32) for s in (0.02, 0.03, 9.5)]
            y = small.op("QLinearConv", picture, scales[0], zx, kernel, scales[1], zw, scales[2], zx, strides=[2, 2])
            small.out(y)
            a, b = data(x, 3, 32), weight(w, 32, 16)
            small.out(small.op("QLinearMatMul", a, scales[0], zx, b, scales[1], zw, scales[2], small.const(5, x)))


@pytest.mark.parametrize("target", TARGETS[:3])
def test_integer_ops_are_exact(target: str) -> None:
    small = Small(case="integers")
    integers(small)
    wanted = [np.asarray(a) for a in expected_integers(small)]
    exe = mlc.compile(mlc.load(small.proto()), threads=1, target=target, cache=False)
    assert mismatches(small, exe, wanted) == []


def expected_integers(small: Small) -> list[Any]:
    """onnx's own reference, which takes all combinations of types."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(small.proto()).run(small.outputs, small.arrays)  # pyright: ignore


@pytest.mark.parametrize("build", [convolutions, transformer])
def test_calibration(build: Any) -> None:
    small = Small(case="net")
    build(small)
    (wanted,) = onnxruntime_results(small)
    model = mlc.load(small.proto())
    before, errors = str(model.module), {}
    for method in ("minmax", "percentile", "kl", "mse", "search") if build is convolutions else ("minmax",):
        exe = mlc.compile(mlc.quantize(model, [small.arrays], method), threads=1)
        (found,) = exe(small.arrays).values()
        errors[method] = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
        assert errors[method] == pytest.approx(exe.report["relative_error"], rel=1e-2)
    assert 0 < errors["minmax"] < 0.05
    assert errors.get("percentile", 0) < 0.2
    assert errors.get("kl", 0) < 0.4
    assert errors.get("mse", 0) < 0.05
    assert errors.get("search", 0) < 0.05
    assert str(model.module) == before


def test_a_budget_keeps_the_most_sensitive_layers_in_floats() -> None:
    small = Small(case="net")
    x, wild, blind = small.x(8, 64), small.w(64, 64), small.w(64, 32)
    small.weights[wild][:, 0] *= 1000  # the bytes of all other features are 0 beside this one,
    small.weights[blind][0] = 0  # which the layer behind does not see
    small.out(small.op("MatMul", small.op("MatMul", x, wild), blind))
    small.out(small.op("MatMul", x, small.w(64, 48)))
    model = mlc.load(small.proto())
    kept = mlc.quantize(model, small.arrays, budget=0.02)
    assert mlc.compile(kept, threads=1).report["relative_error"] < 0.02
    for one, count in (
        (mlc.quantize(model, small.arrays), 3),
        (kept, 2),
        (mlc.quantize(model, small.arrays, budget=0), 0),
    ):
        assert graph_text(one).count('out_dtype = "int32"') == count


def test_what_is_simulated_is_what_is_computed(network: Small) -> None:
    model = mlc.load(network.proto())
    attach_store(model.module, model.weights)
    run_passes(model.module, make_context(), PREPARE)
    units = units_of([op for op in model.main.body.block.ops if quantisable(op)])
    (expected,) = mlc.compile(model, threads=1)(network.arrays).values()
    simulation = Simulation(model, units, [network.arrays], [[expected]])
    assert simulation.error({}) == 0
    histograms, _ = observe(model, [unit.value for unit in units], [network.arrays])
    ranges = {k: minmax(histogram, 0) for k, histogram in enumerate(histograms)}
    found = mlc.compile(mlc.quantize(model, network.arrays), threads=1).report["relative_error"]
    assert simulation.error(ranges) == pytest.approx(found, rel=0.2)
    assert 0 < simulation.error({1: ranges[1]}) < found


def test_the_first_and_the_last_layer_may_stay(network: Small) -> None:
    model = mlc.load(network.proto())
    everything = graph_text(mlc.quantize(model, network.arrays)).count('out_dtype = "int32"')
    inner = graph_text(mlc.quantize(model, network.arrays, first=False, last=False)).count('out_dtype = "int32"')
    assert (everything, inner) == (6, 4)


def test_a_quantised_model_is_saved_and_loaded(network: Small, tmp_path: Any) -> None:
    model = mlc.quantize(mlc.load(network.proto()), network.arrays)
    model.save(tmp_path / "int8.mlir")
    again = mlc.load(tmp_path / "int8.mlir")
    results = [mlc.compile(m, threads=1)(network.arrays) for m in (model, again)]
    np.testing.assert_array_equal(*(next(iter(r.values())) for r in results))


def test_every_pass_keeps_what_a_quantised_model_computes() -> None:
    small = Small(case="net")
    x = small.op("Relu", small.op("Conv", small.x(1, 3, 10, 8), small.w(24, 3, 3, 3), small.w(24), pads=[1] * 4))
    x = small.op("Add", small.op("Conv", x, small.w(24, 24, 1, 1)), x)
    x = small.op("Flatten", small.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    small.out(small.op("Gemm", x, small.w(480, 10), small.w(10)))
    mlc.compile(mlc.quantize(mlc.load(small.proto()), small.arrays), threads=2, validate_each=True)


def test_every_pass_keeps_what_a_model_with_pairs_computes(tmp_path: Any) -> None:
    small = Small(case="net")
    x = small.op("Relu", small.op("Conv", small.x(1, 3, 8, 6), small.w(16, 3, 3, 3), small.w(16), pads=[1] * 4))
    x = small.op("Conv", x, small.w(16, 1, 3, 3), small.w(16), pads=[1] * 4, group=16)
    x = small.op("Add", small.op("Conv", x, small.w(16, 16, 1, 1)), x)
    x = small.op("Flatten", small.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    small.out(small.op("Gemm", x, small.w(192, 10), small.w(10)))
    proto = quantised(small, tmp_path)
    (wanted,) = plain_results(proto, small.arrays)
    (found,) = mlc.compile(mlc.load(proto), threads=2, validate_each=True)(small.arrays).values()
    assert np.abs(found - wanted).max() <= 1.01 * step(wanted)


def test_every_pass_keeps_what_integer_ops_compute() -> None:
    small = Small(case="integers")
    integers(small, [np.uint8], [np.int8])
    q, scale, zero = small.op("DynamicQuantizeLinear", small.x(3, 32), count=3)
    weight = np.random.default_rng(3).integers(-128, 128, (32, 16)).astype(np.int8)
    total = small.op(
        "Cast", small.op("MatMulInteger", q, small.const(weight, np.int8), zero), to=onnx.TensorProto.FLOAT
    )
    small.out(small.op("Mul", total, scale))
    wanted = [np.asarray(a) for a in expected_integers(small)]
    exe = mlc.compile(mlc.load(small.proto()), threads=1, validate_each=True)
    assert mismatches(small, exe, wanted) == []


def test_what_cannot_be_calibrated(network: Small) -> None:
    model = mlc.load(network.proto())
    with pytest.raises(UserError, match="expected a method of minmax, percentile, kl, mse, search, but got 'best'"):
        mlc.quantize(model, network.arrays, "best")
    with pytest.raises(UserError, match="expected a percentile above 50 and up to 100, but got 101"):
        mlc.quantize(model, network.arrays, "percentile", percentile=101)
    with pytest.raises(UserError, match="expected a budget from 0 to 1, a relative error, but got 2"):
        mlc.quantize(model, network.arrays, budget=2)
    with pytest.raises(UserError, match="expected at least one dict of inputs to calibrate with, but got none"):
        mlc.quantize(model, [])
    nan = {name: np.full_like(a, np.nan) for name, a in network.arrays.items()}
    with pytest.raises(UserError, match="expected finite values to calibrate with, but got infinities or NaN"):
        mlc.quantize(model, nan)
    small = Small(case="none")
    small.out(small.op("Relu", small.x(3)))
    with pytest.raises(UserError, match="expected a model with convolutions or dense layers by constant weights"):
        mlc.quantize(mlc.load(small.proto()), small.arrays)


def test_a_large_bias_beside_small_weights_fits() -> None:
    small = Small(case="bias")
    x, w, b = small.x(2, 32), small.w(32, 16), small.w(16)
    small.weights[w][:, :8] *= 1e-9
    small.weights[b] *= 100
    small.out(small.op("Gemm", x, w, b))
    (wanted,) = onnxruntime_results(small)
    (found,) = mlc.compile(mlc.quantize(mlc.load(small.proto()), small.arrays), threads=1)(small.arrays).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=0.2)


def test_ranges_without_outliers() -> None:
    histogram = Histogram()
    rng = np.random.default_rng(0)
    histogram.add(rng.standard_normal(100_000))
    histogram.add([50.0])
    assert (histogram.low, histogram.high) == (pytest.approx(-4.4, abs=0.5), 50)
    low, high = by_percentile(histogram, 99.9)
    assert -4 < low < -2.5
    assert 2.5 < high < 4
    low, high = by_divergence(histogram, 0)
    assert 2.5 < high < 10


def test_the_range_of_least_error() -> None:
    values, histogram = np.random.default_rng(0).laplace(size=100_000), Histogram()
    histogram.add(values)
    errors = []
    for low, high in (by_error(histogram, 0), minmax(histogram, 0)):
        scale, zero = parameters(low, high)
        levels = np.clip(np.round(values / scale) + zero, 0, 255)
        errors.append(np.mean(((levels - zero) * scale - values) ** 2))
    assert errors[0] < 0.9 * errors[1]
