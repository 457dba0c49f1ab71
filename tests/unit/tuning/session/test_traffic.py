"""The model of caches and registers, on loops whose misses are counted by hand."""

from dataclasses import replace

import pytest
from xdsl.parser import Parser

from mlc.driver.pipeline.manager import make_context
from mlc.targets.target import Target
from mlc.tuning.session.traffic import loop_costs

TARGET = replace(Target.parse("x86-64-v3"), l1_bytes=1024, l2_bytes=8192)  # 16 and 128 lines


def costs(text):
    return loop_costs(Parser(make_context(), text).parse_module(), TARGET)


def nest(body, buffers="%a: memref<64x64xf32>, %b: memref<64x64xf32>"):
    return f"loop.func @f({buffers}) attributes {{outputs = 1 : i64}} {{\n{body}\nloop.yield\n}}"


ROWS = """loop.for %i = 0 to 64 {{ loop.for %j = 0 to 64 {{
  %x = loop.load %a[{at}] : f32
  loop.store %x, %b[%i, %j] : f32
}} }}"""


def test_a_stream_misses_each_line_once():
    found = costs(nest(ROWS.format(at="%i, %j")))
    assert (found.l1_misses, found.l2_misses) == (512, 512), "two arrays of 256 lines"


def test_a_column_walk_misses_each_element_where_a_column_does_not_fit():
    """A column touches 64 lines: above L1's 16, and within L2's 128, where a later column finds its lines again."""
    found = costs(nest(ROWS.format(at="%j, %i")))
    assert found.l1_misses == 64 * (64 + 4)
    assert found.l2_misses == 512


def test_what_fits_is_fetched_once_however_often_it_is_read():
    text = """loop.for %t = 0 to 100 { loop.for %j = 0 to 64 {
      %x = loop.load %a[%j] : f32
      loop.store %x, %b[%j] : f32
    } }"""
    assert costs(nest(text, "%a: memref<64xf32>, %b: memref<64xf32>")).l1_misses == 8


def test_a_loop_too_large_misses_in_each_iteration():
    text = """loop.for %t = 0 to 10 { loop.for %j = 0 to 4096 {
      %x = loop.load %a[%j] : f32
      loop.store %x, %b[%t] : f32
    } }"""
    found = costs(nest(text, "%a: memref<4096xf32>, %b: memref<10xf32>"))
    assert found.l1_misses == pytest.approx(10 * (256 + 1))
    assert found.l2_misses == pytest.approx(10 * (256 + 1)), "16 KiB do not fit L2"


def test_blocks_that_fit_are_read_from_the_cache():
    """A transposed copy in blocks of 4 x 16 fetches each line once."""
    text = """loop.for %io = 0 to 16 { loop.for %jo = 0 to 4 { loop.for %i = 0 to 4 { loop.for %j = 0 to 16 {
      %x = loop.load %a[%i + %io * 4, %j + %jo * 16] : f32
      loop.store %x, %b[%i + %io * 4, %j + %jo * 16] : f32
    } } } }"""
    assert costs(nest(text)).l1_misses == 512


def test_registers_are_the_accumulators_and_one_step_of_operands():
    text = """
    %0 = arith.constant 0.000000e+00 : f32
    %1 = loop.broadcast %0 : f32 to vector<4x16xf32>
    %r = loop.for %k = 0 to 64 iter_args(%c = %1) -> vector<4x16xf32> {
      %x = loop.load %a[d0, %k] tile (d0 : 4, d1 : 16) : vector<4x1xf32>
      %y = loop.load %b[%k, d1] tile (d0 : 4, d1 : 16) : vector<1x16xf32>
      %u = loop.broadcast %x : vector<4x1xf32> to vector<4x16xf32>
      %v = loop.broadcast %y : vector<1x16xf32> to vector<4x16xf32>
      %n = loop.fma %u, %v, %c : vector<4x16xf32>, vector<4x16xf32>, vector<4x16xf32>
      loop.yield %n : vector<4x16xf32>
    }
    loop.store %r, %c[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>"""
    buffers = "%a: memref<4x64xf32>, %b: memref<64x16xf32>, %c: memref<4x16xf32>"
    assert (
        costs(nest(text.replace("%c = %1", "%d = %1").replace("%u, %v, %c", "%u, %v, %d"), buffers)).registers
        == 8 + 1 + 2
    )
