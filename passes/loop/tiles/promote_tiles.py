"""loop-promote-tiles: scalar replacement - accumulators in memory become values that loops carry (LLVM's promotion)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeAlias

from xdsl.context import Context
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, ModuleOp, VectorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop, scalar
from mlc.dialects.index import ZERO, Index, const
from mlc.dialects.walk import walk
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.tiles.sink_reductions import sink_reduction
from mlc.targets.cost.thresholds import HOISTED_ELEMENTS

PURE = (
    *(op for op in (*arith.Arith.operations, *math.Math.operations) if op not in scalar.TRAPPING),
    *(loop.FmaOp, loop.ContractOp, loop.BroadcastOp, loop.ConcatOp, loop.SliceOp, loop.ReduceOp, loop.CompareOp),
    *(loop.SelectOp, loop.CastOp, loop.IndexOp, loop.CallIntrinsicOp),
)

_TOUCH_MEMORY = {loop.LoadOp, loop.StoreOp, loop.GatherOp, loop.ExternCallOp}

Key: TypeAlias = tuple[SSAValue, tuple[Index, ...], int, tuple[int, ...]]
"""What an access reads or writes: the buffer, the expressions of the index and then of the mask, the number of
expressions of the index, and the shape."""


class Promotion:
    """Promotes the accumulators of one kernel."""

    def __init__(self, func: loop.FuncOp) -> None:
        self.func = func
        self.space = IndexSpace()

    def run(self) -> None:
        """Carry accumulators and forward stores, innermost loops first; then drop buffers that are never read."""
        self.block(self.func.body.block)
        self.drop_unread_buffers()

    def block(self, block: Block) -> None:
        """Promote in the loops of a block, then forward stores to loads in the block itself."""
        for op in list(block.ops):
            if isinstance(op, loop.ForOp):
                self.block(op.body.block)
                self.carry(op)
        self.forward(block)
        loop_ = block.parent_op()
        if isinstance(loop_, loop.ForOp) and loop_.kind.data != "parallel":
            hoist_invariants(loop_)

    def key(self, op: loop.LoadOp | loop.StoreOp) -> Key:
        """A key that is equal for accesses of the same elements; a tile of one element counts as a scalar."""
        exprs = self.space.exprs((*op.map.data, *op.mask_exprs), op.indices)
        shape = loop.shape_of(op.value.type if isinstance(op, loop.StoreOp) else op.result.type)
        if all(n == 1 for n in shape):
            shape = ()
        return op.buffer, exprs, len(op.map.data), tuple(shape)

    # --- stores to loads ---

    def forward(self, block: Block) -> None:
        """Store-to-load forwarding, and elimination of stores that are overwritten before they are read."""
        known: dict[Key, SSAValue] = {}
        masked: dict[Key, SSAValue] = {}
        last: dict[Key, loop.StoreOp] = {}
        for op in list(block.ops):
            if type(op) not in _TOUCH_MEMORY and not op.regions:
                continue
            if isinstance(op, loop.StoreOp):
                key = self.key(op)
                if (before := last.get(key)) is not None:
                    before.detach()
                    before.erase()
                self._forget(op.buffer, known, masked, last)
                if op.mask is None:
                    known[key], last[key] = op.value, op
                else:
                    masked[key] = op.value
            elif isinstance(op, loop.LoadOp):
                value = known.get(self.key(op)) or self.sliced(op, known) or self.selected(op, masked)
                if value is not None and _replace_load(op, value):
                    continue
                self._read(last, op.buffer)
            elif isinstance(op, loop.GatherOp):
                self._read(last, op.buffer)
            elif op.regions or isinstance(op, loop.ExternCallOp):
                for inner in walk(op):
                    if isinstance(inner, loop.ExternCallOp):
                        for buffer in inner.buffers:
                            self._forget(buffer, known, masked, last)
                    elif isinstance(inner, loop.StoreOp):
                        self._forget(inner.buffer, known, masked, last)
                    elif isinstance(inner, loop.LoadOp | loop.GatherOp):
                        self._read(last, inner.buffer)

    def sliced(self, op: loop.LoadOp, known: Mapping[Key, SSAValue]) -> SSAValue | None:
        """The slice of a stored tile that a load reads, at one place of one of its axes."""
        if not op.tile_sizes or op.mask is not None:
            return None
        shape = loop.shape_of(op.result.type)
        exprs = self.space.exprs(op.map.data, op.indices)
        for (buffer, stored, _, _), value in known.items():
            whole = loop.shape_of(value.type)
            if buffer is not op.buffer or len(whole) != len(shape) or len(stored) != len(exprs):
                continue
            axes = [k for k, (n, m) in enumerate(zip(shape, whole, strict=True)) if n != m]
            if len(axes) == 1 and axes[0] < len(shape) - 1 and shape[axes[0]] == 1:
                at = _place(stored, exprs, -1 - axes[0])
                if at is not None and 0 <= at < whole[axes[0]]:
                    part = loop.SliceOp.make(value, axes[0], at)
                    part.location = op.location
                    assert op.parent is not None
                    op.parent.insert_op_before(part, op)
                    return part.result
        return None

    def selected(self, op: loop.LoadOp, masked: Mapping[Key, SSAValue]) -> SSAValue | None:
        """What a load of a tile finds where a store under the same mask has written; no CPU forwards it."""
        value = masked.get(self.key(op))
        if value is None or value.type != op.result.type or len(op.mask_exprs) != 1 or op.otherwise is None:
            return None
        index = loop.IndexOp.make(op.mask_exprs[0], op.indices, op.tile_sizes)
        shape = loop.shape_of(index.result.type)
        if shape != loop.shape_of(value.type) or not shape:
            return None
        zero = scalar.constant(0, IndexType())
        zeros = loop.BroadcastOp.make(zero.results[0], index.result.type)
        holds = loop.CompareOp.make("sge", index.result, zeros.result)
        chosen = loop.SelectOp.make(holds.result, value, op.otherwise)
        assert op.parent is not None
        for one in (index, zero, zeros, holds, chosen):
            one.location = op.location
            op.parent.insert_op_before(one, op)
        return chosen.result

    @staticmethod
    def _forget(buffer: SSAValue, *tables: dict[Key, Any]) -> None:
        for table in tables:
            for key in [k for k in table if k[0] is buffer]:
                del table[key]

    @staticmethod
    def _read(last: dict[Key, loop.StoreOp], buffer: SSAValue) -> None:
        for key in [k for k in last if k[0] is buffer]:
            del last[key]

    # --- out of the loop ---

    def carry(self, op: loop.ForOp) -> None:
        """An invariant load/store pair of a loop becomes a value that the loop carries."""
        if op.kind.data == "parallel" or self._is_skipped(op):
            return
        pairs = self._pairs(op)
        if not pairs:
            return
        block = op.parent
        assert block is not None
        initial: list[SSAValue] = []
        for load, _ in pairs:
            if load.otherwise is not None:
                _hoist(load.otherwise, op)
            load.detach()
            block.insert_op_before(load, op)
            initial.append(load.result)
        new = _with_carried(op, initial, [store.value for _, store in pairs])
        first = len(op.results)
        for k, (load, store) in enumerate(pairs):
            arg = new.body.block.args[1 + first + k]
            load.result.replace_uses_with_if(
                arg, lambda use, f=new: use.operation is not f and _is_inside(use.operation, f)
            )
            store.detach()
            block.insert_op_after(store, new)
            store.operands = [new.results[first + k], *store.operands[1:]]
            arg.name_hint = load.result.name_hint
        op_results = list(op.results)
        for old, result in zip(op_results, new.results, strict=False):
            old.replace_all_uses_with(result)
        op.detach()
        op.erase(safe_erase=False)
        for k in range(len(pairs)):
            sink_reduction(new, first + k)

    def _is_skipped(self, op: loop.ForOp) -> bool:
        """
        Whether promotion is skipped: the loop never runs, or has a symbolic extent of at most 1.

        The latter may run zero times, and a store sunk behind it would execute although the loop's store did not.
        """
        if op.extent is not None:
            return op.extent < 1
        lower, upper = self.space.exprs((op.lower, op.upper), op.indices)
        return (upper - lower).bounds(self.space.ranges)[1] <= 1

    def _pairs(self, op: loop.ForOp) -> list[tuple[loop.LoadOp, loop.StoreOp]]:
        """The loads and stores of a buffer at one invariant address that are the buffer's only accesses in the loop."""
        accesses: dict[SSAValue, list[Operation]] = {}
        for inner in op.body.walk():
            if isinstance(inner, loop.AccessOp):
                accesses.setdefault(inner.buffer, []).append(inner)
            elif isinstance(inner, loop.ExternCallOp):
                for buffer in inner.buffers:
                    accesses.setdefault(buffer, []).append(inner)
        pairs: list[tuple[loop.LoadOp, loop.StoreOp]] = []
        for ops in accesses.values():
            if len(ops) != 2:
                continue
            load, store = ops
            if not isinstance(load, loop.LoadOp) or not isinstance(store, loop.StoreOp):
                continue
            block = op.body.block
            if load.parent is not block or store.parent is not block or store.value is load.result:
                continue
            outside = all(not _is_defined_inside(v, op) for v in (*load.indices, *store.indices, load.buffer))
            if load.otherwise is not None:
                outside = outside and _can_hoist(load.otherwise, op) and _is_lane_wise(load, store)
            if outside and self.key(load) == self.key(store) and store.value.type == load.result.type:
                pairs.append((load, store))
        return pairs

    def drop_unread_buffers(self) -> None:
        """Drop the buffers that are only stored to, and these stores."""
        for alloc in [op for op in walk(self.func) if isinstance(op, loop.AllocOp)]:
            uses = list(alloc.result.uses)
            if all(isinstance(u.operation, loop.StoreOp) and u.operation.buffer is alloc.result for u in uses):
                for u in uses:
                    u.operation.detach()
                    u.operation.erase()
                alloc.detach()
                alloc.erase()


