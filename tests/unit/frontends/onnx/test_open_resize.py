"""Resize of pictures whose batch, or sides, are open: to sizes that are numbers, or that shape arithmetic computes."""

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper
from onnx_sizes import ints, model_of, node

import mlc
from mlc.support.errors import UserError

MODES = {
    "linear": {"mode": "linear"},
    "linear-corners": {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    "linear-torch": {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
    "cubic": {"mode": "cubic"},
    "nearest": {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
}
FIXED, OPEN = ["N", 3, 7, 9], ["N", 3, "H", "W"]


CONSTANTS = [
    ints("0", 0),
    ints("2", 2),
    ints("4", 4),
    ints("to", 13, 17),
    ints("less", 1, 2),
    ints("lo", 3),
    ints("hi", 8),
]


def to(sizes, *nodes, **attrs):
    """Nodes that resize `x` to its own batch and channels, and `sizes`."""
    return [
        node("Shape", ["x"], "s"),
        node("Slice", ["s", "0", "2", "0"], "head"),
        *nodes,
        node("Concat", ["head", sizes], "size", axis=0),
        node("Resize", ["x", "", "", "size"], "y", **attrs),
    ]


TAIL = node("Slice", ["s", "2", "4"], "tail")


def check(model, shapes, threads=1, **options):
    """The values of one compiled model at several shapes of its inputs are onnxruntime's."""
    exe = mlc.compile(model, threads=threads, cache=False, **options)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [spec.name for spec in exe.inputs]
    rng = np.random.default_rng(0)
    for at in shapes:
        given = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in zip(names, at, strict=True)}
        (wanted,) = session.run(None, given)
        (found,) = exe(given).values()
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=2e-5, err_msg=str(at))
    return exe


@pytest.mark.parametrize("name", MODES)
def test_to_a_number_of_rows_and_columns(name):
    model = model_of(to("to", **MODES[name]), {"x": FIXED}, CONSTANTS)
    check(model, [[(n, 3, 7, 9)] for n in (1, 2, 5)], threads=2)


@pytest.mark.parametrize("name", ["linear", "nearest"])
def test_pictures_of_any_size_to_a_number_of_rows_and_columns(name):
    model = model_of(to("to", **MODES[name]), {"x": OPEN}, CONSTANTS)
    check(model, [[(1, 3, 7, 9)], [(2, 3, 30, 4)]])


COMPUTED = {
    "some-less": (TAIL, node("Sub", ["tail", "less"], "t")),
    "a-half": (TAIL, node("Div", ["tail", "2"], "t")),
    "between-two-numbers": (
        TAIL,
        node("Squeeze", ["lo"], "low"),
        node("Squeeze", ["hi"], "high"),
        node("Clip", ["tail", "low", "high"], "t"),
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_to_sizes_that_follow_from_its_own(name):
    model = model_of(to("t", *COMPUTED[name], mode="linear"), {"x": OPEN}, CONSTANTS)
    exe = check(model, [[(1, 3, 7, 9)], [(2, 3, 20, 6)]])
    if name == "some-less":
        with pytest.raises(ValueError, match=r"expected axis 3 of input 'x' \(W\) from 3 on, but got 2"):
            exe({"x": np.zeros((1, 3, 9, 2), np.float32)})


def test_to_the_sizes_of_another_picture():
    other = [node("Shape", ["w"], "t", start=2, end=4)]
    model = model_of(to("t", *other, mode="linear"), {"x": OPEN, "w": ["N", 3, "P", "Q"]}, CONSTANTS)
    check(model, [[(1, 3, 4, 5), (1, 3, 9, 11)], [(2, 3, 14, 5), (2, 3, 9, 3)]])


@pytest.mark.parametrize("name", ["linear-corners", "linear-torch"])
def test_by_a_scale_where_coordinates_depend_on_the_size(name):
    scales = numpy_helper.from_array(np.array([1, 1, 2, 3], np.float32), "scales")
    model = model_of([node("Resize", ["x", "", "scales"], "y", **MODES[name])], {"x": OPEN}, [scales])
    check(model, [[(1, 3, 7, 9)], [(2, 3, 20, 6)]])


def test_sizes_that_are_never_positive_are_refused():
    below = [ints("far", 5000, 5000), TAIL, node("Sub", ["tail", "far"], "t")]
    model = model_of(to("t", *below[1:], mode="linear"), {"x": OPEN}, [*CONSTANTS, below[0]])
    with pytest.raises(UserError, match="expected a size H - 5000 of at least 1, but got less for H up to 4096"):
        mlc.load(model)
