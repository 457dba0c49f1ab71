"""Directives on reductions: decompose_reduction, rfactor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StringAttr, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, Index, const
from mlc.passes.loop.directives import legality
from mlc.passes.loop.directives.combine import Combination, combination_of
from mlc.passes.loop.directives.compute_at import buffers_written, place
from mlc.passes.loop.directives.kernel import (
    Kernel,
    buffer_name,
    children,
    insert_after,
    insert_alloc,
    insert_before,
    insert_last,
    locate,
    make_loop,
    name_of,
    nested,
)
from mlc.passes.loop.directives.storage import sizes_of
from mlc.passes.loop.index_space.accesses import extent_predicates
from mlc.passes.loop.index_space.domain import loops_around
from mlc.passes.loop.index_space.expressions import set_exprs, substitute, users
from mlc.passes.loop.index_space.predicates import unproved
from mlc.passes.loop.index_space.regions import interval_of
from mlc.passes.loop.index_space.space import IndexSpace


def _starts_elsewhere(block: loop.BlockOp) -> str | None:
    """The block starts its reduction itself."""
    if not block.has_init:
        return f"expected a reduction that starts inside {name_of(block)}, but it has no init region"
    return None


def _mixes_axes(kernel: Kernel, f: loop.ForOp, block: loop.BlockOp) -> str | None:
    """The loop runs along spatial axes or along reduction axes of the block, not along both."""
    if legality.reduces(kernel, f, block) and legality.spreads(kernel, f, block):
        return f"{name_of(f)} runs along spatial and reduction axes of {name_of(block)} at once"
    return None


# --- decompose_reduction -----------------------------------------------------------------------------------------


def decomposable(kernel: Kernel, block: loop.BlockOp, f: loop.ForOp) -> str | None:
    """The block starts its reduction itself, and no loop outside of f reduces it."""
    if (reason := _starts_elsewhere(block)) is not None:
        return reason
    around = loops_around(block)
    if f not in around:
        return f"expected a loop around {name_of(block)}, but got {name_of(f)}"
    for outer in around[: around.index(f)]:
        if legality.reduces(kernel, outer, block):
            return f"{name_of(outer)} reduces {name_of(block)} outside of {name_of(f)}; decompose at {name_of(outer)}"
    for g in around[: around.index(f)]:
        if g.kind.data == "vectorized":
            return (
                f"expected one block in the vectorized {name_of(g)}, but its initialization would stand there too; "
                f"decompose at {name_of(g)}, or use sched.vectorize behind this directive"
            )
    for g in around[around.index(f) :]:
        if (reason := _mixes_axes(kernel, g, block)) is not None:
            return reason
    chain = around[around.index(f) :]
    for g in chain:
        for child in children(g):
            if child is not block and child not in chain and writes_same(block, child):
                return f"{name_of(child)} in {name_of(g)} uses what {name_of(block)} writes"
    return None


def writes_same(block: loop.BlockOp, other: Operation) -> bool:
    """Whether an op accesses a buffer that a block writes."""
    written = buffers_written(block)
    return any(isinstance(op, loop.AccessOp) and op.buffer in written for op in other.walk())


def spatial_region(kernel: Kernel, region: Region, spatial: int) -> Region:
    """A copy of a region of a block with its spatial arguments only; reduction arguments become 0."""
    copy = region.clone()
    block = copy.block
    extra = list(block.args[spatial:])
    substitute(kernel.space, users(extra), dict.fromkeys(extra, ZERO))
    for arg in reversed(extra):
        block.erase_arg(arg)
    return copy


def decompose_reduction(kernel: Kernel, op: sched.DecomposeReductionOp) -> None:
    """Move the initialization of a reduction into its own nest in front of a loop."""
    block, f = kernel.block(op.block), kernel.loop(op.loop)
    kernel.check(decomposable(kernel, block, f))
    around = loops_around(block)
    inside = around[around.index(f) :]
    copied = [g for g in inside if not legality.reduces(kernel, g, block)]
    copied = [g for g in copied if legality.spreads(kernel, g, block)]
    to: dict[int, Index] = {kernel.space.number(g.iv): ZERO for g in inside}
    nest = nested([make_loop(kernel.extent(g), _init_name(g), g, kernel.space.values) for g in copied])
    for g, new in zip(copied, nest, strict=True):
        new.properties["kind"] = g.kind
        to[kernel.space.number(g.iv)] = kernel.space.dim(new.iv)
    n = block.num_spatial
    init = loop.BlockOp.make(
        "init",
        kernel.extents(block)[:n],
        n,
        [b.substitute(to, kernel.space.ranges) for b in kernel.bindings(block)[:n]],
        kernel.space.values,
        spatial_region(kernel, block.init, n),
        where=_init_predicates(kernel, block, inside, to),
    )
    locate(init, block)
    kernel.name_block(init, f"{block.name_}_init")
    if block in kernel.partial:
        kernel.partial.add(init)
    if nest:
        insert_last(nest[-1], init)
    insert_before(nest[0] if nest else init, f)
    block.init.erase_block(block.init.block)
    kernel.retire(block)
    kernel.give(op.init, init)
    kernel.give(op.update, block)


def _init_predicates(
    kernel: Kernel, block: loop.BlockOp, inside: Sequence[loop.ForOp], to: dict[int, Index]
) -> list[Index]:
    """The predicates of the initialization: the block's, without those that only bound its reduction loops."""
    space = kernel.space
    reducing = {space.number(g.iv) for g in inside if legality.reduces(kernel, g, block)}
    kept = [p for p in kernel.where(block) if not _bounds_only(space, p, reducing)]
    return unproved(space, [p.substitute(to, space.ranges) for p in kept])


