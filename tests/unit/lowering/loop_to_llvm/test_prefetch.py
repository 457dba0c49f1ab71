"""Loops marked {prefetch}: each row fetches its share of the next panel, and values stay."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_kernels import rand
from loop_native import close, native_kernel, parse

from mlc.dialects import loop
from mlc.dialects.index import const, dim
from mlc.lowering.loop_to_llvm.access.prefetch import FetchPlace, following_offset
from mlc.passes.loop.unroll import unroll

PANELS, ROWS, DEPTH = 5, 2, 12


def product(mark: str) -> str:
    """`out[i, j, d] = sum of x[i, k] * w[j, k, d]`, three of the panel's columns at a time."""
    return f"""
loop.func @k(%x: memref<{ROWS}x{DEPTH}xf32>, %w: memref<{3 * PANELS}x{DEPTH}x16xf32>,
             %o: memref<{ROWS}x{3 * PANELS}x16xf32>) attributes {{outputs = 1 : i64}} {{
  %z = arith.constant 0.0 : f32
  %zero = loop.broadcast %z : f32 to vector<3x16xf32>
  loop.for %j = 0 to {PANELS} {{
    loop.for %i = 0 to {ROWS} {{
      %sum = loop.for %k = 0 to {DEPTH} iter_args(%a = %zero) -> vector<3x16xf32> {{
        %l = loop.load %x[%i, %k] tile (d0 : 3, d1 : 16) : vector<1x1xf32>
        %r = loop.load %w[%j * 3 + d0, %k, d1] tile (d0 : 3, d1 : 16) : vector<3x16xf32>
        %n = loop.fma %l, %r, %a : vector<1x1xf32>, vector<3x16xf32>, vector<3x16xf32>
        loop.yield %n : vector<3x16xf32>
      }}
      loop.store %sum, %o[%i, %j * 3 + d0, d1] tile (d0 : 3, d1 : 16) : vector<3x16xf32>
    }}
  }} {mark}
}}"""


