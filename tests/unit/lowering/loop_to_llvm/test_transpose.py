"""Tiles whose lanes lie apart are loaded along the other axis and transposed in registers, ragged ones too."""

import re

import numpy as np
import pytest
from loop_kernels import rand
from loop_native import close, native_kernel, parse

from mlc.lowering.loop_to_llvm.convert import lower_kernel


def copy(rows: int, lanes: int) -> str:
    """`out[k, j] = x[j, k]`, as one tile."""
    return f"""
loop.func @k(%x: memref<{lanes}x{rows}xf32>, %o: memref<{rows}x{lanes}xf32>) attributes {{outputs = 1 : i64}} {{
  %t = loop.load %x[d1, d0] tile (d0 : {rows}, d1 : {lanes}) : vector<{rows}x{lanes}xf32>
  loop.store %t, %o[d0, d1] tile (d0 : {rows}, d1 : {lanes}) : vector<{rows}x{lanes}xf32>
}}"""


@pytest.mark.parametrize(("rows", "lanes"), [(16, 16), (8, 4), (5, 16), (19, 35), (16, 7), (1, 16), (3, 1)])
def test_a_transposed_tile(rows, lanes):
    x = rand(lanes, rows)
    run = native_kernel(parse(copy(rows, lanes)))
    (out,) = run([x])
    close(out, x.T, 0)


def test_squares_take_no_scalar_loads():
    run = native_kernel(parse(copy(16, 16)))
    assert len(re.findall(r"shufflevector", run.ir)) == 64
    assert not re.search(r"load float,", run.ir)
    assert np.array_equal(run([np.arange(256, dtype=np.float32).reshape(16, 16)])[0], np.arange(256).reshape(16, 16).T)


def test_halves_of_rows_are_loaded_side_by_side_on_vectors_of_256_bits():
    """Eight pairs of halves are put together, and two rounds of shuffles stay within halves."""
    run = native_kernel(parse(copy(8, 8)), 256)
    assert len(re.findall(r"load <4 x float>", run.ir)) == 16
    assert len(re.findall(r"shufflevector", run.ir)) == 8 + 2 * 8
    assert np.array_equal(run([np.arange(64, dtype=np.float32).reshape(8, 8)])[0], np.arange(64).reshape(8, 8).T)


def test_rows_of_an_open_length_are_transposed_too():
    text = """
loop.func @k(%x: memref<?x?xf32>, %o: memref<16x16xf32>, %n: index) attributes {
  outputs = 1 : i64, sizes = [#te.map<"%0, %0">, #te.map<"16, 16">]
} {
  %t = loop.load %x[d1, d0] tile (d0 : 16, d1 : 16) : vector<16x16xf32>
  loop.store %t, %o[d0, d1] tile (d0 : 16, d1 : 16) : vector<16x16xf32>
}"""
    (function,) = lower_kernel(parse(text), 16)
    assert str(function).count("llvm.shufflevector") == 64


def padded(rows: int, lanes: int, before: int, after: int) -> str:
    """`out[k, j] = x[j, k - before]` inside of the rows and lanes of x and 7 elsewhere, as one tile."""
    whole, mask = before + rows + after, f"(d0 - {before}, -d0 + {before + rows - 1}, -d1 + {lanes - 1})"
    tile, value = f"(d0 : {whole}, d1 : {lanes + 1})", f"vector<{whole}x{lanes + 1}xf32>"
    return f"""
loop.func @k(%x: memref<{lanes}x{rows}xf32>, %o: memref<{whole}x{lanes + 1}xf32>) attributes {{outputs = 1 : i64}} {{
  %c = arith.constant 7.000000e+00 : f32
  %f = loop.broadcast %c : f32 to {value}
  %t = loop.load %x[d1, d0 - {before}] mask {mask} else %f tile {tile} : {value}
  loop.store %t, %o[d0, d1] tile {tile} : {value}
}}"""


@pytest.mark.parametrize(
    ("rows", "lanes", "before", "after"),
    [(14, 15, 1, 1), (16, 15, 1, 0), (30, 31, 2, 5), (9, 15, 4, 20), (40, 20, 0, 1)],
)
def test_a_mask_along_the_contiguous_axis_masks_the_vectors_that_are_loaded(rows, lanes, before, after):
    x = rand(lanes, rows)
    run = native_kernel(parse(padded(rows, lanes, before, after)))
    (out,) = run([x])
    close(out, np.pad(x.T, ((before, after), (0, 1)), constant_values=7.0), 0)
    assert "llvm.masked.load" in run.ir


def test_padded_squares_take_no_scalar_loads():
    run = native_kernel(parse(padded(14, 15, 1, 1)))
    assert not re.search(r"load float,", run.ir)