def _bounds_only(space: IndexSpace, predicate: Index, loops: set[int]) -> bool:
    """Whether a predicate uses at least one of these loops, and otherwise only symbols."""
    dims = predicate.dims()
    return not dims.isdisjoint(loops) and space.is_symbolic(dims - loops)


def _init_name(g: loop.ForOp) -> str | None:
    return f"{g.iv.name_hint}_init" if g.iv.name_hint else None


# --- rfactor -----------------------------------------------------------------------------------------------------


def factorable(kernel: Kernel, f: loop.ForOp, axis: int) -> str | None:
    """The loop reduces one block by a known combiner, and runs along no other axis."""
    if (reason := legality.transformable(f)) is not None:
        return reason
    if f.extent is None:
        return (
            f"expected a loop of static extent, but that of {name_of(f)} is symbolic; "
            "use sched.split first, and its inner loop"
        )
    blocks = [b for b in kernel.blocks.values() if f in loops_around(b)]
    if len(blocks) != 1:
        return f"expected one block in {name_of(f)}, but got {', '.join(map(name_of, blocks)) or 'none'}"
    (block,) = blocks
    if (reason := kernel.whole(block)) is not None:
        return reason
    if (reason := _starts_elsewhere(block)) is not None:
        return reason
    if not legality.reduces(kernel, f, block) or legality.spreads(kernel, f, block):
        return f"expected a loop that reduces {name_of(block)} only, but got {name_of(f)}"
    written = buffers_written(block)
    if combination_of(block) is None or (block.combine is None and len(written) != 1):
        return f"expected {name_of(block)} to combine one value with what it has, by an op that commutes"
    rank = len(legality.shape_of(written[0]))
    if not 0 <= axis <= rank:
        return f"expected an axis from 0 to {rank}, but got {axis}"
    for g in loops_around(block):
        if (reason := _mixes_axes(kernel, g, block)) is not None:
            return reason
        if legality.reduces(kernel, g, block) and (reason := legality.transformable(g)) is not None:
            return reason
    return None


def rfactor(kernel: Kernel, op: sched.RfactorOp) -> None:
    """Reduce each iteration of a reduction loop into a partial result, and combine these in a second block."""
    f, axis = kernel.loop(op.loop), op.axis.value.data
    kernel.check(factorable(kernel, f, axis))
    (block,) = (b for b in kernel.blocks.values() if f in loops_around(b))
    space, combine = kernel.space, combination_of(block)
    assert combine is not None
    reducing = [g for g in loops_around(block) if legality.reduces(kernel, g, block)]
    partial = {b: _partial_buffer(kernel, b, f.extent or 1, axis) for b in buffers_written(block)}
    own = perfect_nest_around(block)
    others = [g for g in reducing if g is not f]
    zero = {space.number(g.iv): ZERO for g in others}
    where_w = [p.substitute(zero, space.ranges) for p in kernel.where(block) if p.uses(space.number(f.iv))]
    box = {
        k: interval_of(b, space.numbers_of(g for g in loops_around(block) if g not in own), space.ranges)
        for k, b in enumerate(kernel.bindings(block)[: block.num_spatial])
    }
    second = _second_step(kernel, block, partial, axis, f, combine)
    name = block.name_
    _first_step(kernel, block, partial, axis, f, others)
    kernel.name_block(block, f"{name}_rf")
    second.properties["block_name"] = StringAttr(name)
    kernel.blocks[name] = second
    locate(second, block)
    insert_after(second, own[0])
    nest = place(kernel, second, box)
    insert_after(nest, own[0])
    kernel.check_later(nest)
    if where_w:
        to = {space.number(f.iv): space.dim(loops_around(second)[-1].iv)}
        kernel.add_where(second, [p.substitute(to, space.ranges) for p in where_w])
    for b in (block, second):
        if not set(kernel.where(b)) <= extent_predicates(space, b):
            kernel.partial.add(b)
    for handle, payload in kernel.handles.items():
        if payload is block:
            kernel.handles[handle] = second
    kernel.give(op.result, block)


def perfect_nest_around(block: loop.BlockOp) -> list[loop.ForOp]:
    """The loops around a block that hold nothing else, outer to inner."""
    found: list[loop.ForOp] = []
    op: Operation = block
    while isinstance(parent := op.parent_op(), loop.ForOp) and len(children(parent)) == 1:
        found.append(parent)
        op = parent
    return found[::-1]


