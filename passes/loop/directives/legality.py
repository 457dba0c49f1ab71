"""
Legality checks of directives: each gives the reason why the rewrite is illegal, or None.

The checks rely on the contract of blocks: a spatial point is written once with a value that depends on its axes only,
so that executing it again is harmless; a block with an init region initializes its reduction; combiners commute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, axis_range
from mlc.dialects.walk import walk
from mlc.passes.loop.directives.combine import combiner_of
from mlc.passes.loop.directives.kernel import (
    Kernel,
    blocks_below,
    buffer_name,
    children,
    comes_before,
    is_below,
    name_of,
)
from mlc.passes.loop.index_space.accesses import Access, accesses, blocks_accessing, in_axes
from mlc.passes.loop.index_space.dependence import dependence_equalities, parts_of, recoverable
from mlc.passes.loop.index_space.domain import is_symbol, loops_around
from mlc.passes.loop.index_space.regions import read_region, written_region


def shape_of(buffer: SSAValue) -> tuple[int, ...]:
    """The shape of a buffer; UNBOUNDED for what is not static."""
    return tuple(UNBOUNDED if n < 0 else n for n in loop.buffer_type(buffer).get_shape())


def transformable(f: loop.ForOp, *, serial: bool = True) -> str | None:
    """A loop can be rewritten if it starts at 0, has a static extent, carries no values, and is not marked yet."""
    if f.results:
        return f"expected a loop that carries no values, but got {name_of(f)}"
    if f.lower.terms or f.lower.const or not all(is_symbol(v) for v in f.indices):
        return f"expected a loop from 0 to a static or symbolic extent, but got {name_of(f)}"
    if serial and f.kind.data != "serial":
        return f"expected a serial loop, but {name_of(f)} is {f.kind.data}; mark loops after all splits and fusions"
    return None


def perfectly_nested(chain: Sequence[loop.ForOp]) -> str | None:
    """Each loop holds nothing but the next one."""
    for outer, inner in pairwise(chain):
        for child in children(outer):
            if child is not inner:
                return (
                    f"expected {name_of(inner)} to be all that {name_of(outer)} holds, "
                    f"but {name_of(child)} stands there too"
                )
    return None


def vectorized_inside(chain: Sequence[loop.ForOp]) -> str | None:
    """Vectorized loops are a perfect nest around one block: no other loop stands inside one."""
    for outer, inner in pairwise(chain):
        if outer.kind.data == "vectorized" != inner.kind.data:
            return (
                f"expected vectorized loops around one block, but {name_of(outer)} would hold {name_of(inner)}; "
                "use sched.vectorize behind this directive"
            )
    return None


def nested_chain(loops: Sequence[loop.ForOp]) -> tuple[list[loop.ForOp], str | None]:
    """The loops from the outermost to the innermost of these, which must lie on one path."""
    inner = max(loops, key=lambda f: len(loops_around(f)))
    around = [*loops_around(inner), inner]
    for f in loops:
        if f not in around:
            return [], f"expected loops inside each other, but {name_of(f)} and {name_of(inner)} are not"
    return around[min(around.index(f) for f in loops) :], None


def reduces(kernel: Kernel, f: loop.ForOp, block: loop.BlockOp) -> bool:
    """Whether a loop runs along a reduction axis of a block."""
    n = kernel.space.number(f.iv)
    return any(b.uses(n) for b in kernel.bindings(block)[block.num_spatial :])


def spreads(kernel: Kernel, f: loop.ForOp, block: loop.BlockOp) -> bool:
    """Whether a loop runs along a spatial axis of a block."""
    n = kernel.space.number(f.iv)
    return any(b.uses(n) for b in kernel.bindings(block)[: block.num_spatial])


def idempotent(block: loop.BlockOp) -> bool:
    """Whether executing a point of a block again changes nothing: it does not read what it wrote before."""
    if block.has_init:
        return True
    written = {op.buffer for op in walk(block) if isinstance(op, loop.StoreOp)}
    return not any(op.buffer in written for op in walk(block) if isinstance(op, loop.LoadOp | loop.GatherOp))


def self_dependence(kernel: Kernel, block: loop.BlockOp, loops: Sequence[loop.ForOp]) -> str | None:
    """A block may read what it writes only at the point that it writes, as far as it runs along these loops."""
    found = accesses(kernel.space, block)
    around = loops_around(block)
    fixed = kernel.space.numbers_of(around[: min((around.index(f) for f in loops if f in around), default=0)])
    apart = kernel.space.numbers_of(loops)
    for s in found:
        for a in found:
            if not s.is_store or a.buffer is not s.buffer or a.exprs == s.exprs or _never_meet(kernel, s, a, fixed):
                continue
            inner = {d for e in (*s.exprs, *a.exprs) for d in e.dims()} - fixed - apart
            if a.is_store or not _independent_across(kernel, s, a, apart, inner):
                return f"{name_of(block)} depends on other points of itself through %{buffer_name(s.buffer)}"
    return None


def _never_meet(kernel: Kernel, s: Access, a: Access, fixed: set[int]) -> bool:
    """Whether two accesses touch different elements whenever the values `fixed` are the same for both."""
    for e, f in zip(s.exprs, a.exprs, strict=True):
        difference = e - f
        known = all(d in fixed or is_symbol(kernel.space.values[d]) for d in (*e.dims(), *f.dims()))
        if known and difference.is_const and difference.const:
            return True
    return False


def writes_each_once(kernel: Kernel, block: loop.BlockOp, loops: Sequence[loop.ForOp]) -> str | None:
    """No element is written at two points of a block that differ in these loops: the order would matter."""
    fixed = kernel.space.numbers_of(loops_around(block))
    for s in (a for a in accesses(kernel.space, block) if a.is_store):
        ranges = {k: axis_range(n) for k, n in enumerate(block.static_extents)}
        exprs = [e - e.const for e in in_axes(kernel.space, s) if all(d in ranges for d in e.dims())]
        known = parts_of(exprs, ranges)
        if all(recoverable(Index(0, ((k, 1),)), known, ranges) for k in range(block.num_spatial) if ranges[k][1]):
            continue
        inner = {d for e in s.exprs for d in e.dims()} - fixed
        if not _independent_across(kernel, s, s, kernel.space.numbers_of(loops), inner):
            return (
                f"{name_of(block)} writes elements of %{buffer_name(s.buffer)} more than once in "
                f"{', '.join(map(name_of, loops))}, so that order matters"
            )
    return None


def _inner_values(below: Sequence[Access], outside: set[int]) -> set[int]:
    return {d for a in below for e in a.exprs for d in e.dims()} - outside


def reorderable(kernel: Kernel, chain: Sequence[loop.ForOp]) -> str | None:
    """Whether the loops of a perfect nest may be permuted: no dependence between different iterations of them."""
    blocks = blocks_below(chain[-1])
    for block in blocks:
        if (reason := self_dependence(kernel, block, chain) or writes_each_once(kernel, block, chain)) is not None:
            return reason
    if len(blocks) == 1:
        return None
    return _no_flow_between(kernel, blocks, chain, [*loops_around(chain[-1]), chain[-1]])


def _no_flow_between(
    kernel: Kernel, blocks: Sequence[loop.BlockOp], loops: Sequence[loop.ForOp], around: Sequence[loop.ForOp]
) -> str | None:
    """No block reads in one iteration of these loops what another block writes in a different one."""
    apart = kernel.space.numbers_of(loops)
    fixed = kernel.space.numbers_of(around)
    found = [a for b in blocks for a in accesses(kernel.space, b)]
    inner = _inner_values(found, fixed)
    for s in (a for a in found if a.is_store):
        for r in found:
            if r.buffer is not s.buffer or r.is_store or r.block is s.block:
                continue
            if _independent_across(kernel, s, r, apart, inner) or _produced_here(kernel, s, r):
                continue
            return (
                f"{name_of(r.block)} reads of %{buffer_name(s.buffer)} what {name_of(s.block)} writes "
                f"in other iterations of {', '.join(map(name_of, loops))}"
            )
    return None


def _independent_across(kernel: Kernel, s: Access, r: Access, apart: set[int], inner: set[int]) -> bool:
    """Dependence test: whether two accesses touch one element only where all values `apart` are equal."""
    known = dependence_equalities(kernel.space, s, r, apart, inner)
    values = [Index(0, ((n, 1),)) for n in apart if kernel.space.ranges[n][0] != kernel.space.ranges[n][1]]
    return all(recoverable(v, known, kernel.space.ranges) for v in values)


def _produced_here(kernel: Kernel, s: Access, r: Access) -> bool:
    """Whether all that r reads in an iteration of the loops round both is written anew by s in the same one."""
    if s.block in kernel.partial or not (idempotent(s.block) and comes_before(s.block, r.block)):
        return False
    around = loops_around(r.block)
    fixed = kernel.space.numbers_of([f for f in loops_around(s.block) if f in around])
    shape = shape_of(s.buffer)
    wrote = written_region(kernel.space, s, fixed, shape)
    read = read_region(kernel.space, r, fixed, shape)
    return all(w.exact and x.within(w, n) for w, x, n in zip(wrote, read, shape, strict=True))


def parallelizable(kernel: Kernel, f: loop.ForOp) -> str | None:
    """
    The iterations of a loop are independent: it reduces nothing, and no two of them access an element that one writes.

    Parallel loops may stand inside each other where one is all that the other holds.
    """
    if (reason := transformable(f)) is not None:
        return reason
    around = loops_around(f)
    for k, outer in enumerate(around):
        if outer.kind.data == "parallel" and (
            perfectly_nested([*around[k:], f]) or any(between.kind.data != "parallel" for between in around[k:])
        ):
            return f"{name_of(f)} is already inside {name_of(outer)}, which is parallel; use sched.fuse to join them"
    return independent_iterations(kernel, f)


def independent_iterations(kernel: Kernel, f: loop.ForOp) -> str | None:
    """No iteration of a loop reads or overwrites what another one writes."""
    blocks = blocks_below(f)
    for block in blocks:
        if reduces(kernel, f, block):
            return f"{name_of(f)} reduces {name_of(block)}; use sched.rfactor to reduce in parallel"
        if (reason := self_dependence(kernel, block, [f]) or writes_each_once(kernel, block, [f])) is not None:
            return reason
    apart = {kernel.space.number(f.iv)}
    around = [*loops_around(f), f]
    return _no_races(kernel, f, blocks, apart, around) or _no_flow_between(kernel, blocks, [f], around)


def _no_races(
    kernel: Kernel, f: loop.ForOp, blocks: Sequence[loop.BlockOp], apart: set[int], around: Sequence[loop.ForOp]
) -> str | None:
    fixed = kernel.space.numbers_of(around)
    for block in blocks:
        found = accesses(kernel.space, block)
        inner = _inner_values(found, fixed)
        for s in found:
            if is_private(s.buffer):
                if (reason := stays_below(s.buffer, f)) is not None:
                    return reason
            elif (
                s.is_store
                and not idempotent_across_threads(block)
                and not _independent_across(kernel, s, s, apart, inner)
            ):
                return (
                    f"different iterations of {name_of(f)} accumulate {name_of(block)} in the same elements "
                    f"of %{buffer_name(s.buffer)}"
                )
    return None


def idempotent_across_threads(block: loop.BlockOp) -> bool:
    """Whether several threads may execute the same point at once: all store the same value and none reads it."""
    return not block.has_init and idempotent(block)


def is_private(buffer: SSAValue) -> bool:
    """Whether each thread has its own copy of a buffer."""
    return isinstance(buffer.owner, loop.AllocOp) and buffer.owner.scope.data == "local"


def stays_below(buffer: SSAValue, f: loop.ForOp) -> str | None:
    """A buffer that is private to a thread is not accessed outside of its parallel loop."""
    for block in (*blocks_accessing(buffer, stores=True), *blocks_accessing(buffer, stores=False)):
        if not is_below(block, f):
            return (
                f"%{buffer_name(buffer)} is local to a thread of {name_of(f)}, but {name_of(block)} outside "
                'of that loop uses it; use scope "shared"'
            )
    return None


def vectorizable(kernel: Kernel, loops: Sequence[loop.ForOp]) -> str | None:
    """The loops are a perfect nest of static extents, outer to inner, around one block."""
    for f in loops:
        if (reason := transformable(f)) is not None:
            return reason
        if f.extent is None:
            return f"expected loops of static extents, but that of {name_of(f)} is symbolic; use sched.split first"
    chain, reason = nested_chain(loops)
    if reason is not None:
        return reason
    if chain != list(loops):
        got = ", ".join(map(name_of, loops))
        return f"expected loops directly inside each other, outer to inner, but got {got}; use sched.reorder"
    if (reason := perfectly_nested(chain)) is not None:
        return reason
    inside = children(chain[-1])
    if len(inside) != 1 or not isinstance(inside[0], loop.BlockOp):
        what = ", ".join(map(name_of, inside))
        return f"expected one block directly inside {name_of(chain[-1])}, but got {what}"
    if any(isinstance(r.type, VectorType) for op in inside[0].body.block.ops for r in op.results):
        return f"expected a block that works on elements, but {name_of(inside[0])} is tensorized"
    for f in loops:
        if f.extent != 1 and reduces(kernel, f, inside[0]) and combiner_of(inside[0]) is None:
            return (
                f"{name_of(f)} reduces {name_of(inside[0])} by more than one op that commutes, which has no form for "
                "vectors; vectorize a loop along a spatial axis"
            )
    return self_dependence(kernel, inside[0], loops) or writes_each_once(kernel, inside[0], loops)
