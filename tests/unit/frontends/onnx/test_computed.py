"""Sizes that ONNX models compute, and work along axes of which only a part is there, beside onnxruntime."""

import re

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx_loops import compiled, constant, model, node, normal

import mlc.onnx_backend as backend
from mlc.frontends.onnx import import_model
from mlc.support.errors import UserError

RNG = np.random.default_rng(0)


def chosen(count, size=9):
    """A row of which so many elements are above 0."""
    x = -RNG.random(size).astype(np.float32) - 0.1
    x[RNG.permutation(size)[:count]] *= -1
    return x


POSITIVE = [constant("zero", np.float32(0)), node("Greater", "x zero", "c")]
COUNT = [*POSITIVE, node("NonZero", "c", "i"), node("Shape", "i", "s", start=1), node("Squeeze", "s", "n")]
"""`n`: how many elements of x are above 0; `s`, as a shape; `i`, where they are."""
ROWS = [*POSITIVE, node("Compress", "z c", "r", axis=0)]
"""`r`: the rows of z where x is above 0."""


def checked(nodes, outputs, counts=(0, 4, 9), **inputs):
    """Compile, and compare with onnxruntime where so many elements of x are above 0."""
    cases = [{"x": chosen(count), **inputs} for count in counts]
    return compiled(model(nodes, cases[0], outputs, opset=20), *cases)


def test_a_range_up_to_a_count():
    one, three, five = (constant(name, np.array(v)) for name, v in (("one", 1), ("three", 3), ("five", 5)))
    nodes = [*COUNT, one, three, five, node("Range", "one n three", "y"), node("Add", "n five", "last")]
    nodes += [node("Neg", "one", "minus"), node("Range", "last one minus", "down"), node("Range", "n last one", "both")]
    checked(nodes, {"y": T.INT64, "down": T.INT64, "both": T.INT64})


def test_a_range_of_floats():
    nodes = [*COUNT, node("Cast", "n", "f", to=T.FLOAT), constant("a", np.float32(0.5)), constant("d", np.float32(0.7))]
    checked([*nodes, node("Range", "a f d", "y"), node("Exp", "y", "e")], {"y": T.FLOAT, "e": T.FLOAT})


def test_shapes_that_are_computed():
    nodes = [
        *COUNT,
        constant("two", np.array([2])),
        node("Concat", "two s", "shape", axis=0),
        node("ConstantOfShape", "shape", "zeros"),
        node("Expand", "z shape", "wide"),
        node("Add", "zeros wide", "y"),
        node("Size", "wide", "size"),
    ]
    (y, _) = checked(nodes, {"y": T.FLOAT, "size": T.INT64}, z=normal(2, 1))
    assert y.shape == (2, 9)


def test_one_hot_of_a_computed_depth():
    nodes = [*COUNT, constant("v", np.array([-1, 3], np.float32)), node("OneHot", "k n v", "y", axis=0)]
    checked(nodes, {"y": T.FLOAT}, counts=(3, 9), k=np.array([0, 2, -3], np.int64))


@pytest.mark.parametrize(
    ("start", "end"), [("zero_", "s"), ("s", "last"), ("s", "minus"), ("minus", "s"), ("minus", "last")]
)
def test_bounds_that_are_computed(start, end):
    bounds = [
        constant(name, np.array([v])) for name, v in (("zero_", 0), ("last", 1 << 40), ("minus", -2), ("axis", 0))
    ]
    nodes = [*COUNT, *bounds, node("Slice", f"z {start} {end} axis", "y")]
    checked(nodes, {"y": T.FLOAT}, z=normal(7, 2))


def test_parts_of_what_is_there():
    bounds = [constant(name, np.array(v)) for name, v in (("a", [-3, 1]), ("b", [1 << 40, 3]), ("axes", [0, 1]))]
    nodes = [*ROWS, *bounds, node("Slice", "r a b axes", "y"), node("Split", "r", "u v", axis=1, num_outputs=2)]
    checked(nodes, {"y": T.FLOAT, "u": T.FLOAT, "v": T.FLOAT}, z=normal(9, 4))


@pytest.mark.parametrize("kind", ["Sum", "Mean", "Max", "Min", "Prod", "L2", "LogSumExp"])
@pytest.mark.parametrize("keep", [0, 1])
def test_reductions_of_what_is_there(kind, keep):
    axes = [constant("rows", np.array([0])), constant("columns", np.array([-1]))]
    nodes = [
        *ROWS,
        *axes,
        *(node(f"Reduce{kind}", f"r {a}", o, keepdims=keep) for a, o in (("rows", "y"), ("columns", "w"))),
    ]
    checked(nodes, {"y": T.FLOAT, "w": T.FLOAT}, counts=(1, 4, 9), z=normal(9, 3))


def test_the_best_of_what_is_there():
    nodes = [
        *ROWS,
        constant("five", np.array([5])),
        node("Shape", "r", "n", end=1),
        node("Min", "n five", "k"),
        node("TopK", "r k", "v i", axis=0),
        node("ArgMax", "r", "best", axis=0),
        node("Softmax", "r", "soft", axis=0),
        node("Softmax", "r", "each", axis=1),
    ]
    outputs = {"v": T.FLOAT, "i": T.INT64, "best": T.INT64, "soft": T.FLOAT, "each": T.FLOAT}
    checked(nodes, outputs, counts=(1, 4, 9), z=normal(9, 3))


