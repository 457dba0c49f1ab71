"""
Features of scheduled loops, of the same length for every kernel, so that what one task teaches serves another one.

    estimate   the seconds that the analytic model expects: arithmetic, loads, registers and what the caches miss
    loops      for the two blocks that run most: their points, the register tile, what each access loads (Ansor's)
    curve      the bytes that come from beyond a cache of 2^10, 2^12 ... 2^24 bytes, for each of its points
"""

from __future__ import annotations

from math import log2, prod

from mlc.dialects import loop
from mlc.targets.target import Target
from mlc.tuning.tuners.loop_nest import NestAccess, Statement, statements

_BLOCKS = 2
_ACCESSES = 4
_CURVE = tuple(range(10, 25, 2))
"""Logarithms of capacities."""
_SPILL_CYCLES = 2.0
"""A register that is stored and loaded again in a step of the reduction."""
_LOOP_CYCLES = 1.0
"""The end of an iteration of a loop that is not unrolled."""

NAMES: tuple[str, ...] = (
    "estimate",
    *(
        f"block{block}/{name}"
        for block in range(_BLOCKS)
        for name in (
            *("points", "multiplies", "others", "tile", "vectors", "steps", "spills", "carried", "unrolled"),
            *("arithmetic", "loads", "beyond_l1", "beyond_l2"),
            *(f"access{n}/{what}" for n in range(_ACCESSES) for what in ("vectors", "step", "bytes", "reuse")),
            *(f"curve{capacity}" for capacity in _CURVE),
        )
    ),
)
"""The names of the features."""


def loop_features(func: loop.FuncOp, target: Target) -> list[float]:
    """The features of a scheduled kernel in the order of NAMES; the first is the logarithm of the estimate's cycles."""
    found = statements(func)
    rows: list[float] = [log2(1 + sum(cycles(one, target) for one in found))]
    for one in found[:_BLOCKS]:
        rows += _block(one, target)
    return rows + [0.0] * (len(NAMES) - len(rows))


class _Tile:
    """The register tile of a block: what one step of the loops around it does, in native vectors."""

    def __init__(self, statement: Statement, target: Target) -> None:
        self.statement, self.target = statement, target
        self.depth, extents = statement.tile, statement.extents
        self.extents = extents[self.depth :]
        self.steps = prod(extents[: self.depth])
        self.vectors = self._vectors(range(self.depth, len(extents)))
        self.written = max((self.loads(a) for a in statement.accesses if a.is_store), default=0)
        reads = [access for access in statement.accesses if not access.is_store]
        stored = {access.buffer for access in statement.accesses if access.is_store}
        self.reads = [access for access in reads if access.buffer not in stored]
        self.read = sum(self.loads(access) for access in self.reads)
        live = self.written + min((self.loads(a) for a in self.reads), default=0) + 1
        self.spills = max(0, live - target.vector_registers)
        self.carried = self._carried()

    def _vectors(self, loops: range) -> int:
        """Native vectors of a value over some of the tile's loops: the innermost loop fills the lanes."""
        extents = self.statement.extents
        if not loops:
            return 1
        lanes = -(-extents[loops[-1]] // self.target.lanes("f32"))
        return lanes * prod(extents[at] for at in loops[:-1])

    def loads(self, access: NestAccess) -> int:
        """Native vectors, or scalars to broadcast, of an access in a step."""
        extents, last = self.statement.extents, len(self.statement.extents) - 1
        count = prod(extents[at] for at in range(self.depth, last) if access.uses[at])
        if last < self.depth or not access.uses[last]:
            return count
        if access.steps[last] == 1:
            return count * -(-extents[last] // self.target.lanes("f32"))
        return count * extents[last]

    def _carried(self) -> int:
        """The steps through which the tile stays in registers: the innermost serial loops that are reductions."""
        at = self.depth
        while at and self.statement.reduces[at - 1]:
            at -= 1
        return prod(self.statement.extents[at : self.depth])

    @property
    def unrolled(self) -> int:
        """The iterations of the innermost loops that are unrolled."""
        at = self.depth
        while at and self.statement.kinds[at - 1] == "unrolled":
            at -= 1
        return prod(self.statement.extents[at : self.depth])

    @property
    def arithmetic(self) -> float:
        """Cycles of a step's arithmetic, bound by the rate or by the latency of sums."""
        core, one = self.target.core, self.statement
        work = self.vectors * (one.multiplies + one.others) / core.fmas_per_cycle
        return max(work, core.fma_latency_cycles) if self.carried > 1 and one.multiplies else work

    @property
    def loading(self) -> float:
        """Cycles of a step's loads, with those of a tile that is not carried."""
        core = self.target.core
        return (self.read + 2 * self.written / self.carried) / core.loads_per_cycle

    @property
    def cycles(self) -> float:
        """Cycles of a step."""
        end = _LOOP_CYCLES / self.unrolled
        return max(self.arithmetic, self.loading) + _SPILL_CYCLES * self.spills + end


def cycles(statement: Statement, target: Target) -> float:
    """The cycles that the analytic model expects of a block on one core."""
    tile, core = _Tile(statement, target), target.core
    work = tile.steps * (tile.cycles + (core.tile_cycles / tile.carried if tile.carried > 1 else 0.0))
    beyond_l1 = statement.moved(target.l1_bytes) / core.l2_bytes_per_cycle
    beyond_l2 = statement.moved(target.l2_bytes) / core.l3_bytes_per_cycle
    return max(work, beyond_l1) + beyond_l2


def _block(one: Statement, target: Target) -> list[float]:
    tile = _Tile(one, target)
    points = max(1, one.points)
    row = [log2(points), float(one.multiplies), float(one.others), log2(max(1, prod(tile.extents)))]
    row += [log2(max(1, tile.vectors)), log2(max(1, tile.steps)), float(min(tile.spills, 64))]
    row += [log2(max(1, tile.carried)), log2(max(1, tile.unrolled)), log2(1 + tile.arithmetic), log2(1 + tile.loading)]
    row += [log2(1 + one.moved(target.l1_bytes)), log2(1 + one.moved(target.l2_bytes))]
    for access in (*one.accesses, *[None] * _ACCESSES)[:_ACCESSES]:
        row += [0.0] * 4 if access is None else _of_access(access, one, tile)
    return row + [log2(one.moved(2.0**capacity) / points + 2.0**-20) for capacity in _CURVE]


def _of_access(access: NestAccess, one: Statement, tile: _Tile) -> list[float]:
    step = access.steps[-1] if access.steps else 0
    touched = max(1, access.bytes(0))
    reuse = max(1, one.points) / touched
    return [log2(max(1, tile.loads(access))), log2(1 + step), log2(touched), log2(reuse + 2.0**-20)]
