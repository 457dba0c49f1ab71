"""
te -> loop: each kernel becomes plain loop nests over buffers, one block per stage.

In: `te.func`s. Out: a `loop.func` of the same name and attributes; its arguments are the inputs, the outputs, then the
sizes. A returned stage stores into its output; any other gets a shared buffer. Blocks have canonical operations only:
comparisons, selects and casts are those of the loop dialect, and a sum of products is `loop.fma`. Symbolic sizes stay
symbolic: loop bounds and block extents are expressions of the kernel's size arguments; the attribute `sizes` gives the
shapes in terms of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr, TensorType, UnknownLoc
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop, te
from mlc.dialects.index import dim
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_extern import ExternOp
from mlc.dialects.value_names import value_name
from mlc.lowering.complete import expect_converted
from mlc.lowering.te_to_loop.body import convert_body
from mlc.lowering.te_to_loop.extern import convert_extern
from mlc.lowering.te_to_loop.reduce import accumulate, combine_region, initial, point
from mlc.lowering.te_to_loop.scan import from_first_step


class ConvertTeToLoop(ModulePass):
    """
    Convert te stages to loop nests.

    `%y = te.compute "exp" (%i : 4) { %a = te.read %x[%i] : f32  %b = math.exp %a : f32  te.yield %b : f32 }`
    ->
    `loop.for %i = 0 to 4 { loop.block "exp" (%vi : 4 = %i) { ... loop.store %b, %y[%vi] : f32 } }`
    """

    name = "convert-te-to-loop"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in list(op.body.block.ops):
            if isinstance(func, te.FuncOp):
                converted = convert_func(func)
                expect_converted(converted, self.name, "te")
                op.body.block.insert_op_before(converted, func)
                func.detach()
                func.erase()


def buffer_type(t: Attribute) -> Attribute:
    """The memref type of a tensor type; other types are returned unchanged."""
    if not isinstance(t, TensorType):
        return t
    return MemRefType(t.element_type, t.shape)


@dataclass
class _Kernel:
    """A kernel under construction: the current block, and the buffer of each tensor."""

    body: Block
    buffers: dict[SSAValue, SSAValue] = field(default_factory=dict)


def convert_func(func: te.FuncOp) -> loop.FuncOp:
    """The loop.func of a te.func."""
    inputs = [a for a in func.args if isinstance(a.type, TensorType)]
    sizes = [a for a in func.args if not isinstance(a.type, TensorType)]
    results = list(func.return_op.values)
    types = [buffer_type(v.type) for v in (*inputs, *results, *sizes)]
    body = Block(arg_types=types)
    kernel = _Kernel(body)
    for old, new in zip((*inputs, *results, *sizes), body.args, strict=True):
        new.name_hint = old.name_hint
        kernel.buffers.setdefault(old, new)
    _allocate(kernel, func)
    for op in func.body.block.ops:
        if isinstance(op, te.ComputeOp):
            _convert_stage(kernel, op)
        elif isinstance(op, te.ScanOp):
            _convert_scan(kernel, op)
        elif isinstance(op, ExternOp):
            convert_extern(op, kernel.body, kernel.buffers)
    for value, out in zip(results, body.args[len(inputs) :], strict=False):
        if kernel.buffers[value] is not out:
            _convert_stage(kernel, _copy(value), {value: kernel.buffers[value]}, [out])
    new = loop.FuncOp.make(func.sym_name.data, types, len(results), Region(body))
    new.attributes |= func.attributes
    new.location = func.location
    return new


def _allocate(kernel: _Kernel, func: te.FuncOp) -> None:
    """The buffers of all stages; a scan's init, state and yielded stage share that of its result."""
    for op in reversed(list(func.body.block.ops)):
        if isinstance(op, te.ScanOp):
            _share_states(kernel, op)
    for op in func.body.block.ops:
        if isinstance(op, te.TableOp):
            kernel.buffers[op.result] = _table(kernel, op)
        for stage in op.stages if isinstance(op, te.ScanOp) else [op]:
            if isinstance(stage, te.ComputeOp | ExternOp):
                for result in stage.results:
                    if result not in kernel.buffers:
                        kernel.buffers[result] = _alloc(kernel, stage, result)
    for op in func.scans:
        for state, update, result in zip(op.states, op.yield_op.values, op.results, strict=True):
            kernel.buffers[state] = kernel.buffers[result] = kernel.buffers[update]


def _share_states(kernel: _Kernel, op: te.ScanOp) -> None:
    """Give the states of a scan their buffers, and the stages that compute their first steps the same ones."""
    for init, update, result in zip(op.inits, op.yield_op.values, op.results, strict=True):
        stage = update.owner
        assert isinstance(stage, te.ComputeOp)
        buffer = kernel.buffers.get(result) or _alloc(kernel, stage, update, result.name_hint)
        kernel.buffers[update] = kernel.buffers[result] = buffer
        if isinstance(init.owner, te.ComputeOp) and init not in kernel.buffers:
            kernel.buffers[init] = buffer


def _table(kernel: _Kernel, op: te.TableOp) -> SSAValue:
    """A table of the kernel at the loop level."""
    table = loop.TableOp.make(op.value)
    table.result.name_hint = op.result.name_hint
    table.location = op.location
    kernel.body.add_op(table)
    return table.result


def _alloc(kernel: _Kernel, stage: te.ComputeOp | ExternOp, result: SSAValue, name: str | None = None) -> SSAValue:
    """A new buffer for a result of a stage."""
    t = buffer_type(result.type)
    assert isinstance(t, MemRefType)
    shape = stage.extents.data[: stage.num_spatial] if isinstance(stage, te.ComputeOp) else stage.shape_of(result)
    sizes = [e for n, e in zip(t.get_shape(), shape, strict=True) if n < 0]
    symbols = [kernel.buffers[s] for s in stage.symbols]
    alloc = loop.AllocOp.make(t, "shared", name or result.name_hint or stage.stage_name, sizes, symbols)
    alloc.location = stage.location
    kernel.body.add_op(alloc)
    return alloc.result


