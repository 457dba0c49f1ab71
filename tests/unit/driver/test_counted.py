"""Ops whose results are as long as the data says: compiled, they compute what their numpy meaning is."""

import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.interp.graph import main_function, run_function
from mlc.support.weights import WeightStore

RNG = np.random.default_rng(0)
UNIQUE = "(tensor<{n}x{m}x{t}>) -> (tensor<{n}xi64>, tensor<{n}xi64>, tensor<{n}xi64>, tensor<i64>)"
NMS = """
func.func @main(%b: tensor<2xNx4xf32>, %s: tensor<2x3xNxf32>, %m: tensor<i64>, %i: tensor<f32>, %t: tensor<f32>)
    -> (tensor<ROOMx3xi64>, tensor<i64>) {
  %r, %n = graph.non_max_suppression %b, %s, %m, %i, %t ATTRS
      : (tensor<2xNx4xf32>, tensor<2x3xNxf32>, tensor<i64>, tensor<f32>, tensor<f32>)
      -> (tensor<ROOMx3xi64>, tensor<i64>)
  func.return %r, %n : tensor<ROOMx3xi64>, tensor<i64>
}
"""


def both(text, *cases, **options):
    """The compiled results for the last of some inputs; all are compared with the interpreter's."""
    module = parse_module(text, "<test>")
    options = {"threads": 1} | options
    exe = mlc.compile(Model(parse_module(text, "<test>"), WeightStore()), cache=False, **options)
    got = []
    for arrays in cases:
        wanted = run_function(main_function(module), arrays)
        got = list(exe({spec.name: a for spec, a in zip(exe.inputs, arrays, strict=True)}).values())
        for a, b in zip(wanted, got, strict=True):
            np.testing.assert_array_equal(b, a)
    return got


def one(op, operand, results, attrs=""):
    return f"""
func.func @main(%x: {operand}) -> ({results}) {{
  %r:{results.count("tensor")} = graph.{op} %x {attrs} : ({operand}) -> ({results})
  func.return {", ".join(f"%r#{k}" for k in range(results.count("tensor")))} : {results}
}}
"""


@pytest.mark.parametrize("element", ["f32", "i1", "i32"])
def test_nonzero(element):
    text = one("nonzero", f"tensor<3x4x{element}>", "tensor<2x12xi64>, tensor<i64>")
    dtype = {"f32": np.float32, "i1": bool, "i32": np.int32}[element]
    both(text, *([(RNG.integers(0, 2, (3, 4)) * low).astype(dtype)] for low in (1, 0)), [np.ones((3, 4), dtype)])


@pytest.mark.parametrize("attrs", ["", "{sorted = false}"])
@pytest.mark.parametrize(("element", "width"), [("f32", 1), ("i64", 2), ("ui8", 1)])
def test_unique(element, width, attrs):
    t = f"tensor<9x{width}x{element}>"
    text = one("unique", t, "tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>", attrs)
    dtype = {"f32": np.float32, "i64": np.int64, "ui8": np.uint8}[element]
    low, high = (126, 130) if element == "ui8" else (-2, 2)
    both(text, [RNG.integers(low, high, (9, width)).astype(dtype)], [np.zeros((9, width), dtype)])


@pytest.mark.parametrize("attrs", ["", "{sorted = false}"])
def test_unique_rows_of_many(attrs):
    text = one("unique", "tensor<700x3xf32>", ", ".join(["tensor<700xi64>"] * 3) + ", tensor<i64>", attrs)
    x = RNG.integers(-2, 3, (700, 3)).astype(np.float32)
    x[::3] *= -1.0  # -0 is 0
    both(text, [x])


@pytest.mark.parametrize("size", [1, 2])
def test_few_elements(size):
    """Loops that are written out, round loops whose ends the data says."""
    results = f"tensor<{size}xi64>, tensor<{size}xi64>, tensor<{size}xi64>, tensor<i64>"
    both(one("unique", f"tensor<{size}x1xi64>", results), [np.arange(size)[:, None]], [np.zeros((size, 1), np.int64)])
    text = one("nonzero", f"tensor<{size}xf32>", f"tensor<1x{size}xi64>, tensor<i64>")
    both(text, [np.arange(size, dtype=np.float32)], [np.ones(size, np.float32)])


