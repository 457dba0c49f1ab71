"""loop-unroll: short steps of a reduction in registers are unrolled, so that the loop itself costs little."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, ZERO
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.domain import LazyRanges, bounds_of, loops_around, range_of
from mlc.passes.loop.index_space.expressions import substitute, users
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.tiles.registers import native_vectors, registers_needed
from mlc.support.errors import UserError

OPERATIONS = 30
"""Vector operations of an iteration where no target says more: three steps of a tile of 5x2 vectors."""
MOST_STEPS = 8
"""Steps that one iteration takes, at most."""
MOST_WORK = 0.8
"""The share of a kernel's products whose loops are unrolled, the loops of most products first; last tiles stay."""
SAMPLES = 4096
"""Points, at most, at which the extent of a loop is computed if its bounds depend on other indices."""
UNBOUNDED_TRIPS = 4096
"""The number of iterations that is assumed for a loop whose extent has no upper bound."""


@dataclass(frozen=True)
class UnrollPass(ModulePass):
    """
    A loop that sums products takes several steps in an iteration: as many as have `operations` vector operations.

    `loop.for %k = 0 to 518 iter_args(%s = %zero) { ... %x[%k] ... }` ->
    `loop.for %k = 0 to 172 iter_args { loop.for unrolled %k_i = 0 to 3 iter_args { ... %x[%k * 3 + %k_i] ... } }`, and
    `loop.for unrolled %k = 516 to 518` behind it for the rest. Sums are added in the same order.

    The additions and the branch of a loop take issue slots from its multiplications, most where two threads share a
    core. Only sums of products are unrolled, and not the ones that a matrix unit computes.
    """

    name = "loop-unroll"

    vector_bits: int = 512
    registers: int = 32
    operations: int = OPERATIONS

    def __post_init__(self) -> None:
        if min(self.vector_bits, self.registers, self.operations) < 1:
            raise UserError("expected vector-bits, registers and operations to be positive")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in [func for func in walk(op) if isinstance(func, loop.FuncOp)]:
            self._unroll_in(func)

    def _unroll_in(self, func: loop.FuncOp) -> None:
        lanes = self.vector_bits // 32
        sums = {f: _operations(f, lanes) for f in walk(func) if isinstance(f, loop.ForOp) and _sums_products(f)}
        work = {f: count * prod(map(_trips, (*loops_around(f), f))) for f, count in sums.items()}
        left = sum(work.values()) * MOST_WORK
        for f in sorted(sums, key=lambda f: -work[f]):
            if left <= 0:
                break
            left -= work[f]
            steps = self._steps(f, sums[f])
            if steps == f.extent != 1:
                f.kind = StringAttr("unrolled")
            elif steps > 1:
                unroll(f, steps)

    def _steps(self, f: loop.ForOp, count: int) -> int:
        """The steps of `count` operations that an iteration should take: 1 where the loop stays, all if it is short."""
        if _fewest_trips(f) < 0:
            return 1  # the rest of a negative number of iterations would be iterations
        casts = sum(isinstance(op, loop.CastOp | loop.ContractOp) for op in f.body.block.ops)
        if registers_needed(f, self.vector_bits // 32) + casts >= self.registers:
            return 1  # vectors of the next step are loaded while this one is added
        steps = min(ceil(self.operations / count), MOST_STEPS) if count else 1
        if steps == 1 or f.extent is None:
            return steps
        if f.extent <= MOST_STEPS:
            return f.extent
        near = (*range(steps, min(2 * steps, MOST_STEPS + 1)), *range(steps - 1, (3 * steps - 1) // 4, -1))
        return next((n for n in near if f.extent % n == 0), steps)


def _operations(f: loop.ForOp, lanes: int) -> int:
    """The vector operations of a step of a loop."""
    computing = [op for op in f.body.block.ops if not isinstance(op, loop.LoadOp | loop.BroadcastOp)]
    return sum(native_vectors(t, lanes) for op in computing for t in op.result_types)


def _trips(f: loop.ForOp) -> float:
    """The iterations of a loop, in the mean over the values of the indices in its bounds; an unbounded one has most."""
    extent = f.upper - f.lower
    values = {d: range_of(f.indices[d]) for d in extent.dims()}
    if any(last >= UNBOUNDED for _, last in values.values()):
        return min(bounds_of(extent, LazyRanges(values.__getitem__))[1], UNBOUNDED_TRIPS)
    most = int(SAMPLES ** (1 / max(len(values), 1)))
    samples = [np.linspace(*ends, min(ends[1] - ends[0] + 1, most), dtype=int) for ends in values.values()]
    return float(np.maximum(extent.evaluate(dict(zip(values, np.ix_(*samples), strict=True))), 0).mean())


def _fewest_trips(f: loop.ForOp) -> int:
    """The least distance between the bounds of a loop; below 0 where the upper one may be the smaller one."""
    return bounds_of(f.upper - f.lower, LazyRanges(lambda d: range_of(f.indices[d])))[0]


def _sums_products(f: loop.ForOp) -> bool:
    """Whether vector units sum products in a serial loop, and nothing there takes long or slides."""
    body = list(f.body.block.ops)
    if f.kind.data != "serial" or not f.results or any(op.regions or op.name.startswith("math.") for op in body):
        return False
    products = [op for op in body if isinstance(op, loop.FmaOp | loop.ContractOp)]
    if not products or any(isinstance(op, loop.ContractOp) and op.steps is not None for op in products):
        return False
    return not any(isinstance(op, loop.LoadOp) and _has_rows(op) for op in body)


def _has_rows(load: loop.LoadOp) -> bool:
    """Whether a load reads several rows of vectors, as a sliding window does: the next step reads most of them, too."""
    shape = loop.shape_of(load.result.type)
    return len(shape) > 1 and shape[0] > 1 and shape[-1] > 1 and prod(shape) == prod(load.tile_sizes)


def unroll(f: loop.ForOp, steps: int) -> None:
    """
    Let each iteration of a loop take several steps; a loop over those that are left follows it.

    The upper bound must not be less than the lower one.
    """
    space, parent = IndexSpace(), f.parent
    assert parent is not None
    lower, upper = space.exprs((f.lower, f.upper), f.indices)
    whole = (upper - lower).floordiv(steps, space.ranges)
    name, bounds = f.iv.name_hint or "k", tuple(space.values)
    outer = loop.ForOp.make(whole, operands=bounds, iter_args=f.iter_args, name=name)
    inner = loop.ForOp.make(steps, kind="unrolled", iter_args=outer.carried, name=f"{name}_i")
    found, left = outer, upper - lower - whole * steps
    if left != ZERO:
        kind = "unrolled" if left.is_const else "serial"
        found = loop.ForOp.make(
            upper, f.body.clone(), lower=lower + whole * steps, operands=bounds, kind=kind, iter_args=outer.results
        )
    for op in (outer, inner, found):
        op.location = f.location
    for op in list(f.body.block.ops):
        op.detach()
        inner.body.block.add_op(op)
    outer.body.block.add_ops([inner, loop.YieldOp.create(operands=inner.results)])
    outer.attributes |= f.attributes
    parent.insert_op_before(outer, f)
    if found is not outer:
        parent.insert_op_before(found, f)
    substitute(space, users([f.iv]), {f.iv: lower + space.dim(outer.iv) * steps + space.dim(inner.iv)})
    for old, new in zip((*f.carried, *f.results), (*inner.carried, *found.results), strict=True):
        old.replace_all_uses_with(new)
    f.detach()
    f.erase()