def _partial_buffer(kernel: Kernel, buffer: SSAValue, extent: int, axis: int) -> SSAValue:
    t = loop.buffer_type(buffer)
    shape = list(t.get_shape())
    shape.insert(axis, extent)
    sizes = [e for e, n in zip(sizes_of(kernel, buffer), t.get_shape(), strict=True) if n < 0]
    name = f"{buffer_name(buffer)}_rf"
    alloc = loop.AllocOp.make(MemRefType(t.element_type, shape), "shared", name, sizes, kernel.space.values)
    insert_alloc(kernel, alloc)
    return alloc.result


def _first_step(
    kernel: Kernel,
    block: loop.BlockOp,
    partial: Mapping[SSAValue, SSAValue],
    axis: int,
    f: loop.ForOp,
    others: Sequence[loop.ForOp],
) -> None:
    """The block over one more spatial axis, f, which reduces over one axis per other reduction loop."""
    space, n, bindings, where = kernel.space, block.num_spatial, kernel.bindings(block), kernel.where(block)
    sources = [f, *others]
    for region in (block.body, block.init):
        args = list(region.block.args)
        fresh = [region.block.insert_arg(IndexType(), n + k) for k in range(len(sources) + (not others))]
        for arg, g in zip(fresh, sources, strict=False):
            arg.name_hint = g.iv.name_hint
            space.ranges[space.number(arg)] = space.ranges[space.number(g.iv)]
        by_loop = {space.number(g.iv): a for g, a in zip(sources, fresh, strict=False)}
        to: dict[SSAValue, Index] = {
            a: b.substitute({d: space.dim(v) for d, v in by_loop.items()}, space.ranges)
            for a, b in zip(args[n:], bindings[n:], strict=True)
        }
        substitute(space, users(to), to)
        for a in args[n:]:
            region.block.erase_arg(a)
        _redirect(region.block, partial, axis, fresh[0])
    reduce_loops = others or ()
    block.properties["spatial"] = IntegerAttr(n + 1, i64)
    extents = [*kernel.extents(block)[:n], *(kernel.extent(g) for g in (f, *reduce_loops))]
    extents += [] if others else [const(1)]
    new = [*bindings[:n], space.dim(f.iv), *(space.dim(g.iv) for g in reduce_loops), *([] if others else [ZERO])]
    set_exprs(space, block, {"extents": extents, "bindings": new, "where": unproved(space, where)})


def _redirect(body: Block, partial: Mapping[SSAValue, SSAValue], axis: int, index: SSAValue) -> None:
    """Redirect the accesses to the results to the buffers of partial results."""
    for op in list(body.walk()):
        if not isinstance(op, loop.LoadOp | loop.StoreOp) or op.buffer not in partial:
            continue
        exprs, operands = list(op.map.data), [*op.indices, index]
        exprs.insert(axis, Index(0, ((len(operands) - 1, 1),)))
        assert op.parent is not None
        if isinstance(op, loop.StoreOp):
            new: Operation = loop.StoreOp.make(op.value, partial[op.buffer], exprs, operands)
        else:
            new = loop.LoadOp.make(partial[op.buffer], exprs, operands)
            op.result.replace_all_uses_with(new.results[0])
        new.location = op.location
        op.parent.insert_op_before(new, op)
        op.detach()
        op.erase()


def _second_step(
    kernel: Kernel,
    block: loop.BlockOp,
    partial: Mapping[SSAValue, SSAValue],
    axis: int,
    f: loop.ForOp,
    combine: Combination,
) -> loop.BlockOp:
    """The block that combines the partial results."""
    n = block.num_spatial
    stores = [op for op in block.body.block.ops if isinstance(op, loop.StoreOp)]
    old: list[SSAValue] = list(block.body.block.args)
    body = Block(arg_types=[IndexType()] * (n + 1))
    for k in range(n):
        body.args[k].name_hint = old[k].name_hint
    body.args[n].name_hint = f.iv.name_hint
    points: list[list[Index]] = []
    for store in stores:
        where = [old.index(v) for v in store.indices]
        points.append([e.substitute({k: Index(0, ((a, 1),)) for k, a in enumerate(where)}) for e in store.map.data])
    accs = [loop.LoadOp.make(s.buffer, exprs, body.args) for s, exprs in zip(stores, points, strict=True)]
    parts: list[loop.LoadOp] = []
    for store, exprs in zip(stores, points, strict=True):
        at = [*exprs[:axis], Index(0, ((n, 1),)), *exprs[axis:]]
        parts.append(loop.LoadOp.make(partial[store.buffer], at, body.args))
    body.add_ops([*accs, *parts])
    values = combine(body, [a.result for a in accs], [p.result for p in parts])
    for store, exprs, value in zip(stores, points, values, strict=True):
        body.add_op(loop.StoreOp.make(value, store.buffer, exprs, body.args))
    init = spatial_region(kernel, block.init, n)
    init.block.insert_arg(IndexType(), n)
    extents = [*kernel.extents(block)[:n], kernel.extent(f)]
    merge = block.combine.clone() if block.combine is not None else None
    values_ = kernel.space.values
    return loop.BlockOp.make("second", extents, n, [ZERO] * (n + 1), values_, Region(body), init, combine=merge)
