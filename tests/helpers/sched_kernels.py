"""Kernels that the tests of schedules work on, and a way to apply directives to them one by one."""

from functools import cache

import numpy as np
from xdsl.parser import Parser

from mlc.dialects import loop
from mlc.driver.pipeline.registry import make_context
from mlc.interp import loop as interp
from mlc.passes.loop.directives import DIRECTIVES
from mlc.passes.loop.directives.kernel import Kernel
from mlc.schedules.builder import ScheduleBuilder

DENSE = """
loop.func @dense(%x: memref<4x20xf32>, %w: memref<30x20xf32>, %y: memref<4x30xf32>) attributes {outputs = 1 : i64} {
  %c = loop.alloc "shared" : memref<4x30xf32>
  loop.for %i = 0 to 4 { loop.for %j = 0 to 30 { loop.for %k = 0 to 20 {
    loop.block "dense" (%vi : 4 = %i, %vj : 30 = %j) reduce (%vk : 20 = %k) init {
    ^bb0(%ui : index, %uj : index, %uk : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %c[%ui, %uj] : f32
    } {
      %a = loop.load %x[%vi, %vk] : f32
      %b = loop.load %w[%vj, %vk] : f32
      %d = loop.load %c[%vi, %vj] : f32
      %e = loop.fma %a, %b, %d : f32, f32, f32
      loop.store %e, %c[%vi, %vj] : f32
    }
  } } }
  loop.for %i = 0 to 4 { loop.for %j = 0 to 30 {
    loop.block "relu" (%vi : 4 = %i, %vj : 30 = %j) {
      %a = loop.load %c[%vi, %vj] : f32
      %z = arith.constant 0.0 : f32
      %r = arith.maximumf %a, %z : f32
      loop.store %r, %y[%vi, %vj] : f32
    }
  } }
}
"""

# A strided 1-D convolution with padding, its doubled result, and a maximum over windows of that.
CONV = """
loop.func @conv(%x: memref<3x17xf32>, %w: memref<5x3x3xf32>, %y: memref<5x9xf32>, %m: memref<5x3xf32>)
    attributes {outputs = 2 : i64} {
  %p = loop.alloc "shared" : memref<3x19xf32>
  %c = loop.alloc "shared" : memref<5x9xf32>
  loop.for %i = 0 to 3 { loop.for %j = 0 to 19 {
    loop.block "pad" (%vi : 3 = %i, %vj : 19 = %j) {
      %z = arith.constant 0.0 : f32
      %a = loop.load %x[%vi, %vj - 1] mask (%vj - 1, 17 - %vj) else %z : f32
      loop.store %a, %p[%vi, %vj] : f32
    }
  } }
  loop.for %o = 0 to 5 { loop.for %h = 0 to 9 { loop.for %i = 0 to 3 { loop.for %k = 0 to 3 {
    loop.block "conv" (%vo : 5 = %o, %vh : 9 = %h) reduce (%vi : 3 = %i, %vk : 3 = %k) init {
    ^bb0(%uo : index, %uh : index, %ui : index, %uk : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %c[%uo, %uh] : f32
    } {
      %a = loop.load %p[%vi, %vh * 2 + %vk] : f32
      %b = loop.load %w[%vo, %vi, %vk] : f32
      %d = loop.load %c[%vo, %vh] : f32
      %e = loop.fma %a, %b, %d : f32, f32, f32
      loop.store %e, %c[%vo, %vh] : f32
    }
  } } } }
  loop.for %o = 0 to 5 { loop.for %h = 0 to 9 {
    loop.block "out" (%vo : 5 = %o, %vh : 9 = %h) {
      %a = loop.load %c[%vo, %vh] : f32
      %r = arith.addf %a, %a : f32
      loop.store %r, %y[%vo, %vh] : f32
    }
  } }
  loop.for %o = 0 to 5 { loop.for %h = 0 to 3 { loop.for %k = 0 to 3 {
    loop.block "pool" (%vo : 5 = %o, %vh : 3 = %h) reduce (%vk : 3 = %k) init {
    ^bb0(%uo : index, %uh : index, %uk : index):
      %z = arith.constant -1000.0 : f32
      loop.store %z, %m[%uo, %uh] : f32
    } {
      %a = loop.load %y[%vo, %vh * 3 + %vk] : f32
      %b = loop.load %m[%vo, %vh] : f32
      %e = arith.maximumf %a, %b : f32
      loop.store %e, %m[%vo, %vh] : f32
    }
  } } }
}
"""

