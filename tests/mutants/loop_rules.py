"""Bugs of schedules and of passes on loops: bounds, predicates, indices, accumulators, buffers, parallel loops."""

from collections.abc import Iterator
from random import Random

from operators import Change, erase, function_of, mutation, replace, same_types, swap_operands
from te_rules import replaced, with_exprs
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType, StringAttr
from xdsl.ir import Attribute, Operation, Region, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import LOOP_OFFSET, LOOP_SHARES, LOOP_SLOT
from mlc.dialects.index import const, dim
from mlc.dialects.loop import buffer_type

SCHEDULE = ("loop-apply-schedule",)


# --- loops -------------------------------------------------------------------------------------------------------


@mutation("loop")
def off_by_one_bound(op: Operation, random: Random) -> Iterator[Change]:
    """A loop has one iteration too few or too many."""
    if isinstance(op, loop.ForOp):
        for lower, upper in ((op.lower + 1, op.upper), (op.lower, op.upper - 1), (op.lower, op.upper + 1)):
            yield with_exprs(op, "bounds", [lower, upper])


@mutation("loop")
def dropped_predicate(op: Operation, random: Random) -> Iterator[Change]:
    """A predicate of a block, or the mask of an access, is lost."""
    if isinstance(op, loop.BlockOp) and op.where is not None:
        yield lambda: op.properties.pop("where") and None
    if isinstance(op, loop.StoreOp) and op.mask is not None:
        yield lambda: op.properties.pop("mask") and None


@mutation("loop")
def off_by_one_predicate(op: Operation, random: Random) -> Iterator[Change]:
    """A predicate of a block or an access is off by one."""
    name, exprs = predicate_of(op)
    for k, e in enumerate(exprs):
        for d in (-1, 1):
            yield with_exprs(op, name, replaced(exprs, k, e + d))


def predicate_of(op: Operation) -> tuple[str, tuple]:
    """The property with an op's predicate, and its expressions."""
    if isinstance(op, loop.BlockOp) and op.where is not None:
        return "where", op.where.data
    if isinstance(op, loop.LoadOp | loop.StoreOp) and op.mask is not None:
        return "mask", op.mask.data
    return "", ()


@mutation("loop")
def wrong_tail(op: Operation, random: Random) -> Iterator[Change]:
    """The loop over the tail of a split is left out."""
    if isinstance(op, loop.ForOp) and not op.results and op.lower.is_const and op.lower.const > 0:
        yield lambda: erase(op)


@mutation("loop")
def wrong_substitution(op: Operation, random: Random) -> Iterator[Change]:
    """An index is substituted by one that lacks a term."""
    if isinstance(op, loop.LoadOp | loop.StoreOp | loop.BlockOp):
        name = "bindings" if isinstance(op, loop.BlockOp) else "map"
        exprs = op.properties[name].data
        for k, e in enumerate(exprs):
            for d in e.dims():
                if d >= 0:
                    yield with_exprs(op, name, replaced(exprs, k, e.substitute({d: const(0)})))


@mutation("loop")
def wrong_access_offset(op: Operation, random: Random) -> Iterator[Change]:
    """An access is off by one."""
    if isinstance(op, loop.LoadOp | loop.StoreOp):
        for k, e in enumerate(op.map.data):
            for d in (-1, 1):
                yield with_exprs(op, "map", replaced(op.map.data, k, e + d))


@mutation("loop")
def swapped_loop_indices(op: Operation, random: Random) -> Iterator[Change]:
    """Two loops are taken for each other in an access."""
    if isinstance(op, loop.LoadOp | loop.BlockOp):
        name = "bindings" if isinstance(op, loop.BlockOp) else "map"
        values = op.args if isinstance(op, loop.BlockOp) else op.indices
        exprs = op.properties[name].data
        for i in range(len(values)):
            for j in range(i):
                new = [e.substitute({i: dim(j), j: dim(i)}) for e in exprs]
                if tuple(new) != tuple(exprs):
                    yield with_exprs(op, name, new)


# --- accumulators ------------------------------------------------------------------------------------------------


@mutation("loop")
def wrong_initial_value(op: Operation, random: Random) -> Iterator[Change]:
    """An accumulator begins with another value."""
    if isinstance(op, loop.StoreOp) and isinstance(constant := behind(op.value), arith.ConstantOp):
        yield from changed_constant(constant)
    elif isinstance(op, loop.ForOp):
        for value in op.iter_args:
            if isinstance(constant := behind(value), arith.ConstantOp):
                yield from changed_constant(constant)


