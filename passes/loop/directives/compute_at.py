"""Directives that move a block into a loop of its consumers or of its producers: compute_at, reverse_compute_at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import UNBOUNDED, ZERO, Div, Index, const, dim
from mlc.dialects.walk import walk
from mlc.passes.loop.directives.kernel import (
    Kernel,
    body_of,
    buffer_name,
    comes_before,
    insert_after,
    insert_before,
    insert_last,
    is_below,
    make_nest,
    name_of,
)
from mlc.passes.loop.directives.legality import idempotent, shape_of
from mlc.passes.loop.index_space.accesses import Access, accesses, blocks_accessing, in_axes
from mlc.passes.loop.index_space.domain import loops_around
from mlc.passes.loop.index_space.regions import Interval, interval_of, read_region, whole, written_region

Box = dict[int, Interval]
_UNBOUNDED_EXTENT = UNBOUNDED >> 10
"""An interval of at least this extent stands for a whole symbolic axis."""


# --- axes from the dimensions of a buffer ------------------------------------------------------------------------


def solve_axes(exprs: Sequence[Index], region: Sequence[Interval], extents: Sequence[int]) -> Box:
    """
    The intervals of axes for which the subscripts of an access stay within a region, dimension by dimension.

    Solves `axis + constant`, and the pair `axis floordiv n`, `axis mod n`; other axes are not restricted.
    """
    box: Box = {}
    for e, s in zip(exprs, region, strict=True):
        axis = single(e)
        if axis is not None and axis < len(extents):
            box[axis] = s.shift(-e.const)
    for axis, extent in enumerate(extents):
        if axis in box:
            continue
        for e, s in zip(exprs, region, strict=True):
            by = _divided(e, axis)
            if by is None:
                continue
            low = next((t for f, t in zip(exprs, region, strict=True) if f == dim(axis).mod(by)), whole(by))
            if s.extent == 1:
                box[axis] = Interval(s.base * by + low.base, low.extent, s.exact and low.exact)
            else:
                box[axis] = Interval(s.base * by, s.extent * by, s.exact and low.extent >= by)
        if axis in box and box[axis].extent >= extent:
            del box[axis]
    return box


def single(e: Index) -> int | None:
    """The axis of an expression `axis + constant`."""
    if len(e.terms) == 1 and e.terms[0][1] == 1 and isinstance(e.terms[0][0], int):
        return e.terms[0][0]
    return None


def _divided(e: Index, axis: int) -> int | None:
    if len(e.terms) != 1 or e.const:
        return None
    term, c = e.terms[0]
    if isinstance(term, Div) and not term.is_mod and c == 1 and term.expr == dim(axis):
        return term.by
    return None


def place(kernel: Kernel, block: loop.BlockOp, box: Mapping[int, Interval]) -> Operation:
    """Take a block out of its loops into a new nest over a box; gives the nest, which the caller inserts."""
    extents = block.static_extents
    spans = [box.get(k) or whole(n) for k, n in enumerate(extents)]
    spans = [whole(n) if s.extent >= min(n, _UNBOUNDED_EXTENT) else s for s, n in zip(spans, extents, strict=True)]
    names, sizes = axis_names(kernel, block), kernel.extents(block)
    counts = [n if s.extent >= _UNBOUNDED_EXTENT else s.extent for s, n in zip(spans, sizes, strict=True)]
    nest = make_nest(counts, names, block, kernel.space.values)
    ivs = [kernel.space.dim(f.iv) if s.extent > 1 else ZERO for s, f in zip(spans, nest, strict=True)]
    bindings = [s.base + iv for s, iv in zip(spans, ivs, strict=True)]
    where = [p for b, n in zip(bindings, sizes, strict=True) for p in (b, n - b - 1)]
    parent = block.parent_op()
    if block.parent is not None:
        block.detach()
        kernel.drop_empty(parent)
    if nest:
        insert_last(nest[-1], block)
    kernel.rebind(block, bindings, where)
    return nest[0] if nest else block


def axis_names(kernel: Kernel, block: loop.BlockOp) -> list[str | None]:
    """Name hints for loops over a block's axes: those of the loops they are bound to, else those of the axes."""
    names: list[str | None] = []
    for b, arg in zip(kernel.bindings(block), block.body.block.args, strict=True):
        n = single(b)
        hint = kernel.space.values[n].name_hint if n is not None else None
        names.append(hint or arg.name_hint)
    return names


