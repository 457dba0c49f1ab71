"""Taps in the padding are left out: at each end as many as read zeros, however many masks say so."""

from __future__ import annotations

import numpy as np
from loop_native import parse, reread

from mlc.interp import loop as interp
from mlc.passes.loop.partitioning.partition import partition


def padded(name: str, source: str) -> str:
    return f"""
  %{name} = loop.alloc "global" (%h + 24) : memref<?xf32>
  loop.for %r{name} = 0 to %h + 24 {{
    loop.block "pad{name}" (%v : %h + 24 = %r{name}) {{
      %zero = arith.constant 0.0 : f32
      %0 = loop.load %{source}[%v - 12] mask (%v - 12, %h - %v + 11) else %zero : f32
      loop.store %0, %{name}[%v] : f32
    }}
  }}"""


def test_a_block_that_reads_two_padded_copies():
    text = f"""
loop.func @taps(%x: memref<?xf32>, %w: memref<?xf32>, %y: memref<?xf32>, %h: index)
    attributes {{outputs = 1 : i64, sizes = [#te.map<"%0">, #te.map<"%0">, #te.map<"%0">], least = array<i64: 1>}} {{
  {padded("p", "x")}
  {padded("q", "w")}
  loop.for %o = 0 to %h {{
    loop.for %k = 0 to 3 {{
      loop.block "sum" (%vo : %h = %o) reduce (%vk : 3 = %k) {{
        %0 = loop.load %p[%vo + %vk * 12] : f32
        %1 = loop.load %q[%vo + %vk * 12] : f32
        %2 = loop.load %y[%vo] : f32
        %3 = loop.fma %0, %1, %2 : f32, f32, f32
        loop.store %3, %y[%vo] : f32
      }}
    }} attributes {{skip = 1 : i64}}
  }}
}}"""
    x, w = np.random.default_rng(0).integers(1, 5, (2, 40)).astype(np.float32)
    wanted = np.zeros(40, np.float32)
    for shift in (-12, 0, 12):
        inside = slice(max(0, -shift), 40 - max(0, shift))
        moved = slice(max(0, shift), 40 - max(0, -shift))
        wanted[inside] += (x * w)[moved]
    func, y = parse(text), np.zeros(40, np.float32)
    partition(func)
    interp.run(reread(func), [x, w, y, 40], shuffle=0)
    np.testing.assert_array_equal(y, wanted)
