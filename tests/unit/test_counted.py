"""Ops whose results are as long as the data says: compiled, they compute what their numpy meaning is."""

import numpy as np
import pytest

import mlc
from mlc.driver.model import Model, parse_module
from mlc.driver.weights import WeightStore
from mlc.interp.graph import main_function, run_function

RNG = np.random.default_rng(0)
UNIQUE = "(tensor<{n}x{m}x{t}>) -> (tensor<{n}xi64>, tensor<{n}xi64>, tensor<{n}xi64>, tensor<i64>)"
NMS = """
func.func @main(%b: tensor<2x12x4xf32>, %s: tensor<2x3x12xf32>, %m: tensor<i64>, %i: tensor<f32>, %t: tensor<f32>)
    -> (tensor<72x3xi64>, tensor<i64>) {
  %o = graph.argsort %s {axis = 2, descending = true} : (tensor<2x3x12xf32>) -> tensor<2x3x12xi64>
  %r, %n = graph.non_max_suppression %b, %s, %o, %m, %i, %t CENTER
      : (tensor<2x12x4xf32>, tensor<2x3x12xf32>, tensor<2x3x12xi64>, tensor<i64>, tensor<f32>, tensor<f32>)
      -> (tensor<72x3xi64>, tensor<i64>)
  func.return %r, %n : tensor<72x3xi64>, tensor<i64>
}
"""


def both(text, *cases, **options):
    """The compiled results for the last of some inputs; all are compared with the interpreter's."""
    module = parse_module(text, "<test>")
    exe = mlc.compile(Model(parse_module(text, "<test>"), WeightStore()), threads=1, cache=False, **options)
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


@pytest.mark.parametrize("size", [1, 2])
def test_few_elements(size):
    """Loops that are written out, round loops whose ends the data says."""
    results = f"tensor<{size}xi64>, tensor<{size}xi64>, tensor<{size}xi64>, tensor<i64>"
    both(one("unique", f"tensor<{size}x1xi64>", results), [np.arange(size)[:, None]], [np.zeros((size, 1), np.int64)])
    text = one("nonzero", f"tensor<{size}xf32>", f"tensor<1x{size}xi64>, tensor<i64>")
    both(text, [np.arange(size, dtype=np.float32)], [np.ones(size, np.float32)])


@pytest.mark.parametrize("element", ["f32", "ui8"])
@pytest.mark.parametrize("descending", [False, True])
def test_long_rows_are_merged(element, descending):
    """Stable, along any axis, as many as are wanted."""
    attrs = f"{{axis = 1, descending = {str(descending).lower()}}}"
    text = one("argsort", f"tensor<2x700x3x{element}>", "tensor<2x700x3xi64>", attrs)
    dtype = {"f32": np.float32, "ui8": np.uint8}[element]
    both(text, [RNG.integers(0, 200, (2, 700, 3)).astype(dtype)])


def boxes(center):
    first = RNG.random((2, 12, 2)).astype(np.float32)
    size = RNG.random((2, 12, 2)).astype(np.float32) * 0.5 + 0.1
    both = np.concatenate([first, size if center else first + size], axis=2)
    return both if center else both[:, :, [2, 1, 0, 3]].copy()


@pytest.mark.parametrize("center", [False, True])
def test_non_max_suppression(center):
    scores = RNG.random((2, 3, 12)).astype(np.float32)
    text = NMS.replace("CENTER", "{center = true}" if center else "")
    cases = [
        [boxes(center), scores, np.array(most), np.float32(iou), np.float32(limit)]
        for most, iou, limit in ((12, 0.3, 0.2), (2, 0.5, 0.0), (0, 0.5, 0.0), (12, 0.0, 2.0))
    ]
    rows, count = both(text, *cases[::-1])
    assert 0 < count < 72
    assert len({tuple(row) for row in rows[:count].tolist()}) == count


def test_validated():
    both(
        one("nonzero", "tensor<3x4xf32>", "tensor<2x12xi64>, tensor<i64>"),
        [np.eye(3, 4, dtype="f")],
        validate_each=True,
    )
