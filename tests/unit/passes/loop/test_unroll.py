"""loop-unroll keeps what kernels compute, for any bounds of loops, and takes the loops in which most is computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_kernels import gemm, rand
from loop_native import PASSES, differential, native_kernel, parse, reread
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects import loop
from mlc.interp import loop as interp
from mlc.passes.loop.unroll import UnrollPass, unroll


def unrolled(func: loop.FuncOp) -> list[loop.ForOp]:
    return [f for f in func.walk() if isinstance(f, loop.ForOp) and f.kind.data == "unrolled"]


def apply(func: loop.FuncOp) -> None:
    module = func.parent_op()
    assert isinstance(module, ModuleOp)
    UnrollPass().apply(Context(), module)


def product(k: str, rows: str, lower: str = "0", arguments: str = "") -> str:
    return f"""
    loop.func @k(%x: memref<3x{rows}xf32>, %w: memref<{rows}x16xf32>, %y: memref<3x16xf32>{arguments})
        attributes {{outputs = 1 : i64}} {{
      %0 = arith.constant 0.0 : f32
      %1 = loop.broadcast %0 : f32 to vector<3x16xf32>
      %2 = loop.for %k = {lower} to {k} iter_args(%3 = %1) -> vector<3x16xf32> {{
        %4 = loop.load %x[d0, %k] tile (d0 : 3, d1 : 16) : vector<3x1xf32>
        %5 = loop.load %w[%k, d1] tile (d0 : 3, d1 : 16) : vector<1x16xf32>
        %6 = loop.fma %4, %5, %3 : vector<3x1xf32>, vector<1x16xf32>, vector<3x16xf32>
        loop.yield %6 : vector<3x16xf32>
      }}
      loop.store %2, %y[d0, d1] tile (d0 : 3, d1 : 16) : vector<3x16xf32>
    }}"""


@given(st.integers(0, 5), st.integers(1, 40), st.integers(2, 8))
def test_steps_and_the_rest_visit_each_index_once(lower: int, extent: int, steps: int) -> None:
    rows = lower + extent
    func = parse(product(str(rows), str(rows), str(lower)))
    arrays = [rand(3, rows), rand(rows, 16)]
    (expected,) = interp.run(func, arrays)
    (sums,) = [f for f in func.walk() if isinstance(f, loop.ForOp)]
    unroll(sums, steps)
    np.testing.assert_array_equal(interp.run(reread(func), arrays)[0], expected)  # added in the same order
    assert sum(f.extent or 0 for f in unrolled(func)) == steps + extent % steps


@pytest.mark.parametrize("extent", [1, 3, 4, 11, 12, 64, 67])
def test_steps_of_an_open_extent(extent: int) -> None:
    func = parse(product("%n", "?", arguments=", %n: index"))
    arrays = [rand(3, extent), rand(extent, 16)]
    apply(func)
    assert [f.extent for f in unrolled(func)] == [8]
    (found,) = interp.run(reread(func), [*arrays, extent])
    np.testing.assert_allclose(found, arrays[0] @ arrays[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("m", "n", "k"), [(13, 67, 29), (8, 64, 32), (5, 33, 7), (4, 32, 1)])
def test_native_tiles(m: int, n: int, k: int) -> None:
    a, b, bias = rand(m, k), rand(k, n), rand(n)
    func = differential(
        gemm(m, n, k), [a, b, bias], [np.maximum(a @ b + bias, 0)], widths=(256, 512), passes=(*PASSES, apply)
    )
    assert bool(unrolled(func)) == (k > 1)


def test_a_loop_that_few_iterations_reach_stays() -> None:
    func = parse(gemm(61, 64, 64))
    for rewrite in PASSES:
        rewrite(func)
    apply(func)
    assert {f.results[0].type.get_shape()[0] for f in unrolled(func)} == {4}, "the last tile has 1 of 61 rows"
    assert any(f.results and f.results[0].type.get_shape()[0] == 1 for f in func.walk() if isinstance(f, loop.ForOp))


@pytest.mark.parametrize("extent", [0, 1, 4, 5])
def test_a_loop_whose_upper_bound_may_be_less_than_the_lower_one_stays(extent: int) -> None:
    """Its rest would begin in front of the lower bound: from 0 down to -3, and from there to -1."""
    bound = f"%n - {5 - extent}"
    func = parse(product(bound, "?", "2", ", %n: index"))
    arrays = [rand(3, 7), rand(7, 16), np.int64(5)]
    (expected,) = interp.run(func, arrays)
    apply(func)
    assert unrolled(func) == []
    np.testing.assert_array_equal(interp.run(reread(func), arrays)[0], expected)


def test_only_loads_are_opaque_to_the_strength_reduction_of_loops() -> None:
    func = parse(gemm(8, 64, 32, epilogue=False))
    for rewrite in PASSES:
        rewrite(func)
    lines = native_kernel(func, 512).ir.splitlines()
    opaque = [line.split()[0] for line in lines if "= call ptr @llvm.launder.invariant.group" in line]
    assert opaque
    assert not [line for line in lines if line.strip().startswith("store") and line.split()[-3].strip(",") in opaque]
