"""
Bufferizes the control flow of @main: graph.if, graph.loop and graph.scan become scf ops around calls on buffers.

    carried values       one buffer each, into which the initial value is copied. The call that computes the next value
                         writes it in place if the old value has no later reader, else a copy ends the body
    scanned rows         runtime.row of the scanned buffer
    stacked rows         runtime.row of the result buffer: a call writes its row in place
    results of an if     one buffer each, which both regions write

`visit` assigns storages, region by region, in the order of the steps that the planner counts; a value from outside
that a loop's body reads stays alive until the end of the loop. `write` emits the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xdsl.dialects import arith, memref, scf
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects import runtime
from mlc.dialects.graph import CallOp, ControlOp, IfOp, LoopOp, ReshapeOp, ScanOp, YieldOp
from mlc.dialects.graph.dims import Dim
from mlc.dialects.scalar import INDEX
from mlc.lowering.graph_to_main.storage import Storage

if TYPE_CHECKING:
    from mlc.lowering.graph_to_main.convert import Converter
    from mlc.lowering.graph_to_main.writer import MainWriter

Copies = list[tuple[SSAValue | Storage, Storage]]


@dataclass(eq=False)
class Flow:
    """The copies, row views and flags that the lowering of one control op emits around its calls."""

    before: Copies = field(default_factory=list)
    """Copies of the initial values into the buffers of carried values."""
    fills: list[Storage] = field(default_factory=list)
    """Stacked results to be zeroed first, because iterations may end early and leave rows unwritten."""
    rows: list[tuple[Storage, Storage | SSAValue, bool]] = field(default_factory=list)
    """(row, the buffer that contains it, whether iterations run backward over the buffer)."""
    ends: list[Copies] = field(default_factory=list)
    """For each region, the copies at its end."""
    counter: Storage | None = None
    condition: Storage | None = None
    count: Storage | None = None


def visit(c: Converter, op: Operation) -> None:
    """Assign storages to the values of a control op and of its regions."""
    assert isinstance(op, ControlOp)
    flow = c.flows[op] = Flow()
    c.use(op)
    start = c.steps
    results = [_new(c, op, result) for result in op.results]
    for storage, result in zip(results, op.results, strict=True):
        c.storages[result] = storage
    if isinstance(op, LoopOp) and not op.results[-1].uses:
        c.buffers.remove(results[-1])  # the number of iterations has no reader
    c.steps += 1
    if isinstance(op, IfOp):
        for region in op.regions:
            _bind(c, region.block.args, op.reads)
            _visit_region(c, flow, region.block, results)
    elif isinstance(op, LoopOp):
        _visit_loop(c, flow, op, results)
    else:
        assert isinstance(op, ScanOp)
        _visit_scan(c, flow, op, results)
    if not isinstance(op, IfOp):
        for storage in c.buffers:
            if storage.first <= start < storage.last:
                storage.last = max(storage.last, c.steps - 1)
    for storage in results:
        storage.last = max(storage.last, c.steps - 1)


def _new(c: Converter, op: Operation, value: SSAValue) -> Storage:
    """A new buffer of a value's type, alive from the current step on."""
    storage = Storage.of(op, value.type, first=c.steps, last=c.steps)
    c.buffers.append(storage)
    return storage


