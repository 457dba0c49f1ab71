"""
Winograd convolutions: three parallel passes - transform the tiles, multiply, transform back with the epilogue.

    parallel(channels in, tile rows)  pad | v1 | v        rows and their transforms stay in the thread's cache
    parallel(points a, b)             m                   one product a point, register-tiled
    parallel(channels out, tile rows) y1 | y | epilogue
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.codegen.targets import Target
from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage, reads_pointwise
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.tiling import even_split, register_tile

STAGES = ["pad", "v1", "v", "m", "y1"]


def winograd(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Kernels with the six stages of lowering/graph_to_te/winograd.py and pointwise stages behind them."""
    names = [st.name for st in kernel.stages]
    if names[: len(STAGES)] != STAGES or len(names) < 6:
        return None
    if not all(reads_pointwise(st, kernel.stages[5]) for st in kernel.stages[6:]):
        return None
    return WinogradSchedule(kernel, target, threads).build()


class WinogradSchedule:
    """Writes the schedule of one kernel."""

    def __init__(self, kernel: KernelInfo, target: Target, threads: int) -> None:
        self.kernel, self.target, self.threads = kernel, target, threads
        self.s = ScheduleBuilder(kernel.name)
        self.pad, self.v1, self.v, self.m, self.y1, self.y, *self.epilogue = kernel.stages
        self.size = self.y1.extents[1]
        self.columns = -(-self.y.extents[3] // self.size)

    def build(self) -> sched.ScheduleOp:
        """The three passes, last one first: a producer moves into the loops of its consumer."""
        for top in (self._back(), self._product(), self._forth()):
            if self.threads > 1:
                self.s.parallel(top)
        return self.s.finish()

    def _accumulate(
        self, st: Stage, order: list[SSAValue], reduce: list[SSAValue], tile: list[SSAValue], at: SSAValue
    ) -> None:
        """Reorder to `order | reduce | tile`, start the reduction at `at`, and make registers of the tile."""
        s = self.s
        s.reorder(*order, *reduce, *tile)
        init, _ = s.decompose_reduction(s.block(st.name), reduce[0])
        s.vectorize(*tile)
        s.vectorize(*s.loops(init, len(tile), under=at))

    def _split(self, loop: SSAValue, extent: int, size: int) -> tuple[list[SSAValue], SSAValue]:
        """([outer], inner); no outer loop where one piece covers the axis."""
        if size >= extent:
            return [], loop
        outer, inner = self.s.split(loop, [None, size])
        return [outer], inner

    def _back(self) -> SSAValue:
        """y1, y and the epilogue, for one block of channels and one row of tiles."""
        s = self.s
        y = s.block(self.y.name)
        n, oc, oh, ow, oi, a = s.loops(y, 6)
        th, r = self._split(oh, self.y.extents[2], self.size)
        tw, c = self._split(ow, self.y.extents[3], self.size)
        order = [n, oc, *th, *tw]
        s.reorder(*order, a, r, c, oi)
        top = s.fuse(n, oc, *th)
        at = tw[0] if tw else top
        for st in self.epilogue:
            block = s.block(st.name)
            s.reverse_compute_at(block, at)
            s.vectorize(*s.loops(block, st.num_spatial, under=at)[2:])
        self._accumulate(self.y, [], [a], [r, c, oi], at)
        y1 = s.block(self.y1.name)
        s.compute_at(y1, top)
        s.set_scope(y1, "local")
        a, row, oc, t, oi, b = s.loops(y1, 6, under=top)
        self._accumulate(self.y1, [oc, t], [b], [a, row, oi], t)
        return top

    def _product(self) -> SSAValue:
        """m: a product for each of the points."""
        s, st = self.s, self.m
        a, b, oc, t, oi, ic, ii = s.loops(s.block(st.name), 7)
        tile = register_tile(st.extents[3], st.extents[2], self.target.vector_registers)
        oc_outer, oc = self._split(oc, st.extents[2], tile.vectors)
        t_outer, t = self._split(t, st.extents[3], tile.rows)
        order = [a, b, *oc_outer, *t_outer]
        s.reorder(*order, ic, ii, t, oc, oi)
        top = s.fuse(a, b)
        self._accumulate(st, [], [ic, ii], [t, oc, oi], order[-1] if len(order) > 2 else top)
        return top

    def _forth(self) -> SSAValue:
        """pad, v1 and v, for one block of channels and one row of tiles."""
        s = self.s
        a, b, ic, t, ii, j = s.loops(s.block(self.v.name), 6)
        th, t = self._split(t, self.v.extents[3], self.columns)
        a_outer, a = s.split(a, [None, self.v.extents[0] // 2])
        s.reorder(ic, *th, t, a_outer, j, a, b, ii)
        top = s.fuse(ic, *th) if th else ic
        self._accumulate(self.v, [], [j], [a, b, ii], a_outer)
        v1 = s.block(self.v1.name)
        s.compute_at(v1, top)
        s.set_scope(v1, "local")
        a, ic, row, w, ii, i = s.loops(v1, 6, under=top)
        outer, w = self._split(w, self.v1.extents[3], even_split(self.v1.extents[3], 4))
        self._accumulate(self.v1, [ic, row, *outer], [i], [a, w, ii], (outer or [row])[0])
        pad = s.block(self.pad.name)
        s.compute_at(pad, top)
        s.set_scope(pad, "local")
        s.vectorize(s.loops(pad, 5, under=top)[-1])
        return top
