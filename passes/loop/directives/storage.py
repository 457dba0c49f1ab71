"""Directives on buffers: cache_read, cache_write, set_scope, storage_align, transform_layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.constants import items
from mlc.dialects.index import UNBOUNDED, ZERO, Div, Index, IndexMapAttr, Range, const, dim
from mlc.dialects.walk import walk
from mlc.passes.loop.directives.compute_at import buffers_read, buffers_written, place
from mlc.passes.loop.directives.kernel import (
    Kernel,
    buffer_name,
    comes_before,
    insert_after,
    insert_alloc,
    insert_before,
    is_below,
    locate,
    name_of,
)
from mlc.passes.loop.directives.legality import shape_of, stays_below
from mlc.passes.loop.index_space.accesses import blocks_accessing
from mlc.passes.loop.index_space.dependence import parts_of, recoverable
from mlc.passes.loop.index_space.domain import loops_around
from mlc.passes.loop.index_space.expressions import exprs_of, set_exprs

# --- copies ------------------------------------------------------------------------------------------------------


def sizes_of(kernel: Kernel, buffer: SSAValue) -> list[Index]:
    """The sizes of a buffer, as expressions over the space."""
    t = loop.buffer_type(buffer)
    if t.has_static_shape():
        return [const(n) for n in t.get_shape()]
    given = kernel.func.attributes.get("sizes")
    argument_sizes = items(given) if given is not None else ()
    if isinstance(buffer.owner, loop.AllocOp):
        alloc = buffer.owner
        return [e.substitute(lambda d: kernel.space.dim(alloc.args[d])) for e in alloc.shape]
    if isinstance(buffer, BlockArgument) and argument_sizes:
        symbols = [a for a in kernel.func.args if isinstance(a.type, IndexType)]
        sizes = argument_sizes[buffer.index]
        assert isinstance(sizes, IndexMapAttr)
        return [e.substitute(lambda d: kernel.space.dim(symbols[d])) for e in sizes.data]
    kernel.fail(f"expected to know the sizes of %{buffer_name(buffer)}, but its type is {t}")


def copy_block(kernel: Kernel, source: SSAValue, target: SSAValue, casts: Sequence[loop.CastOp] = ()) -> loop.BlockOp:
    """A block that copies a buffer element by element, through casts like these; its axes are not bound yet."""
    shape = sizes_of(kernel, source)
    body = Block(arg_types=[IndexType()] * len(shape))
    for k, arg in enumerate(body.args):
        arg.name_hint = f"a{k}"
    exprs = [dim(k) for k in range(len(shape))]
    load = loop.LoadOp.make(source, exprs, body.args)
    body.add_op(load)
    value: SSAValue = load.result
    for cast in casts:
        copied = loop.CastOp.create(operands=[value], result_types=[cast.result.type], properties=cast.properties)
        body.add_op(copied)
        value = copied.result
    body.add_op(loop.StoreOp.make(value, target, exprs, body.args))
    return loop.BlockOp.make("copy", shape, len(shape), [ZERO] * len(shape), kernel.space.values, Region(body))


def new_buffer(kernel: Kernel, like: SSAValue, scope: str, element: Attribute | None = None) -> SSAValue:
    """A buffer of the same shape in another scope, perhaps of other elements."""
    if scope not in loop.SCOPES:
        kernel.fail(f"expected a scope of {', '.join(loop.SCOPES)}, but got '{scope}'")
    t = loop.buffer_type(like)
    sizes = [e for e, n in zip(sizes_of(kernel, like), t.get_shape(), strict=True) if n < 0]
    name = f"{buffer_name(like)}_{scope}"
    alloc = loop.AllocOp.make(MemRefType(element or t.element_type, t.shape), scope, name, sizes, kernel.space.values)
    insert_alloc(kernel, alloc)
    return alloc.result


def redirect(blocks: Sequence[loop.BlockOp], source: SSAValue, target: SSAValue) -> None:
    """Let blocks use another buffer of the same shape."""
    for block in blocks:
        for op in walk(block):
            if isinstance(op, loop.AccessOp) and op.buffer is source:
                op.operands[1 if isinstance(op, loop.StoreOp) else 0] = target


Chain = tuple[loop.LoadOp, list[loop.CastOp]]
"""A load, and the casts through which alone its value is used, one after the other."""


def casts_to(kernel: Kernel, block: loop.BlockOp, source: SSAValue, element: Attribute) -> list[Chain]:
    """The chains of a block's loads of a buffer, all alike, that end in an element."""
    chains: list[Chain] = []
    for load in [op for op in walk(block) if isinstance(op, loop.LoadOp | loop.GatherOp) and op.buffer is source]:
        value, casts = load.result, list[loop.CastOp]()
        while value.type != element:
            users = [use.operation for use in value.uses]
            if len(users) != 1 or not isinstance(users[0], loop.CastOp):
                break
            casts.append(users[0])
            value = users[0].result
        if not isinstance(load, loop.LoadOp) or load.mask is not None or value.type != element:
            kernel.fail(f"expected {name_of(block)} to cast each element of %{buffer_name(source)} to {element}")
        chains.append((load, casts))
    if len({tuple((cast.kind, cast.result.type) for cast in casts) for _, casts in chains}) > 1:
        kernel.fail(f"expected {name_of(block)} to cast all elements of %{buffer_name(source)} alike")
    return chains


