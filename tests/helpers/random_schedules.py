"""Random schedules of `mlc.Schedule` on kernels with reductions, gathers, padding and open sizes."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import numpy as np
from sched_kernels import CONV, DENSE, ROWS, WINDOWS
from xdsl.dialects.builtin import MemRefType

from mlc.dialects import loop
from mlc.dialects.index import tile
from mlc.frontends.te.schedule import Schedule
from mlc.interp import loop as interp
from mlc.passes.loop.index_space.domain import loops_around
from mlc.passes.verifier import verify
from mlc.support.errors import UserError

GATHER = """
te.func @gather(%t: tensor<7x9xf32>, %ids: tensor<6xi32>) -> (tensor<6x9xf32>, tensor<9xf32>) {
  %g = te.compute "g" (%i : 6, %j : 9) {
    %0 = te.read %ids[%i] : i32
    %1 = arith.index_cast %0 : i32 to index
    %2 = te.read %t[%1, %j] : f32
    te.yield %2 : f32
  } : tensor<6x9xf32>
  %m = te.compute "m" (%i : 6) reduce (%k : 9) sum {
    %0 = te.read %g[%i, %k] : f32
    te.yield %0 : f32
  } : tensor<6xf32>
  %o = te.compute "o" (%i : 6, %j : 9) {
    %0 = te.read %g[%i, %j] : f32
    %1 = te.read %m[%i] : f32
    %2 = arith.subf %0, %1 : f32
    te.yield %2 : f32
  } : tensor<6x9xf32>
  %c = te.compute "c" (%j : 9) reduce (%i : 6) max {
    %0 = te.read %o[%i, %j] : f32
    te.yield %0 : f32
  } : tensor<9xf32>
  te.return %o, %c : tensor<6x9xf32>, tensor<9xf32>
}
"""

OPEN = """
loop.func @open(%x: memref<?x12xf32>, %y: memref<?x12xf32>, %z: memref<12xf32>, %n: index)
    attributes {outputs = 2 : i64, sizes = [#te.map<"%0, 12">, #te.map<"%0, 12">, #te.map<"12">]} {
  %e = loop.alloc "shared" (%n) : memref<?x12xf32>
  %s = loop.alloc "shared" (%n) : memref<?xf32>
  loop.for %i = 0 to %n { loop.for %j = 0 to 12 {
    loop.block "e" (%u : %n = %i, %v : 12 = %j) {
      %0 = loop.load %x[%u, 11 - %v] : f32
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %e[%u, %v] : f32
    } } }
  loop.for %i = 0 to %n { loop.for %k = 0 to 12 {
    loop.block "s" (%u : %n = %i) reduce (%r : 12 = %k) init {
    ^bb0(%u : index, %r : index):
      %0 = arith.constant 0.0 : f32
      loop.store %0, %s[%u] : f32
    } {
      %0 = loop.load %e[%u, %r] : f32
      %1 = loop.load %s[%u] : f32
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %s[%u] : f32
    } } }
  loop.for %i = 0 to %n { loop.for %j = 0 to 12 {
    loop.block "y" (%u : %n = %i, %v : 12 = %j) {
      %0 = loop.load %e[%u, %v] : f32
      %1 = loop.load %s[%u] : f32
      %2 = arith.subf %0, %1 : f32
      loop.store %2, %y[%u, %v] : f32
    } } }
  loop.for %j = 0 to 12 { loop.for %k = 0 to %n {
    loop.block "z" (%v : 12 = %j) reduce (%r : %n = %k) init {
    ^bb0(%v : index, %r : index):
      %0 = arith.constant -1000.0 : f32
      loop.store %0, %z[%v] : f32
    } {
      %0 = loop.load %y[%r, %v] : f32
      %1 = loop.load %z[%v] : f32
      %2 = arith.maximumf %0, %1 : f32
      loop.store %2, %z[%v] : f32
    } } }
}
"""
# A running sum over the rows of what a stage computes, which another one reads.
SCAN = """
loop.func @scan(%x: memref<7x8xf32>, %y: memref<7x8xf32>) attributes {outputs = 1 : i64} {
  %e = loop.alloc "shared" : memref<7x8xf32>
  %s = loop.alloc "shared" : memref<7x8xf32>
  loop.for %i = 0 to 7 { loop.for %j = 0 to 8 {
    loop.block "e" (%u : 7 = %i, %v : 8 = %j) {
      %0 = loop.load %x[%u, %v] : f32
      %1 = arith.addf %0, %0 : f32
      loop.store %1, %e[%u, %v] : f32
    } } }
  loop.for %j = 0 to 8 {
    loop.block "first" (%v : 8 = %j) {
      %0 = loop.load %e[0, %v] : f32
      loop.store %0, %s[0, %v] : f32
    } }
  loop.for %t = 0 to 6 { loop.for %j = 0 to 8 {
    loop.block "next" (%u : 6 = %t, %v : 8 = %j) {
      %0 = loop.load %s[%u, %v] : f32
      %1 = loop.load %e[%u + 1, %v] : f32
      %2 = arith.addf %0, %1 : f32
      loop.store %2, %s[%u + 1, %v] : f32
    } } }
  loop.for %i = 0 to 7 { loop.for %j = 0 to 8 {
    loop.block "y" (%u : 7 = %i, %v : 8 = %j) {
      %0 = loop.load %s[%u, 7 - %v] : f32
      loop.store %0, %y[%u, %v] : f32
    } } }
}
"""
# A state that two stages of a step read, one step and two steps back; their result and a reduction give the next.
RECURRENCE = """
te.func @recurrence(%x: tensor<7x8xf32>) -> tensor<7x8xf32> {
  %first = te.compute "first" (%t : 2, %j : 8) {
    %0 = te.read %x[%t, %j] : f32
    te.yield %0 : f32
  } : tensor<2x8xf32>
  %s = te.scan "scan" (%h = %first) steps 7 : tensor<7x8xf32> {
    %mid = te.compute "mid" (%t : 7, %j : 8) {
      %0 = te.read %h[%t - 1, %j] : f32
      %1 = te.read %h[%t - 2, 7 - %j] : f32
      %2 = arith.subf %0, %1 : f32
      te.yield %2 : f32
    } : tensor<7x8xf32>
    %most = te.compute "most" (%t : 7) reduce (%k : 8) max {
      %0 = te.read %mid[%t, %k] : f32
      te.yield %0 : f32
    } : tensor<7xf32>
    %next = te.compute "next" (%t : 7, %j : 8) {
      %0 = te.read %mid[%t, %j] : f32
      %1 = te.read %most[%t] : f32
      %2 = te.read %x[%t, %j] : f32
      %3 = arith.subf %0, %1 : f32
      %4 = arith.addf %3, %2 : f32
      te.yield %4 : f32
    } : tensor<7x8xf32>
    te.yield %next : tensor<7x8xf32>
  }
  te.return %s : tensor<7x8xf32>
}
"""
OPERATORS = {
    "dense": DENSE,
    "conv": CONV,
    "rows": ROWS,
    "windows": WINDOWS,
    "gather": GATHER,
    "open": OPEN,
    "scan": SCAN,
    "recurrence": RECURRENCE,
}
OPEN_SIZES = (1, 5, 8)
"""What an open size is when a schedule is checked."""
_BY_STEP = (
    "split split split reorder reorder reorder fuse tile peel compute_at compute_at reverse_compute_at "
    "reverse_compute_at compute_inline decompose_reduction decompose_reduction rfactor parallel vectorize unroll "
    "cache_read cache_write set_scope storage_align transform_layout pragma bind tensorize child undo"
).split()


@cache
def _operator(name: str) -> Schedule:
    return Schedule(OPERATORS[name])


def arguments_of_calls(name: str, size: int) -> list[np.ndarray]:
    """The arrays that a compiled kernel takes: the inputs alone."""
    ins, _, _ = interp.arguments(_operator(name).lowered())
    return inputs(name, size)[: len(ins)]


@cache
def inputs(name: str, size: int) -> list[np.ndarray]:
    """Small integers, so that sums are exact in any order; indices of the gather are in its bounds."""
    ins, outs, symbols = interp.arguments(_operator(name).lowered())
    rng = np.random.default_rng(0)
    made = [_array(t, size, rng) for t in ins]
    return [*made, *(np.empty(_shape(t, size), np.float32) for t in outs), size] if symbols else made


def _shape(t: MemRefType, size: int) -> list[int]:
    return [size if n < 0 else n for n in t.get_shape()]


def _array(t: MemRefType, size: int, rng: np.random.Generator) -> np.ndarray:
    whole = str(t.element_type) == "i32"
    return rng.integers(0 if whole else -4, 5, _shape(t, size)).astype(np.int32 if whole else np.float32)


@cache
def expected(name: str, size: int) -> list[np.ndarray]:
    """The outputs of the loops without a schedule."""
    return [a.copy() for a in interp.run(_operator(name).lowered(), inputs(name, size))]


def check_values(name: str, func: loop.FuncOp, seed: int = 0) -> None:
    """The loops compute what those without a schedule do, parallel iterations in any order."""
    verify(func)
    program = interp.prepare(func, shuffle=seed)
    for size in OPEN_SIZES if name == "open" else OPEN_SIZES[:1]:
        for got, want in zip(program(inputs(name, size)), expected(name, size), strict=True):
            np.testing.assert_array_equal(got, want)


class RandomSchedule:
    """A schedule to which random directives are applied; `drawn` counts them by (name, legal)."""

    def __init__(self, name: str, rng: Random) -> None:
        self.name, self.rng = name, rng
        self.schedule = Schedule(_operator(name).func)
        self.compares = rng.random() < 0.5
        """Whether the texts before and after a refusal are compared: printing them takes half of the time."""
        self.drawn: Counter[tuple[str, bool]] = Counter()
        self._state = self.state()

    def state(self) -> tuple[str, str]:
        return (str(self.schedule), self.schedule.text("loop")) if self.compares else ("", "")

    def step(self) -> None:
        """One directive; where it is refused, nothing has changed."""
        action = self.rng.choice(_BY_STEP)
        try:
            getattr(self, f"_{action}")()
        except UserError:
            legal = False
        else:
            legal = True
        self.drawn[action, legal] += 1
        now = self.state()
        if not legal:
            known = self._state[0].splitlines()[:-1]  # what finds a loop for the directive stays
            assert now[0].splitlines()[: len(known)] == known, f"{action} changed the schedule and was refused"
            assert now[1] == self._state[1], f"{action} changed the loops and was refused"
        self._state = now

    # --- choices --------------------------------------------------------------------------------------------------

    def _block(self):
        return self.schedule[self.rng.choice(self.schedule.blocks)]

    def _loops(self, block=None):
        return self.schedule.loops(block or self._block())

    def _loop(self):
        found = self._loops()
        if not found:
            raise UserError("no loops")
        return self.rng.choice(found)

    def _split(self):
        self.schedule.split(self._loop(), self.rng.choice([[None, 2], [None, 4], [None, 3, 2], [3, None]]))

    def _tile(self):
        found = self._loops()
        at = self.rng.randrange(max(1, len(found) - 1))
        self.schedule.tile(found[at : at + 2], [2, 3][: len(found[at : at + 2])])

    def _fuse(self):
        found = self._loops()
        at = self.rng.randrange(max(1, len(found) - 1))
        self.schedule.fuse(*found[at : at + 2])

    def _reorder(self):
        found = self._loops()
        self.schedule.reorder(*self.rng.sample(found, min(len(found), self.rng.choice([2, 2, 3, len(found)]))))

    def _peel(self):
        self.schedule.peel(self._loop(), self.rng.choice([1, 2]))

    def _parallel(self):
        self.schedule.parallel(self._loops()[0] if self.rng.random() < 0.7 else self._loop())

    def _vectorize(self):
        found = self._loops()
        self.schedule.vectorize(*found[-self.rng.choice([1, 1, 2]) :])

    def _unroll(self):
        self.schedule.unroll(self._loop())

    def _bind(self):
        self.schedule.bind(self._loop(), "blockIdx.x")

    def _pragma(self):
        self.schedule.pragma(self._loop(), self.rng.choice(["my.note", "unknown"]), 1)

    def _tensorize(self):
        """As one prepares a sum of products for it; the last step alone is counted."""
        block = self._block()
        loops = self._loops(block)
        if loops and loops[-1].extent in (12, 16, 20):
            _, inner = self.schedule.split(loops[-1], [None, 4])
            self._state = self.state()
            self.schedule.decompose_reduction(block, loops[0])
            self._state = self.state()
            self.schedule.tensorize(inner, "dot_accumulate")
        else:
            self.schedule.tensorize(loops[-1] if loops else block, "dot_accumulate")

    def _child(self):
        self.schedule.child(self._loop(), self.rng.randrange(2))

    def _compute_at(self):
        block = self.rng.choice(self.schedule.blocks)
        self.schedule.compute_at(self.schedule[block], self._loop_of_neighbour(block, reads=True))

    def _reverse_compute_at(self):
        block = self.rng.choice(self.schedule.blocks)
        self.schedule.reverse_compute_at(self.schedule[block], self._loop_of_neighbour(block, reads=False))

    def _loop_of_neighbour(self, name: str, *, reads: bool):
        """A loop of a block that reads what this one writes, or writes what it reads; mostly."""
        func = self.schedule.lowered()
        blocks = {op.name_: op for op in func.walk() if isinstance(op, loop.BlockOp)}
        own = _buffers(blocks[name], loop.StoreOp if reads else loop.LoadOp)
        kind = loop.LoadOp if reads else loop.StoreOp
        near = [n for n, b in blocks.items() if n != name and own & _buffers(b, kind) and loops_around(b)]
        if not near or self.rng.random() < 0.1:
            return self._loop()
        return self.rng.choice(self._loops(self.schedule[self.rng.choice(near)]))

    def _compute_inline(self):
        self.schedule.compute_inline(self._block())

    def _decompose_reduction(self):
        block = self._block()
        self.schedule.decompose_reduction(block, self.rng.choice(self._loops(block) or [block]))

    def _rfactor(self):
        self.schedule.rfactor(self.rng.choice(self._loops()[-2:] or [self._block()]), self.rng.randrange(2))

    def _cache_read(self):
        self.schedule.cache_read(self._block(), self.rng.choice([0, 0, 1]), self.rng.choice(["local", "shared"]))

    def _cache_write(self):
        self.schedule.cache_write(self._block(), self.rng.choice(["local", "shared"]))

    def _set_scope(self):
        self.schedule.set_scope(self._block(), self.rng.choice(["local", "shared", "global"]))

    def _storage_align(self):
        self.schedule.storage_align(self._block(), 0, self.rng.choice([4, 16]), self.rng.choice([0, 1]))

    def _transform_layout(self):
        d0, d1, d2 = tile(0), tile(1), tile(2)
        maps = [[d0], [d1, d0], [d0, d1.floordiv(4), d1.mod(4)], [d0 * 40 + d1], [d2, d0, d1], [d0, d0]]
        self.schedule.transform_layout(self._block(), self.rng.choice(maps))

    def _undo(self):
        before = self._state[1]
        block = self._block()
        self.schedule.cache_write(block, "shared")
        self.schedule.undo()
        assert self.state()[1] == before


def _buffers(block: loop.BlockOp, kind: type[loop.LoadOp | loop.StoreOp]) -> set[object]:
    return {op.buffer for op in block.walk() if isinstance(op, kind)}
