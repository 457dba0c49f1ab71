"""Attention and weights of a few bits of com.microsoft, as onnxruntime's tools write them, beside onnxruntime."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx_graphs import LARGEST_BYTE, check_beside_onnxruntime, model_of, theirs

from mlc.frontends.onnx import import_model
from mlc.interp.graph import run_function
from mlc.support.errors import UserError

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(11)
Arrays = dict[str, Any]


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int, dtype: Any = np.uint8) -> Any:
    return RNG.integers(0, 256, shape).astype(np.uint8).view(dtype)


def f32(value: float) -> Any:
    return np.array(value, np.float32)


def heads(rows: int, kept: int = 0, groups: int = 4, batch: int = 2) -> Arrays:
    """Queries, keys and values of rows, and those kept."""
    found = {"q": normal(batch, rows, 64), "k": normal(batch, rows, 16 * groups), "v": normal(batch, rows, 16 * groups)}
    return found | ({n: normal(batch, groups, kept, 16) for n in ("pk", "pv")} if kept else {})


def whole(*values: int) -> Any:
    return np.array(values, np.int32)


KEPT = "y pk2 pv2"
ANGLES = {"cos": normal(16, 8), "sin": normal(16, 8)}
ROWS = heads(3)
SIDE = {"x": normal(2, 3, 6)}
PRODUCT = {"w": normal(6, 24), "b": normal(24)}
QPRODUCT = {"w": bytes_(6, 24, dtype=np.int8), "b": normal(24), "xs": f32(0.02), "ws": f32(0.01)}
MASK = {"m": whole(1, 1, 0, 1, 0, 1).reshape(2, 3)}
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
ONE_STEP = heads(1, 4, 2) | {"n": whole(4, 2)}
LSTM = {
    "w": bytes_(1, 3, 16, dtype=np.int8),
    "r": bytes_(1, 4, 16, dtype=np.int8),
    "ws": f32([0.003]),
    "wz": np.zeros(1, np.int8),
    "rs": f32([0.003]),
    "rz": np.zeros(1, np.int8),
}
LSTM_OF_COLUMNS = {
    "w": bytes_(2, 64, 128, dtype=np.int8),
    "r": bytes_(2, 32, 128, dtype=np.int8),
    "b": normal(2, 256),
    "ws": (RNG.random((2, 128)) * 0.003).astype(np.float32),
    "wz": np.zeros((2, 128), np.int8),
    "rs": (RNG.random((2, 128)) * 0.003).astype(np.float32),
    "rz": np.zeros((2, 128), np.int8),
}
BITS = {"B": bytes_(7, 3, 8), "s": (RNG.random(21) * 0.1).astype(np.float32)}
QUANT = {"as": f32(0.03), "az": np.uint8(120), "ys": f32(0.05), "yz": np.uint8(100)}
PICTURE = {"x": bytes_(1, 5, 6, 3)}
GEMM = {"as": f32(0.03), "az": np.uint8(20), "b": bytes_(5, 7, dtype=np.int8), "bs": f32(0.02), "bz": np.int8(0)}
CASES: dict[str, tuple[onnx.ModelProto, Arrays]] = {
    "heads-mask": theirs("MultiHeadAttention", ROWS, MASK, "q k v _ m", num_heads=4),
    "heads-bias": theirs("MultiHeadAttention", ROWS, {"b": normal(192)}, "q k v b", num_heads=4, unidirectional=1),
    "heads-kept": theirs(
        "MultiHeadAttention",
        heads(2, 3),
        {"a": normal(1, 4, 2, 5)},
        "q k v _ _ a pk pv",
        KEPT,
        num_heads=4,
        scale=0.3,
    ),
    "heads-as-such": theirs(
        "MultiHeadAttention",
        {"q": normal(2, 3, 64), "k": normal(2, 4, 5, 16), "v": normal(2, 4, 5, 16)},
        num_heads=4,
    ),
    "attention-kept": theirs(
        "Attention",
        SIDE | {"p": normal(2, 2, 4, 2, 2)},
        PRODUCT | {"m": whole(5, 3)},
        "x w b m p",
        "y p2",
        num_heads=4,
        unidirectional=1,
    ),
    "attention-ends": theirs("Attention", SIDE, PRODUCT | {"m": whole(3, 2, 1, 0)}, num_heads=4),
    "attention-square": theirs("Attention", SIDE, PRODUCT | {"m": whole(*[1, 0, 1] * 6).reshape(2, 3, 3)}, num_heads=4),
    "attention-bias": theirs("Attention", SIDE, PRODUCT | {"a": normal(2, 4, 3, 3)}, "x w b _ _ a", num_heads=4),
    "attention-bytes": theirs(
        "QAttention", {"x": bytes_(2, 3, 6)}, QPRODUCT | {"m": whole(3, 2), "xz": np.uint8(128)}, num_heads=4
    ),
    "groups-first": theirs(
        "GroupQueryAttention",
        heads(3, 0, 2) | {"n": whole(2, 2)},
        {"t": np.int32(3)},
        "q k v _ _ n t",
        KEPT,
        **GROUPS,
        local_window_size=2,
    ),
    "groups-step": theirs(
        "GroupQueryAttention",
        ONE_STEP,
        {"t": np.int32(5)} | ANGLES,
        "q k v pk pv n t cos sin",
        KEPT,
        **GROUPS,
        do_rotary=1,
        softcap=3.0,
    ),
    "groups-together": theirs(
        "GroupQueryAttention",
        {"q": normal(1, 2, 128), "pk": normal(1, 2, 3, 16), "pv": normal(1, 2, 3, 16), "n": whole(4)},
        {"t": np.int32(5), "a": normal(1, 1, 2, 5)} | ANGLES,
        "q _ _ pk pv n t cos sin _ a",
        KEPT,
        **GROUPS,
        do_rotary=1,
        rotary_interleaved=1,
    ),
    "groups-sinks": theirs(
        "GroupQueryAttention",
        heads(1, 2, 2) | {"n": whole(2, 2)},
        {"t": np.int32(3), "h": normal(4)},
        "q k v pk pv n t _ _ _ _ h",
        KEPT,
        **GROUPS,
    ),
    "groups-smooth": theirs(
        "GroupQueryAttention",
        {"q": normal(1, 2, 64), "k": normal(1, 2, 32), "v": normal(1, 2, 32), "n": whole(4)}
        | {n: normal(1, 2, 7, 16) for n in ("pk", "pv")},
        {"t": np.int32(5), "a": normal(1, 1, 2, 5)},
        "q k v pk pv n t _ _ _ a",
        KEPT,
        **GROUPS,
        smooth_softmax=1,
    ),
    "heads-across": theirs(
        "MultiHeadAttention",
        {"q": normal(2, 3, 64), "k": normal(2, 5, 64), "v": normal(2, 5, 64)},
        num_heads=4,
        unidirectional=1,
    ),
    "heads-one": theirs(
        "MultiHeadAttention",
        {"q": normal(2, 1, 64), "k": normal(2, 5, 64), "v": normal(2, 5, 64)},
        num_heads=4,
        unidirectional=1,
    ),
    "rotary": theirs("RotaryEmbedding", {"x": normal(2, 4, 3, 16), "p": np.array([4])}, ANGLES),
    "rotary-woven": theirs(
        "RotaryEmbedding",
        {"x": normal(2, 3, 64), "p": RNG.integers(0, 16, (2, 3))},
        ANGLES,
        interleaved=1,
        num_heads=2,
        rotary_embedding_dim=16,
    ),
    "4-bits": theirs("MatMulNBits", {"x": normal(2, 40)}, BITS, K=40, N=7, bits=4, block_size=16),
    "4-bits-zeros": theirs(
        "MatMulNBits", {"x": normal(2, 40)}, BITS | {"z": bytes_(14)}, K=40, N=7, bits=4, block_size=16
    ),
    "8-bits": theirs(
        "MatMulNBits", {"x": normal(2, 32)}, {"B": bytes_(7, 1, 32), "s": normal(7)}, K=32, N=7, bits=8, block_size=32
    ),
    "rows-of-4-bits": theirs(
        "GatherBlockQuantized",
        {"i": np.array([[2, 0, 2]])},
        {"d": bytes_(3, 24), "s": (RNG.random((3, 3)) * 0.1).astype(np.float32), "z": bytes_(3, 2)},
        "d i s z",
        block_size=16,
        quantize_axis=1,
    ),
    "rows-of-bytes": theirs(
        "GatherBlockQuantized",
        {"i": whole(1, -1)},
        {"d": bytes_(3, 2, 16), "s": (RNG.random((3, 2, 1)) * 0.1).astype(np.float32)},
        "d i s",
        bits=8,
        block_size=16,
        quantize_axis=-1,
    ),
    "lstm": theirs("DynamicQuantizeLSTM", {"x": normal(5, 2, 3)}, LSTM, "x w r _ _ _ _ _ ws wz rs rz", hidden_size=4),
    "lstm-columns": theirs(
        "DynamicQuantizeLSTM",
        {"x": normal(7, 1, 64)},
        LSTM_OF_COLUMNS,
        "x w r b _ _ _ _ ws wz rs rz",
        "y h c",
        hidden_size=32,
        direction="bidirectional",
    ),
    "gemm": theirs("QGemm", {"x": bytes_(4, 7)}, GEMM | {"c": whole(*range(5))}, transB=1, alpha=0.5),
    "gemm-columns": theirs(
        "QGemm",
        {"x": bytes_(4, 5)},
        GEMM | {"b": bytes_(5, 5), "bs": RNG.random(5).astype(np.float32), "bz": bytes_(5), "c": whole(*range(5))},
        transB=1,
    ),
    "softmax": theirs("QLinearSoftmax", {"x": bytes_(2, 3, 5)}, QUANT, axis=1, opset=11),
    "pool": theirs(
        "QLinearAveragePool", PICTURE, QUANT, channels_last=1, kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1]
    ),
    "pool-beyond": theirs(
        "QLinearAveragePool",
        PICTURE,
        QUANT,
        "x as az ys yz",
        channels_last=1,
        kernel_shape=[2, 3],
        strides=[2, 2],
        ceil_mode=1,
        count_include_pad=1,
    ),
    "convolution": theirs(
        "QLinearConv",
        PICTURE,
        {
            **{
                "as": f32(0.03),
                "az": np.uint8(120),
                "w": RNG.integers(-LARGEST_BYTE, LARGEST_BYTE, (4, 3, 3, 3)).astype(np.int8),
                "ws": f32(0.02),
            },
            **{"wz": np.int8(0), "ys": f32(0.5), "yz": np.uint8(100), "c": whole(1, -50, 900, 0)},
        },
        channels_last=1,
        pads=[1] * 4,
    ),
    "batches-inside": theirs(
        "FusedMatMul", {"a": normal(3, 2, 4), "b": normal(4, 2, 5)}, transBatchA=1, transBatchB=1, alpha=0.5
    ),
    "places-last": theirs("NhwcMaxPool", PICTURE, kernel_shape=[2, 3], strides=[2, 1]),
    "gemm-activated": theirs("FusedGemm", {"x": normal(3, 4)}, {"w": normal(4, 5), "b": normal(5)}, activation="Tanh"),
    "gemm-leaky": theirs(
        "FusedGemm", {"x": normal(3, 4)}, {"w": normal(4, 5)}, activation="LeakyRelu", activation_alpha=0.3, alpha=0.5
    ),
    "gemm-elu": theirs("FusedGemm", {"x": normal(3, 4)}, {"w": normal(4, 5)}, activation="Elu", activation_alpha=0.3),
}


NAMES = list(CASES)


@pytest.mark.parametrize("names", [NAMES[k : k + 8] for k in range(0, len(NAMES), 8)], ids=" ".join)
def test_compiled_beside_onnxruntime(names: list[str]):
    """Several at once: a compilation takes longer than what it compiles."""
    check_beside_onnxruntime({name: CASES[name] for name in names})


def test_chosen_bytes():
    """onnxruntime's own QLinearWhere does not load."""
    x, y, choice = bytes_(2, 5), bytes_(2, 5), RNG.random((2, 5)) > 0.5
    scales = {
        "xs": f32(0.03),
        "xz": np.uint8(9),
        "ys": f32(0.02),
        "yz": np.uint8(7),
        "rs": f32(0.04),
        "rz": np.uint8(3),
    }
    proto, _ = theirs("QLinearWhere", {"c": choice, "x": x, "y": y}, scales, "c x xs xz y ys yz rs rz", "r")
    model = import_model(proto)
    (found,) = run_function(model.main, [choice, x, y], model.weights)
    exact = np.where(choice, (x - 9.0) * 0.03, (y - 7.0) * 0.02)
    np.testing.assert_allclose(found.astype(float), np.clip(np.round(exact / 0.04) + 3, 0, 255), atol=1)


