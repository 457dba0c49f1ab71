"""Loops marked {prefetch} or {stream} fetch what their next iteration reads, and values stay."""

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


def walk(mark: str) -> str:
    """`out[t, d] = sum of x[c, t, k] * w[c, k, d]`, four pixels at a time."""
    return f"""
loop.func @k(%x: memref<2x12x16xf32>, %w: memref<2x16x16xf32>, %o: memref<12x16xf32>) attributes {{outputs = 1 : i64}} {{
  %z = arith.constant 0.0 : f32
  %zero = loop.broadcast %z : f32 to vector<4x16xf32>
  loop.for %t = 0 to 3 {{
    %sum = loop.for %c = 0 to 2 iter_args(%b = %zero) -> vector<4x16xf32> {{
      %part = loop.for %k = 0 to 16 iter_args(%a = %b) -> vector<4x16xf32> {{
        %l = loop.load %x[%c, %t * 4 + d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
        %r = loop.load %w[%c, %k, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
        %n = loop.fma %l, %r, %a : vector<4x1xf32>, vector<1x16xf32>, vector<4x16xf32>
        loop.yield %n : vector<4x16xf32>
      }}
      loop.yield %part : vector<4x16xf32>
    }}
    loop.store %sum, %o[%t * 4 + d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>
  }} {mark}
}}"""


@pytest.mark.parametrize(("mark", "fetches"), [("", 0), ("attributes {stream = 1 : i64}", 1)])
def test_each_step_fetches_a_line(mark, fetches):
    x, w = rand(2, 12, 16), rand(2, 16, 16, seed=1)
    run = native_kernel(parse(walk(mark)))
    (out,) = run([x, w])
    close(out, np.einsum("ctk,ckd->td", x, w), 1e-5)
    assert len(re.findall(r"call void @llvm\.prefetch", run.ir)) == fetches