def load_from(chains: Sequence[Chain], target: SSAValue) -> None:
    """Load from a buffer what chains of a load and casts gave."""
    for load, casts in chains:
        assert load.parent is not None
        new = loop.LoadOp.make(target, load.map.data, load.indices)
        new.location = load.location
        load.parent.insert_op_before(new, load)
        (casts[-1] if casts else load).result.replace_all_uses_with(new.result)
        for op in reversed((load, *casts)):
            op.detach()
            op.erase()


def path(op: Operation) -> list[Operation]:
    """The loops around an op, outer to inner, and the op."""
    return [*loops_around(op), op]


def _nest_of_copy(kernel: Kernel, copy: loop.BlockOp, block: loop.BlockOp, name: str) -> Operation:
    """The loops of a new block that copies, which gets this name and the location of the block that it is for."""
    locate(copy, block)
    kernel.name_block(copy, name)
    return place(kernel, copy, {})


def cache_read(kernel: Kernel, op: sched.CacheReadOp) -> None:
    """Let a block read a buffer through a copy in another scope."""
    block, n = kernel.block(op.block), op.buffer.value.data
    buffers = buffers_read(block)
    if not 0 <= n < len(buffers):
        names = ", ".join(f"%{buffer_name(b)}" for b in buffers)
        kernel.fail(f"expected the number of a buffer that {name_of(block)} reads ({names}), but got {n}")
    source = buffers[n]
    writers = blocks_accessing(source, stores=True)
    at = next((x for x in path(block) if all(comes_before(w, x) for w in writers)), None)
    if at is None:
        kernel.fail(f"expected %{buffer_name(source)} to be written in front of {name_of(block)}")
    if op.element is None:
        target = new_buffer(kernel, source, op.scope.data)
        redirect([block], source, target)
        copy = copy_block(kernel, source, target)
    else:
        chains = casts_to(kernel, block, source, op.element)
        target = new_buffer(kernel, source, op.scope.data, op.element)
        copy = copy_block(kernel, source, target, chains[0][1])
        load_from(chains, target)
    nest = _nest_of_copy(kernel, copy, block, f"{buffer_name(source)}_{op.scope.data}")
    insert_before(nest, at)
    for moved in (nest, block):
        kernel.check_later(moved)
    kernel.give(op.result, copy)


