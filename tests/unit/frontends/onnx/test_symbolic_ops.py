"""ONNX ops that read, compute or need sizes, where those are symbolic: values beside ONNX's reference."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from onnx_sizes import ints, model_of, node

import mlc

PICTURE = {"x": [1, 4, "H", "W"]}
ROWS = {"x": ["N", 4]}
WINDOW = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
CASES = {
    "sizes-as-floats": lambda: model_of(
        [
            node("Shape", ["x"], "s", start=0, end=1),
            node("Cast", ["s"], "f", to=TensorProto.FLOAT),
            node("Div", ["x", "f"], "y"),
        ],
        ROWS,
    ),
    "sizes-as-data": lambda: model_of(
        [
            node("Shape", ["x"], "s"),
            node("Mul", ["s", "s"], "area"),
            node("Div", ["area", "three"], "third"),
            node("Cast", ["x"], "whole", to=TensorProto.INT64),
            node("ReduceMax", ["whole"], "top", keepdims=0),
            node("Add", ["top", "third"], "y"),
        ],
        ROWS,
        [ints("three", 3)],
    ),
    "sizes-as-an-output": lambda: model_of([node("Shape", ["x"], "y")], PICTURE),
    "max-pool-ceil": lambda: model_of([node("MaxPool", ["x"], "y", **WINDOW)], PICTURE),
    "average-pool-ceil": lambda: model_of([node("AveragePool", ["x"], "y", **WINDOW)], PICTURE),
    "resize-to-the-size-of-another": lambda: model_of(
        [
            node("MaxPool", ["x"], "a", kernel_shape=[1, 1], strides=[2, 2]),
            node("Shape", ["a"], "sa", start=0, end=2),
            node("Shape", ["x"], "sx", start=2, end=4),
            node("Concat", ["sa", "sx"], "to", axis=0),
            node("Resize", ["a", "", "", "to"], "b", mode="nearest", coordinate_transformation_mode="asymmetric"),
            node("Add", ["x", "b"], "y"),
        ],
        PICTURE,
    ),
    "tile-by-a-size": lambda: model_of(
        [
            node("Shape", ["x"], "s", start=0, end=1),
            node("Concat", ["s", "two"], "reps", axis=0),
            node("Tile", ["row", "reps"], "y"),
        ],
        {**ROWS, "row": [1, 4]},
        [ints("two", 2)],
    ),
    "tile-of-an-open-size": lambda: model_of(
        [
            node("Shape", ["x"], "s", start=0, end=1),
            node("Concat", ["two", "s"], "reps", axis=0),
            node("Tile", ["x", "reps"], "y"),
        ],
        ROWS,
        [ints("two", 2)],
    ),
    "range-in-steps": lambda: model_of(
        [
            node("Size", ["x"], "n"),
            node("Range", ["from", "n", "by"], "r"),
            node("Cast", ["r"], "y", to=TensorProto.FLOAT),
        ],
        ROWS,
        [onnx.numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("from", 2), ("by", 3))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_reference(name):
    model = CASES[name]()
    exe, reference = mlc.compile(model, threads=1, cache=False), ReferenceEvaluator(model)
    for n, w in ((8, 10), (16, 6), (70, 132)):
        given = {}
        for info in model.graph.input:
            sizes = [d.dim_value or {"W": w}.get(d.dim_param, n) for d in info.type.tensor_type.shape.dim]
            given[info.name] = np.random.default_rng(n).standard_normal(sizes).astype(np.float32) * 3
        (found,), (wanted,) = exe(given).values(), reference.run(None, given)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


NEGATIVE = {
    "-(-n / 2)": (
        [node("Neg", ["n"], "a"), node("Div", ["a", "two"], "b"), node("Neg", ["b"], "y")],
        lambda n, m: n // 2,
    ),
    "n / -2": ([node("Neg", ["two"], "a"), node("Div", ["n", "a"], "y")], lambda n, m: -(n // 2)),
    "fmod(-n, 2)": ([node("Neg", ["n"], "a"), node("Mod", ["a", "two"], "y", fmod=1)], lambda n, m: -(n % 2)),
    "min(n - m, 0) / 2": ([node("Div", ["least", "two"], "y")], lambda n, m: -(max(m - n, 0) // 2)),
    "max(min(n - m, 3), 0)": (
        [node("Min", ["d", "three"], "a"), node("Max", ["a", "zero"], "y")],
        lambda n, m: max(min(n - m, 3), 0),
    ),
    "2 where min(n - m, 0) < 0": (
        [node("Less", ["least", "zero"], "below"), node("Where", ["below", "two", "three"], "y")],
        lambda n, m: 2 if n < m else 3,
    ),
}


def with_differences(nodes):
    """A model of n, the length of x, and m, that of z; d is n - m, and least what of it is below 0."""
    before = [node("Shape", [x], size) for x, size in (("x", "n"), ("z", "m"))]
    before += [node("Sub", ["n", "m"], "d"), node("Min", ["d", "zero"], "least")]
    constants = [ints("zero", 0), ints("two", 2), ints("three", 3)]
    return mlc.compile(model_of([*before, *nodes], {"x": ["N"], "z": ["M"]}, constants), threads=1, cache=False)


@pytest.mark.parametrize("name", NEGATIVE)
def test_differences_of_sizes_may_be_negative(name):
    nodes, wanted = NEGATIVE[name]
    exe = with_differences(nodes)
    for n, m in ((1, 1), (1, 8), (8, 1), (3, 5), (7, 2)):
        found = exe({"x": np.ones(n, np.float32), "z": np.ones(m, np.float32)})["y"]
        assert found.tolist() == [wanted(n, m)]


def test_a_tensor_as_long_as_a_difference_says():
    nodes = [
        node("Div", ["least", "two"], "half"),
        node("Mul", ["m", "two"], "twice"),
        node("Add", ["twice", "half"], "long"),
        node("Expand", ["three", "long"], "threes"),
        node("Cast", ["threes"], "f", to=TensorProto.FLOAT),
        node("Concat", ["f", "z"], "both", axis=0),
        node("Neg", ["both"], "y"),
    ]
    exe = with_differences(nodes)
    for n, m in ((1, 1), (1, 8), (8, 1), (3, 5), (7, 2)):
        z = np.arange(m, dtype=np.float32)
        found = exe({"x": np.ones(n, np.float32), "z": z})["y"]
        assert found.tolist() == [-3] * (2 * m - max(m - n, 0) // 2) + (-z).tolist()


def test_slices_that_some_sizes_leave_nothing_of_are_refused_when_they_run():
    nodes = [
        node("Min", ["n", "m"], "both"),
        node("Sub", ["both", "three"], "less"),
        node("Slice", ["x", "zero", "less"], "part"),
        node("Neg", ["part"], "y"),
    ]
    exe = with_differences(nodes)
    x = np.arange(9, dtype=np.float32)
    for n, m in ((4, 9), (9, 5), (7, 7)):
        np.testing.assert_array_equal(exe({"x": x[:n], "z": x[:m]})["y"], -x[: min(n, m) - 3])
    with pytest.raises(ValueError, match=r"expected larger inputs than x \(9,\), z \(3,\)"):
        exe({"x": x, "z": x[:3]})


def test_sizes_inside_a_branch_are_data():
    then = helper.make_graph(
        [node("Shape", ["x"], "s"), node("Cast", ["s"], "t", to=TensorProto.FLOAT)],
        "t",
        [],
        [onnx.ValueInfoProto(name="t")],
    )
    other = helper.make_graph(
        [node("Constant", [], "e", value_floats=[1.0, 2.0])], "e", [], [onnx.ValueInfoProto(name="e")]
    )
    nodes = [
        node("ReduceMax", ["x"], "top", keepdims=0),
        node("Cast", ["top"], "flag", to=TensorProto.BOOL),
        helper.make_node("If", ["flag"], ["y"], name="if", then_branch=then, else_branch=other),
    ]
    exe = mlc.compile(model_of(nodes, ROWS), threads=1, cache=False)
    for n in (3, 8):
        x = np.ones((n, 4), np.float32)
        np.testing.assert_array_equal(exe({"x": x})["y"], [n, 4])
        np.testing.assert_array_equal(exe({"x": x * 0})["y"], [1, 2])


@pytest.mark.parametrize("opt_level", [0, 1, 2])
def test_rows_in_two_halves(opt_level):
    """A reshape of sizes that are symbols is a view, also where what is round it is fused by TVM's rules."""
    nodes = [
        node("Concat", ["x", "x"], "c", axis=0),
        node("Neg", ["c"], "n"),
        node("Reshape", ["n", "halves"], "r"),
        node("Exp", ["r"], "y"),
    ]
    model = model_of(nodes, ROWS, [ints("halves", 2, -1, 4)])
    exe = mlc.compile(model, threads=1, opt_level=opt_level, cache=False)
    for n in (1, 3, 40):
        x = np.random.default_rng(n).standard_normal((n, 4)).astype(np.float32)
        np.testing.assert_allclose(exe({"x": x})["y"], np.exp(-np.stack([x, x])), rtol=1e-5)