def behind(value: SSAValue) -> Operation | None:
    """What gives a value, through broadcasts."""
    source = value.owner
    while isinstance(source, loop.BroadcastOp):
        source = source.value.owner
    return source if isinstance(source, Operation) else None


def changed_constant(op: arith.ConstantOp) -> Iterator[Change]:
    """A constant with another value."""
    if isinstance(op.value, FloatAttr):
        value = op.value
        number = value.value.data
        other = 1.0 if number == 0 else 0.0 if abs(number) > 1e6 else number * 1.1
        yield lambda: op.properties.__setitem__("value", FloatAttr(other, value.type))


@mutation("loop")
def dropped_init(op: Operation, random: Random) -> Iterator[Change]:
    """The initialisation of a reduction is lost."""
    if isinstance(op, loop.BlockOp) and op.has_init:

        def drop() -> None:
            op.detach_region(op.init)
            op.add_region(Region())
            op.add_region(op.detach_region(op.regions[0]))

        yield drop
    elif isinstance(op, loop.BlockOp) and op.name_.endswith("_init"):
        yield lambda: erase(op)


@mutation("loop")
def lost_accumulation(op: Operation, random: Random) -> Iterator[Change]:
    """A product is not added to the accumulator."""
    if isinstance(op, loop.FmaOp) and op.a.type == op.results[0].type:
        block = op.parent
        assert block is not None

        def change() -> None:
            product = arith.MulfOp(op.a, op.b)
            block.insert_op_before(product, op)
            replace(op, product.result)

        yield change


@mutation("loop")
def wrong_loop_combiner(op: Operation, random: Random) -> Iterator[Change]:
    """A reduction of lanes combines with another op."""
    other = {"sum": "max", "max": "sum", "min": "max", "prod": "sum"}
    if isinstance(op, loop.ReduceOp) and op.combiner.data in other:
        name = other[op.combiner.data]
        yield lambda: op.properties.__setitem__("combiner", StringAttr(name))


@mutation("loop")
def swapped_carried_values(op: Operation, random: Random) -> Iterator[Change]:
    """Two values that a loop carries are exchanged."""
    if isinstance(op, loop.YieldOp):
        for i in range(len(op.operands)):
            for j in range(i):
                if same_types(op, i, j):
                    yield lambda i=i, j=j: swap_operands(op, i, j)


# --- buffers ----------------------------------------------------------------------------------------------------


@mutation("loop")
def missing_store(op: Operation, random: Random) -> Iterator[Change]:
    """A store is left out."""
    if isinstance(op, loop.StoreOp):
        yield lambda: erase(op)


@mutation("loop")
def shared_buffer(op: Operation, random: Random) -> Iterator[Change]:
    """Two buffers that are alive together become one."""
    if isinstance(op, loop.AllocOp) and op.parent is not None:
        before = op.prev_op
        while before is not None:
            if isinstance(before, loop.AllocOp) and before.results[0].type == op.results[0].type:
                yield lambda before=before: replace(op, before.results[0])
            before = before.prev_op


@mutation("loop")
def wrong_buffer(op: Operation, random: Random) -> Iterator[Change]:
    """An access of another buffer of the same type."""
    if isinstance(op, loop.LoadOp):
        func: Operation | None = op.parent_op()
        while func is not None and not isinstance(func, loop.FuncOp):
            func = func.parent_op()
        if isinstance(func, loop.FuncOp):
            outputs = func.outputs.value.data
            buffers = [a for a in func.args if isinstance(a.type, MemRefType)]
            for other in buffers[: len(buffers) - outputs]:
                if other is not op.buffer and other.type == op.buffer.type:
                    yield lambda other=other: op.operands.__setitem__(0, other)


@mutation("loop")
def hoisted_load(op: Operation, random: Random) -> Iterator[Change]:
    """A load is moved out of a loop that changes what it reads."""
    outer = op.parent_op()
    if isinstance(op, loop.LoadOp) and isinstance(outer, loop.ForOp):
        inside = set(outer.body.block.args) | {r for inner in outer.walk() for r in inner.results}
        stored = {inner.buffer for inner in outer.walk() if isinstance(inner, loop.StoreOp)}
        if op.buffer in stored and not inside & set(op.operands):
            yield lambda: move_before(op, outer)


# --- values ------------------------------------------------------------------------------------------------------


@mutation("loop")
def swapped_loop_operands(op: Operation, random: Random) -> Iterator[Change]:
    """The operands of a difference, a quotient or a comparison are exchanged."""
    if isinstance(op, arith.SubfOp | arith.DivfOp | loop.CompareOp | arith.SubiOp) and same_types(op):
        yield lambda: swap_operands(op)


