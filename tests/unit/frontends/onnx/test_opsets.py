"""Ops whose meaning, attributes or inputs changed between opsets, as old models have them; compiled."""

import numpy as np
import pytest
from onnx import TensorProto
from onnx_graphs import one_node

import mlc
from mlc.frontends.onnx import import_model
from mlc.support.errors import UserError

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
PICTURE = RNG.standard_normal((1, 2, 4, 6)).astype(np.float32)
ROW = RNG.standard_normal(3).astype(np.float32)


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


def soft(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def flat_soft(x, axis=1):
    return soft(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)


def hardest(x):
    """1 at the first of the greatest of each row, all axes but the first as one."""
    rows = x.reshape(len(x), -1)
    return np.eye(rows.shape[1], dtype=x.dtype)[rows.argmax(1)].reshape(x.shape)


def padded(width, value):
    return np.pad(X, width, constant_values=value)


def normalised(x, scale, bias, mean, var, epsilon=1e-5):
    shape = (1, -1, *[1] * (x.ndim - 2))
    scale, bias, mean, var = (v.reshape(shape) for v in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + epsilon) * scale + bias


NORMAL = dict(
    zip(("scale", "bias", "mean", "var"), np.abs(RNG.standard_normal((4, 3))).astype(np.float32), strict=True)
)
WANTED_NORMAL = normalised(X, *NORMAL.values())
LOGARITHMS = np.log(X.sum(1, keepdims=True), where=X.sum(1, keepdims=True) > 0, out=np.full((2, 1, 4), np.nan, "f"))
COLUMN = ROW.reshape(3, 1)

# What is wanted is an array where onnxruntime does not know the opset, or knows it otherwise.
# (op, opset, constants after the input, attributes, what is wanted; None: what onnxruntime gives)
CASES = [
    ("Softmax", 1, {}, {}, flat_soft(X)),
    ("Softmax", 11, {}, {}, flat_soft(X)),
    ("Softmax", 11, {}, {"axis": 2}, None),
    ("Softmax", 12, {}, {"axis": 0}, None),
    ("Softmax", 13, {}, {}, soft(X, -1)),
    ("LogSoftmax", 11, {}, {}, np.log(flat_soft(X))),
    ("LogSoftmax", 13, {}, {"axis": 1}, None),
    ("Hardmax", 11, {}, {}, hardest(X)),
    ("Hardmax", 13, {}, {}, None),
    ("Dropout", 1, {}, {"is_test": 1}, X),
    ("Dropout", 6, {}, {"is_test": 1, "ratio": 0.3}, X),
    ("Dropout", 7, {}, {"ratio": 0.3}, X),
    ("Dropout", 10, {}, {}, X),
    ("Dropout", 13, {"ratio": np.float32(0.4)}, {}, X),
    ("BatchNormalization", 1, NORMAL, {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1}, WANTED_NORMAL),
    ("BatchNormalization", 6, NORMAL, {"is_test": 1}, WANTED_NORMAL),
    ("BatchNormalization", 7, NORMAL, {}, None),
    ("BatchNormalization", 9, NORMAL, {}, None),
    ("BatchNormalization", 14, NORMAL, {"training_mode": 0}, None),
    ("Slice", 1, {}, {"starts": [0, -2], "ends": [1, 1 << 31], "axes": [0, 2]}, X[:1, :, -2:]),
    ("Slice", 1, {}, {"starts": [1], "ends": [2]}, X[1:2]),
    ("Slice", 10, {"b": ints(3), "e": ints(-9), "a": ints(2), "s": ints(-2)}, {}, X[:, :, 3::-2]),
    ("Slice", 13, {"b": ints(1), "e": ints(100), "a": ints(-1)}, {}, X[:, :, 1:]),
    ("Pad", 1, {}, {"paddings": [0, 1, 0, 0, 0, 2], "value": 2.0}, padded(((0, 0), (1, 0), (0, 2)), 2)),
    ("Pad", 2, {}, {"pads": [0, 1, 0, 0, 0, 2], "mode": "reflect"}, None),
    ("Pad", 11, {"p": ints(0, 1, 0, 0, 0, 2), "v": np.float32(3)}, {}, None),
    ("Pad", 13, {"p": ints(0, 1, 0, 0, 0, 2)}, {"mode": "edge"}, None),
    ("Pad", 18, {"p": ints(1, 2), "v": np.float32(3), "a": ints(-1)}, {}, padded(((0, 0), (0, 0), (1, 2)), 3)),
    ("Pad", 19, {"p": ints(0, 2, 0, 0, 1, 0)}, {"mode": "wrap"}, np.pad(X, ((0, 0), (2, 1), (0, 0)), "wrap")),
    ("Clip", 1, {}, {"min": -0.5}, X.clip(-0.5)),
    ("Clip", 6, {}, {"min": -0.5, "max": 0.25}, None),
    ("Clip", 11, {"low": np.float32(-0.5), "high": np.float32(0.5)}, {}, None),
    ("TopK", 1, {}, {"k": 2}, np.sort(X)[..., :1:-1]),
    ("TopK", 1, {}, {"k": 2, "axis": 1}, -np.sort(-X, 1)[:, :2]),
    ("TopK", 10, {"k": ints(2)}, {}, None),
    ("TopK", 11, {"k": ints(2)}, {"largest": 0, "axis": 0}, None),
    ("ReduceSum", 1, {}, {"axes": [1]}, X.sum(1, keepdims=True)),
    ("ReduceSum", 11, {}, {"axes": [-1], "keepdims": 0}, None),
    ("ReduceSum", 13, {"axes": ints(0, 2)}, {}, None),
    ("ReduceSum", 13, {}, {"noop_with_empty_axes": 1}, X),
    ("ReduceMean", 11, {}, {"axes": [1]}, None),
    ("ReduceMean", 18, {"axes": ints(1)}, {"keepdims": 0}, None),
    ("ReduceMax", 12, {}, {"axes": [0]}, None),
    ("ReduceMax", 20, {"axes": ints(0)}, {}, None),
    ("ReduceL2", 1, {}, {}, np.sqrt((X * X).sum(keepdims=True))),
    ("Squeeze", 11, {}, {"axes": [-4]}, X),
    ("Squeeze", 13, {"axes": ints(0)}, {}, X),
    ("Squeeze", 13, {}, {}, X),
    ("Unsqueeze", 1, {}, {"axes": [0, 3]}, X[None, :, :, None, :]),
    ("Unsqueeze", 11, {}, {"axes": [-1]}, X[..., None]),
    ("Unsqueeze", 13, {"axes": ints(1, -1)}, {}, X[:, None, :, :, None]),
    ("Cast", 1, {}, {"to": "INT32"}, X.astype(np.int32)),
    ("Cast", 6, {}, {"to": TensorProto.INT64}, X.astype(np.int64)),
    ("Cast", 9, {}, {"to": TensorProto.BOOL}, X.astype(bool)),
    ("Reshape", 1, {}, {"shape": [3, -1]}, X.reshape(3, 8)),
    ("Reshape", 1, {}, {"shape": [0, 12]}, X.reshape(2, 12)),
    ("Reshape", 5, {"s": ints(0, -1)}, {}, None),
    ("Reshape", 14, {"s": ints(4, 6)}, {"allowzero": 1}, None),
    ("Flatten", 1, {}, {"axis": 2}, X.reshape(6, 4)),
    ("Flatten", 11, {}, {"axis": -1}, None),
    ("Add", 1, {"b": ROW}, {"broadcast": 1, "axis": 1}, X + COLUMN),
    ("Sub", 6, {"b": ROW}, {"broadcast": 1, "axis": 1}, X - COLUMN),
    ("Mul", 6, {"b": X[:, :, 0]}, {"broadcast": 1, "axis": 0}, X * X[:, :, :1]),
    ("Div", 6, {"b": X[0, 0]}, {"broadcast": 1}, X / X[0, 0]),
    ("Pow", 1, {"b": floats(2)}, {"broadcast": 1}, X**2),
    ("Greater", 1, {"b": ROW}, {"broadcast": 1, "axis": 1}, X > COLUMN),
    ("Add", 7, {"b": COLUMN}, {}, None),
    ("PRelu", 6, {"slope": ROW}, {}, np.where(X < 0, X * COLUMN, X)),
    ("PRelu", 7, {"slope": COLUMN}, {}, None),
    ("Concat", 1, {"b": X}, {}, np.concatenate([X, X], 1)),
    ("Concat", 4, {"b": X}, {"axis": 2}, np.concatenate([X, X], 2)),
    ("Tile", 1, {"tiles": np.int64(2), "axis": np.int64(1)}, {}, np.tile(X, (1, 2, 1))),
    ("Tile", 6, {"r": ints(1, 2, 1)}, {}, None),
    ("Sum", 1, {"b": X}, {"consumed_inputs": [0, 0]}, X + X),
    ("Max", 1, {"b": -X}, {"consumed_inputs": [0, 0]}, np.abs(X)),
    ("Max", 8, {"b": COLUMN}, {}, None),
    ("Elu", 1, {}, {"alpha": 2.0, "consumed_inputs": [0]}, np.where(X < 0, 2 * np.expm1(X), X)),
    ("Selu", 1, {}, {"alpha": 1.6732, "gamma": 1.0507}, 1.0507 * np.where(X < 0, 1.6732 * np.expm1(X), X)),
    ("ReduceLogSum", 1, {}, {"axes": [1]}, LOGARITHMS),
    ("ReduceLogSumExp", 13, {}, {"keepdims": 0}, None),
    ("Gather", 11, {"i": ints(-1, 0)}, {"axis": 1}, None),
    ("ArgMax", 1, {}, {"axis": 1}, X.argmax(1)[:, None]),
    ("ArgMax", 12, {}, {"axis": -1, "select_last_index": 1}, None),
    ("Scatter", 9, {"i": np.zeros((1, 1, 2), np.int64), "u": floats(5, 6).reshape(1, 1, 2)}, {"axis": 1}, None),
    ("InstanceNormalization", 6, {"s": ROW, "b": ROW}, {"epsilon": 1e-3}, None),
]  # fmt: skip

HALVES = (PICTURE + PICTURE[:, :, :, [1, 2, 3, 4, 5, 5]]) / 2
WIDE = np.stack([PICTURE, HALVES], -1).reshape(1, 2, 4, 12)
DOUBLED = np.stack([WIDE, (WIDE + WIDE[:, :, [1, 2, 3, 3]]) / 2], 3).reshape(1, 2, 8, 12)

PICTURES = [
    ("Upsample", 1, {}, {"width_scale": 2.0, "height_scale": 3.0}, PICTURE.repeat(3, 2).repeat(2, 3)),
    ("Upsample", 1, {}, {"width_scale": 2.0, "height_scale": 2.0, "mode": "bilinear"}, DOUBLED),
    ("Upsample", 7, {}, {"scales": [1.0, 1.0, 2.0, 2.0]}, None),
    ("Upsample", 9, {"s": floats(1, 1, 2, 2)}, {"mode": "linear"}, None),
    ("Resize", 10, {"s": floats(1, 1, 1.5, 2)}, {}, None),
    ("Resize", 10, {"s": floats(1, 1, 0.5, 0.5)}, {"mode": "linear"}, None),
    ("Resize", 11, {"r": floats(), "s": floats(1, 1, 2, 2)}, {"mode": "linear"}, None),
    ("Resize", 11, {"r": floats(), "s": floats(), "z": ints(1, 2, 3, 5)}, {"mode": "cubic"}, None),
    ("Resize", 13, {"r": floats(), "s": floats(1, 1, 2, 2)}, {"coordinate_transformation_mode": "align_corners"}, None),
    ("Resize", 18, {"r": floats(), "s": floats(0.5, 0.5)}, {"mode": "linear", "antialias": 1, "axes": [2, 3]}, None),
    ("Resize", 19, {"r": floats(), "s": floats(), "z": ints(2, 9)},
     {"axes": [2, 3], "keep_aspect_ratio_policy": "not_larger", "mode": "linear"}, None),
    ("MaxPool", 1, {}, {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [1, 1]}, None),
    ("MaxPool", 10, {}, {"kernel_shape": [3, 3], "ceil_mode": 1, "strides": [2, 2], "dilations": [1, 1]}, None),
    ("AveragePool", 1, {}, {"kernel_shape": [2, 2], "strides": [2, 2]}, PICTURE.reshape(1, 2, 2, 2, 3, 2).mean((3, 5))),
    ("AveragePool", 7, {}, {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}, None),
    ("AveragePool", 7, {}, {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0], "count_include_pad": 1}, None),
    ("AveragePool", 19, {}, {"kernel_shape": [2, 2], "dilations": [2, 1], "ceil_mode": 1}, None),
    ("GlobalMaxPool", 1, {}, {}, PICTURE.max((2, 3), keepdims=True)),
    ("LpPool", 2, {}, {"kernel_shape": [2, 2], "p": 3}, None),
    ("MaxRoiPool", 1, {"r": floats(0, 0, 0, 9, 5, 0, 2, 2, 3, 7, 0, -3, 1, 20, 2, 0, 9, 9, 9, 9).reshape(4, 5)},
     {"pooled_shape": [2, 3], "spatial_scale": 0.6}, None),
    ("DepthToSpace", 1, {}, {"blocksize": 1}, PICTURE),
    ("SpaceToDepth", 1, {}, {"blocksize": 2}, None),
    ("LRN", 1, {}, {"size": 3, "alpha": 0.1}, None),
    ("Conv", 1, {"w": RNG.standard_normal((3, 2, 2, 2)).astype(np.float32)}, {"auto_pad": "SAME_LOWER"}, None),
]  # fmt: skip

