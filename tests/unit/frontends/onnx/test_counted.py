"""ONNX ops whose results are as long as the data says, beside onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx_loops import compiled, constant, halving, model, node, normal, opened, powers

from mlc.frontends.onnx import import_model
from mlc.support.errors import UserError

RNG = np.random.default_rng(0)


def few(*shape, dtype=np.float32, low=0, high=3):
    return RNG.integers(low, high, shape).astype(dtype)


def test_nonzero_and_what_follows_it():
    nodes = [
        node("NonZero", "x", "i"),
        node("Transpose", "i", "places"),
        node("GatherND", "x places", "values"),
        node("Cast", "values", "v64", to=T.DOUBLE),
        node("Add", "v64 v64", "twice"),
        node("Shape", "places", "shape"),
        node("Size", "places", "size"),
    ]
    outputs = {"i": T.INT64, "places": T.INT64, "twice": T.DOUBLE, "shape": T.INT64, "size": T.INT64}
    cases = [{"x": few(3, 5)}, {"x": np.zeros((3, 5), np.float32)}, {"x": np.ones((3, 5), np.float32)}]
    compiled(model(nodes, cases[0], outputs), *cases)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis):
    attrs = {} if axis is None else {"axis": axis}
    x = normal(4, 6)
    cases = [{"x": x, "c": few(5 if axis is None else 4, dtype=bool, high=2)} for _ in range(2)]
    nodes = [node("Compress", "x c", "y", **attrs), node("Relu", "y", "z")]
    compiled(model(nodes, cases[0], {"z": T.FLOAT}), *cases)


@pytest.mark.parametrize(("axis", "ordered"), [(None, 1), (None, 0), (1, 1), (0, 0)])
def test_unique(axis, ordered):
    attrs = {"sorted": ordered} if axis is None else {"sorted": ordered, "axis": axis}
    cases = [{"x": few(6, 7, high=2)}, {"x": few(6, 7, low=-3)}]
    outputs = {"y": T.FLOAT, "i": T.INT64, "inv": T.INT64, "n": T.INT64}
    compiled(model([node("Unique", "x", "y i inv n", **attrs)], cases[0], outputs), *cases)


def test_non_max_suppression():
    corner, size = RNG.random((2, 1, 20, 2)).astype(np.float32)
    boxes = np.concatenate([corner, corner + size / 2 + 0.1], axis=-1)
    scores = RNG.random((1, 2, 20)).astype(np.float32)
    names = "boxes scores most iou limit"
    cases = [
        {
            "boxes": boxes,
            "scores": scores,
            "most": np.array([most]),
            "iou": np.array([iou], "f"),
            "limit": np.array([t], "f"),
        }
        for most, iou, t in ((20, 0.3, 0.1), (3, 0.5, 0.0), (0, 0.5, 0.5))
    ]
    compiled(model([node("NonMaxSuppression", names, "y")], cases[0], {"y": T.INT64}), *cases)


def test_top_of_a_computed_number():
    cases = [{"x": normal(3, 7), "k": np.array([k])} for k in (2, 7)]
    compiled(model([node("TopK", "x k", "v i", axis=1)], cases[0], {"v": T.FLOAT, "i": T.INT64}), *cases)


def test_rows_of_a_loop_that_ends_early():
    body = halving()
    body.node.append(node("Neg", "t", "row"))
    body.output.append(powers().output[2])
    cases = [{"x": np.full(4, x, np.float32)} for x in (100, 0.1)]
    nodes = [constant("m", np.array(50)), constant("c", True), node("Loop", "m c x", "y rows", body=body)]
    compiled(model(nodes, cases[0], {"y": T.FLOAT, "rows": T.FLOAT}), *cases)


def put_where(reduction):
    """`x[x > 0] = value`, as PyTorch writes it, or what is there once more."""
    places = [node("NonZero", "x", "at"), node("Transpose", "at", "i")]
    scalar = [node("Shape", "i", "many", end=1), constant("value", f32([-7])), node("Expand", "value many", "u")]
    updates = [node("GatherND", "x i", "u")] if reduction == "add" else scalar
    return [*places, *updates, node("ScatterND", "x i u", "y", reduction=reduction)]


def f32(values):
    return np.array(values, np.float32)


SIZES_OF_COUNTS = [
    constant("zero", np.array([0])),
    constant("one", np.array([1])),
    constant("three", np.array([3])),
    constant("half", f32([0.5])),
    node("Compress", "r m", "c", axis=0),
    node("Shape", "c", "n", end=1),
    node("Squeeze", "n zero", "count"),
    *(constant(name, np.array(v)) for name, v in (("first", 0), ("step", 1))),
    node("Range", "first count step", "numbers"),
    node("Concat", "n three", "rows", axis=0),
    node("Expand", "half rows", "halves"),
    node("Slice", "r zero n zero", "front"),
    node("Concat", "c r", "both", axis=0),
    node("TopK", "c one", "v i", axis=0),
    node("ReduceMean", "c", "mean", axes=[0]),
]


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_what_is_put_where_a_mask_is(reduction):
    """Of static and of open sizes; what the bound has beyond the count is put nowhere."""
    cases = [{"x": few(n, m, low=-1)} for n, m in ((4, 5), (1, 1), (9, 20))]
    cases.append({"x": np.zeros((3, 5), np.float32)})
    proto = model(put_where(reduction), {"x": few(4, 5)}, {"y": T.FLOAT})
    compiled(proto, cases[0])
    compiled(opened(proto, x0="N", x1="M"), *cases)


def test_sizes_made_of_counts_of_open_sizes():
    names = {"numbers": T.INT64, "halves": T.FLOAT, "front": T.FLOAT, "both": T.FLOAT, "v": T.FLOAT, "mean": T.FLOAT}
    cases = [{"r": normal(n), "m": np.arange(n) % 3 != 1} for n in (7, 1, 40)]
    proto = model(SIZES_OF_COUNTS, cases[0], names)
    compiled(proto, cases[0])
    compiled(opened(proto, r0="N", m0="N"), *cases)


def test_a_value_of_unknown_size_is_refused_where_it_cannot_go():
    feeds = {"x": few(3, 5)}
    message = r"expected input 0 \('NonZero_0'\) of a size known at import, but got up to 15 elements; only elementwise"
    with pytest.raises(UserError, match=message):
        import_model(model([node("NonZero", "x", "i"), node("Det", "i", "y")], feeds, {"y": T.FLOAT}))
    two = [node("NonZero", "x", "i"), node("NonZero", "z", "j"), node("Add", "i j", "y")]
    with pytest.raises(UserError, match=r"expected operands of graph\.add of sizes known at import, but the data says"):
        import_model(model(two, {"x": few(3, 5), "z": few(3, 5)}, {"y": T.INT64}))
