"""
Winograd convolutions: input transform (v), product (m), output transform with the epilogue (y). The first half of each
transform, of a tile's columns, runs in the loop of the second.

    parallel(blocks of tiles)         v | m | y, epilogue     where the weights are reused by each block from cache
or, on one thread, with the product computed for the output channels of one register tile at a time:
    v | blocks of channels out        m | y, epilogue
or three parallel passes:
    parallel(channels in, tile rows)  v
    parallel(points a, b)             m                       one product a point, register-tiled
    parallel(channels out, tile rows) y | epilogue
Where sizes are symbolic, a block is a number of whole rows of tiles.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.schedules.analysis import KernelInfo, Stage, reads_pointwise
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.knobs import AUTO
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.targets.cost.caches import gains_by_prefetch, is_far
from mlc.targets.cost.tiles import divisors, register_tile
from mlc.targets.cost.winograd import Block, problem
from mlc.targets.target import Target

FIRST_STAGES = ["v_columns", "v", "m", "y_columns"]
TRIED_ROWS = (2, 4, 6, 8, 12, 14, 16, 24)
"""Tiles of a register tile of the product that tuning tries."""
TRIED_COLUMNS = (1, 2, 4)
"""Blocks of channels of a register tile that tuning tries."""


@strategy(family="contraction", priority=60)
def winograd(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Kernels with the stages of lowering/graph_to_te/winograd.py and pointwise stages behind them."""
    first = len(FIRST_STAGES)
    if [st.name for st in kernel.stages[:first]] != FIRST_STAGES or len(kernel.stages) == first:
        return None
    _, result, *epilogue = kernel.stages[first - 1 :]
    if not all(reads_pointwise(st, result) for st in epilogue):
        return None
    return WinogradSchedule(kernel, target, threads).build()