def test_rows_through_layers():
    nodes = [
        *ROWS,
        constant("w", normal(3, 5)),
        constant("b", normal(5)),
        node("Gemm", "r w b", "h"),
        node("Relu", "h", "a"),
        node("LayerNormalization", "a b b", "y"),
        node("MatMul", "r w", "m"),
        constant("flat", np.array([-1, 5, 1])),
        node("Reshape", "m flat", "t"),
    ]
    checked(nodes, {"y": T.FLOAT, "t": T.FLOAT}, z=normal(9, 3))


def test_what_is_there_of_several_is_joined():
    nodes = [
        *ROWS,
        node("Not", "c", "d"),
        node("Compress", "z d", "q", axis=0),
        node("Concat", "r z q", "y", axis=0),
        node("Concat", "r r", "twice", axis=1),
    ]
    (y, _) = checked(nodes, {"y": T.FLOAT, "twice": T.FLOAT}, z=normal(9, 2))
    assert y.shape == (18, 2)


def test_boxes_after_suppression():
    """What exported detectors do: the boxes that are kept, by falling scores, at most so many."""
    corner, size = RNG.random((2, 1, 30, 2)).astype(np.float32)
    feeds = {
        "boxes": np.concatenate([corner, corner + size / 2 + 0.1], -1),
        "scores": RNG.random((1, 2, 30), np.float32),
    }
    nodes = [
        *(
            constant(n, v)
            for n, v in (("most", np.array([20])), ("iou", np.array([0.4], "f")), ("t", np.array([0.1], "f")))
        ),
        node("NonMaxSuppression", "boxes scores most iou t", "rows"),
        *(
            constant(n, np.array(v))
            for n, v in (("two", 2), ("first", [0]), ("one", [1]), ("last", [3]), ("ten", [10]))
        ),
        node("Gather", "rows two", "box", axis=1),
        node("Squeeze", "boxes first", "b"),
        node("Gather", "b box", "kept"),
        node("GatherND", "scores rows", "s"),
        node("Shape", "s", "n"),
        node("Min", "n ten", "k"),
        node("TopK", "s k", "v order"),
        node("Gather", "kept order", "best"),
        node("Unsqueeze", "v one", "column"),
        node("Concat", "best column", "y", axis=1),
    ]
    compiled(model(nodes, feeds, {"y": T.FLOAT, "rows": T.INT64}, opset=20), feeds)


def test_the_backend_falls_back_on_what_the_values_are():
    """A pool wants sizes: those that an input says are bound, each to a compilation of its own."""
    nodes = [constant("a", np.array([0])), constant("axis", np.array([2])), node("Slice", "x a n axis", "p")]
    nodes.append(node("MaxPool", "p", "y", kernel_shape=[2]))
    x = normal(1, 2, 8)
    prepared = backend.prepare(model(nodes, {"x": x, "n": np.array([4])}, {"y": T.FLOAT}))
    for n in (3, 5):
        wanted = np.maximum(x[:, :, : n - 1], x[:, :, 1:n])
        np.testing.assert_array_equal(prepared.run([x, np.array([n])])[0], wanted)


REFUSED = {
    "two sizes": (
        [*COUNT, node("Concat", "s s", "shape", axis=0), node("ConstantOfShape", "shape", "y")],
        "expected a shape of which the data says at most one size, but got 2",
    ),
    "a size that is not 1": ([*COUNT, node("Expand", "x s", "y")], "expected a size of 1 where the data says the new"),
    "another shape": (
        [*COUNT, node("Reshape", "x s", "y")],
        "expected a shape that is known, or of the sizes of a count",
    ),
    "steps": (
        [*COUNT, *(constant(n, np.array([v])) for n, v in (("a", 0), ("b", 2))), node("Slice", "x a s a b", "y")],
        "expected steps of 1 along an axis whose size the data says, but got 2",
    ),
    "no bound": (
        [
            constant("a", np.int64(0)),
            constant("d", np.int64(1)),
            node("ReduceMax", "k", "m", keepdims=0),
            node("Range", "a m d", "y"),
        ],
        "expected input 1 ('ReduceMax_2') to be constant, but it depends on the model's input",
    ),
    "a large bound": (
        [
            *COUNT,
            constant("a", np.int64(0)),
            constant("d", np.int64(1 << 40)),
            node("Mul", "n d", "m"),
            node("Range", "a m n", "y"),
        ],
        "expected input 1 ('Mul_7') to be constant, but",
    ),
    "a larger bound": (
        [
            *COUNT,
            constant("a", np.int64(0)),
            constant("d", np.int64(1 << 40)),
            constant("one", np.int64(1)),
            node("Mul", "n d", "m"),
            node("Range", "a m one", "y"),
        ],
        "expected a size of at most 268435456, but it may be up to 9895604649984",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    nodes, message = REFUSED[name]
    feeds = {"x": chosen(3), "k": np.array([3])}
    with pytest.raises(UserError, match=re.escape(message)):
        import_model(model(nodes, feeds, {"y": T.FLOAT}))


def test_old_softmax_is_refused_along_such_an_axis():
    proto = model(
        [*ROWS, node("Softmax", "r", "y", axis=0)], {"x": chosen(3), "z": normal(9, 3)}, {"y": T.FLOAT}, opset=12
    )
    with pytest.raises(UserError, match="expected a size known at import, or an opset of at least 13"):
        import_model(proto)