@mutation("loop")
def dropped_loop_op(op: Operation, random: Random) -> Iterator[Change]:
    """An op of an epilogue is left out."""
    kinds = arith.AddfOp | arith.MulfOp | arith.MaximumfOp | arith.MinimumfOp | arith.SubfOp | arith.DivfOp
    if isinstance(op, kinds) or op.name.startswith("math."):
        for value in op.operands:
            if value.type == op.results[0].type:
                yield lambda value=value: replace(op, value)


@mutation("loop")
def wrong_loop_comparison(op: Operation, random: Random) -> Iterator[Change]:
    """A comparison with another predicate."""
    other = {"lt": "ge", "gt": "le", "le": "gt", "ge": "lt"}
    if isinstance(op, loop.CompareOp) and op.predicate.data[1:] in other and op.predicate.data[0] in "os":
        name = op.predicate.data[0] + other[op.predicate.data[1:]]
        yield lambda: op.properties.__setitem__("predicate", StringAttr(name))


@mutation("loop")
def swapped_select(op: Operation, random: Random) -> Iterator[Change]:
    """The values of a selection are exchanged."""
    if isinstance(op, loop.SelectOp) and same_types(op, 1, 2):
        yield lambda: swap_operands(op, 1, 2)


@mutation("loop")
def swapped_vectors(op: Operation, random: Random) -> Iterator[Change]:
    """An op on vectors reads another vector of the same type that is at hand."""
    if op.operands and op.name.startswith(("arith.", "loop.fma", "math.")):
        block = op.parent
        before = op.prev_op
        for _ in range(6):
            if before is None or block is None:
                return
            for k, value in enumerate(op.operands):
                if before.results and before.results[0] is not value and before.results[0].type == value.type:
                    yield lambda k=k, v=before.results[0]: op.operands.__setitem__(k, v)
            before = before.prev_op


def move_before(op: Operation, anchor: Operation) -> None:
    """Move an operation in front of another one."""
    block = anchor.parent
    assert block is not None
    op.detach()
    block.insert_op_before(op, anchor)


# --- what a schedule must not do -----------------------------------------------------------------------------------


def carries(op: loop.ForOp) -> bool:
    """Whether some block in a loop reduces along it."""
    for block in op.walk():
        if isinstance(block, loop.BlockOp):
            for e in block.bindings.data[block.num_spatial :]:
                if any(block.args[d] is op.iv for d in e.dims() if d >= 0):
                    return True
    return False


@mutation("schedule", "race", SCHEDULE)
def parallel_reduction(op: Operation, random: Random) -> Iterator[Change]:
    """A loop that carries a reduction runs in parallel: a race."""
    if isinstance(op, loop.ForOp) and op.kind.data == "serial" and not op.results and (op.extent or 0) != 1:
        if carries(op) and not any(isinstance(f, loop.ForOp) and f.kind.data == "parallel" for f in op.walk()):
            yield lambda: op.properties.__setitem__("kind", loop.KINDS["parallel"])


@mutation("loop", "race", ("loop-partition", "loop-form-tiles", "loop-compact-buffers", "loop-promote-tiles"))
def parallel_loop_that_carries(op: Operation, random: Random) -> Iterator[Change]:
    """A loop becomes parallel whose iterations accumulate in memory, or share a buffer."""
    if isinstance(op, loop.ForOp) and op.kind.data == "serial" and not op.results and (op.extent or 0) > 1:
        inside = {inner.buffer for inner in op.walk() if isinstance(inner, loop.StoreOp)}
        for store in op.walk():
            if isinstance(store, loop.StoreOp) and op.iv not in store.operands and store.buffer in inside:
                owner = store.buffer.owner
                if isinstance(owner, Operation) and is_inside(owner, op):
                    continue
                reads = [x for x in op.walk() if isinstance(x, loop.LoadOp) and x.buffer is store.buffer]
                if reads and not any(isinstance(f, loop.ForOp) and f.kind.data == "parallel" for f in op.walk()):
                    yield lambda: op.properties.__setitem__("kind", loop.KINDS["parallel"])
                    return


def is_inside(op: Operation, outer: Operation) -> bool:
    """Whether an operation stands in another one."""
    parent = op.parent_op()
    while parent is not None:
        if parent is outer:
            return True
        parent = parent.parent_op()
    return False