# A row minus its maximum, over the row's sum, with the parts kept in buffers of their own.
ROWS = """
loop.func @rows(%x: memref<6x8xf32>, %y: memref<6x8xf32>) attributes {outputs = 1 : i64} {
  %m = loop.alloc "shared" : memref<6xf32>
  %d = loop.alloc "shared" : memref<6x8xf32>
  %s = loop.alloc "shared" : memref<6xf32>
  loop.for %i = 0 to 6 { loop.for %k = 0 to 8 {
    loop.block "max" (%vi : 6 = %i) reduce (%vk : 8 = %k) init {
    ^bb0(%ui : index, %uk : index):
      %z = arith.constant -1000.0 : f32
      loop.store %z, %m[%ui] : f32
    } {
      %a = loop.load %x[%vi, %vk] : f32
      %b = loop.load %m[%vi] : f32
      %e = arith.maximumf %a, %b : f32
      loop.store %e, %m[%vi] : f32
    }
  } }
  loop.for %i = 0 to 6 { loop.for %j = 0 to 8 {
    loop.block "diff" (%vi : 6 = %i, %vj : 8 = %j) {
      %a = loop.load %x[%vi, %vj] : f32
      %b = loop.load %m[%vi] : f32
      %e = arith.subf %b, %a : f32
      loop.store %e, %d[%vi, %vj] : f32
    }
  } }
  loop.for %i = 0 to 6 { loop.for %k = 0 to 8 {
    loop.block "sum" (%vi : 6 = %i) reduce (%vk : 8 = %k) init {
    ^bb0(%ui : index, %uk : index):
      %z = arith.constant 0.0 : f32
      loop.store %z, %s[%ui] : f32
    } {
      %a = loop.load %d[%vi, %vk] : f32
      %b = loop.load %s[%vi] : f32
      %e = arith.addf %a, %b : f32
      loop.store %e, %s[%vi] : f32
    }
  } }
  loop.for %i = 0 to 6 { loop.for %j = 0 to 8 {
    loop.block "out" (%vi : 6 = %i, %vj : 8 = %j) {
      %a = loop.load %d[%vi, %vj] : f32
      %b = loop.load %s[%vi] : f32
      %e = arith.subf %a, %b : f32
      loop.store %e, %y[%vi, %vj] : f32
    }
  } }
}
"""

# Sums over pairs, read by two consumers: one beside the pairs' source and backwards, one transposed and flattened.
WINDOWS = """
loop.func @windows(%x: memref<4x6x8xf32>, %y: memref<4x3x8xf32>, %z: memref<8x12xf32>) attributes {outputs = 2 : i64} {
  %e = loop.alloc "shared" : memref<4x6x8xf32>
  %p = loop.alloc "shared" : memref<4x3x8xf32>
  loop.for %a = 0 to 4 { loop.for %b = 0 to 6 { loop.for %c = 0 to 8 {
    loop.block "e" (%u : 4 = %a, %v : 6 = %b, %w : 8 = %c) {
      %0 = loop.load %x[%u, %v, %w] : f32
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %e[%u, %v, %w] : f32
    } } } }
  loop.for %a = 0 to 4 { loop.for %b = 0 to 3 { loop.for %c = 0 to 8 { loop.for %k = 0 to 2 {
    loop.block "p" (%u : 4 = %a, %v : 3 = %b, %w : 8 = %c) reduce (%r : 2 = %k) init {
    ^bb0(%u : index, %v : index, %w : index, %r : index):
      %0 = arith.constant 0.0 : f32
      loop.store %0, %p[%u, %v, %w] : f32
    } {
      %0 = loop.load %e[%u, %v * 2 + %r, %w] : f32
      %1 = loop.load %p[%u, %v, %w] : f32
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %p[%u, %v, %w] : f32
    } } } } }
  loop.for %a = 0 to 4 { loop.for %b = 0 to 3 { loop.for %c = 0 to 8 {
    loop.block "q" (%u : 4 = %a, %v : 3 = %b, %w : 8 = %c) {
      %0 = loop.load %p[%u, %v, %w] : f32
      %2 = loop.load %e[%u, %v + 1, 7 - %w] : f32
      %1 = arith.addf %0, %2 : f32
      loop.store %1, %y[%u, %v, %w] : f32
    } } } }
  loop.for %i = 0 to 8 { loop.for %j = 0 to 12 {
    loop.block "t" (%u : 8 = %i, %v : 12 = %j) {
      %0 = loop.load %p[%v floordiv 3, %v mod 3, %u] : f32
      loop.store %0, %z[%u, %v] : f32
    } } }
}
"""

KERNELS = {"dense": DENSE, "conv": CONV, "rows": ROWS, "windows": WINDOWS}


def parse(text: str) -> loop.FuncOp:
    func = Parser(make_context(), text).parse_module().body.block.first_op
    assert isinstance(func, loop.FuncOp)
    func.verify()
    return func


@cache
def _parsed(text: str) -> loop.FuncOp:
    return parse(text)


def fresh(text: str) -> loop.FuncOp:
    return _parsed(text).clone()


@cache
def inputs(text: str) -> list[np.ndarray]:
    """Small integers, so that sums are exact in any order."""
    types, _, _ = interp.arguments(_parsed(text))
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, t.get_shape()).astype(np.float32) for t in types]


@cache
def expected(text: str) -> list[np.ndarray]:
    return interp.run(_parsed(text), inputs(text))


class Session(ScheduleBuilder):
    """A builder that applies each directive as soon as it is written."""

    def __init__(self, func: loop.FuncOp) -> None:
        super().__init__(func.sym_name.data)
        self.func = func
        self.kernel_ = Kernel(func, func)

    def add(self, op, names=()):
        found = super().add(op, names)
        self.kernel_.directive = op
        DIRECTIVES[type(op)](self.kernel_, op)
        return found


def check_values(func: loop.FuncOp, text: str) -> None:
    from mlc.passes.verifier import verify

    verify(func)
    for got, want in zip(interp.run(func, inputs(text), shuffle=1), expected(text), strict=True):
        np.testing.assert_array_equal(got, want)