SPLITS = [
    ("Split", 1, {"s": floats(1, 2)}, {"axis": 1}, [X[:, :1], X[:, 1:]]),
    ("Split", 2, {}, {"axis": 1, "split": [1, 2]}, None),
    ("Split", 11, {}, {"axis": -2, "split": [1, 2]}, None),
    ("Split", 13, {"s": ints(1, 2)}, {"axis": 1}, None),
    ("Split", 18, {}, {"axis": 1, "num_outputs": 2}, None),
]


def check(op, opset, constants, attrs, wanted, x, outputs=("y",)):
    """Compile a model of one node, and compare with what is wanted, or with what onnxruntime gives."""
    proto = one_node(op, {"x": x}, constants, outputs, opset, **attrs)
    got = list(mlc.compile(proto, threads=1, cache=False)({"x": x}).values())
    if wanted is None:
        wanted = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for a, b in zip(wanted if isinstance(wanted, list) else [wanted], got, strict=False):
        assert a.shape == b.shape
        np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=1e-4, atol=1e-5)


def named(cases):
    """The cases with names that tell them apart."""
    return [pytest.param(*case, id=f"{case[0]}-{case[1]}-{k}") for k, case in enumerate(cases)]


@pytest.mark.parametrize(("op", "opset", "constants", "attrs", "wanted"), named(CASES))
def test_an_op_of_an_opset(op, opset, constants, attrs, wanted):
    check(
        op, opset, constants, attrs, wanted, X[None] if op == "Squeeze" else X, ("y", "i") if op == "TopK" else ("y",)
    )


