import numpy as np
import pytest

from mlc.driver.operator.source import operator_source
from mlc.tuning.measure.artefact import TensorInfo
from mlc.tuning.measure.builder import signature_of
from mlc.tuning.measure.fill import BLOCK, DRAWS, Draw, nudge, random_fill

GATHER = """te.func @k(%x: tensor<8x5xf32>, %i: tensor<4xi64>) -> tensor<4x5xf32> {
  %y = te.compute "y" (%a : 4, %b : 5) {
    %n = te.read %i[%a] : i64
    %m = arith.index_cast %n : i64 to index
    %v = te.read %x[INDEX, %b] : f32
    te.yield %v : f32
  } : tensor<4x5xf32>
  te.return %y : tensor<4x5xf32>
}"""


@pytest.mark.parametrize(
    ("index", "span"), [("%m", (0, 7)), ("%m + 3", (0, 3)), ("%m * 2", (0, 3)), ("%m + %a", (0, 3)), ("7 - %m", (0, 7))]
)
def test_indices_stay_inside_of_their_tensor(index, span):
    inputs = signature_of(GATHER.replace("INDEX", index)).inputs
    assert [info.span for info in inputs] == [None, span]


def test_indices_through_a_stage():
    text = """te.func @k(%x: tensor<6xf32>, %i: tensor<4xi32>) -> tensor<4xf32> {
      %j = te.compute "j" (%a : 4) {
        %n = te.read %i[%a] : i32
        te.yield %n : i32
      } : tensor<4xi32>
      %y = te.compute "y" (%a : 4) {
        %n = te.read %j[%a] : i32
        %m = arith.index_cast %n : i32 to index
        %v = te.read %x[%m] : f32
        te.yield %v : f32
      } : tensor<4xf32>
      te.return %y : tensor<4xf32>
    }"""
    assert signature_of(text).inputs[1].span == (0, 5)


@pytest.mark.parametrize(("op", "span"), [("divsi", (1, 7)), ("remsi", (1, 7)), ("shli", (0, 3)), ("addi", None)])
def test_divisors_and_shifts(op, span):
    text = f"""te.func @k(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {{
      %z = te.compute "z" (%i : 4) {{
        %a = te.read %x[%i] : i32
        %b = te.read %y[%i] : i32
        %c = arith.{op} %a, %b : i32
        te.yield %c : i32
      }} : tensor<4xi32>
      te.return %z : tensor<4xi32>
    }}"""
    assert [info.span for info in signature_of(text).inputs] == [None, span]


def filled(shape, dtype, span=None, number=0, draw=DRAWS[0]):
    array = np.zeros(shape, dtype)
    random_fill(array, TensorInfo(shape, str(dtype), span), number, draw)
    return array


@pytest.mark.parametrize(
    ("dtype", "span", "least", "largest"),
    [
        ("int64", (0, 6), 0, 6),
        ("int32", None, 0, 3),
        ("int8", None, -128, 127),
        ("uint8", None, 0, 255),
        ("uint8", (1, 7), 1, 7),
        ("int8", (0, 1000), 0, 127),
        ("bool", None, 0, 1),
    ],
)
def test_integers_have_all_values_in_range(dtype, span, least, largest):
    array = filled((5000,), dtype, span)
    assert (int(array.min()), int(array.max())) == (least, largest)


def test_floats():
    array = filled((3, 1000), "float32")
    assert abs(float(array.mean())) < 0.1
    assert 0.9 < float(array.std()) < 1.1
    assert filled((3, 1000), "float16", draw=Draw(10.0, True)).min() > 0
    assert np.array_equal(array, filled((3, 1000), "float32"))
    assert not np.array_equal(array, filled((3, 1000), "float32", number=1))
    assert np.count_nonzero(filled((BLOCK + 5,), "float32")) > BLOCK


def test_a_nudge_moves_every_float():
    array = filled((1000,), "float32")
    moved = array.copy()
    nudge(moved, 1e-3, 0)
    assert np.allclose(np.abs(moved / array - 1), 1e-3, rtol=1e-3)
    numbers = filled((10,), "int32")
    nudge(numbers, 1e-3, 0)
    assert np.array_equal(numbers, filled((10,), "int32"))


def test_a_loop_kernel_has_a_signature():
    text = "loop.func @k(%x: memref<4xf32>, %y: memref<2xf32>) attributes {outputs = 1 : i64} {}"
    assert operator_source(text).kernel.sym_name.data == "k"
    found = signature_of(text)
    assert [info.shape for info in (*found.inputs, *found.outputs)] == [(4,), (2,)]