@pytest.mark.parametrize(("mark", "fetches"), [("", 0), ("attributes {prefetch = 1 : i64}", 2)])
def test_each_row_fetches_its_share(mark, fetches):
    x, w = rand(ROWS, DEPTH), rand(3 * PANELS, DEPTH, 16, seed=1)
    run = native_kernel(parse(product(mark)))
    (out,) = run([x, w])
    close(out, np.einsum("ik,jkd->ijd", x, w), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == fetches


def test_a_loop_that_is_shorter_in_the_last_block_shares_the_lines_as_the_others_do() -> None:
    """Four rows, two in the last block: each fetches one of three lines; the loop over k would fetch all three."""
    text = product("attributes {prefetch = 1 : i64}")
    text = text.replace(f"%i = 0 to {ROWS}", "%i = 0 to 4 - ((%p + 1) floordiv 2) * 2").replace("%i,", "%p * 4 + %i,")
    text = text.replace(f"memref<{ROWS}x", "memref<6x").replace("loop.for %j", "loop.for %p = 0 to 2 { loop.for %j")
    x, w = rand(6, DEPTH), rand(3 * PANELS, DEPTH, 16, seed=1)
    run = native_kernel(parse(text + "}"))
    close(run([x, w])[0], np.einsum("ik,jkd->ijd", x, w), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == 1


def test_many_rows_fetch_their_shares_outside_of_the_steps() -> None:
    """Twelve rows, twelve steps of three lines: each row fetches three lines, once, not in each step."""
    rows, text = 12, product("attributes {prefetch = 1 : i64}").replace(f"memref<{ROWS}x", "memref<12x")
    f = parse(text.replace(f"%i = 0 to {ROWS}", f"%i = 0 to {rows}"))
    x, w = rand(rows, DEPTH), rand(3 * PANELS, DEPTH, 16, seed=1)
    run = native_kernel(f)
    close(run([x, w])[0], np.einsum("ik,jkd->ijd", x, w), 1e-5)
    blocks = re.split(r"\n(?=b\d+:)", run.ir)
    (steps,) = [block for block in blocks if "= call <16 x float> @llvm.fma" in block]
    assert "@llvm.prefetch" not in steps
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == 3


def test_a_row_does_not_fetch_outside_of_a_loop_that_a_border_shortens() -> None:
    """The lines of all steps are enough for the rows, but which taps a row has depends on the row."""
    rows, groups, taps = 48, 2, 3
    text = f"""
loop.func @k(%x: memref<{rows}x{DEPTH}xf32>, %w: memref<{3 * PANELS}x{groups * taps * DEPTH}x16xf32>,
             %o: memref<{rows}x{3 * PANELS}x16xf32>) attributes {{outputs = 1 : i64}} {{
  %z = arith.constant 0.0 : f32
  %zero = loop.broadcast %z : f32 to vector<3x16xf32>
  loop.for %j = 0 to {PANELS} {{
    loop.for %i = 0 to {rows} {{
      %sum = loop.for %g = 0 to {groups} iter_args(%a = %zero) -> vector<3x16xf32> {{
        %p = loop.for %t = 1 - (%i + {rows - 1}) floordiv {rows} to {taps} iter_args(%b = %a) -> vector<3x16xf32> {{
          %q = loop.for %k = 0 to {DEPTH} iter_args(%c = %b) -> vector<3x16xf32> {{
            %l = loop.load %x[%i, %k] tile (d0 : 3, d1 : 16) : vector<1x1xf32>
            %r = loop.load %w[%j * 3 + d0, %g * {taps * DEPTH} + %t * {DEPTH} + %k, d1] tile (d0 : 3, d1 : 16)
              : vector<3x16xf32>
            %n = loop.fma %l, %r, %c : vector<1x1xf32>, vector<3x16xf32>, vector<3x16xf32>
            loop.yield %n : vector<3x16xf32>
          }}
          loop.yield %q : vector<3x16xf32>
        }}
        loop.yield %p : vector<3x16xf32>
      }}
      loop.store %sum, %o[%i, %j * 3 + d0, d1] tile (d0 : 3, d1 : 16) : vector<3x16xf32>
    }}
  }} attributes {{prefetch = 1 : i64}}
}}"""
    x, w = rand(rows, DEPTH), rand(3 * PANELS, groups * taps * DEPTH, 16, seed=1)
    run = native_kernel(parse(text))
    by_tap = np.einsum("ik,jgtkd->tijd", x, w.reshape(3 * PANELS, groups, taps, DEPTH, 16))
    wanted = by_tap.sum(0)
    wanted[0] -= by_tap[0, 0]  # the first row's taps begin at 1
    close(run([x, w])[0], wanted, 1e-4)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == 1


@given(st.lists(st.integers(1, 7), max_size=3), st.integers(1, 4), st.integers(1, 30))
def test_the_rows_together_fetch_every_line(extents: list[int], lines: int, rows: int) -> None:
    steps = tuple((1 + n, extent) for n, extent in enumerate(extents))
    total = lines * int(np.prod(extents))
    place, ranges = FetchPlace(0, dim(0), rows, steps, total), [(0, rows - 1)]
    fetched = set[tuple[int, ...]]()
    for k in range(place.share):
        step, number = place.line(k, ranges)
        for row in range(rows):
            at = [e.substitute({0: const(row)}).const for e in (*(step[v] for v, _ in steps), number)]
            fetched.add(tuple(at))
    assert fetched == set(np.ndindex(*extents, lines))


def test_unrolled_steps_that_share_a_line_fetch_it_once() -> None:
    """Vectors of 32 bytes: of four steps, two begin a line. One row fetches the three columns of each."""
    text = product("attributes {prefetch = 1 : i64}").replace("x16xf32", "x8xf32").replace("d1 : 16", "d1 : 8")
    f = parse(text.replace(f"{ROWS}x{DEPTH}xf32", f"1x{DEPTH}xf32").replace(f"{ROWS}x{3 * PANELS}", f"1x{3 * PANELS}")
              .replace(f"%i = 0 to {ROWS}", "%i = 0 to 1"))  # fmt: skip
    (sums,) = [op for op in f.walk() if isinstance(op, loop.ForOp) and op.results]
    unroll(sums, 4)
    x, w = rand(1, DEPTH), rand(3 * PANELS, DEPTH, 8, seed=1)
    run = native_kernel(f, 256)
    close(run([x, w])[0], np.einsum("ik,jkd->ijd", x, w), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == 2 * 3


@pytest.mark.parametrize(("rows", "fetches"), [(1, 12), (2, 6), (8, 2), (40, 1)])
def test_unrolled_steps_share_their_lines_among_rows(rows: int, fetches: int) -> None:
    """Four steps have twelve lines: a row fetches its share in the first of them, none in the others."""
    text = product("attributes {prefetch = 1 : i64}").replace(f"memref<{ROWS}x", f"memref<{rows}x")
    f = parse(text.replace(f"%i = 0 to {ROWS}", f"%i = 0 to {rows}"))
    (sums,) = [op for op in f.walk() if isinstance(op, loop.ForOp) and op.results]
    unroll(sums, 4)
    x, w = rand(rows, DEPTH), rand(3 * PANELS, DEPTH, 16, seed=1)
    run = native_kernel(f)
    close(run([x, w])[0], np.einsum("ik,jkd->ijd", x, w), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == fetches


def packed_product(mark: str, rows: int = ROWS) -> str:
    """`out[i, j] = sum of x[i, k] * w[j floordiv 32, k, j mod 32]`, one panel of 32 columns at a time."""
    return f"""
loop.func @k(%x: memref<{rows}x{DEPTH}xf32>, %w: memref<{PANELS}x{DEPTH}x32xf32>,
             %o: memref<{rows}x{32 * PANELS}xf32>) attributes {{outputs = 1 : i64}} {{
  %z = arith.constant 0.0 : f32
  %zero = loop.broadcast %z : f32 to vector<1x32xf32>
  loop.for %j = 0 to {PANELS} {{
    loop.for %i = 0 to {rows} {{
      %sum = loop.for %k = 0 to {DEPTH} iter_args(%a = %zero) -> vector<1x32xf32> {{
        %l = loop.load %x[%i + d0, %k] tile (d0 : 1, d1 : 32) : vector<1x1xf32>
        %r = loop.load %w[%j + d1 floordiv 32, %k, d1 mod 32] tile (d0 : 1, d1 : 32) : vector<1x32xf32>
        %n = loop.fma %l, %r, %a : vector<1x1xf32>, vector<1x32xf32>, vector<1x32xf32>
        loop.yield %n : vector<1x32xf32>
      }}
      loop.store %sum, %o[%i + d0, %j * 32 + d1] tile (d0 : 1, d1 : 32) : vector<1x32xf32>
    }}
  }} {mark}
}}"""


@pytest.mark.parametrize(("rows", "fetches"), [(ROWS, 1), (1, 2)])  # two lines a step: one each, or both
def test_panels_of_a_packed_matrix_are_fetched_line_by_line(rows, fetches):
    x, w = rand(rows, DEPTH), rand(PANELS, DEPTH, 32, seed=1)
    run = native_kernel(parse(packed_product("attributes {prefetch = 1 : i64}", rows)))
    (out,) = run([x, w])
    close(out, x @ w.transpose(1, 0, 2).reshape(DEPTH, -1), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == fetches


def test_after_the_last_iteration_of_a_nest_comes_the_first_of_the_next():
    nest, ranges = [(0, None), (1, 3), (2, 4)], [(0, 9), (0, 2), (0, 3)]
    offset = dim(0) * 1000 + dim(1) * 70 + dim(2) * 5 + dim(3)
    following = following_offset(offset, nest, [*ranges, (0, 7)])
    steps = [(j, k, n) for j in range(4) for k in range(3) for n in range(4)]

    def at(e, step):
        return e.substitute({v: const(i) for v, i in enumerate((*step, 6))}).const

    assert [at(following, one) for one in steps[:-1]] == [at(offset, one) for one in steps[1:]]