def cache_write(kernel: Kernel, op: sched.CacheWriteOp) -> None:
    """Let a block write a new buffer, which is then copied to the original one."""
    block = kernel.block(op.block)
    buffers = buffers_written(block)
    if len(buffers) != 1:
        kernel.fail(f"expected a block that writes one buffer, but {name_of(block)} writes {len(buffers)}")
    target = buffers[0]
    writers = blocks_accessing(target, stores=True)
    readers = [r for r in blocks_accessing(target, stores=False) if r not in writers]
    last = next(w for w in writers if all(w is v or comes_before(v, w) for v in writers))
    at = next(x for x in path(last) if not any(is_below(r, x) for r in readers))
    for r in readers:
        if not comes_before(at, r):
            kernel.fail(f"{name_of(r)} reads %{buffer_name(target)} before {name_of(last)} has written it")
    source = new_buffer(kernel, target, op.scope.data)
    redirect(writers, target, source)
    copy = copy_block(kernel, source, target)
    nest = _nest_of_copy(kernel, copy, block, f"{buffer_name(target)}_{op.scope.data}")
    insert_after(nest, at)
    for moved in (nest, *writers):
        kernel.check_later(moved)
    kernel.give(op.result, copy)


# --- scopes and layouts ------------------------------------------------------------------------------------------


def own_buffers(kernel: Kernel, block: loop.BlockOp) -> list[loop.AllocOp]:
    """The buffers that a block writes, which must not be outputs of the kernel."""
    found: list[loop.AllocOp] = []
    for buffer in buffers_written(block):
        if not isinstance(buffer.owner, loop.AllocOp):
            kernel.fail(
                f"expected a buffer of the kernel's own, but {name_of(block)} writes the output "
                f"%{buffer_name(buffer)}; use sched.cache_write"
            )
        found.append(buffer.owner)
    return found


def set_scope(kernel: Kernel, op: sched.SetScopeOp) -> None:
    """Set the memory scope of a buffer."""
    block, scope = kernel.block(op.block), op.scope.data
    if scope not in loop.SCOPES:
        kernel.fail(f"expected a scope of {', '.join(loop.SCOPES)}, but got '{scope}'")
    for alloc in own_buffers(kernel, block):
        users = [*blocks_accessing(alloc.result, stores=True), *blocks_accessing(alloc.result, stores=False)]
        for f in dict.fromkeys(f for u in users for f in loops_around(u) if f.kind.data == "parallel"):
            if scope == "local":
                kernel.check(stays_below(alloc.result, f))
            kernel.check_later(f)
        alloc.properties["scope"] = StringAttr(scope)


def retype(kernel: Kernel, alloc: loop.AllocOp, sizes: Sequence[Index]) -> loop.AllocOp:
    """The same buffer with another shape, of static and symbolic sizes."""
    t = alloc.result.type
    shape = [e.const if e.is_const else DYNAMIC_INDEX for e in sizes]
    symbolic = [e for e in sizes if not e.is_const]
    values, name = kernel.space.values, alloc.result.name_hint
    new = loop.AllocOp.make(MemRefType(t.element_type, shape), alloc.scope.data, name, symbolic, values)
    new.attributes |= alloc.attributes
    new.location = alloc.location
    insert_before(new, alloc)
    alloc.result.replace_all_uses_with(new.result)
    alloc.detach()
    alloc.erase()
    return new