def _place(stored: Sequence[Index], loaded: Sequence[Index], axis: int) -> int | None:
    """The value of a tile axis, given by its dimension, with which the stored expressions are those loaded."""
    for e, f in zip(stored, loaded, strict=True):
        if step := e.coefficient(axis):
            distance = f - e.substitute({axis: ZERO})
            if not distance.is_const or distance.const % step:
                return None
            at = const(distance.const // step)
            same = all(e.substitute({axis: at}) == f for e, f in zip(stored, loaded, strict=True))
            return at.const if same else None
    return None


def _replace_load(op: loop.LoadOp, value: SSAValue) -> bool:
    """Replace a load by a known value (a scalar, too, for a tile of one element); whether it was possible."""
    t = op.result.type
    if value.type != t:
        if isinstance(value.type, VectorType) or not isinstance(t, VectorType):
            return False
        wide = loop.BroadcastOp.make(value, op.result.type)
        wide.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(wide, op)
        value = wide.result
    op.result.replace_all_uses_with(value)
    op.detach()
    op.erase()
    return True


def hoist_invariants(op: loop.ForOp) -> None:
    """
    `loop.for { %r = math.rsqrt %v ... }` -> `%r = math.rsqrt %v  loop.for { ... }`: arithmetic and small loads.

    Loop-invariant code motion. From a loop that holds loops, only constants are hoisted: other values would occupy
    registers throughout the inner loops.
    """
    parent, body = op.parent, op.body.block
    assert parent is not None
    inside: set[SSAValue] = set(body.args)
    innermost = not any(isinstance(o, loop.ForOp) for o in body.ops)
    written: set[SSAValue] | None = None
    for o in list(body.ops):
        movable = isinstance(o, PURE) if innermost else _is_constant(o)
        if innermost and isinstance(o, loop.LoadOp) and op.extent and _is_small(o):
            if written is None:
                written = _written(body)
            movable = o.buffer not in written
        if movable and not any(v in inside for v in o.operands):
            o.detach()
            parent.insert_op_before(o, op)
        else:
            inside.update(o.results)


def _written(block: Block) -> set[SSAValue]:
    """The buffers that a block may write: those that it stores to, and those that it gives to functions."""
    found: set[SSAValue] = set()
    for op in block.walk():
        if isinstance(op, loop.StoreOp):
            found.add(op.buffer)
        elif isinstance(op, loop.ExternCallOp):
            found.update(op.buffers)
    return found


def _is_small(op: loop.LoadOp) -> bool:
    return prod(loop.shape_of(op.result.type)) <= HOISTED_ELEMENTS


def _is_constant(op: Operation) -> bool:
    """Whether an op is a constant or the broadcast of one."""
    if isinstance(op, loop.BroadcastOp):
        return isinstance(op.value.owner, arith.ConstantOp)
    return isinstance(op, arith.ConstantOp)


def _can_hoist(v: SSAValue, op: loop.ForOp) -> bool:
    """Whether a value is defined outside of a loop, or computed from constants only."""
    owner = v.owner
    if not _is_defined_inside(v, op):
        return True
    return isinstance(owner, arith.ConstantOp | loop.BroadcastOp) and all(_can_hoist(x, op) for x in owner.operands)


def _hoist(v: SSAValue, op: loop.ForOp) -> None:
    """Move the ops that compute a value in front of a loop."""
    owner = v.owner
    if not _is_defined_inside(v, op) or not isinstance(owner, Operation):
        return
    for x in owner.operands:
        _hoist(x, op)
    owner.detach()
    assert op.parent is not None
    op.parent.insert_op_before(owner, op)


def _is_lane_wise(load: loop.LoadOp, store: loop.StoreOp) -> bool:
    """Whether masked-off lanes, which a carried value does not reset, never reach lanes that are stored."""
    shape = loop.shape_of(load.result.type)
    pending, seen = [load.result], set[Operation]()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user is store or user in seen:
                continue
            if isinstance(user, loop.ForOp) and use.index >= user.bounds.arity:
                k = use.index - user.bounds.arity
                pending += [user.carried[k], user.results[k]]
                continue
            if isinstance(user, loop.YieldOp):
                continue  # the loop's carried value is followed from its initial value on
            if not user.results or user.regions or any(loop.shape_of(r.type) != shape for r in user.results):
                return False
            seen.add(user)
            pending += user.results
    return True


def _is_inside(op: Operation, ancestor: Operation) -> bool:
    parent: Operation | None = op
    while parent is not None:
        if parent is ancestor:
            return True
        parent = parent.parent_op()
    return False


def _is_defined_inside(v: SSAValue, op: loop.ForOp) -> bool:
    owner = v.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        return parent is not None and _is_inside(parent, op)
    return _is_inside(owner, op)


def _with_carried(op: loop.ForOp, initial: Sequence[SSAValue], out: Sequence[SSAValue]) -> loop.ForOp:
    """The loop with more carried values, put in front of `op`, whose body it takes."""
    region = op.body
    block = region.block
    for v in initial:
        block.insert_arg(v.type, len(block.args))
    yields = op.yield_op
    yields.operands = [*yields.operands, *out]
    new = loop.ForOp.create(
        operands=[*op.operands, *initial],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        result_types=[*(r.type for r in op.results), *(v.type for v in initial)],
        regions=[op.detach_region(0)],
        location=op.location,
    )
    parent = op.parent
    assert parent is not None
    parent.insert_op_before(new, op)
    return new


def promote_tiles(func: loop.FuncOp) -> None:
    """All loops of a kernel."""
    Promotion(func).run()


class PromoteTilesPass(ModulePass):
    """
    An accumulator that a loop loads and stores at one place becomes a value that the loop carries.

    `loop.for %k { %c = loop.load %C[d0]; %n = fma ..., %c; loop.store %n, %C[d0] }`
    -> `%r = loop.for %k iter_args(%c = %first) { %n = fma ..., %c; loop.yield %n }  loop.store %r, %C[d0]`;
    stores are forwarded to loads, loop-invariant ops move in front of the loop, and buffers that are not read any more
    are dropped.
    """

    name = "loop-promote-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                promote_tiles(func)
