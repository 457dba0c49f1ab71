"""The ops of com.microsoft beside onnxruntime, and ops that a program registers."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_graphs import check_beside_onnxruntime, one_node

import mlc
from mlc.dialects import graph as g
from mlc.driver.cache import Cache
from mlc.frontends.onnx import import_model, register_op, table
from mlc.frontends.onnx.node import Node, Value
from mlc.interp.graph import run_function
from mlc.support.errors import UserError

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: Any = np.uint8) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8).view(dtype)


def f32(value: Any) -> Any:
    return np.array(value, np.float32)


def theirs(kind: str, inputs: dict[str, Any], constants=None, domain="com.microsoft", **more: Any) -> onnx.ModelProto:
    model = one_node(kind, inputs, constants, domain=domain, **more)
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    return model


X = {"x": normal(2, 5, 8)}
B = {"b": normal(8)}
NORM = {"s": normal(2, 5, 8), "g": normal(8), "be": normal(8), "b": normal(8)}
SCALES = {"as": f32(0.03), "az": np.uint8(120), "b": bytes_(3, 4), "bs": f32(0.02), "bz": np.uint8(9)}
RESULT = {"ys": f32(0.05), "yz": np.uint8(100)}
ONE = {"as": f32(0.03), "az": np.uint8(120), **RESULT}
CASES: dict[str, tuple[onnx.ModelProto, dict[str, Any]]] = {
    "gelu": (theirs("Gelu", X), X),
    "bias-gelu": (theirs("BiasGelu", X, B), X),
    "fast-gelu": (theirs("FastGelu", X, B), X),
    "quick-gelu": (theirs("QuickGelu", X, alpha=1.5), X),
    "matmul": (
        theirs("FusedMatMul", {"a": normal(3, 6, 4)}, {"b": normal(3, 5, 6)}, transA=1, transB=1, alpha=0.5),
        {"a": normal(3, 6, 4)},
    ),
    "conv": (
        theirs("FusedConv", {"x": normal(1, 3, 6, 6)}, {"w": normal(4, 3, 3, 3), "b": normal(4)}, activation="Relu"),
        {"x": normal(1, 3, 6, 6)},
    ),
    "skip": (theirs("SkipLayerNormalization", X, NORM, outputs=("y",), epsilon=1e-5), X),
    "skip-simple": (theirs("SkipSimplifiedLayerNormalization", X, {k: NORM[k] for k in ("s", "g", "b")}), X),
    "simple": (theirs("SimplifiedLayerNormalization", X, {"g": NORM["g"]}, domain="", axis=-1), X),
    "attention": (
        theirs(
            "Attention",
            X,
            {"w": normal(8, 24), "b": normal(24), "m": np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], np.int32)},
            num_heads=2,
        ),
        X,
    ),
    "attention-causal": (
        theirs("Attention", X, {"w": normal(8, 24), "b": normal(24)}, num_heads=4, unidirectional=1),
        X,
    ),
    "attention-lengths": (
        theirs("Attention", X, {"w": normal(8, 24), "b": normal(24), "m": np.array([5, 2], np.int32)}, num_heads=2),
        X,
    ),
    "embed": (
        theirs(
            "EmbedLayerNormalization",
            {"x": np.array([[1, 3, 2], [0, 0, 4]], np.int32)},
            {
                "s": np.array([[0, 1, 1], [0, 0, 1]], np.int32),
                "we": normal(5, 8),
                "pe": normal(4, 8),
                "se": normal(2, 8),
                "g": normal(8),
                "b": normal(8),
                "m": np.array([[1, 1, 0], [1, 1, 1]], np.int32),
            },
            outputs=("y", "i"),
        ),
        {"x": np.array([[1, 3, 2], [0, 0, 4]], np.int32)},
    ),
    "qadd": (theirs("QLinearAdd", {"x": bytes_(3, 4)}, {**SCALES, **RESULT}), {"x": bytes_(3, 4)}),
    "qmul": (theirs("QLinearMul", {"x": bytes_(3, 4)}, {**SCALES, **RESULT}), {"x": bytes_(3, 4)}),
    "qsigmoid": (
        theirs("QLinearSigmoid", {"x": bytes_(3, 9)}, {**ONE, "ys": f32(1 / 256), "yz": np.uint8(0)}),
        {"x": bytes_(3, 9)},
    ),
    "qleaky": (theirs("QLinearLeakyRelu", {"x": bytes_(3, 9)}, ONE, alpha=0.2), {"x": bytes_(3, 9)}),
    "qpool": (theirs("QLinearGlobalAveragePool", {"x": bytes_(1, 3, 5, 4)}, ONE), {"x": bytes_(1, 3, 5, 4)}),
    "qconcat": (
        theirs(
            "QLinearConcat",
            {"x": bytes_(2, 3)},
            {**RESULT, "as": f32(0.03), "az": np.uint8(120), "b": bytes_(2, 4), "bs": f32(0.02), "bz": np.uint8(9)},
            names=["ys", "yz", "x", "as", "az", "b", "bs", "bz"],
            axis=1,
        ),
        {"x": bytes_(2, 3)},
    ),
    "trilu": (theirs("Trilu", {"x": normal(3, 5)}, {"k": np.int64(1)}), {"x": normal(3, 5)}),
    "pad": (theirs("Pad", {"x": normal(3, 5)}, {"p": np.array([1, 0, 2, 3]), "v": f32(1.5)}), {"x": normal(3, 5)}),
    "range": (theirs("Range", {}, {"l": f32(7), "d": f32(2)}, names=["d", "l", "d"]), {}),
    "gather": (
        theirs("GatherND", {"x": normal(3, 4, 2)}, {"i": np.array([[1, 3], [0, -1]])}),
        {"x": normal(3, 4, 2)},
    ),
    "grid": (
        theirs("GridSample", {"x": normal(1, 2, 4, 5)}, {"g": normal(1, 3, 3, 2)}, mode="bilinear", align_corners=1),
        {"x": normal(1, 2, 4, 5)},
    ),
    "quantise": (
        theirs("QuantizeLinear", {"x": normal(3, 4)}, {"s": f32([0.1, 0.2, 0.3]), "z": bytes_(3)}, axis=0),
        {"x": normal(3, 4)},
    ),
    "dequantise": (
        theirs("DequantizeLinear", {"x": bytes_(3, 4)}, {"s": f32([0.1, 0.2, 0.3]), "z": bytes_(3)}, axis=0),
        {"x": bytes_(3, 4)},
    ),
    "to-float": (
        theirs(
            "MatMulIntegerToFloat",
            {"x": bytes_(3, 7)},
            {
                "b": bytes_(7, 5, dtype=np.int8),
                "as": f32(0.1),
                "bs": normal(5),
                "az": np.uint8(99),
                "bz": np.zeros(5, np.int8),
            },
        ),
        {"x": bytes_(3, 7)},
    ),
    "dynamic": (
        theirs("DynamicQuantizeMatMul", {"x": normal(3, 7)}, {"b": bytes_(7, 5, dtype=np.int8), "bs": f32(0.1)}),
        {"x": normal(3, 7)},
    ),
}


NAMES = list(CASES)


@pytest.mark.parametrize("names", [NAMES[k : k + 8] for k in range(0, len(NAMES), 8)], ids=" ".join)
def test_compiled_beside_onnxruntime(names: list[str]):
    """Several at once: a compilation takes longer than what it compiles."""
    check_beside_onnxruntime({name: CASES[name] for name in names})


REFUSED = {
    "activation": (
        theirs("FusedConv", {"x": normal(1, 3, 6, 6)}, {"w": normal(4, 3, 3, 3)}, activation="Mish"),
        "expected an activation of Relu, Tanh",
    ),
    "mask": (
        theirs("Attention", X, {"w": normal(8, 24), "b": normal(24), "m": np.ones((2, 9), np.int32)}, num_heads=2),
        "expected a mask of 2 x 5, of 2 x 5 x 5, or of 2 lengths",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    proto, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)


def test_an_op_of_ones_own(monkeypatch):
    monkeypatch.setattr(table, "CUSTOM", {})
    model = theirs("Scaled", X, domain="my.ops", by=3.0)
    with pytest.raises(UserError, match=r"op: my\.ops\.Scaled \(another domain\)"):
        import_model(model)

    def scaled(one: Node) -> Value:
        x = one.input(0)
        return one.emit(g.MultiplyOp, x, one.array(one.attr("by", 1.0), like=x))

    assert Cache.default() is not None
    register_op("Scaled", scaled, domain="my.ops")
    assert Cache.default() is None  # another converter may follow: what it does is in no key
    (result,) = mlc.compile(import_model(model), threads=1, cache=False)(X).values()
    np.testing.assert_array_equal(result, X["x"] * 3)


def test_ones_own_converter_comes_first(monkeypatch):
    monkeypatch.setattr(table, "CUSTOM", {})
    register_op("Relu", lambda one: one.emit(g.NegOp, one.input(0)), domain="ai.onnx")
    model = import_model(one_node("Relu", X))
    np.testing.assert_array_equal(run_function(model.main, [X["x"]], model.weights)[0], -X["x"])


def test_what_is_no_converter():
    with pytest.raises(UserError, match="expected the op's name and a function, but got 'Own' and 3"):
        register_op("Own", 3)