def storage_align(kernel: Kernel, op: sched.StorageAlignOp) -> None:
    """Pad a buffer so that the stride of an axis is `offset` modulo `factor`."""
    block = kernel.block(op.block)
    axis, factor, offset = op.axis.value.data, op.factor.value.data, op.offset.value.data
    for alloc in own_buffers(kernel, block):
        shape = list(shape_of(alloc.result))
        if not 0 <= axis < len(shape) - 1:
            kernel.fail(f"expected an axis below {len(shape) - 1}, the last one being dense, but got {axis}")
        if factor <= 0:
            kernel.fail(f"expected a positive factor, but got {factor}")
        if UNBOUNDED in shape[axis + 1 :]:
            name = buffer_name(alloc.result)
            kernel.fail(f"expected static sizes behind axis {axis} of %{name}, but got a symbolic one")
        inner = prod(shape[axis + 2 :])
        padded = range(shape[axis + 1], shape[axis + 1] + factor)
        size = next((n for n in padded if (n * inner - offset) % factor == 0), 0)
        if not size:
            kernel.fail(
                f"no padding makes the stride of axis {axis} of %{buffer_name(alloc.result)} {offset} modulo {factor}: "
                f"it is a multiple of {inner}"
            )
        sizes = sizes_of(kernel, alloc.result)
        sizes[axis + 1] = const(size)
        retype(kernel, alloc, sizes).attributes["storage_align"] = loop.i64_array([axis, factor, offset])


def new_shape(exprs: Sequence[Index], ranges: Mapping[int, Range]) -> tuple[list[int], str | None]:
    """(the shape that a layout map gives, None), or ([], why the map is no layout)."""
    bounds = [e.bounds(ranges) for e in exprs]
    for e, (low, _) in zip(exprs, bounds, strict=True):
        if low < 0:
            return [], f"expected indices from 0, but {e} begins at {low}"
    known = parts_of(exprs, ranges)
    for d in ranges:
        if ranges[d][1] > 0 and not recoverable(dim(d), known, ranges):
            return [], f"expected a map that keeps elements apart, but d{-1 - d} cannot be recovered from it"
    return [high + 1 for _, high in bounds], None


def size_along(e: Index, high: int, sizes: Sequence[Index]) -> Index | None:
    """The size of a new dimension with the index e, up to `high`; None where symbolic sizes do not give it."""
    if high < UNBOUNDED >> 10:
        return const(high + 1)
    if not _grows(e):
        return None
    last = {-1 - k: size - 1 for k, size in enumerate(sizes)}
    return e.substitute(last) + 1


def _grows(e: Index) -> bool:
    """Whether an expression never falls where a dimension grows."""
    return all(
        c > 0 and (isinstance(t, int) or (isinstance(t, Div) and not t.is_mod and _grows(t.expr))) for t, c in e.terms
    )


def transform_layout(kernel: Kernel, op: sched.TransformLayoutOp) -> None:
    """Change the layout of a buffer, and rewrite all accesses to it."""
    block, exprs = kernel.block(op.block), op.map.data
    for alloc in own_buffers(kernel, block):
        shape = shape_of(alloc.result)
        ranges: dict[int, Range] = {-1 - k: (0, n - 1) for k, n in enumerate(shape)}
        for d in {d for e in exprs for d in e.dims()}:
            if d not in ranges:
                kernel.fail(f"expected dimensions below d{len(shape)}, but got d{-1 - d}")
        laid_out, reason = new_shape(exprs, ranges)
        kernel.check(reason)
        known = [size_along(e, n - 1, sizes_of(kernel, alloc.result)) for e, n in zip(exprs, laid_out, strict=True)]
        sizes = [size for size in known if size is not None]
        if len(sizes) < len(known):
            what = str(exprs[known.index(None)])
            kernel.fail(f"expected symbolic sizes to give those of the new layout, but not that of {what}")
        accesses_to = [use.operation for use in alloc.result.uses]
        for access in accesses_to:
            if not isinstance(access, loop.LoadOp | loop.StoreOp) or access.tile_sizes:
                what = f"{access.name} of a tile" if isinstance(access, loop.LoadOp | loop.StoreOp) else access.name
                kernel.fail(f"expected loads and stores of %{buffer_name(alloc.result)} only, but got {what}")
        for access in accesses_to:
            found = exprs_of(kernel.space, access)
            old = {-1 - k: e for k, e in enumerate(found["map"])}
            found["map"] = [e.substitute(old, kernel.space.ranges) for e in exprs]
            set_exprs(kernel.space, access, found)
        retype(kernel, alloc, sizes)