def buffers_written(block: loop.BlockOp) -> list[SSAValue]:
    """The buffers that a block stores to."""
    return list(dict.fromkeys(op.buffer for op in walk(block) if isinstance(op, loop.StoreOp)))


def buffers_read(block: loop.BlockOp) -> list[SSAValue]:
    """The buffers that a block loads from and does not write."""
    written = buffers_written(block)
    loads = [op.buffer for op in walk(block) if isinstance(op, loop.LoadOp | loop.GatherOp)]
    return [b for b in dict.fromkeys(loads) if b not in written]


# --- legality ----------------------------------------------------------------------------------------------------


def movable(kernel: Kernel, block: loop.BlockOp, f: loop.ForOp) -> str | None:
    """A block may move if its points are independent of each other and its loops are not marked yet."""
    if (reason := kernel.whole(block)) is not None:
        return reason
    if len(block.extents.data) > block.num_spatial and not block.has_init:
        return (
            f"expected a reduction that starts inside {name_of(block)}, but its init region is gone; "
            "move it before sched.decompose_reduction"
        )
    if not idempotent(block):
        return f"expected a block that can be computed again, but {name_of(block)} goes on from what it wrote"
    for around in loops_around(block):
        if around.kind.data != "serial" and around not in [*loops_around(f), f]:
            return f"expected serial loops around {name_of(block)}, but {name_of(around)} is {around.kind.data}"
    if f.kind.data in ("vectorized", "unrolled"):
        return f"expected a serial or parallel loop to compute at, but {name_of(f)} is {f.kind.data}"
    return None


def consumers_below(block: loop.BlockOp, f: loop.ForOp) -> str | None:
    """All readers of the block's buffers are inside the loop, after the block; the buffers are not outputs."""
    for buffer in buffers_written(block):
        called = f"%{buffer_name(buffer)}"
        if not isinstance(buffer.owner, loop.AllocOp):
            return f"expected a block that only others need, but {name_of(block)} writes the output {called}"
        for other in blocks_accessing(buffer, stores=True):
            if other is not block:
                return f"expected one block to write {called}, but {name_of(other)} does as well"
        readers = [b for b in blocks_accessing(buffer, stores=False) if b is not block]
        if not readers:
            return f"expected a consumer of {name_of(block)} below {name_of(f)}, but nothing reads {called}"
        for reader in readers:
            if not is_below(reader, f):
                return f"{name_of(reader)} reads {name_of(block)} outside of {name_of(f)}"
    if is_below(block, f):
        return None
    if not comes_before(block, f):
        return f"expected {name_of(block)} in front of {name_of(f)}, but it stands behind"
    return None


def inputs_unchanged(kernel: Kernel, block: loop.BlockOp, at: Operation, box: Box) -> str | None:
    """What the block reads is written before it and before the place to which it moves; other elements may be later."""
    for buffer in buffers_read(block):
        for writer in blocks_accessing(buffer, stores=True):
            before = comes_before(writer, block) and comes_before(writer, at)
            if not before and not _apart(kernel, block, writer, buffer, at, box):
                return (
                    f"{name_of(writer)} writes %{buffer_name(buffer)}, which {name_of(block)} reads, "
                    "behind the place where it is to be computed"
                )
    return None


