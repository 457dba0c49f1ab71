"""The interpreter of @main on buffers: memory is shared as in native code, and what was never written shows."""

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.support.errors import UserError

MAIN = """
func.func @main(%x: memref<4xf32>, %y: memref<4xf32>, %weights: memref<64xi8>, %workspace: memref<128xi8>)
    attributes {mlc.inputs = 1 : i64, mlc.outputs = 1 : i64, mlc.plan = {bytes = 128 : i64}} {
  %0 = arith.constant 0 : index
  %1 = arith.constant 64 : index
  %a = memref.view %workspace[%0][] : memref<128xi8> to memref<4xf32>
  %b = memref.view %workspace[%1][] : memref<128xi8> to memref<4xf32>
  BODY
  func.return
}
te.func @double(%i: tensor<4xf32>) -> tensor<4xf32> {
  %o = te.compute "o" (%k : 4) {
    %0 = te.read %i[%k] : f32
    %1 = arith.addf %0, %0 : f32
    te.yield %1 : f32
  } : tensor<4xf32>
  te.return %o : tensor<4xf32>
}
"""
T = "memref<4xf32>"


def call(source: str, target: str) -> str:
    return f"runtime.call @double ins(%{source} : {T}) outs(%{target} : {T})"


def run(*body: str) -> Any:
    x = np.arange(4, dtype=np.float32)
    return mlc.interpret(MAIN.replace("BODY", "\n  ".join(body)), [x])["output0"]


def test_calls_in_order():
    np.testing.assert_array_equal(run(call("x", "a"), call("a", "b"), call("b", "y")), np.arange(4) * 8)


def test_memory_that_was_never_written_is_nan():
    assert np.isnan(run(call("b", "y"))).all()


def test_buffers_at_one_place_overwrite_each_other():
    shared = "%c = memref.view %workspace[%0][] : memref<128xi8> to memref<4xf32>"
    np.testing.assert_array_equal(run(shared, call("x", "a"), call("a", "c"), call("a", "y")), np.arange(4) * 8)


def test_parts_rows_copies_and_fills():
    t2, t24 = "memref<2xf32>", "memref<2x4xf32>"
    got = run(
        f"%p = runtime.part %a at 8 : {T} to {t2}",
        f"%q = runtime.part %x at 0 : {T} to {t2}",
        f"runtime.fill %a : {T}",
        f'"memref.copy"(%q, %p) : ({t2}, {t2}) -> ()',
        f"%m = memref.view %workspace[%1][] : memref<128xi8> to {t24}",
        "%one = arith.constant 1 : index",
        f"%r = runtime.row %m[%one] : {t24} to {T}",
        call("a", "r"),
        f'"memref.copy"(%r, %y) : ({T}, {T}) -> ()',
    )
    np.testing.assert_array_equal(got, [0, 0, 0, 2])


def test_a_row_beyond_the_buffer():
    with pytest.raises(UserError, match=r"expected bytes within a buffer of 16, but got 16 to 32"):
        run("%m = memref.view %workspace[%0][] : memref<128xi8> to memref<1x4xf32>",
            "%one = arith.constant 1 : index",
            f"%r = runtime.row %m[%one] : memref<1x4xf32> to {T}",
            call("r", "y"))  # fmt: skip


def test_a_weight_of_another_size():
    view = f'%w = memref.view %weights[%0][] {{param = "w"}} : memref<64xi8> to {T}'
    text = MAIN.replace("BODY", f"{view}\n  {call('w', 'y')}")
    x = np.zeros(4, np.float32)
    np.testing.assert_array_equal(mlc.interpret(text, [x], weights={"w": x + 3})["output0"], [6] * 4)
    with pytest.raises(UserError, match="expected 16 bytes of weight w, but got 20"):
        mlc.interpret(text, [x], weights={"w": np.zeros(5, np.float32)})


def test_a_kernel_that_the_module_lacks():
    with pytest.raises(UserError, match="expected kernel @triple in the module, but it has none"):
        run(call("x", "y").replace("double", "triple"))
