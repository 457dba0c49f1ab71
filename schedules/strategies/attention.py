"""
Attention: two products with a softmax between them, a block of queries at a time.

    parallel(batch, heads, part of the queries)
        k, v                         copied, where their rows are far apart and many queries pass over them;
                                     k in panels, where it has a row for each channel
        block of queries
            q^T                      so that queries are lanes
            scores | pointwise       keys in rows, queries in lanes: a strip [keys, queries] in the thread's scratch
            max, exp, sum, scale     over the strip: the keys go down, so no lane waits for another
            mix | scale, transpose   queries in rows, broadcast from the strip; columns of v in lanes
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from xdsl.ir import SSAValue

from mlc.dialects import sched
from mlc.dialects.index import tile
from mlc.schedules.analysis import KernelInfo, Read, Stage
from mlc.schedules.builder import ScheduleBuilder
from mlc.schedules.knobs import AUTO, blocks, sizes
from mlc.schedules.parallel import parallelize
from mlc.schedules.registry import strategy
from mlc.support.alignment import LINE_BYTES
from mlc.targets.cost.attention import (
    band_block,
    open_query_block,
    parts_of_a_head,
    query_block,
    shared_query_block,
)
from mlc.targets.cost.caches import FLOAT_BYTES, streams
from mlc.targets.cost.threads import balance
from mlc.targets.cost.thresholds import (
    COPIED_QUERIES,
    GOOD_BALANCE,
    LEAST_KEYS,
    POINTWISE_VECTORS,
    STRIP_KEYS,
)
from mlc.targets.cost.tiles import divisors, even_split, register_tile, step_cycles
from mlc.targets.target import Target

TRIED_VECTORS = 8
"""Vectors of a block of queries that tuning tries, at most."""
TRIED_ROWS = 32
"""Queries of a register tile of the second product that tuning tries, at most."""
TRIED_KEYS = (64, 128, 256, 512)
"""Keys of a block of the second product that tuning tries."""
TRIED_SCORE_ROWS = (4, 6, 8, 12, 14, 24)
"""Keys of a register tile of the scores that tuning tries."""


@dataclass(frozen=True)
class AttentionStages:
    """The stages and operands of an attention kernel."""

    queries: Stage | None
    """The queries in whole blocks (te-pad-queries), where their number is open."""
    scores: Stage
    between: list[Stage]
    """Everything from the scores to the second product."""
    mix: Stage
    after: list[Stage]
    """Pointwise stages that move the result's axes; the last one gives the output."""
    query: Read
    key: Read
    value: Read

    @property
    def rank(self) -> int:
        """The rank of the scores: batch axes, queries, keys."""
        return self.scores.num_spatial


def parts_of(kernel: KernelInfo) -> AttentionStages | None:
    """The parts of a kernel that is an attention; None of any other."""
    products = [st for st in kernel.stages if st.factors is not None]
    if len(products) != 2 or len(kernel.outputs) != 1:
        return None
    scores, mix = products
    rank, front = scores.num_spatial, kernel.before(scores)
    if front != (kernel.producers(scores) if len(front) == 1 else []):
        return None
    if rank < 2 or mix.num_spatial != rank or len(mix.reduce) != 1 or len(scores.reduce) != 1:
        return None
    between = [st for st in kernel.after(scores) if st in kernel.before(mix)]
    outer = scores.extents[: rank - 1]
    if any(list(st.extents[: rank - 1]) != list(outer) for st in (*between, mix)) or not between:
        return None
    assert scores.factors is not None
    assert mix.factors is not None
    query, key = _by_use(scores.factors, rank - 2)
    weights, value = _by_use(mix.factors, rank - 2)
    if query is None or weights is None or not any(weights.tensor in st.results for st in between):
        return None
    if any(r.tensor in kernel.by_result for r in (key, value)) or query.uses(rank - 1) or key.uses(rank - 2):
        return None
    if (query.tensor in kernel.by_result) != bool(front) or bool(front) != ((rank - 2) in scores.symbolic):
        return None
    if value.uses(rank - 2) or value.step(rank - 1) != 1:
        return None
    after = kernel.after(mix)
    if any(st.is_reduction or len(st.extents) != rank for st in after) or len(after) > 1:
        return None
    if front and not after:
        return None
    return AttentionStages(front[0] if front else None, scores, between, mix, after, query, key, value)