def _apart(kernel: Kernel, block: loop.BlockOp, other: loop.BlockOp, buffer: SSAValue, at: Operation, box: Box) -> bool:
    """
    Whether two blocks touch different elements of a buffer in each iteration of the loops around both and a place.

    `box` is what the block computes at that place: in one iteration of these loops the same points as before. So the
    stages of a scan, which read its state at earlier steps, move beside the one that writes it at this step.
    """
    fixed = kernel.space.numbers_of(f for f in loops_around(block) if is_below(other, f) and is_below(at, f))
    for axis, bound in enumerate(kernel.bindings(block)):
        if bound.dims() & fixed and (axis not in box or box[axis].extent != 1 or box[axis].base != bound):
            return False
    ranges = kernel.space.ranges
    mine, others = (
        [[interval_of(e, fixed, ranges) for e in a.exprs] for a in accesses(kernel.space, b) if a.buffer is buffer]
        for b in (block, other)
    )
    return all(any(map(_disjoint, a, b)) for a in mine for b in others)


def _disjoint(a: Interval, b: Interval) -> bool:
    """Whether two intervals have no point in common."""
    gap = b.base - a.base
    return gap.is_const and (gap.const >= a.extent or -gap.const >= b.extent)


# --- compute_at --------------------------------------------------------------------------------------------------


def needed_box(kernel: Kernel, block: loop.BlockOp, f: loop.ForOp) -> Box:
    """The box of a producer's axes that the consumers below a loop read in one iteration of it."""
    fixed = kernel.space.numbers_of([*loops_around(f), f])
    extents = block.static_extents[: block.num_spatial]
    box: Box | None = None
    for store in (a for a in accesses(kernel.space, block) if a.is_store):
        shape = shape_of(store.buffer)
        stored = in_axes(kernel.space, store)
        for reader in blocks_accessing(store.buffer, stores=False):
            if reader is block:
                continue
            for read in accesses(kernel.space, reader):
                if read.buffer is store.buffer and not read.is_store:
                    solved = solve_axes(stored, read_region(kernel.space, read, fixed, shape), extents)
                    box = solved if box is None else _union(box, solved)
    return box or {}


def _union(a: Box, b: Box) -> Box:
    joined = {k: a[k].join(b[k]) for k in a if k in b}
    return {k: s for k, s in joined.items() if s is not None}


def compute_at(kernel: Kernel, op: sched.ComputeAtOp) -> None:
    """Move a producer to where its consumers need it."""
    block, f = kernel.block(op.block), kernel.loop(op.loop)
    kernel.check(movable(kernel, block, f))
    kernel.check(consumers_below(block, f))
    readers = [r for b in buffers_written(block) for r in blocks_accessing(b, stores=False) if r is not block]
    at = first_above(f, readers)
    box = needed_box(kernel, block, f)
    kernel.check(inputs_unchanged(kernel, block, at, box))
    if is_below(block, f) and comes_before(at, block):
        kernel.fail(f"expected {name_of(block)} in front of its consumers in {name_of(f)}")
    nest = place(kernel, block, box)
    insert_before(nest, at)
    kernel.check_later(f)


def first_above(f: loop.ForOp, ops: Sequence[Operation]) -> Operation:
    """The first op directly in a loop's body that holds one of these."""
    above = {body_of(f).find_ancestor_op_in_block(op) for op in ops}
    return next(op for op in body_of(f).ops if op in above)


def last_above(f: loop.ForOp, ops: Sequence[Operation]) -> Operation:
    """The last op directly in a loop's body that holds one of these."""
    above = {body_of(f).find_ancestor_op_in_block(op) for op in ops}
    return [op for op in body_of(f).ops if op in above][-1]


# --- reverse_compute_at ------------------------------------------------------------------------------------------


def producers_below(block: loop.BlockOp, f: loop.ForOp) -> list[loop.BlockOp]:
    """The blocks below a loop that write what a block reads."""
    writers = [w for b in buffers_read(block) for w in blocks_accessing(b, stores=True)]
    return [w for w in writers if is_below(w, f) and w is not block]


