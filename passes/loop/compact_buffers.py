"""loop-compact-buffers: each buffer moves to the loop that uses it, and shrinks to what one iteration touches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, Index, IndexMapAttr, compact, const
from mlc.passes.loop.nest import Numbering, is_symbol, loop_of, loops_around

Accessing = loop.LoadOp | loop.StoreOp | loop.GatherOp


def common_block(uses: Sequence[Operation], top: Block) -> Block:
    """The innermost block that holds all the ops."""

    def chain(op: Operation) -> list[Block]:
        found: list[Block] = []
        block = op.parent
        while block is not None:
            found.append(block)
            if block is top:
                break
            parent = block.parent_op()
            block = parent.parent if parent is not None else None
        return found[::-1]

    chains = [chain(op) for op in uses]
    best = top
    for level in zip(*chains, strict=False):
        if any(b is not level[0] for b in level):
            break
        best = level[0]
    return best


def home_of(ops: Sequence[Operation], top: Block) -> Block:
    """The innermost block that holds all accesses and in which each run writes the buffer before it reads it."""
    block = common_block(ops, top)
    while block is not top and (_keeps_values(block, ops) or not writes_cover_reads(block, ops)):
        parent = block.parent_op()
        assert parent is not None
        assert parent.parent is not None
        block = parent.parent
    return block


def writes_cover_reads(block: Block, ops: Sequence[Operation]) -> bool:
    """Whether all that is loaded in a block lies in what the stores before it span."""
    inside = _indices_inside(block)
    numbering = Numbering()
    order = {op: k for k, op in enumerate(block.walk())}
    free = _same_each_time(ops, numbering, inside)
    written: list[list[tuple[Index, int, int]]] = []
    for op in sorted(ops, key=lambda op: order[op]):
        box = [one for k, one in enumerate(_box(op, numbering, inside)) if k not in free]
        if isinstance(op, loop.StoreOp):
            written = _joined(written, box)
        elif isinstance(op, loop.GatherOp) or not any(_covers(w, box) for w in written):
            return False
    return True


def _same_each_time(ops: Sequence[Operation], numbering: Numbering, inside: set[SSAValue]) -> set[int]:
    """
    The axes of symbolic size along which each run of the block stores at the same places.

    What one run reads was stored by some run, so along such an axis this run stored it, too.
    """
    (buffer,) = {op.buffer for op in ops}  # type: ignore[attr-defined]
    axes = {k for k, n in enumerate(buffer.type.get_shape()) if n < 0}
    for op in ops:
        if isinstance(op, loop.StoreOp) and axes:
            exprs = numbering.exprs(op.map.data, op.indices)
            axes = {k for k in axes if all(d < 0 or _is_fixed(numbering.values[d], inside) for d in exprs[k].dims())}
    return axes


def _is_fixed(value: SSAValue, inside: set[SSAValue]) -> bool:
    """Whether a symbol, or the index of a loop in the block whose bounds are over symbols and such indices."""
    if is_symbol(value):
        return True
    f = loop_of(value)
    return f is not None and value in inside and all(_is_fixed(v, inside) for v in f.indices)


def _box(op: Operation, numbering: Numbering, inside: set[SSAValue]) -> list[tuple[Index, int, int]]:
    """Per dimension: the part that is fixed in the block, and the bounds of the rest."""
    exprs = numbering.exprs(op.map.data, op.indices)  # type: ignore[attr-defined]
    ranges = numbering.ranges(op.tile_sizes)  # type: ignore[attr-defined]
    box: list[tuple[Index, int, int]] = []
    for e in exprs:
        outer = _outer_part(e, numbering, inside)
        box.append((outer, *(e - outer).bounds(ranges)))
    return box


def _joined(
    written: list[list[tuple[Index, int, int]]], box: list[tuple[Index, int, int]]
) -> list[list[tuple[Index, int, int]]]:
    """The boxes with one more; it widens those at the same place (the parts of a cut loop write side by side)."""
    same = [w for w in written if all(a[0] == b[0] for a, b in zip(w, box, strict=True))]
    for w in same:
        box = [(a[0], min(a[1], b[1]), max(a[2], b[2])) for a, b in zip(w, box, strict=True)]
    return [w for w in written if w not in same] + [box]


def _covers(w: list[tuple[Index, int, int]], r: list[tuple[Index, int, int]]) -> bool:
    return all(a[0] == b[0] and a[1] <= b[1] and b[2] <= a[2] for a, b in zip(w, r, strict=True))


def under_parallel(block: Block) -> bool:
    """Whether a block runs inside of a parallel loop."""
    parent = block.parent_op()
    while parent is not None:
        if isinstance(parent, loop.ForOp) and parent.kind.data == "parallel":
            return True
        parent = parent.parent_op()
    return False


def _keeps_values(home: Block, ops: Sequence[Operation]) -> bool:
    """
    Whether what one iteration of a block wrote may be read in the next, so that the buffer must live outside.

    It may not where the first access writes, and does so in each iteration: without a predicate, or with one that
    holds for the first lane and the first iteration of the loops further in.
    """
    first = _first_in(home, ops)
    access = next(op for op in first.walk() if op in ops)
    if not isinstance(access, loop.StoreOp):
        return True
    numbering = Numbering()
    mask = numbering.exprs(access.mask_exprs, access.indices)
    starts = {-1 - k: const(0) for k in range(len(access.tile_sizes))}
    starts |= {
        n: f.lower
        for f in loops_around(access, home.parent_op())
        if (n := numbering.numbers.get(f.iv)) is not None and f.lower.is_const
    }
    return any(e.substitute(starts).bounds(numbering.ranges())[0] < 0 for e in mask)


def _first_in(block: Block, ops: Sequence[Operation]) -> Operation:
    """The first op of `block` that is, or holds, one of the ops."""
    tops = {_ancestor_in(block, op) for op in ops}
    return next(o for o in block.ops if o in tops)


def _ancestor_in(block: Block, op: Operation) -> Operation:
    """The op of `block` that is, or holds, this one."""
    while op.parent is not block:
        parent = op.parent_op()
        assert parent is not None
        op = parent
    return op


def _outer_part(e: Index, numbering: Numbering, inside: set[SSAValue]) -> Index:
    """The terms of an expression that do not vary inside of the block where the buffer lives."""
    keep = {
        t: c
        for t, c in e.terms
        if not any(d < 0 or numbering.values[d] in inside for d in ({t} if isinstance(t, int) else t.expr.dims()))
    }
    return Index.of(0, keep)


def split_among_siblings(alloc: loop.AllocOp, top: Block) -> list[loop.AllocOp]:
    """
    A buffer that several loops beside each other use, each for itself, becomes one buffer a loop.

    Such are the main part and the rest of a partitioned loop: no value passes from one to the other.
    """
    ops = [u.operation for u in alloc.result.uses]
    if len(ops) < 2 or not all(isinstance(op, Accessing) for op in ops):
        return [alloc]
    home = home_of(ops, top)
    parts: dict[Operation, list[Operation]] = {}
    for op in ops:
        parts.setdefault(_ancestor_in(home, op), []).append(op)
    if len(parts) < 2 or any(home_of(part, home) is home for part in parts.values()):
        return [alloc]
    block = alloc.parent
    assert block is not None
    allocs = [alloc]
    for part in list(parts.values())[1:]:
        copy = alloc.clone()
        block.insert_op_after(copy, alloc)
        for op in part:
            op.operands = [copy.result if v is alloc.result else v for v in op.operands]
        allocs.append(copy)
    return allocs


def compact_buffer(alloc: loop.AllocOp) -> None:
    """Move one buffer inwards, never outwards, and shrink it."""
    uses: list[Use] = list(alloc.result.uses)
    ops = [u.operation for u in uses]
    if not ops or not all(isinstance(op, Accessing) for op in ops):
        return
    assert alloc.parent is not None
    home = home_of(ops, alloc.parent)
    alloc.detach()
    home.insert_op_before(alloc, _first_in(home, ops))
    parallel = any(under_parallel(op.parent) for op in ops if op.parent is not None)
    alloc.properties["scope"] = StringAttr("local" if under_parallel(home) or not parallel else "shared")
    inside = _indices_inside(home)
    numbering = Numbering()
    found = [(op, numbering.exprs(op.map.data, op.indices)) for op in ops]  # type: ignore[attr-defined]
    t = alloc.result.type
    shape, origin = list(t.get_shape()), list[Index]()
    for k in range(len(shape)):
        origin.append(_shrink_axis(k, shape, found, numbering, inside))
    if shape == list(t.get_shape()):
        return
    _retype(alloc, MemRefType(t.element_type, shape))
    for op, exprs in found:
        _move_access(op, [e - o for e, o in zip(exprs, origin, strict=True)], numbering)


def _indices_inside(home: Block) -> set[SSAValue]:
    inside: set[SSAValue] = set()
    for op in home.ops:
        for o in op.walk():
            inside.update(o.results)
            if isinstance(o, loop.ForOp):
                inside.add(o.iv)
    return inside


def _shrink_axis(
    k: int,
    shape: list[int],
    found: list[tuple[Operation, tuple[Index, ...]]],
    numbering: Numbering,
    inside: set[SSAValue],
) -> Index:
    """The origin of the touched part along one axis; the axis' size shrinks to its extent."""
    whole = Index(0, ())
    lows, highs = [], []
    outer: Index | None = None
    for op, exprs in found:
        if isinstance(op, loop.GatherOp) and op.at.value.data == k:
            return whole
        part = _outer_part(exprs[k], numbering, inside)
        if outer is None:
            outer = part
        elif outer != part:
            return whole
        tile = op.tile_sizes  # type: ignore[attr-defined]
        lo, hi = (exprs[k] - part).bounds(numbering.ranges(tile))
        lows.append(max(lo, -(1 << 50)))
        highs.append(hi)
    lo, hi = min(lows), max(highs)
    assert outer is not None
    if hi - lo + 1 >= (shape[k] if shape[k] >= 0 else UNBOUNDED >> 10):
        return whole
    shape[k] = hi - lo + 1
    return outer + lo


