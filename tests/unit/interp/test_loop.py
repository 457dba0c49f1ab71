"""The loop interpreter: what kernels compute, and what it says about kernels that go wrong."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.parser import Parser

from mlc.dialects import loop
from mlc.driver.pipeline.registry import make_context
from mlc.interp import loop as interp
from mlc.interp import values
from mlc.support.arithmetic import WIDE


def parse(text: str) -> loop.FuncOp:
    module = Parser(make_context(), text).parse_module()
    module.verify()
    func = module.body.block.first_op
    assert isinstance(func, loop.FuncOp)
    return func


def kernel(args: str, body: str, outputs: int = 1) -> loop.FuncOp:
    return parse(f"loop.func @f({args}) attributes {{outputs = {outputs} : i64}} {{\n{body}\n}}")


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


GEMM = """
  loop.for %i = 0 to 5 parallel {
    loop.for %jo = 0 to 2 {
      loop.for %ji = 0 to 4 {
        loop.for %k = 0 to 6 {
          loop.block "mm" (%vi : 5 = %i, %vj : 7 = %jo * 4 + %ji) reduce (%vk : 6 = %k)
            where (6 - %jo * 4 - %ji) init {
          ^bb0(%vi : index, %vj : index, %vk : index):
            %z = arith.constant 0.0 : f32
            loop.store %z, %C[%vi, %vj] : f32
          } {
            %a = loop.load %A[%vi, %vk] : f32
            %b = loop.load %B[%vk, %vj] : f32
            %c = loop.load %C[%vi, %vj] : f32
            %n = loop.fma %a, %b, %c : f32, f32, f32
            loop.store %n, %C[%vi, %vj] : f32
          }
        }
      }
    }
  }
