"""Quantised models beside onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnxruntime import InferenceSession
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from small_graphs import Small, mismatches
from test_precision import convolutions, transformer

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.support.display.timing import PhaseTimer

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
    compilation = Compilation(model, Options("native", 3, 1, keep=frozenset({"graph"})), None, PhaseTimer())
    compilation.optimize()
    return compilation.texts["graph"]


def hardly_differs(small: Small, proto: onnx.ModelProto, target: str, products: int) -> None:
    """At most 2 % of the outputs are a step or two from onnxruntime's, and so many products multiply bytes."""
    (wanted,) = plain_results(proto, small.arrays)
    (found,) = mlc.compile(mlc.load(proto), threads=1, target=target, cache=False)(small.arrays).values()
    apart = np.abs(found - wanted)
    assert apart.max() <= 2.01 * step(wanted)
    assert (apart > 0.5 * step(wanted)).mean() < 0.02
    assert graph_text(mlc.load(proto)).count('out_dtype = "int32"') == products


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
    assert text.count('out_dtype = "int32"') == 7  # 5 convolutions, a depthwise one, the classifier
    assert "graph.quantize" not in text
    assert "graph.dequantize" not in text


@pytest.mark.parametrize(("target", "signed"), [("native", False), ("native", True), ("x86-64-v3", False)])
def test_transposed_convolutions_multiply_bytes(tmp_path: Any, target: str, signed: bool) -> None:
    small, rng = Small(case="mask"), np.random.default_rng(3)

    def weight(*shape: int) -> str:
        return small.const(rng.standard_normal(shape) / 8, np.float32)

    y = small.op("Relu", small.op("Conv", small.x(1, 3, 10, 12), weight(20, 3, 3, 3), pads=[1, 1, 1, 1]))
    y = small.op("ConvTranspose", y, weight(20, 24, 2, 2), strides=[2, 2])
    y = small.op("Relu", small.op("Add", y, weight(24, 1, 1)))
    small.out(small.op("ConvTranspose", y, weight(24, 1, 2, 2), strides=[2, 2]))
    hardly_differs(small, quantised(small, tmp_path, signed), target, products=3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("width", "groups"), [(24, 4), (40, 2), (20, 3)])
def test_convolutions_of_groups_multiply_bytes(tmp_path: Any, target: str, width: int, groups: int) -> None:
    """Groups of 24, 40 and 20 channels: blocks of 12, 8 and 4 for words of four bytes."""
    small, rng = Small(case="groups"), np.random.default_rng(4)
    channels = width * groups
    y = small.op("Relu", small.x(1, channels, 9, 11))
    for _ in "ab":
        weights = small.const(rng.standard_normal((channels, width, 3, 3)) / 16, np.float32)
        y = small.op("Relu", small.op("Conv", y, weights, pads=[1] * 4, group=groups))
    small.out(y)
    hardly_differs(small, quantised(small, tmp_path), target, products=2)


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


def test_integer_ops_multiply_bytes() -> None:
    small = Small(case="integers")
    integers(small)
    lines = graph_text(mlc.load(small.proto())).splitlines()
    contractions = [line for line in lines if "= graph.conv2d" in line or "= graph.dense" in line]
    assert contractions
    assert [line for line in contractions if 'out_dtype = "int32"' not in line] == []


def test_weights_that_bytes_do_not_hold() -> None:
    small, rng = Small(case="integers"), np.random.default_rng(5)
    picture, row = small.x(1, 16, 6, 6, dtype=np.uint8), small.x(4, 16, dtype=np.int32)
    kernel = small.const(rng.integers(-128, 128, (16, 16, 3, 3)), np.int8)
    small.out(small.op("ConvInteger", picture, kernel, small.const(7, np.uint8), small.const(5, np.int8)))
    small.out(small.op("MatMul", row, small.const(rng.integers(-300, 300, (16, 8)), np.int32)))
    exe = mlc.compile(mlc.load(small.proto()), threads=1, cache=False)
    assert mismatches(small, exe, [np.asarray(a) for a in expected_integers(small)]) == []


@pytest.mark.parametrize("value", [0, 7])
def test_a_picture_padded_by_another_value_than_the_zero_point(value: int) -> None:
    small, rng = Small(case="integers"), np.random.default_rng(6)
    picture = small.x(1, 16, 6, 6, dtype=np.uint8)
    small.arrays[picture] = rng.integers(0, 256, (1, 16, 6, 6)).astype(np.uint8)
    padded = small.op("Pad", picture, small.const([0, 0, 1, 1, 0, 0, 1, 1], np.int64), small.const(value, np.uint8))
    kernel = small.const(rng.integers(-128, 128, (16, 16, 3, 3)), np.int8)
    small.out(small.op("ConvInteger", padded, kernel, small.const(7, np.uint8), pads=[1] * 4))
    exe = mlc.compile(mlc.load(small.proto()), threads=1, cache=False)
    assert mismatches(small, exe, [np.asarray(a) for a in expected_integers(small)]) == []


def expected_integers(small: Small) -> list[Any]:
    """onnx's own reference, which takes all combinations of types."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(small.proto()).run(small.outputs, small.arrays)


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