@pytest.mark.parametrize(("op", "opset", "constants", "attrs", "wanted"), named(PICTURES))
def test_an_op_on_pictures(op, opset, constants, attrs, wanted):
    check(op, opset, constants, attrs, wanted, PICTURE)


@pytest.mark.parametrize(("op", "opset", "constants", "attrs", "wanted"), named(SPLITS))
def test_splits(op, opset, constants, attrs, wanted):
    check(op, opset, constants, attrs, wanted, X, ("y", "z"))


REFUSED = {
    "to what": (
        one_node("Cast", {"x": X}, opset=1, to="INT4"),
        "expected an element type of FLOAT, UINT8, .* but got INT4",
    ),
    "unlike": (
        one_node("Add", {"x": X}, {"b": ROW}, opset=6),
        "expected inputs of one shape, or broadcast = 1, but got",
    ),
    "behind": (
        one_node("Add", {"x": X}, {"b": X[0]}, opset=6, broadcast=1, axis=2),
        "expected axis 2 and the 2 axes of input 1 to be within 3",
    ),
    "paddings": (one_node("Pad", {"x": X}, opset=1, paddings=[1]), "expected paddings of 6 integers >= 0, but got"),
    "no picture": (
        one_node("Upsample", {"x": X}, opset=1, height_scale=2.0, width_scale=2.0),
        "expected a picture of rank 4, but got rank 3",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    proto, message = REFUSED[name]
    with pytest.raises(UserError, match=message):
        import_model(proto)