def _by_use(factors: tuple[Read, Read], axis: int) -> tuple[Read | None, Read]:
    """(the factor that an axis moves through, the other one)."""
    first, second = factors
    if first.uses(axis) == second.uses(axis):
        return None, second
    return (first, second) if first.uses(axis) else (second, first)


@strategy(family="contraction", priority=70)
def attention(kernel: KernelInfo, target: Target, threads: int) -> sched.ScheduleOp | None:
    """Kernels that graph-fuse-ops made of an attention."""
    parts = parts_of(kernel)
    return AttentionSchedule(kernel, parts, target, threads).build() if parts is not None else None


class AttentionSchedule:
    """Writes the schedule of one kernel."""

    def __init__(self, kernel: KernelInfo, parts: AttentionStages, target: Target, threads: int) -> None:
        self.kernel, self.parts, self.target, self.threads = kernel, parts, target, threads
        self.s = ScheduleBuilder(kernel.name)
        self.width = target.lanes("f32")
        self.keys = parts.scores.extents[parts.rank - 1]
        self.queries = parts.scores.extents[parts.rank - 2]
        self.open = self.parts.queries is not None
        """Whether the number of queries is open; then stages compute whole blocks, and the last one stops in time."""
        reductions = [st for st in parts.between if st.is_reduction]
        self.masked = any(read.mask for st in (*reductions, parts.mix) for read in st.reads)
        self.block = self.block_of_queries()
        whole = query_block(self.queries, self.keys, target, band=True)
        self.band = band_block(self.keys, whole, target) if self.masked else None
        """The keys that the masks take or leave together; None without masks."""

    def block_of_queries(self) -> int:
        """The queries of a block: its strips fit the planned share of L2."""
        if self.open:
            return open_query_block(self.target)
        block = query_block(self.queries, self.keys, self.target, band=self.masked)
        if not self.masked:
            block = shared_query_block(self.queries, self.heads, block, self.threads, self.target)
        tried = sizes(self.queries, block, TRIED_VECTORS * self.width, self.width)
        if self.masked:  # the masks are over blocks of this size
            tried = tuple(n for n in tried if block % n == 0)
        return min(self.queries, self.s.choose("queries", tried, block))

    @property
    def heads(self) -> int:
        """The heads of all batches."""
        return prod(self.parts.scores.extents[: self.parts.rank - 2])

    def parts_of_queries(self) -> int:
        """The number of tasks for the queries of one head that balances the threads."""
        return parts_of_a_head(self.heads, ceil(self.queries / self.block), self.threads)

    @property
    def deals_heads(self) -> bool:
        """Whether heads alone keep the threads busy, where the number of queries is open."""
        return balance(self.heads, self.threads) >= GOOD_BALANCE

    def build(self) -> sched.ScheduleOp:
        """From the last stage to the first: a producer moves into the block of its consumer."""
        s, p = self.s, self.parts
        top, row = self.mix()
        for st in reversed(p.between):
            block = s.block(st.name)
            s.compute_at(block, row)
            self.strip(st, block)
        self.scores(row)
        for st in self.between_passes():
            self.one_pass(st, self.loops(st, row), row)
        for stage, read in ((p.scores, p.key), (p.mix, p.value)):
            if self.worth_copying(read):
                self.copy(stage, read, top)
        if self.worth_packing():
            self.pack_keys(top)
        if p.mix.symbolic:
            step = register_tile(self.block, ceil(p.mix.extents[p.rank - 1] / self.width), self.target)
            cycles = p.mix.points * step_cycles(step.rows, step.vectors, self.target.core)
            cycles /= step.rows * step.vectors * self.width
            parallelize(s, self.tasks, p.mix, cycles, self.target, self.threads)
        elif self.threads > 1:
            s.parallel(top)
        return s.finish()

    def mix(self) -> tuple[SSAValue, SSAValue]:
        """The second product: the loops over tasks and over blocks of queries, and in them a register-tiled nest."""
        s, p = self.s, self.parts
        st, n = p.mix, p.rank
        *outer, i, d, j = self.loops(st)
        lanes = st.extents[n - 1]
        size = register_tile(self.block, ceil(lanes / self.width), self.target)
        most = self.s.choose("mix_rows", blocks(TRIED_ROWS), AUTO) or size.rows
        rows = max(r for r in divisors(self.block) if r <= most)
        row, i = self.split(i, self.queries, self.block)
        if not outer and not row:  # one head of one block is one task, whose loop the other stages move into
            first, i = s.split(i, [1, None])
            row = [first]
        i_tile, i = self.split(i, self.block, rows)
        part: list[SSAValue] = []
        if self.open and not self.deals_heads:
            part, row = row, []
        elif row and not self.open and (parts := self.parts_of_queries()) > 1:
            if self.band and self.queries % (parts * self.block) == 0:  # later queries see more keys: every n-th block
                rest, first = s.split(row[0], [None, parts])
            else:
                first, rest = s.split(row[0], [parts, None])
            part, row = [first], [rest]
        d_tile, d = self.split(d, lanes, size.vectors * self.width)
        # a block of v stays in L1 while all rows pass over it; the sums wait in the thread's scratch
        near = self.target.l1_bytes // (2 * FLOAT_BYTES * lanes)  # the number of keys whose rows of v fill half of L1
        tried = (AUTO, *(n for n in TRIED_KEYS if n < self.keys and not self.band))
        keys = self.s.choose("mix_keys", tried, AUTO) or self.band or even_split(self.keys, max(LEAST_KEYS, near))
        j_block, j = ([], j) if j in s.symbolic else self.split(j, self.keys, keys)
        self.clip(j_block)
        grid, tiles = [*outer, *part], [*d_tile, *i_tile]
        s.reorder(*grid, *row, *j_block, *tiles, j, i, d)
        self.tasks = s.grid(grid) if grid else row
        top = self.tasks[-1]
        within = row[0] if row else top
        at = within if j_block else [within, *tiles][-1]
        for after in p.after:
            self.finish(after, within if self.open else at, blocked=self.open or bool(j_block))
        self.accumulate(st, (j_block or [j])[0], [i, d], at, len(tiles) + 2 if j_block else None)
        return top, within

    def loops(self, st: Stage, under: SSAValue | None = None) -> list[SSAValue]:
        """The loops of a stage; under a loop over blocks of queries, those over queries have the size of a block."""
        loops = self.s.loops(self.s.block(st.name), len(st.extents), under=under)
        block = self.parts.rank - 2 if under is not None else None
        self.s.symbolic |= {loops[k] for k in st.symbolic if k != block}
        return loops

    def finish(self, after: Stage, at: SSAValue, blocked: bool) -> None:
        """Attach the stage after the second product: to its register tile, or to the whole block of queries."""
        s, n = self.s, self.parts.rank
        block = s.block(after.name)
        s.reverse_compute_at(block, at)
        loops = s.loops(block, n, under=at)
        order = [self.axis_of(after, k) for k in range(n)]
        *outer, i, d = (loops[k] for k in order)
        s.reorder(*outer, i, d)
        if not blocked:
            s.vectorize(i, d)
            return
        _, d = self.split(d, self.parts.mix.extents[n - 1], POINTWISE_VECTORS * self.width)
        s.vectorize(d)

    def axis_of(self, after: Stage, k: int) -> int:
        """The axis of a stage behind the product that moves along axis k of the product."""
        mixed = next(r for r in after.reads if r.tensor in self.parts.mix.results)
        expr = mixed.exprs[k]
        return next((a for a in after.spatial if expr.uses(a)), k)

    def scores(self, top: SSAValue) -> None:
        """The first product into the strip, with the pointwise stage behind it while the tile is in registers."""
        s, p = self.s, self.parts
        st, n = p.scores, p.rank
        block = s.block(st.name)
        s.compute_at(block, top)
        self.strip(st, block)
        size, rows = self.score_tile()
        *_, i, j, d = self.loops(st, top)
        i_tile, i = self.split(i, self.block, size)
        j_tile, j = self.split(j, self.keys, rows)
        self.clip(j_tile)
        s.reorder(*i_tile, *j_tile, d, j, i)
        at = [top, *i_tile, *j_tile][-1]
        for follower in self.followers():
            other = s.block(follower.name)
            s.reverse_compute_at(other, at)
            *_, fi, fj = s.loops(other, n, under=at)
            s.reorder(fj, fi)
            s.vectorize(fj, fi)
        if p.queries is not None:
            self.hold_queries(p.queries, top)
        else:
            self.pack_queries(block, top)
        self.accumulate(st, d, [j, i], at, n if at is top else None)

    def score_tile(self) -> tuple[int, int]:
        """The queries and the keys of a register tile of the scores."""
        size = register_tile(self.keys, ceil(self.block / self.width), self.target)
        tried = [n for n in TRIED_SCORE_ROWS if n < self.keys and (self.band or n) % n == 0]
        return size.vectors * self.width, self.s.choose("score_rows", (AUTO, *tried), AUTO) or size.rows

    def pack_queries(self, block: SSAValue, top: SSAValue) -> None:
        """The block's queries with the queries last."""
        s, p = self.s, self.parts
        copy = s.cache_read(block, p.scores.buffer_number(p.query.tensor))
        s.compute_at(copy, top)
        rank = len(p.query.shape)
        along = next(k for k, e in enumerate(p.query.exprs) if e.uses(p.rank - 2))
        s.transform_layout(copy, [tile(k) for k in range(rank) if k != along] + [tile(along)])
        loops = s.loops(copy, rank, under=top)
        *others, channel, lanes = *(loops[k] for k in range(rank) if k != along), loops[along]
        s.reorder(*others, channel, lanes)
        self.turn(channel, lanes, p.query.shape[-1] if along < rank - 1 else 1)

    def turn(self, channel: SSAValue, lanes: SSAValue, channels: int) -> None:
        """Copy queries in squares of vectors along the channels, which are transposed in registers."""
        if channels % self.width == 0:
            _, channel = self.split(channel, channels, self.width)
            self.s.vectorize(channel, lanes)
        else:
            self.s.vectorize(lanes)

    def hold_queries(self, queries: Stage, top: SSAValue) -> None:
        """The block's queries, which stand next to each other."""
        s = self.s
        block = s.block(queries.name)
        s.compute_at(block, top)
        s.set_scope(block, "local")
        *_, channel, lanes = s.loops(block, queries.num_spatial, under=top)
        self.turn(channel, lanes, queries.extents[-2])

    def worth_copying(self, read: Read) -> bool:
        """Whether the rows of keys or values are strided, so that they compete for a few cache sets."""
        apart = any(n > 1 for n in read.shape[read.shape.index(self.keys) + 1 : -1])
        if self.open:
            return apart and self.deals_heads and self.queries >= COPIED_QUERIES
        return apart and self.queries_of_a_task >= COPIED_QUERIES

    @property
    def queries_of_a_task(self) -> int:
        """The queries that share a copy of keys or values."""
        return ceil(self.queries / self.parts_of_queries())

    def worth_packing(self) -> bool:
        """Whether keys lie in a row for each channel, which push each other out of L1, and many queries read them."""
        st, key = self.parts.scores, self.parts.key
        if st.symbolic or self.worth_copying(key) or not all(e.is_affine for e in key.exprs):
            return False
        along, apart = (key.step(axis) for axis in (self.parts.rank - 1, st.reduce[0]))
        held = streams(FLOAT_BYTES * (apart or 0), self.target)
        return along == 1 and held < st.extents[-1] and self.queries_of_a_task >= COPIED_QUERIES

    def pack_keys(self, top: SSAValue) -> None:
        """A copy of one head's keys in panels of register tiles: `k[d, j] -> k'[j floordiv 16, d, j mod 16]`."""
        s, st, key = self.s, self.parts.scores, self.parts.key
        _, rows = self.score_tile()
        panel = rows * max(1, LINE_BYTES // FLOAT_BYTES // rows)
        copy = s.cache_read(s.block(st.name), st.buffer_number(key.tensor))
        s.compute_at(copy, top)
        across, along = (
            next(n for n, e in enumerate(key.exprs) if e.uses(axis)) for axis in (self.parts.rank - 1, st.reduce[0])
        )
        loops = s.loops(copy, len(key.shape), under=top)
        others = [n for n in range(len(key.shape)) if n not in (across, along)]
        outer, lanes = self.split(loops[across], self.keys, panel)
        s.reorder(*(loops[n] for n in others), *outer, loops[along], lanes)
        s.vectorize(lanes)
        inner = [tile(across).floordiv(panel), tile(along), tile(across).mod(panel)]
        s.transform_layout(copy, [*(tile(n) for n in others), *inner])

    def copy(self, stage: Stage, read: Read, top: SSAValue) -> None:
        """A contiguous copy of one head's keys or values."""
        s = self.s
        copy = s.cache_read(s.block(stage.name), stage.buffer_number(read.tensor))
        s.compute_at(copy, top)
        s.vectorize(s.loops(copy, len(read.shape), under=top)[-1])

    def followers(self) -> list[Stage]:
        """The pointwise stage that alone reads the scores."""
        first = self.parts.between[0]
        alone = self.kernel.consumers(self.parts.scores) == [first]
        return [first] if alone and not first.is_reduction and first.num_spatial == self.parts.rank else []

    def between_passes(self) -> list[Stage]:
        """The stages that pass over the strip, or over one value for each query."""
        return [st for st in self.parts.between if st not in self.followers()]

    def strip(self, st: Stage, block: SSAValue) -> None:
        """Give a stage's result the layout [keys, queries], in the thread's scratch."""
        n = self.parts.rank
        if st.num_spatial == n:
            self.s.transform_layout(block, [*(tile(k) for k in range(n - 2)), tile(n - 1), tile(n - 2)])
        self.s.set_scope(block, "local")

    def one_pass(self, st: Stage, loops: list[SSAValue], top: SSAValue) -> None:
        """Schedule one pass over the strip: a loop over the keys, the queries in lanes."""
        s, n = self.s, self.parts.rank
        i = loops[n - 2]
        if len(st.extents) < n:
            s.vectorize(i)
            return
        j = loops[n - 1]
        s.reorder(j, i)
        if st.is_reduction:
            self.clip([j])
            self.accumulate(st, j, [i], top, n - 1)
            return
        if j in s.symbolic:
            s.vectorize(i)
            return
        j_block, j = self.split(j, self.keys, STRIP_KEYS)
        self.clip(j_block)
        s.vectorize(j, i)

    def accumulate(
        self, st: Stage, reduce: SSAValue, tiles: list[SSAValue], at: SSAValue, around: int | None = None
    ) -> None:
        """Initialize a reduction before its loop, and vectorize the tile; the init has `around` loops under `at`."""
        s = self.s
        init, _ = s.decompose_reduction(s.block(st.name), reduce)
        s.vectorize(*tiles)
        s.vectorize(*s.loops(init, around or len(tiles), under=at)[-len(tiles) :])

    def clip(self, keys: list[SSAValue]) -> None:
        """Leave out the keys of a loop that a mask excludes."""
        for loop in keys if self.band else ():
            self.s.pragma(loop, "band", 1)

    def split(self, loop: SSAValue, extent: int, size: int) -> tuple[list[SSAValue], SSAValue]:
        """([outer], inner); no outer loop where one piece covers the axis."""
        if size >= extent and loop not in self.s.symbolic:
            return [], loop
        outer, inner = self.s.split(loop, [None, size])
        return [outer], inner