def written_elsewhere(block: loop.BlockOp, producers: Sequence[loop.BlockOp], f: loop.ForOp) -> str | None:
    """The producers below the loop write all that the block reads of their buffers: no block outside of it does."""
    for buffer in dict.fromkeys(b for p in producers for b in buffers_written(p)):
        for w in blocks_accessing(buffer, stores=True) if buffer in buffers_read(block) else ():
            if w is not block and not is_below(w, f):
                return (
                    f"{name_of(block)} reads of %{buffer_name(buffer)} what {name_of(w)} writes outside of {name_of(f)}"
                )
    return None


def outside_reductions(kernel: Kernel, producers: Sequence[loop.BlockOp], f: loop.ForOp) -> str | None:
    """The producers' reductions are finished in each iteration of the loop."""
    for p in producers:
        for around in [*loops_around(f), f]:
            n = kernel.space.number(around.iv)
            if any(b.uses(n) for b in kernel.bindings(p)[p.num_spatial :]):
                return f"{name_of(p)} still reduces over {name_of(around)} at {name_of(f)}"
    return None


def allowed_box(kernel: Kernel, block: loop.BlockOp, producers: Sequence[loop.BlockOp], f: loop.ForOp) -> Box:
    """The box of a consumer's axes for which one iteration of a loop has written all that is read; refuses others."""
    space = kernel.space
    fixed = space.numbers_of([*loops_around(f), f])
    box: Box = {}
    reads = [a for a in accesses(space, block) if not a.is_store]
    for p in producers:
        kernel.check(kernel.whole(p))
        for store in (a for a in accesses(space, p) if a.is_store):
            region = written_region(space, store, fixed, shape_of(store.buffer))
            for read in (r for r in reads if r.buffer is store.buffer):
                if "mask" in read.op.properties:
                    kernel.fail(f"{name_of(block)} has points that read nothing of %{buffer_name(store.buffer)}")
                solved = solve_axes(in_axes(space, read), region, block.static_extents)
                for axis, span in solved.items():
                    if axis >= block.num_spatial and not cuts(kernel, block, f, span):
                        kernel.fail(
                            f"{name_of(block)} reduces over elements of %{buffer_name(store.buffer)} from different "
                            f"iterations of {name_of(f)}; compute at an outer loop"
                        )
                    if not span.exact:
                        kernel.fail(
                            f"cannot tell which elements of %{buffer_name(store.buffer)} {name_of(p)} has written "
                            f"in one iteration of {name_of(f)}; compute at an outer loop"
                        )
                    if axis in box and box[axis] != span and not _is_same_place(box, axis, span):
                        kernel.fail(
                            f"{name_of(block)} reads elements of %{buffer_name(store.buffer)} from different "
                            f"iterations of {name_of(f)}; compute at an outer loop"
                        )
                    box[axis] = span
    return box


def cuts(kernel: Kernel, block: loop.BlockOp, f: loop.ForOp, span: Interval) -> bool:
    """Whether the iterations of a loop, and of no other that the block is not in, cut an axis into parts in order."""
    others = [g for g in loops_around(f) if not is_below(block, g) and (g.lower, g.upper) != (ZERO, const(1))]
    starts = f.lower == ZERO and span.base == dim(kernel.space.number(f.iv)) * span.extent
    return not others and starts and span.exact and f.kind.data == "serial"


def _is_same_place(box: Box, axis: int, interval: Interval) -> bool:
    return box[axis].base == interval.base and box[axis].extent == interval.extent


