"""Float models quantised by calibration: ranges, sensitive layers, what is refused."""

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx_graphs import model_of
from small_graphs import Small, onnxruntime_results
from test_precision import convolutions, transformer
from test_quantized import graph_text

import mlc
from mlc.dialects.attributes import NARROW_BYTES
from mlc.dialects.graph.store import attach_store
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.driver.quantize import PREPARE, observe
from mlc.driver.quantize.calibrate import Histogram, by_divergence, by_error, by_percentile, minmax
from mlc.driver.quantize.simulate import Simulation, units_of
from mlc.passes.graph.precision.quantize import parameters, quantisable
from mlc.support.errors import UserError


@pytest.fixture(scope="module")
def network() -> Small:
    small = Small(case="net")
    convolutions(small)
    return small


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
    # The simulation compiles another program: layouts around its roundings may differ, and with them the order of sums.
    assert simulation.error({}) < 1e-6
    histograms, _ = observe(model, [unit.value for unit in units], [network.arrays])
    ranges = {k: minmax(histogram, 0) for k, histogram in enumerate(histograms)}
    found = mlc.compile(mlc.quantize(model, network.arrays), threads=1).report["relative_error"]
    assert simulation.error(ranges) == pytest.approx(found, rel=0.2)
    assert 0 < simulation.error({1: ranges[1]}) < found


def test_depthwise_convolutions_are_quantised_where_they_are_asked_for(network: Small) -> None:
    model, (wanted,) = mlc.load(network.proto()), onnxruntime_results(network)
    counts = []
    for depthwise in (False, True):
        quantised = mlc.quantize(model, network.arrays, depthwise=depthwise)
        exe = mlc.compile(quantised, threads=1)
        (found,) = exe(network.arrays).values()
        error = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
        assert error == pytest.approx(exe.report["relative_error"], rel=1e-2)
        assert error < 0.05
        counts.append(graph_text(quantised).count('out_dtype = "int32"'))
    assert counts == [6, 7]


def test_the_first_and_the_last_layer_may_stay(network: Small) -> None:
    model = mlc.load(network.proto())
    everything = graph_text(mlc.quantize(model, network.arrays)).count('out_dtype = "int32"')
    inner = graph_text(mlc.quantize(model, network.arrays, first=False, last=False)).count('out_dtype = "int32"')
    assert (everything, inner) == (6, 4)


def test_weights_of_seven_bits(network: Small) -> None:
    """For CPUs without dot products of bytes: all weights are from -63 to 63, and the error grows little."""
    errors, narrow = {}, {}
    for bits in (8, 7):
        quantised = mlc.quantize(mlc.load(network.proto()), network.arrays, weight_bits=bits)
        errors[bits] = mlc.compile(quantised, threads=1).report["relative_error"]
        kernels = Compilation(quantised, Options("x86-64-v3", threads=1)).plan()[1].values()
        narrow[bits] = sum(NARROW_BYTES in kernel.attributes for kernel in kernels)
    assert (narrow[8], narrow[7]) == (0, 6)
    assert 0 < errors[7] < 3 * errors[8]


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


def test_what_cannot_be_calibrated(network: Small) -> None:
    model = mlc.load(network.proto())
    with pytest.raises(UserError, match="expected a method of minmax, percentile, kl, mse, search, but got 'best'"):
        mlc.quantize(model, network.arrays, "best")
    with pytest.raises(UserError, match="expected a percentile above 50 and up to 100, but got 101"):
        mlc.quantize(model, network.arrays, "percentile", percentile=101)
    with pytest.raises(UserError, match="expected a budget from 0 to 1, a relative error, but got 2"):
        mlc.quantize(model, network.arrays, budget=2)
    with pytest.raises(UserError, match="expected weight_bits of 7 or 8, but got 4"):
        mlc.quantize(model, network.arrays, weight_bits=4)
    with pytest.raises(UserError, match="expected weights of 7 or 8 bits, but got 9"):
        run_passes(model.module.clone(), make_context(), ["graph-quantize{weight-bits=9}"])
    with pytest.raises(UserError, match="expected at least one dict of inputs to calibrate with, but got none"):
        mlc.quantize(model, [])
    nan = {name: np.full_like(a, np.nan) for name, a in network.arrays.items()}
    with pytest.raises(UserError, match="expected finite values to calibrate with, but got infinities or NaN"):
        mlc.quantize(model, nan)
    small = Small(case="none")
    small.out(small.op("Relu", small.x(3)))
    with pytest.raises(UserError, match="expected a model with convolutions or dense layers by constant weights"):
        mlc.quantize(mlc.load(small.proto()), small.arrays)


def test_options_that_leave_out_all_layers() -> None:
    feeds = {"x": np.ones((2, 3), np.float32)}
    dense = [helper.make_node("MatMul", [a, w], [b]) for a, w, b in ("xvt", "twy")]
    proto = model_of(dense, feeds, {"v": np.eye(3, dtype=np.float32), "w": np.eye(3, dtype=np.float32)})
    message = "the first and the last, which first=False and last=False leave out, but the model has only 2 to quantise"
    with pytest.raises(UserError, match=f"expected layers besides {message}"):
        mlc.quantize(proto, feeds, first=False, last=False)
    assert mlc.quantize(proto, feeds, first=False)


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