def _retype(alloc: loop.AllocOp, t: MemRefType) -> None:
    sizes = [e for e, n in zip(alloc.shape, t.get_shape(), strict=True) if n < 0]
    new = loop.AllocOp.make(t, alloc.scope.data, alloc.result.name_hint, sizes, alloc.args)
    new.attributes.update(alloc.attributes)
    block = alloc.parent
    assert block is not None
    block.insert_op_before(new, alloc)
    alloc.result.replace_all_uses_with(new.result)
    alloc.detach()
    alloc.erase()


def _move_access(op: Operation, exprs: list[Index], numbering: Numbering) -> None:
    """Give an access new index expressions over numbered values; its mask keeps its meaning."""
    mask = numbering.exprs(op.mask_exprs, op.indices)  # type: ignore[attr-defined]
    all_exprs, dims = compact([*exprs, *mask], numbering.values)
    op.properties["map"] = IndexMapAttr(all_exprs[: len(exprs)])
    if mask:
        op.properties["mask"] = IndexMapAttr(all_exprs[len(exprs) :])
    head = 2 if isinstance(op, loop.StoreOp | loop.GatherOp) else 1
    tail = [op.operands[-1]] if isinstance(op, loop.LoadOp) and op.mask is not None else []
    op.operands = [*op.operands[:head], *dims, *tail]


def compact_buffers(func: loop.FuncOp) -> None:
    """All buffers of a kernel."""
    for alloc in [op for op in func.walk() if isinstance(op, loop.AllocOp)]:
        assert alloc.parent is not None
        for part in split_among_siblings(alloc, alloc.parent):
            compact_buffer(part)


@dataclass(frozen=True)
class CompactBuffersPass(ModulePass):
    """
    A buffer that only one iteration of a loop uses moves into that loop, at the size of what it touches.

    `%b = loop.alloc "shared" : memref<56x64xf32>` above `loop.for %i = 0 to 4 parallel` whose body touches rows
    `%i * 14 .. %i * 14 + 13` -> `%b = loop.alloc "local" : memref<14x64xf32>` inside of it, indexed from 0.
    """

    name = "loop-compact-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                compact_buffers(func)
