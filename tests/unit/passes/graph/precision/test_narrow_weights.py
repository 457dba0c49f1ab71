"""Weights that a model holds in bytes and widens itself: products read the bytes, and compute what the model says."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.support.display.timing import PhaseTimer

Array = np.ndarray[Any, np.dtype[Any]]
K, N = 136, 64
RNG = np.random.default_rng(0)
BYTES = RNG.integers(-127, 128, (K, N)).astype(np.int8)
UNSIGNED = RNG.integers(0, 256, (K, N)).astype(np.uint8)
BYTES[0, 0], UNSIGNED[0, :2] = 127, (0, 255)
SCALES = RNG.uniform(0.001, 0.02, N).astype(np.float32)
Nodes = list[onnx.NodeProto]
Case = tuple[Nodes, dict[str, Array], Array]


def _model(nodes: Nodes, weights: dict[str, Array], shape: list[Any]) -> onnx.ModelProto:
    """y = x @ d, where the nodes compute d."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, s) for name, s in (("x", shape), ("y", None)))
    product = helper.make_node("MatMul", ["x", "d"], ["y"])
    graph = helper.make_graph(
        [*nodes, product], "g", [x], [y], [numpy_helper.from_array(a, n) for n, a in weights.items()]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _cast_multiply() -> Case:
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=1), helper.make_node("Mul", ["c", "s"], ["d"])]
    scale = np.float32(0.01)
    return nodes, {"w": BYTES, "s": np.asarray(scale)}, BYTES.astype(np.float32) * scale


def _by_channel() -> Case:
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1)]
    return nodes, {"w": BYTES, "s": SCALES}, BYTES * SCALES


def _zero_points() -> Case:
    """255 - 127 does not fit a byte: the differences take two."""
    zeros = RNG.integers(120, 128, N).astype(np.uint8)
    zeros[0] = 127
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1)]
    return nodes, {"w": UNSIGNED, "s": SCALES, "z": zeros}, (UNSIGNED - zeros.astype(np.float32)) * SCALES


def _middle() -> Case:
    nodes = [helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"])]
    weights = {"w": UNSIGNED, "s": np.asarray(SCALES[0]), "z": np.asarray(128, np.uint8)}
    return nodes, weights, (UNSIGNED - np.float32(128)) * SCALES[0]


def _transposed() -> Case:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["e"], axis=0),
        helper.make_node("Transpose", ["e"], ["d"], perm=[1, 0]),
    ]
    return nodes, {"w": np.ascontiguousarray(BYTES.T), "s": SCALES}, BYTES * SCALES


def _half(dtype: Any) -> Case:
    w = RNG.standard_normal((K, N)).astype(dtype)
    return [helper.make_node("Cast", ["w"], ["d"], to=1)], {"w": w}, w.astype(np.float32)


CASES: dict[str, tuple[Callable[[], Case], str]] = {
    "Cast, Mul": (_cast_multiply, "i8"),
    "a scale for each channel": (_by_channel, "i8"),
    "zero points": (_zero_points, "i16"),
    "unsigned around 128": (_middle, "i8"),
    "transposed": (_transposed, "i8"),
    "bf16": (lambda: _half(ml_dtypes.bfloat16), "bf16"),
    "f16": (lambda: _half(np.float16), "f16"),
}


def _graph(model: onnx.ModelProto, target: str = "x86-64-v4") -> str:
    """The graph behind its last pass; AVX-512 packs weights in panels of 32 columns."""
    options = Options(target, 3, 1, keep=frozenset({"graph"}))
    compilation = Compilation(mlc.load(model), options, None, PhaseTimer())
    compilation.optimize()
    return compilation.texts["graph"]


def _close(found: Array, x: Array, weight: Array) -> None:
    wanted = x.astype(np.float64) @ weight.astype(np.float64)
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


@pytest.mark.parametrize("rows", [1, 5, 70])
@pytest.mark.parametrize("name", CASES)
def test_products_read_the_narrow_weight(name: str, rows: int) -> None:
    make, element = CASES[name]
    nodes, weights, wide = make()
    model = _model(nodes, weights, [rows, K])
    assert f"tensor<2x{K}x32x{element}>) -> tensor<{rows}x{N}xf32>" in _graph(model)
    x = RNG.standard_normal((rows, K)).astype(np.float32)
    _close(mlc.compile(model, threads=1, cache=False)({"x": x})["y"], x, wide)


def test_rows_of_open_number() -> None:
    nodes, weights, wide = _by_channel()
    exe = mlc.compile(_model(nodes, weights, ["rows", K]), threads=1, cache=False)
    for rows in (1, 3, 33):
        x = RNG.standard_normal((rows, K)).astype(np.float32)
        _close(exe({"x": x})["y"], x, wide)