class WinogradSchedule:
    """Writes the schedule of one kernel."""

    def __init__(self, kernel: KernelInfo, target: Target, threads: int) -> None:
        self.kernel, self.target, self.threads = kernel, target, threads
        self.s = ScheduleBuilder(kernel.name)
        self.v_columns, self.v, self.m, self.y_columns, self.y, *self.epilogue = kernel.stages
        self.lanes = target.lanes("f32")
        self.size = self.v.extents[1] - 2
        batch, blocks, height, width, block = self.y.extents
        v, wide = self.v.extents, self.m.extents[-3]
        groups = v[0] // self.m.extents[-2]
        work = problem(self.size, batch, (height, width), (v[0], v[-1]), (blocks, block), wide, self.lanes, groups)
        self.work = work
        self.rows, self.columns = work.tile_rows, work.tile_columns

    def build(self) -> sched.ScheduleOp:
        """The steps, last one first: a producer moves into the loops of its consumer."""
        block = self._block()
        if self.y.symbolic:
            self._symbolic(self.work.best_rows(self.target, self.threads))
        elif block.whole and (group := self._channels_of_a_tile()):
            self._by_channels(group)
        elif block.whole:
            for top in self._three_passes():
                self._parallel(top)
        else:
            self._blocked(block)
        return self.s.finish()

    def _block(self) -> Block:
        """The block of tiles that the knob says, rows and columns; (0, 0) is the whole picture."""
        best = self.work.best(self.target, self.threads)[1]
        if self.y.symbolic:
            return best
        ways: dict[tuple[int, ...], Block] = {
            (0, 0) if one.whole else (one.rows, one.columns): one for one in self.work.blocks()
        }
        default = (0, 0) if best.whole else (best.rows, best.columns)
        return {**ways, default: best}[self.s.choose("tiles", tuple(ways), default)]

    def _register_tile(self, count: int, blocks: int) -> tuple[int, int]:
        """(Winograd tiles, blocks of channels) of the product's register tile; at most `blocks` blocks of one group."""
        unit, each = -(-self.m.extents[-3] // self.lanes), self.m.extents[0] // self.work.groups
        blocks = min(blocks, each)
        tile = register_tile(count, unit * blocks, self.target, unit=unit)
        rows = self.s.choose("tile_rows", (AUTO, *TRIED_ROWS), AUTO)
        tried = (n for n in TRIED_COLUMNS if n <= each and (self.work.groups == 1 or each % n == 0))
        taken = min(self.s.choose("tile_columns", (AUTO, *tried), AUTO) or max(1, tile.vectors // unit), blocks)
        if self.work.groups > 1:
            taken = max(n for n in divisors(blocks) if n <= taken)
        return min(rows, count) or tile.rows, taken

    def _parallel(self, loop: SSAValue) -> None:
        if self.threads > 1:
            self.s.parallel(loop)

    def _split(self, loop: SSAValue, extent: int, size: int) -> tuple[list[SSAValue], SSAValue]:
        """([outer], inner); no outer loop where one piece covers the axis."""
        if size >= extent:
            return [], loop
        outer, inner = self.s.split(loop, [None, size])
        return [outer], inner

    def _channels_of_a_tile(self) -> int:
        """Blocks of output channels of the product's register tile; 0 where its results are computed as a whole."""
        blocks, width = self.m.extents[0], self.m.extents[4]
        if self.threads > 1 or width != self.y.extents[4]:
            return 0
        _, group = self._register_tile(self.v.extents[3], blocks)
        return group if group < blocks else 0

    def _by_channels(self, group: int) -> None:
        """The input transform of the picture; then the product and the output transform of `group` blocks at a time."""
        s = self.s
        n, oc, oh, ow, oi = s.loops(s.block(self.y.name), 5)
        top, oc = s.split(oc, [None, group])
        th, r = self._split(oh, self.y.extents[2], self.size)
        tw, c = self._split(ow, self.y.extents[3], self.size)
        s.reorder(top, n, oc, *th, *tw, r, c, oi)
        self._output_transform([oc, *th, *tw][-1], [r, c, oi])
        made = s.block(self.m.name)
        s.compute_at(made, top)
        s.set_scope(made, "local")
        a, b, *_ = self._product(self.v.extents[3], top, group)
        self._stream(top, a, b)
        self._input_tiles(self._input_loops(None), self.v.extents[3])

    def _three_passes(self) -> list[SSAValue]:
        """One parallel pass over the picture for each step; the parallel loops."""
        s = self.s
        n, oc, oh, ow, oi = s.loops(s.block(self.y.name), 5)
        th, r = self._split(oh, self.y.extents[2], self.size)
        tw, c = self._split(ow, self.y.extents[3], self.size)
        s.reorder(n, oc, *th, *tw, r, c, oi)
        top = s.fuse(n, oc, *th)
        self._output_transform(tw[0] if tw else top, [r, c, oi])
        a, b, *columns = self._product(self.v.extents[3], None)
        self._stream(*columns)
        ic, *rest = self._input_tiles(self._input_loops(None), self.v.extents[3])
        return [top, s.fuse(a, b), s.fuse(ic, *rest)]

    def _blocked(self, block: Block) -> None:
        """All steps in one parallel loop over blocks of tiles: several rows of tiles, or a part of one row."""
        s, (height, width) = self.s, self.y.extents[2:4]
        n, oc, oh, ow, oi = s.loops(s.block(self.y.name), 5)
        rows, columns = block.rows * self.size, block.columns * self.size
        above, oh = self._split(oh, height, rows)
        left, ow = self._split(ow, width, columns)
        th, r = self._split(oh, min(rows, height), self.size)
        tw, c = self._split(ow, min(columns, width), self.size)
        s.reorder(n, *above, *left, oc, *th, *tw, r, c, oi)
        top = s.fuse(n, *above, *left)
        self._output_transform([oc, *th, *tw][-1], [r, c, oi])
        for st in (self.m, self.v):
            made = s.block(st.name)
            s.compute_at(made, top)
            s.set_scope(made, "local")
        loops = self._input_loops(top)
        # before the splits below: the legality check cannot prove that their last pieces stay in the block
        self._parallel(top)
        self._stream(*self._product(block.rows * block.columns, top))
        self._input_tiles(loops, block.rows * block.columns)

    def _symbolic(self, rows: int) -> None:
        """All steps in one parallel loop over blocks of `rows` rows of tiles, for a picture of symbolic sizes."""
        s, m = self.s, self.size
        loops = s.loops(s.block(self.y.name), 5)
        s.symbolic |= {loops[k] for k in self.y.symbolic}
        n, oc, oh, ow, oi = loops
        above, oh = s.split(oh, [None, rows * m])
        th, r = s.split(oh, [None, m])
        tw, c = s.split(ow, [None, m])
        s.reorder(n, above, oc, th, tw, r, c, oi)
        grid = s.grid([n, above])
        top = grid[-1]
        self._output_transform(tw, [r, c, oi])
        for st in (self.m, self.v):
            made = s.block(st.name)
            s.compute_at(made, top)
            s.set_scope(made, "local")
        parallelize(
            s, grid, self.y, self.work.cycles(Block(rows, self.columns), self.target, 1), self.target, self.threads
        )
        oc, a, b, n, th, tw, oi, ic, ii = s.loops(s.block(self.m.name), 9, under=top)
        blocks = self.m.extents[0]
        rows, taken = self._register_tile(self.columns, blocks)
        oc_outer, oc = self._split(oc, blocks, taken)
        tw_outer, tw = s.split(tw, [None, rows])
        group = [oc] if blocks > 1 else []
        s.reorder(a, b, *(oc_outer if group else [oc]), n, th, tw_outer, ic, ii, tw, *group, oi)
        s.vectorize(tw, *group, oi)
        s.decompose_reduction(s.block(self.m.name), ic)
        ic, a, b, n, th, tw, ii = s.loops(s.block(self.v.name), 7, under=top)
        s.reorder(ic, n, th, tw, a, b, ii)
        self._columns(self.v_columns, tw)
        s.vectorize(a, b, ii)

    def _output_transform(self, at: SSAValue, tile: list[SSAValue]) -> None:
        """The output transform and the epilogue of one tile."""
        s = self.s
        for st in self.epilogue:
            block = s.block(st.name)
            s.reverse_compute_at(block, at)
            self._whole_tile(s.loops(block, st.num_spatial, under=at)[2:])
        self._columns(self.y_columns, at)
        self._whole_tile(tile)

    def _whole_tile(self, tile: list[SSAValue]) -> None:
        """
        Rows, columns and channels of a tile as one vector; the last tile of the picture is computed whole.

        Versions of it would each hold the transform once more.
        """
        for loop in tile[:2] if not self.y.symbolic else ():
            self.s.pragma(loop, "tail", 1)
        self.s.vectorize(*tile)

    def _columns(self, st: Stage, at: SSAValue) -> None:
        """The transform of one tile's columns, which stays in registers."""
        s, made = self.s, self.s.block(st.name)
        s.compute_at(made, at)
        c, a, b, *tile, e = s.loops(made, st.num_spatial, under=at)
        s.reorder(c, *tile, a, b, e)
        s.vectorize(a, b, e)

    def _product(self, count: int, under: SSAValue | None, blocks: int = 0) -> list[SSAValue]:
        """m, or `blocks` of its blocks of channels: a matrix product a point of a tile; loops over its weights."""
        s, st = self.s, self.m
        oc, a, b, t, oi, ic, ii = s.loops(s.block(st.name), 7, under=under)
        blocks = blocks or st.extents[0]
        rows, taken = self._register_tile(count, blocks)
        oc_outer, oc = self._split(oc, blocks, taken)
        t_outer, t = self._split(t, count, rows)
        group = [oc] if blocks > 1 else []
        order = [a, b, *(oc_outer if group else [oc])]
        s.reorder(*order, *t_outer, ic, ii, t, *group, oi)
        s.vectorize(t, *group, oi)
        s.decompose_reduction(s.block(st.name), ic)
        return order

    def _stream(self, *loops: SSAValue) -> None:
        """Fetch the weights of the next iteration of nested loops, if they come from beyond L2."""
        size = self.work.weight_bytes
        far = is_far(size, self.target) and gains_by_prefetch(size, self.target)
        for loop in loops if far else ():
            self.s.pragma(loop, "prefetch", 1)

    def _input_loops(self, under: SSAValue | None) -> list[SSAValue]:
        """The loops of v: channels, tiles, and the axes within a tile; v_columns is computed in the loop of tiles."""
        ic, a, b, t, ii = self.s.loops(self.s.block(self.v.name), 5, under=under)
        self.s.reorder(ic, t, a, b, ii)
        self._columns(self.v_columns, t)
        return [ic, t, a, b, ii]

    def _input_tiles(self, loops: list[SSAValue], count: int) -> list[SSAValue]:
        """v: the input transform, a block of channels and a row of tiles at a time; its outer loops."""
        ic, t, *tile = loops
        th, _ = self._split(t, count, self.columns)
        self.s.vectorize(*tile)
        return [ic, *th]