REFUSED = {
    "total": (
        theirs(
            "GroupQueryAttention",
            heads(1, 2, 2) | {"n": whole(2, 2), "t": np.int32(3)},
            None,
            "q k v pk pv n t",
            **GROUPS,
        ),
        r"expected input 6 \('t'\) to be constant",
    ),
    "cache": (
        theirs("MultiHeadAttention", ROWS | {"l": whole(1)}, None, "q k v _ _ _ _ _ l", num_heads=4),
        "expected no past_sequence_length and no cache_indirection",
    ),
    "order": (
        theirs(
            "MatMulNBits", {"x": normal(2, 40)}, BITS | {"g": whole(0)}, "x B s _ g", K=40, N=7, bits=4, block_size=16
        ),
        r"expected g_idx of shape .*, but got \[1\]",
    ),
    "bits": (
        theirs("MatMulNBits", {"x": normal(2, 40)}, BITS, K=40, N=7, bits=3, block_size=16),
        "expected bits of 2, 4 or 8, but got 3",
    ),
    "scales": (
        theirs(
            "GatherBlockQuantized",
            {"i": whole(1)},
            {"d": bytes_(3, 24), "s": normal(3, 2)},
            "d i s",
            block_size=16,
        ),
        r"expected scales of \[1, 3\], one for each 16 of axis 1, but got \[1, 2\]",
    ),
    "axes": (
        theirs(
            "GatherBlockQuantized", {"i": whole(1)}, {"d": bytes_(3, 24), "s": normal(3, 2)}, "d i s", gather_axis=1
        ),
        "expected two axes, and scales of as many axes as the data, but got gather_axis = 1, quantize_axis = 1",
    ),
    "rotary": (
        theirs("Attention", SIDE, PRODUCT, num_heads=4, do_rotary=1),
        "expected do_rotary = 0, but got 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str):
    (proto, _), message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)


def test_mean_of_bytes():
    """onnxruntime has no kernel for QLinearReduceMean."""
    x = bytes_(2, 3, 5)
    proto, _ = theirs("QLinearReduceMean", {"x": x}, QUANT, axes=[0, -1], keepdims=0)
    model = import_model(proto)
    (found,) = run_function(model.main, [x], model.weights)
    exact = np.clip(np.round((x - 120.0).mean((0, 2)) * 0.03 / 0.05) + 100, 0, 255)
    np.testing.assert_allclose(found.astype(float), exact, atol=1)


@pytest.mark.parametrize("kind", ["NhwcConv", "NhwcFusedConv"])
def test_channels_last(kind: str):
    """onnxruntime has these for other machines: as ONNX's own, with channels last in pictures and weights."""
    x, w, b = normal(1, 5, 6, 3), normal(4, 3, 2, 3), normal(4)
    attrs = {"activation": "Relu"} if "Fused" in kind else {}
    ours, _ = theirs(kind, {"x": x}, {"w": w, "b": b}, pads=[1, 0, 0, 1], **attrs)
    plain = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 0, 0, 1])
    first = {"x": x.transpose(0, 3, 1, 2)}
    model = import_model(model_of([plain], first, {"w": w.transpose(0, 3, 1, 2), "b": b}))
    (expected,) = run_function(model.main, list(first.values()), model.weights)
    model = import_model(ours)
    (found,) = run_function(model.main, [x], model.weights)
    expected = np.maximum(expected, 0) if attrs else expected
    np.testing.assert_allclose(found, expected.transpose(0, 2, 3, 1), rtol=1e-5, atol=1e-5)