@mutation("schedule", passes=SCHEDULE)
def wrong_split_factor(op: Operation, random: Random) -> Iterator[Change]:
    """The outer loop of a split has the wrong factor in the index."""
    if isinstance(op, loop.BlockOp):
        for k, e in enumerate(op.bindings.data):
            for n, (term, c) in enumerate(e.terms):
                if isinstance(term, int) and c > 1:
                    terms = (*e.terms[:n], (term, c - 1), *e.terms[n + 1 :])
                    yield with_exprs(op, "bindings", replaced(op.bindings.data, k, type(e)(e.const, terms)))


@mutation("schedule", passes=SCHEDULE)
def init_inside_reduction(op: Operation, random: Random) -> Iterator[Change]:
    """A decomposed reduction is initialised inside of the reduction loop."""
    if isinstance(op, loop.ForOp) and not op.results and carries(op):
        before, first = op.prev_op, op.body.block.first_op
        if before is None or first is None:
            return
        if any(isinstance(b, loop.BlockOp) and b.name_.endswith("_init") for b in before.walk()):
            yield lambda: move_before(before, first)


@mutation("schedule", passes=SCHEDULE)
def epilogue_inside_reduction(op: Operation, random: Random) -> Iterator[Change]:
    """A consumer is computed inside of the loop that reduces what it reads, with the value of its first iteration."""
    if isinstance(op, loop.ForOp) and not op.results and carries(op) and (op.extent is None or op.extent > 1):
        after = op.next_op
        if after is not None and not isinstance(after, loop.YieldOp):
            yield lambda: move_before(after, op)


@mutation("schedule", passes=SCHEDULE)
def swapped_statements(op: Operation, random: Random) -> Iterator[Change]:
    """A nest is computed behind the nest that reads it."""
    if isinstance(op, loop.ForOp | loop.BlockOp) and not op.results:
        after = op.next_op
        if isinstance(after, loop.ForOp | loop.BlockOp) and not after.results:
            yield lambda: move_before(after, op)


@mutation("schedule", passes=SCHEDULE)
def buffer_too_small(op: Operation, random: Random) -> Iterator[Change]:
    """A cache of a tile is filled for one element less than its readers read."""
    if isinstance(op, loop.ForOp) and not op.results and (op.extent or 0) > 1 and op.lower.is_const:
        for inner in op.walk():
            if isinstance(inner, loop.StoreOp) and isinstance(inner.buffer.owner, loop.AllocOp):
                if buffer_type(inner.buffer).get_num_dims():
                    yield with_exprs(op, "bounds", [op.lower, op.upper - 1])
                    return


def other_buffers(op: loop.AllocOp, attribute: str) -> Iterator[Attribute]:
    """The places, other than its own, that a plan gives to buffers of the op's scope in the same kernel."""
    for other in function_of(op).walk():
        if isinstance(other, loop.AllocOp) and other is not op and other.scope == op.scope:
            place = other.attributes.get(attribute)
            if place is not None and place != op.attributes.get(attribute):
                yield place


@mutation("loop", "native", passes=("loop-plan-memory",))
def buffer_in_use(op: Operation, random: Random) -> Iterator[Change]:
    """A buffer of a kernel is put where another one is, which may be alive."""
    if isinstance(op, loop.AllocOp) and LOOP_OFFSET in op.attributes:
        for place in other_buffers(op, LOOP_OFFSET):
            yield lambda place=place: op.attributes.__setitem__(LOOP_OFFSET, place)


@mutation("loop", "native", passes=("loop-plan-memory",))
def buffer_too_close(op: Operation, random: Random) -> Iterator[Change]:
    """A buffer of a kernel begins before the end of the one in front of it."""
    offset = op.attributes.get(LOOP_OFFSET) if isinstance(op, loop.AllocOp) else None
    if isinstance(offset, IntegerAttr) and offset.value.data >= 64:
        closer = IntegerAttr(offset.value.data - random.choice((64, offset.value.data)), offset.type)
        yield lambda: op.attributes.__setitem__(LOOP_OFFSET, closer)


@mutation("loop", "native", passes=("loop-plan-memory",))
def slot_in_use(op: Operation, random: Random) -> Iterator[Change]:
    """A buffer of symbolic size shares the memory of another one, which may be alive."""
    if isinstance(op, loop.AllocOp) and LOOP_SLOT in op.attributes:
        for place in other_buffers(op, LOOP_SLOT):

            def change(place: Attribute = place) -> None:
                own = op.attributes.pop(LOOP_SLOT)
                op.attributes[LOOP_SHARES] = place
                for other in function_of(op).walk():
                    if other.attributes.get(LOOP_SHARES) == own:
                        other.attributes[LOOP_SHARES] = place

            yield change