def _convert_scan(kernel: _Kernel, op: te.ScanOp) -> None:
    """A serial loop over the steps, with the nests of the scan's stages in its body."""
    first = op.first_step
    for init, state in zip(op.inits, op.states, strict=True):
        if kernel.buffers[init] is not kernel.buffers[state]:
            copy = _copy(init)
            copy.properties["stage"] = StringAttr(f"{op.stage_name}_init")
            _convert_stage(kernel, copy, {init: kernel.buffers[init]}, [kernel.buffers[state]])
    steps = loop.ForOp.make(op.extent - first, operands=[kernel.buffers[s] for s in op.symbols], name="step")
    steps.location = op.location
    kernel.body.add_op(steps)
    for stage in op.stages:
        outs = [kernel.buffers[r] for r in stage.results]
        _convert_stage(kernel, from_first_step(stage, first), None, outs, steps, first)
    steps.body.block.add_op(loop.YieldOp.create())


def _copy(value: SSAValue) -> te.ComputeOp:
    """A stage that copies `value`: for a value returned twice, and for an input that is returned."""
    t = value.type
    assert isinstance(t, TensorType)
    shape = t.get_shape()
    region, block = te.build_body(len(shape))
    read = te.ReadOp.make(value, [dim(k) for k in range(len(shape))], block.args)
    block.add_ops([read, te.YieldOp.create(operands=[read.result])])
    return te.ComputeOp.make("copy", shape, [], None, [t], region)


def _convert_stage(
    kernel: _Kernel,
    stage: te.ComputeOp,
    reads: dict[SSAValue, SSAValue] | None = None,
    outs: list[SSAValue] | None = None,
    steps: loop.ForOp | None = None,
    first: int = 0,
) -> None:
    """Append the nest of a stage; in a scan, to the loop over its steps, whose results begin at the step `first`."""
    reads = kernel.buffers if reads is None else reads
    outs = [kernel.buffers[r] for r in stage.results] if outs is None else outs
    names = [a.name_hint or f"i{k}" for k, a in enumerate(stage.axes)]
    symbols = [kernel.buffers[s] for s in stage.symbols]
    outside = kernel.body if steps is None else steps.body.block
    place, ivs = _loops(outside, stage, names, symbols, [] if steps is None else [steps.iv])
    block = _block(stage, names, ivs, reads, outs, symbols, first)
    block.location = stage.location
    place.add_op(block)
    for op in block.walk():
        if isinstance(op.location, UnknownLoc):
            op.location = stage.location
    _close(place, outside)


def _loops(
    place: Block, stage: te.ComputeOp, names: Sequence[str], symbols: Sequence[SSAValue], known: Sequence[SSAValue] = ()
) -> tuple[Block, list[SSAValue]]:
    """A loop for each axis of a stage behind those whose loops are `known`: the innermost body, and all indices."""
    ivs = list(known)
    for extent, name in list(zip(stage.extents.data, names, strict=True))[len(known) :]:
        nest = loop.ForOp.make(extent, operands=symbols, name=name)
        nest.location = stage.location
        place.add_op(nest)
        place = nest.body.block
        ivs.append(place.args[0])
    return place, ivs


def _close(place: Block, until: Block) -> None:
    """Terminate the loops from the innermost out."""
    while place is not until:
        place.add_op(loop.YieldOp.create())
        nest = place.parent_op()
        assert nest is not None
        assert nest.parent is not None
        place = nest.parent


def _block(
    stage: te.ComputeOp,
    names: Sequence[str],
    ivs: Sequence[SSAValue],
    reads: dict[SSAValue, SSAValue],
    outs: Sequence[SSAValue],
    symbols: Sequence[SSAValue] = (),
    first_step: int = 0,
) -> loop.BlockOp:
    """The block of a stage; its extents are over the symbols, which follow the loops in its operands."""
    n, first = stage.num_spatial, len(ivs)
    sizes = [e.substitute(lambda d: dim(first + d)) for e in stage.extents.data]

    def region(fill: Callable[[Block], None]) -> Region:
        block = Block(arg_types=[INDEX] * len(ivs))
        for arg, name in zip(block.args, names, strict=True):
            arg.name_hint = value_name(f"v{name}")
        fill(block)
        block.add_op(loop.YieldOp.create())
        return Region(block)

    def at(block: Block) -> Sequence[SSAValue]:
        return block.args[:n]

    def body(block: Block) -> None:
        values = convert_body(stage, block, reads)
        if stage.combiner is not None:
            values = accumulate(stage, block, values, outs, at(block), first_step)
        _store(block, values, outs, at(block), first_step)

    def init(block: Block) -> None:
        assert stage.combiner is not None
        _store(block, initial(stage.combiner.data, block, stage), outs, at(block), first_step)

    at_loops, begin = [dim(k) for k in range(first)], None if stage.combiner is None else region(init)
    operands, merge = [*ivs, *symbols], combine_region(stage)
    return loop.BlockOp.make(stage.stage_name, sizes, n, at_loops, operands, region(body), begin, combine=merge)


def _store(
    block: Block, values: Sequence[SSAValue], outs: Sequence[SSAValue], at: Sequence[SSAValue], first_step: int
) -> None:
    where = {"map": point(len(at), first_step)}
    for value, out in zip(values, outs, strict=True):
        block.add_op(loop.StoreOp.create(operands=[value, out, *at], properties=dict(where)))