@pytest.mark.parametrize("element", ["f32", "ui8"])
@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_are_sorted(element, descending):
    """Stable, along any axis, as many as are wanted."""
    attrs = f"{{axis = 1, descending = {str(descending).lower()}}}"
    text = one("argsort", f"tensor<2x700x3x{element}>", "tensor<2x700x3xi64>", attrs)
    dtype = {"f32": np.float32, "ui8": np.uint8}[element]
    both(text, [RNG.integers(0, 200, (2, 700, 3)).astype(dtype)])


def boxes(center, n=12, apart=1.0):
    first = RNG.random((2, n, 2)).astype(np.float32) * apart
    size = RNG.random((2, n, 2)).astype(np.float32) * 0.5 + 0.1
    both = np.concatenate([first, size if center else first + size], axis=2)
    return both if center else both[:, :, [2, 1, 0, 3]].copy()


def suppression(n, room, **attrs):
    """The text of a non-maximum suppression."""
    written = ", ".join(f"{name} = {str(value).lower()}" for name, value in attrs.items())
    return NMS.replace("ATTRS", f"{{{written}}}" if attrs else "").replace("ROOM", str(6 * room)).replace("N", str(n))


@pytest.mark.parametrize("center", [False, True])
def test_non_max_suppression(center):
    scores = RNG.random((2, 3, 12)).astype(np.float32)
    cases = [
        [boxes(center), scores, np.array(most), np.float32(iou), np.float32(limit)]
        for most, iou, limit in ((12, 0.3, 0.2), (2, 0.5, 0.0), (0, 0.5, 0.0), (12, 0.0, 2.0))
    ]
    rows, count = both(suppression(12, 12, center=center), *cases[::-1])
    assert 0 < count < 72
    assert len({tuple(row) for row in rows[:count].tolist()}) == count


@pytest.mark.parametrize("threads", [1, 2])
def test_suppression_of_many_boxes(threads):
    """More than are looked at together; equal scores; a bound on the boxes of a class."""
    scores = RNG.integers(0, 40, (2, 3, 150)).astype(np.float32) / 40
    case = [boxes(False, 150, 4.0), scores, np.array(99), np.float32(0.4), np.float32(0.1)]
    rows, count = both(suppression(150, 40, at_most=40), case, threads=threads)
    assert count == 240
    assert not rows[count:].any()


@pytest.mark.parametrize("element", ["f32", "f64", "i32", "ui16", "i8", "i64"])
@pytest.mark.parametrize(("wanted", "descending"), [(3, True), (40, False), (300, True)])
def test_the_best_of_a_row(element, wanted, descending):
    """By a heap where they are few; of equal ones the first; -0 equals 0."""
    dtype = np.dtype({"f": "float", "i": "int", "ui": "uint"}[element.rstrip("0123456789")] + element.lstrip("fui"))
    low = 0 if dtype.kind == "u" else -60
    x = RNG.integers(low, 60, (3, 1111)).astype(dtype)
    if dtype.kind == "f":
        x[0] = RNG.permutation(1111) - 500.0
        x[1, ::7], x[1, 3::7] = -0.0, 0.0
    attrs = f"{{axis = 1, descending = {str(descending).lower()}, count = {wanted}}}"
    both(one("argsort", f"tensor<3x1111x{element}>", f"tensor<3x{wanted}xi64>", attrs), [x])


def test_what_is_no_number_comes_last():
    x = RNG.standard_normal((1, 800)).astype(np.float32)
    x[0, ::9], x[0, 1], x[0, 2] = np.nan, np.inf, -np.inf
    x[0, ::18] *= -1
    both(one("argsort", "tensor<1x800xf32>", "tensor<1x800xi64>"), [x])


def test_validated_suppression():
    scores = RNG.random((2, 3, 20)).astype(np.float32)
    case = [boxes(False, 20), scores, np.array(5), np.float32(0.4), np.float32(0.2)]
    both(suppression(20, 7, at_most=7), case, validate_each=True)


@pytest.mark.parametrize("count", [600, 5])
def test_validated_order(count):
    x = RNG.integers(-9, 9, (1, 600)).astype(np.float32)
    text = one("argsort", "tensor<1x600xf32>", f"tensor<1x{count}xi64>", f"{{count = {count}}}")
    both(text, [x], validate_each=True)


def test_validated():
    both(
        one("nonzero", "tensor<3x4xf32>", "tensor<2x12xi64>, tensor<i64>"),
        [np.eye(3, 4, dtype="f")],
        validate_each=True,
    )