def all_written(kernel: Kernel, block: loop.BlockOp, f: loop.ForOp, box: Box) -> str | None:
    """Each element that the moved consumer reads is written before it in the iterations that both share."""
    space = kernel.space
    for read in (a for a in accesses(space, block) if not a.is_store):
        for w in blocks_accessing(read.buffer, stores=True):
            if w is block or (not is_below(w, f) and not _shares(w, f) and comes_before(w, f)):
                continue
            if not is_below(w, f) and not comes_before(w, f):
                what = f"%{buffer_name(read.buffer)}, which {name_of(block)} reads"
                return f"{name_of(w)} writes {what}, behind {name_of(f)}"
            shared = [g for g in [*loops_around(f), f] if is_below(w, g)]
            if not _covered(kernel, read, w, space.numbers_of(shared), box):
                return (
                    f"{name_of(block)} reads elements of %{buffer_name(read.buffer)} that {name_of(w)} "
                    f"has not written yet in an iteration of {name_of(f)}; compute at an outer loop"
                )
    return None


def _shares(op: Operation, f: loop.ForOp) -> bool:
    return any(is_below(op, g) for g in loops_around(f))


def _covered(kernel: Kernel, read: Access, writer: loop.BlockOp, fixed: set[int], box: Box) -> bool:
    if writer in kernel.partial:
        return False
    space, shape = kernel.space, shape_of(read.buffer)
    extents = read.block.static_extents
    n = len(extents)
    spans = [box.get(k) or whole(e) for k, e in enumerate(extents)]
    # Axis k becomes base + (a fresh value in [0, extent)); the fresh values are numbered far above the space.
    fresh = len(space.values) + 1000
    ranges = space.ranges_with({fresh + k: (0, s.extent - 1) for k, s in enumerate(spans)})
    to = {k: s.base + dim(fresh + k) for k, s in enumerate(spans)}
    needs: list[Interval] = []
    for e, size in zip(in_axes(space, read), shape, strict=True):
        moved = e.substitute(lambda d: to[d] if d < n else dim(d - n))
        s = interval_of(moved, fixed, ranges)
        needs.append(whole(size) if s.extent >= size else s)
    for store in (a for a in accesses(space, writer) if a.is_store and a.buffer is read.buffer):
        wrote = written_region(space, store, fixed, shape)
        if all(w.exact and r.within(w, size) for w, r, size in zip(wrote, needs, shape, strict=True)):
            return True
    return False


def reverse_compute_at(kernel: Kernel, op: sched.ReverseComputeAtOp) -> None:
    """Move a consumer to where its producer has written what it reads."""
    block, f = kernel.block(op.block), kernel.loop(op.loop)
    kernel.check(movable(kernel, block, f))
    producers = producers_below(block, f)
    if not producers:
        kernel.fail(f"expected a producer of {name_of(block)} below {name_of(f)}")
    if not all(comes_before(p, block) for p in producers):
        kernel.fail(f"expected {name_of(block)} behind its producers")
    kernel.check(outside_reductions(kernel, producers, f))
    kernel.check(written_elsewhere(block, producers, f))
    box = allowed_box(kernel, block, producers, f)
    kernel.check(all_written(kernel, block, f, box))
    at = last_above(f, producers)
    kernel.check(results_unread(kernel, block, at, box))
    nest = place(kernel, block, box)
    insert_after(nest, at)
    kernel.check_later(f)


def results_unread(kernel: Kernel, block: loop.BlockOp, at: Operation, box: Box) -> str | None:
    """Other uses of what the consumer writes come after the place to which it moves, or are of other elements."""
    for buffer in buffers_written(block):
        for other in (*blocks_accessing(buffer, stores=True), *blocks_accessing(buffer, stores=False)):
            behind = other is block or (comes_before(block, other) and comes_before(at, other))
            if not behind and not _in_front(block, other, at) and not _apart(kernel, block, other, buffer, at, box):
                return (
                    f"{name_of(other)} uses %{buffer_name(buffer)}, which {name_of(block)} writes, "
                    "in front of the place where it is to be computed"
                )
    return None


def _in_front(block: loop.BlockOp, other: loop.BlockOp, at: Operation) -> bool:
    """Whether a block comes before another one and before the place to which this moves, in the same loops."""
    together = all(is_below(at, f) for f in loops_around(block) if is_below(other, f))
    return together and comes_before(other, block) and comes_before(other, at)