"""
GEMM_ARGS = "%A: memref<5x6xf32>, %B: memref<6x7xf32>, %C: memref<5x7xf32>"


def test_matmul_with_ragged_split():
    a, b = random(5, 6), random(6, 7, seed=1)
    (c,) = interp.run(kernel(GEMM_ARGS, GEMM), [a, b])
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    (wide,) = interp.run(kernel(GEMM_ARGS, GEMM), [a, b], arithmetic=WIDE)
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, a.astype(np.float64) @ b, rtol=1e-14, atol=1e-14)


def test_outputs_are_written_in_place():
    a, b, c = random(5, 6), random(6, 7), np.zeros((5, 7), np.float32)
    (out,) = interp.run(kernel(GEMM_ARGS, GEMM), [a, b, c])
    assert out is c
    assert c.any()


def test_tiled_matmul_carries_its_accumulator():
    func = kernel(
        "%A: memref<4x8xf32>, %B: memref<8x16xf32>, %C: memref<4x16xf32>",
        """
  %0 = arith.constant 0.0 : f32
  %zero = loop.broadcast %0 : f32 to vector<4x16xf32>
  %r = loop.for %k = 0 to 8 iter_args(%acc = %zero) -> vector<4x16xf32> {
    %l = loop.load %A[d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
    %m = loop.load %B[%k, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
    %n = loop.fma %l, %m, %acc : vector<4x1xf32>, vector<1x16xf32>, vector<4x16xf32>
    loop.yield %n : vector<4x16xf32>
  }
  loop.store %r, %C[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>""",
    )
    a, b = random(4, 8), random(8, 16)
    np.testing.assert_allclose(interp.run(func, [a, b])[0], a @ b, rtol=1e-5, atol=1e-6)


def test_masked_tiles_read_the_else_value_and_write_no_other_lane():
    func = kernel(
        "%A: memref<10xf32>, %B: memref<12xf32>",
        """
  %0 = arith.constant 7.0 : f32
  %fill = loop.broadcast %0 : f32 to vector<8xf32>
  loop.for %i = 0 to 2 {
    %v = loop.load %A[%i * 8 + d0 - 1] mask (%i * 8 + d0 - 1, 10 - d0 - %i * 8) else %fill tile (d0 : 8) : vector<8xf32>
    loop.store %v, %B[%i * 8 + d0] mask (11 - %i * 8 - d0) tile (d0 : 8) : vector<8xf32>
  }""",
    )
    a = np.arange(10, dtype=np.float32)
    assert interp.run(func, [a])[0].tolist() == [7, *range(10), 7]


def test_strided_transposed_and_gathered_tiles():
    func = kernel(
        "%A: memref<4x6xf32>, %T: memref<5xi64>, %B: memref<3x2xf32>, %C: memref<5xf32>",
        """
  %v = loop.load %A[d1 + 1, d0 * 2] tile (d0 : 3, d1 : 2) : vector<3x2xf32>
  loop.store %v, %B[d0, d1] tile (d0 : 3, d1 : 2) : vector<3x2xf32>
  %t = loop.load %T[d0] tile (d0 : 5) : vector<5xi64>
  %x = loop.cast index_cast %t : vector<5xi64> to vector<5xindex>
  %g = loop.gather %A[0, d0] by %x at 0 tile (d0 : 5) : vector<5xf32>
  loop.store %g, %C[d0] tile (d0 : 5) : vector<5xf32>""",
        outputs=2,
    )
    a, t = random(4, 6), np.array([3, 0, 2, 2, 1])
    b, c = interp.run(func, [a, t])
    assert (b == a[1:3, 0:5:2].T).all()
    assert (c == a[t, np.arange(5)]).all()


def test_reduce_compare_select_index():
    func = kernel(
        "%A: memref<3x4xf32>, %S: memref<3xf32>, %M: memref<3x4xi64>",
        """
  %v = loop.load %A[d0, d1] tile (d0 : 3, d1 : 4) : vector<3x4xf32>
  %s = loop.reduce max %v axes [1] : vector<3x4xf32> to vector<3x1xf32>
  loop.store %s, %S[d0] tile (d0 : 3, d1 : 4) : vector<3x1xf32>
  %b = loop.broadcast %s : vector<3x1xf32> to vector<3x4xf32>
  %c = loop.compare oeq %v, %b : vector<3x4xf32>
  %i = loop.index d0 * 10 + d1 tile (d0 : 3, d1 : 4) : vector<3x4xindex>
  %j = loop.cast index_cast %i : vector<3x4xindex> to vector<3x4xi64>
  %z = arith.constant dense<-1> : vector<3x4xi64>
  %m = loop.select %c, %j, %z : vector<3x4xi1>, vector<3x4xi64>
  loop.store %m, %M[d0, d1] tile (d0 : 3, d1 : 4) : vector<3x4xi64>""",
        outputs=2,
    )
    a = random(3, 4)
    s, m = interp.run(func, [a])
    assert (s == a.max(axis=1)).all()
    grid = np.arange(3)[:, None] * 10 + np.arange(4)
    assert (m == np.where(a == a.max(axis=1, keepdims=True), grid, -1)).all()


def test_concat():
    func = kernel(
        "%A: memref<3x4xf32>, %B: memref<2x4xf32>, %C: memref<1x2xf32>",
        """
  %x = loop.load %A[2, d1] tile (d0 : 3, d1 : 4) : vector<1x4xf32>
  %y = loop.load %A[0, d1] tile (d0 : 3, d1 : 4) : vector<1x4xf32>
  %rows = loop.concat %x, %y axis 0 : vector<1x4xf32> to vector<2x4xf32>
  loop.store %rows, %B[d0, d1] tile (d0 : 2, d1 : 4) : vector<2x4xf32>
  %p = loop.load %A[1, 1] tile (d0 : 1, d1 : 1) : vector<1x1xf32>
  %q = loop.load %A[1, 3] tile (d0 : 1, d1 : 1) : vector<1x1xf32>
  %lanes = loop.concat %p, %q axis 1 : vector<1x1xf32> to vector<1x2xf32>
  loop.store %lanes, %C[d0, d1] tile (d0 : 1, d1 : 2) : vector<1x2xf32>""",
        outputs=2,
    )
    a = random(3, 4)
    b, c = interp.run(func, [a])
    assert (b == a[[2, 0]]).all()
    assert (c == a[[1], 1::2]).all()


def test_slice():
    func = kernel(
        "%A: memref<3x4x5xf32>, %B: memref<1x4x5xf32>, %C: memref<3x1x5xf32>",
        """
  %x = loop.load %A[d0, d1, d2] tile (d0 : 3, d1 : 4, d2 : 5) : vector<3x4x5xf32>
  %b = loop.slice %x axis 0 at 2 : vector<3x4x5xf32> to vector<1x4x5xf32>
  loop.store %b, %B[d0, d1, d2] tile (d0 : 1, d1 : 4, d2 : 5) : vector<1x4x5xf32>
  %c = loop.slice %x axis 1 at 1 : vector<3x4x5xf32> to vector<3x1x5xf32>
  loop.store %c, %C[d0, d1, d2] tile (d0 : 3, d1 : 1, d2 : 5) : vector<3x1x5xf32>""",
        outputs=2,
    )
    a = random(3, 4, 5)
    b, c = interp.run(func, [a])
    assert (b == a[2:]).all()
    assert (c == a[:, 1:2]).all()


def test_symbols_are_arguments():
    func = parse("""
loop.func @f(%A: memref<?xf32>, %B: memref<?xf32>, %n: index) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to %n {
    %v = loop.load %A[%n - %i - 1] : f32
    loop.store %v, %B[%i] : f32
  }
}""")
    a, b = np.arange(5, dtype=np.float32), np.empty(5, np.float32)
    assert interp.run(func, [a, b, 5])[0].tolist() == [4, 3, 2, 1, 0]


def test_more_loops_than_python_nests():
    depth = 40
    loops = "".join(f"loop.for %i{k} = 0 to {2 if k in (0, 20, 39) else 1} {{\n" for k in range(depth))
    body = """
    %a = loop.load %A[0] : i32
    %one = arith.constant 1 : i32
    %b = arith.addi %a, %one : i32
    loop.store %b, %A[0] : i32"""
    func = kernel("%A: memref<1xi32>", loops + body + "}" * depth)
    assert interp.run(func, [np.array([10], np.int32)])[0][0] == 18


def test_memory_that_nobody_wrote_is_nan():
    func = kernel(
        "%A: memref<2xf32>, %I: memref<2xi32>",
        """
  %t = loop.alloc "shared" : memref<2xf32>
  %v = loop.load %t[1] : f32
  loop.store %v, %A[0] : f32""",
        outputs=2,
    )
    a, i = interp.run(func, [])
    assert np.isnan(a).all()
    assert (i != 0).all()


def test_a_thread_loses_its_local_buffers_between_iterations():
    text = """
  %t = loop.alloc "SCOPE" : memref<1xf32>
  %one = arith.constant 1.0 : f32
  loop.store %one, %t[0] : f32
  loop.for %i = 0 to 2 parallel {
    %v = loop.load %t[0] : f32
    loop.store %v, %A[%i] : f32
  }"""
    shared = kernel("%A: memref<2xf32>", text.replace("SCOPE", "shared"))
    local = kernel("%A: memref<2xf32>", text.replace("SCOPE", "local"))
    assert interp.run(shared, [])[0].tolist() == [1, 1]
    assert np.isnan(interp.run(local, [])[0]).all()


def test_a_random_order_of_parallel_iterations_shows_a_race():
    func = kernel(
        "%A: memref<1xi32>",
        """
  loop.for %i = 0 to 64 parallel {
    %v = loop.cast index_cast %i : index to i32
    loop.store %v, %A[0] : i32
  }""",
    )
    assert interp.run(func, [])[0][0] == 63
    assert {int(interp.run(func, [], shuffle=s)[0][0]) for s in range(4)} != {63}
    assert interp.run(func, [], shuffle=1)[0] == interp.run(func, [], shuffle=1)[0]


@pytest.mark.parametrize(
    ("args", "body", "message"),
    [
        (
            "%A: memref<4x5xf32>, %B: memref<4x5xf32>",
            """loop.for %i = 0 to 5 {
                 %v = loop.load %A[3, %i] : f32
                 loop.store %v, %B[%i, 0] : f32
               }""",
            "'loop.store' writes %B[4, 0], out of bounds of memref<4x5xf32>",
        ),
        (
            "%A: memref<4xf32>, %B: memref<4xf32>",
            """loop.for %i = 0 to 4 {
                 %v = loop.load %A[%i - 1] : f32
                 loop.store %v, %B[%i] : f32
               }""",
            "'loop.load' reads %A[-1], out of bounds of memref<4xf32>",
        ),
        (
            "%A: memref<4x4xf32>, %B: memref<4x4xf32>",
            """%v = loop.load %A[d0, d1 + 1] tile (d0 : 4, d1 : 4) : vector<4x4xf32>
               loop.store %v, %B[d0, d1] tile (d0 : 4, d1 : 4) : vector<4x4xf32>""",
            "'loop.load' reads %A[0, 4], out of bounds of memref<4x4xf32>",
        ),
        (
            "%A: memref<4xf32>, %B: memref<4xf32>",
            """%x = arith.constant dense<[0, 5]> : vector<2xindex>
               %v = loop.gather %A[0] by %x at 0 tile (d0 : 2) : vector<2xf32>
               loop.store %v, %B[d0] tile (d0 : 2) : vector<2xf32>""",
            "'loop.gather' reads %A[5], out of bounds of memref<4xf32>",
        ),
        (
            "%A: memref<6xf32>, %B: memref<4xf32>",
            """loop.for %i = 0 to 6 {
                 loop.block "copy" (%a : 4 = %i) {
                   %v = loop.load %A[%a] : f32
                   loop.store %v, %B[%a] : f32
                 }
               }""",
            'block "copy" runs with axis %a = 4, outside of its extent 4',
        ),
        ("%A: memref<4xf32>", '"test.op"() : () -> ()', "cannot execute"),
    ],
)
def test_what_goes_wrong_is_named(args, body, message):
    text = f"loop.func @f({args}) attributes {{outputs = 1 : i64}} {{\n{body}\n}}"
    ctx = make_context()
    ctx.allow_unregistered = True
    func = Parser(ctx, text).parse_module().body.block.first_op
    assert isinstance(func, loop.FuncOp)
    inputs = [np.zeros(t.get_shape(), np.float32) for t in interp.arguments(func)[0]]
    with pytest.raises(interp.InterpreterError) as error:
        interp.run(func, inputs)
    assert message in str(error.value)
    assert error.value.op is not None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([], "expected 2 arguments of @f (1 inputs, 1 outputs, 0 symbols), but got 0"),
        ([np.zeros(4, np.float32)], "expected argument 0 of @f of type memref<3xf32>, but got shape 4"),
        ([np.zeros(3, np.int32)], "expected argument 0 of @f of dtype float32, but got int32"),
    ],
)
def test_wrong_arguments_are_refused(arrays, message):
    func = kernel("%A: memref<3xf32>, %B: memref<3xf32>", "")
    with pytest.raises(interp.InterpreterError) as error:
        interp.run(func, arrays)
    assert message in str(error.value)


def _exact_fma(a: float, b: float, c: float) -> np.float32:
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    near = np.float32(float(exact))
    around = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]

    def key(x: np.float32) -> tuple[Fraction, int]:
        return abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1

    return min(around, key=key)


floats = st.floats(-1e6, 1e6, width=32)


@settings(max_examples=200)
@given(floats, floats, floats)
def test_fma_rounds_once(a, b, c):
    x, y, z = np.float32(a), np.float32(b), np.float32(c)
    expected = _exact_fma(a, b, c)
    assert values.fma32_scalar(x, y, z) == expected
    assert values.fma(*(np.array([v]) for v in (x, y, z)))[0] == expected


def test_fma_where_two_roundings_would_differ():
    # 1 + 2^-24 is a tie; the tail 2^-80 is lost in f64 and decides.
    a, b, c = np.float32(2.0**-12), np.float32(2.0**-12), np.float32(1.0)
    assert values.fma32_scalar(a, b, c) == 1.0
    up = np.float32(2.0**-12 * (1 + 2.0**-23))
    assert values.fma32_scalar(up, b, c) == np.nextafter(np.float32(1), np.float32(2))
    p, q = np.float32(2.0**-75), np.float32(2.0**-5)
    z = np.float32(2.0**-24 + 2.0**-47)
    assert values.fma32_scalar(p, q, z) == _exact_fma(float(p), float(q), float(z))


def test_a_mask_of_the_loops_alone_and_buffers_without_dimensions():
    func = kernel(
        "%A: memref<3x2xf32>, %S: memref<f32>",
        """
  %s = arith.constant 2.0 : f32
  %v = loop.broadcast %s : f32 to vector<2xf32>
  loop.for %i = 0 to 3 {
    loop.store %v, %A[%i, d0] mask (1 - %i) tile (d0 : 2) : vector<2xf32>
  }
  loop.store %s, %S[] : f32""",
        outputs=2,
    )
    a, s = interp.run(func, [])
    assert a[:2].tolist() == [[2, 2], [2, 2]]
    assert np.isnan(a[2]).all()
    assert s == 2.0
