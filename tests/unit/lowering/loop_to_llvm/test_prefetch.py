"""Loops marked {prefetch}: each row fetches its share of the next panel, and values stay."""

import re

import numpy as np
import pytest
from loop_kernels import rand
from loop_native import close, native_kernel, parse

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


def packed_product(mark: str) -> str:
    """`out[i, j] = sum of x[i, k] * w[j floordiv 32, k, j mod 32]`, one panel of 32 columns at a time."""
    return f"""
loop.func @k(%x: memref<{ROWS}x{DEPTH}xf32>, %w: memref<{PANELS}x{DEPTH}x32xf32>,
             %o: memref<{ROWS}x{32 * PANELS}xf32>) attributes {{outputs = 1 : i64}} {{
  %z = arith.constant 0.0 : f32
  %zero = loop.broadcast %z : f32 to vector<1x32xf32>
  loop.for %j = 0 to {PANELS} {{
    loop.for %i = 0 to {ROWS} {{
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


def test_panels_of_a_packed_matrix_are_fetched_line_by_line():
    x, w = rand(ROWS, DEPTH), rand(PANELS, DEPTH, 32, seed=1)
    run = native_kernel(parse(packed_product("attributes {prefetch = 1 : i64}")))
    (out,) = run([x, w])
    close(out, x @ w.transpose(1, 0, 2).reshape(DEPTH, -1), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == 1