def test_a_weight_of_two_products() -> None:
    nodes, weights, wide = _by_channel()
    model = _model([*nodes, helper.make_node("MatMul", ["x2", "d"], ["y2"])], weights, [1, K])
    model.graph.input.append(helper.make_tensor_value_info("x2", TensorProto.FLOAT, [9, K]))
    model.graph.output.append(helper.make_tensor_value_info("y2", TensorProto.FLOAT, None))
    assert _graph(model).count('out_dtype = "float32"') == 2
    x, x2 = (RNG.standard_normal((rows, K)).astype(np.float32) for rows in (1, 9))
    found = mlc.compile(model, threads=1, cache=False)({"x": x, "x2": x2})
    _close(found["y"], x, wide)
    _close(found["y2"], x2, wide)


def test_scales_along_the_reduction_stay_in_the_weight() -> None:
    scales = RNG.uniform(0.001, 0.02, (K, 1)).astype(np.float32)
    nodes = [helper.make_node("Cast", ["w"], ["c"], to=1), helper.make_node("Mul", ["c", "s"], ["d"])]
    model = _model(nodes, {"w": BYTES, "s": scales}, [3, K])
    assert "xi8>" not in _graph(model)
    x = RNG.standard_normal((3, K)).astype(np.float32)
    _close(mlc.compile(model, threads=1, cache=False)({"x": x})["y"], x, BYTES * scales)


def test_a_recurrent_layer_reads_bytes_in_each_step() -> None:
    hidden, steps = 64, 6
    numbers = {name: RNG.integers(-100, 100, (1, 4 * hidden, hidden)).astype(np.int8) for name in "wr"}
    scale, zero = np.float32(0.004), np.int8(3)
    x = RNG.standard_normal((steps, 1, hidden)).astype(np.float32)
    nodes = [helper.make_node("DequantizeLinear", [name, "s", "z"], [f"{name}f"]) for name in numbers]
    model = _recurrent(nodes, numbers | {"s": scale, "z": zero}, ["wf", "rf"], x.shape)
    assert _graph(model).count(f" : tensor<8x{hidden}x32xi8>") == 2
    plain = _recurrent([], {n: (a.astype(np.float32) - 3) * scale for n, a in numbers.items()}, ["w", "r"], x.shape)
    found, wanted = (mlc.compile(m, threads=1, cache=False)({"x": x})["y"] for m in (model, plain))
    assert np.abs(found - wanted).max() <= 1e-6


def _recurrent(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], weights: list[str], shape: tuple[int, ...]
) -> onnx.ModelProto:
    """An LSTM behind the nodes that compute its weights."""
    lstm = helper.make_node("LSTM", ["x", *weights], ["y"], hidden_size=shape[-1])
    graph = helper.make_graph(
        [*nodes, lstm], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("target", "words"), [("x86-64-v4,+avx512bf16", True), ("x86-64-v4", False)])
def test_factors_of_bf16_are_words_where_the_target_has_the_feature(target: str, words: bool) -> None:
    w = RNG.standard_normal((K, N)).astype(ml_dtypes.bfloat16)
    nodes = [
        helper.make_node("Cast", ["x"], ["a"], to=TensorProto.BFLOAT16),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    model = _model([], {"w": w}, [5, K])
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    assert (f"tensor<2x{K // 2}x32x2xbf16>" in _graph(model, target)) is words
    x = RNG.standard_normal((5, K)).astype(np.float32)
    wanted = x.astype(ml_dtypes.bfloat16).astype(np.float64) @ w.astype(np.float64)
    found = mlc.compile(model, threads=1, cache=False)({"x": x})["y"]
    assert np.abs(found - wanted).max() <= 2**-8 * np.abs(wanted).max()


def test_validation_accepts_the_pass() -> None:
    nodes, weights, _ = _zero_points()
    mlc.compile(_model(nodes, weights, [4, K]), threads=1, cache=False, validate_each=True)


def test_the_artefact_holds_the_bytes(tmp_path: Any) -> None:
    sizes = {}
    for name in ("Cast, Mul", "bf16"):
        nodes, weights, _ = CASES[name][0]()
        mlc.compile(_model(nodes, weights, [2, K]), threads=1, cache=False).save(tmp_path / name)
        sizes[name] = max(p.stat().st_size for p in (tmp_path / name).rglob("weights*"))
    assert sizes["Cast, Mul"] < N * K + 1024
    assert sizes["bf16"] < 2 * N * K + 1024