def _bind(c: Converter, arguments: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
    """Give block arguments the storages of the outside values to which they are bound."""
    for argument, value in zip(arguments, values, strict=True):
        c.storages[argument] = c.storages[value]
        if value in c.starts:
            c.starts[argument] = c.starts[value]


def _visit_loop(c: Converter, flow: Flow, op: LoopOp, results: list[Storage]) -> None:
    arguments, count = op.body.block.args, len(op.carried)
    targets = list(results[:-1])
    flow.before = list(zip(op.carried, targets, strict=False))
    if op.condition is not None:
        flow.condition = _new(c, op, op.condition)
        flow.before.append((op.condition, flow.condition))
    if op.results[-1].uses:
        flow.count = results[-1]
    if arguments[0].uses:
        flow.counter = _new(c, op, arguments[0])
        c.storages[arguments[0]] = flow.counter
    c.storages.update(zip(arguments[1:], targets[:count], strict=False))
    _bind(c, arguments[1 + count :], op.reads)
    if not op.always:
        flow.fills = targets[count:]
    targets[count:] = [_row(flow, stack, stack, False) for stack in targets[count:]]
    _visit_region(c, flow, op.body.block, targets if flow.condition is None else [flow.condition, *targets])
    for storage in (flow.condition, flow.counter):
        if storage is not None:
            storage.last = c.steps - 1


def _visit_scan(c: Converter, flow: Flow, op: ScanOp, results: list[Storage]) -> None:
    arguments, count, rows = op.body.block.args, len(op.carried), len(op.rows)
    targets = list(results)
    flow.before = list(zip(op.carried, targets, strict=False))
    c.storages.update(zip(arguments[:count], targets, strict=False))
    for index, (argument, value) in enumerate(zip(arguments[count:], op.rows, strict=False)):
        c.storages[argument] = _row(flow, Storage.of(op, argument.type), value, op.is_backward(index))
    _bind(c, arguments[count + rows :], op.reads)
    stacks = enumerate(targets[count:])
    targets[count:] = [_row(flow, stack, stack, op.is_backward(rows + k)) for k, stack in stacks]
    _visit_region(c, flow, op.body.block, targets)
    for value in op.rows:
        c.storage(value).last = c.steps - 1


def _row(flow: Flow, like: Storage, whole: Storage | SSAValue, backward: bool) -> Storage:
    """The row of the buffer `whole` in the current iteration; `like` has the row's type, or is the buffer itself."""
    row = Storage(like.shape[1:] if like is whole else like.shape, like.element, moves=True)
    flow.rows.append((row, whole, backward))
    return row


def _visit_region(c: Converter, flow: Flow, block: Block, targets: Sequence[Storage]) -> None:
    """Visit the ops of a region, and arrange that the yielded values end up in the targets."""
    for op in block.ops:
        if not isinstance(op, YieldOp):
            c.visit(op)
    last = block.last_op
    assert last is not None
    flow.ends.append(_yield_copies(c, last, targets))
    c.steps += 1


def _yield_copies(c: Converter, last: Operation, targets: Sequence[Storage]) -> Copies:
    """
    The copies at the end of a region; yielded values without a copy are computed directly in their targets.

    A value whose storage another copy overwrites first is copied through a temporary.
    """
    pairs = list(zip(last.operands, targets, strict=True))
    pairs = [(v, target) for v, target in pairs if c.storage(v) is not target or v in c.starts]
    late = [(v, target) for v, target in pairs if not _is_fresh(v, c.storage(v), last.parent)]
    for value, _ in late:
        c.storage(value).last = max(c.storage(value).last, c.steps)
    for value, target in pairs:
        source = c.storage(value)
        if (value, target) in late:
            continue
        # A value yielded as a row and as carried state is computed in the row; the state is a copy of it.
        again = sum(v is value for v, _ in pairs) > 1 and not target.moves
        if again or source.moves or target.last >= source.first:
            late.append((value, target))
            source.last = max(source.last, c.steps)
        else:
            source.instead = target
    overwritten = {target for _, target in late if not target.moves}
    first: Copies = []
    then: Copies = []
    for value, target in late:
        if c.storage(value) in overwritten and not target.moves:
            temporary = _new(c, last, value)
            first.append((value, temporary))
            then.append((temporary, target))
        else:
            (first if target.moves else then).append((value, target))
    return first + then


def _is_fresh(value: SSAValue, source: Storage, block: Block | None) -> bool:
    """Whether a call in this block computes the value into a buffer that is not part of another one."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.operands[0]
    owner = value.owner
    return isinstance(owner, CallOp) and owner.parent is block and source.inside is None and source.instead is None


# --- the IR ------------------------------------------------------------------------------------------------------


def write(w: MainWriter, op: ControlOp, flow: Flow) -> None:
    """Emit the scf op of a control op, and the copies and fills before it."""
    _copies(w, flow.before)
    for stack in flow.fills:
        w.block.add_op(runtime.FillOp(w.shaped(stack), w.sizes.open(stack.bytes)))
    if isinstance(op, IfOp):
        then, other = (_region(w, op, flow, k, Block()) for k in range(2))
        w.block.add_op(scf.IfOp(_load(w, w.value(op.condition)), [], then, other))
        return
    if flow.condition is None:
        _for(w, op, flow)
    else:
        _while(w, op, flow)


def _for(w: MainWriter, op: ControlOp, flow: Flow) -> None:
    length = _bound(w, op)
    body = Block(arg_types=[INDEX])
    region = _region(w, op, flow, 0, body, length)
    w.block.add_op(scf.ForOp(_index(w, 0), length, _index(w, 1), [], region))
    if flow.count is not None:
        ran = _op(w, arith.MaxSIOp(length, _index(w, 0)))
        _store(w, ran, flow.count)


def _while(w: MainWriter, op: ControlOp, flow: Flow) -> None:
    assert isinstance(op, LoopOp)
    assert flow.condition is not None
    bound = _bound(w, op) if op.limit is not None or op.at_most.value.data >= 0 else None
    zero, condition = _index(w, 0), w.shaped(flow.condition)
    before, outer = Block(arg_types=[INDEX]), w.block
    w.block = before
    more = _load(w, condition)
    if bound is not None:
        more = _op(w, arith.AndIOp(more, _op(w, arith.CmpiOp(before.args[0], bound, "slt"))))
    before.add_op(scf.ConditionOp(more, before.args[0]))
    w.block = outer
    after = _region(w, op, flow, 0, Block(arg_types=[INDEX]), bound)
    loop = scf.WhileOp([zero], [INDEX], Region(before), after)
    w.block.add_op(loop)
    if flow.count is not None:
        _store(w, loop.results[0], flow.count)


def _bound(w: MainWriter, op: ControlOp) -> SSAValue:
    """The upper bound of the number of iterations, as an index."""
    if isinstance(op, ScanOp):
        return _index(w, op.length)
    assert isinstance(op, LoopOp)
    most = op.at_most.value.data
    if op.limit is None:
        return _index(w, most)
    limit = _op(w, arith.IndexCastOp(_load(w, w.value(op.limit)), INDEX))
    return limit if most < 0 else _op(w, arith.MinSIOp(limit, _index(w, most)))


def _region(
    w: MainWriter, op: ControlOp, flow: Flow, which: int, block: Block, length: SSAValue | None = None
) -> Region:
    """Emit a region's ops into `block`; the first block argument of a loop's body is the iteration number."""
    outer, w.block = w.block, block
    if flow.counter is not None:
        _store(w, block.args[0], flow.counter)
    for row, whole, backward in flow.rows:
        index: SSAValue = block.args[0]
        if backward:
            assert length is not None
            index = _op(w, arith.SubiOp(_op(w, arith.SubiOp(length, _index(w, 1))), index))
        stack = w.shaped(whole) if isinstance(whole, Storage) else w.value(whole)
        row.value = _op(w, runtime.RowOp(stack, index, row.type, w.sizes.open(row.bytes)))
    w.write_ops(op.regions[which].block.ops)
    _copies(w, flow.ends[which])
    if isinstance(op, LoopOp) and flow.condition is not None:
        block.add_op(scf.YieldOp(_op(w, arith.AddiOp(block.args[0], _index(w, 1)))))
    else:
        block.add_op(scf.YieldOp())
    w.block = outer
    return Region(block)


def _copies(w: MainWriter, copies: Copies) -> None:
    for source, target in copies:
        value = w.shaped(source) if isinstance(source, Storage) else w.cast(w.value(source), target, w.block)
        w.copy(value, w.shaped(target), target)


def _index(w: MainWriter, value: Dim) -> SSAValue:
    return w.sizes(value)


def _op(w: MainWriter, op: Operation) -> SSAValue:
    w.block.add_op(op)
    return op.results[0]


def _load(w: MainWriter, buffer: SSAValue) -> SSAValue:
    return _op(w, memref.LoadOp.get(buffer, []))


def _store(w: MainWriter, index: SSAValue, target: Storage) -> None:
    """Store an index into a buffer of one integer."""
    number = _op(w, arith.IndexCastOp(index, target.type.element_type))
    w.block.add_op(memref.StoreOp.get(number, w.shaped(target), []))


__all__ = ["Flow", "visit", "write"]
