"""Emits @main on buffers: views, parts and casts of memory, calls, copies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import runtime
from mlc.dialects.graph import CallOp, ControlOp
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.lowering.graph_to_main import control
from mlc.lowering.graph_to_main.sizes import SizeEmitter
from mlc.lowering.graph_to_main.storage import Storage

if TYPE_CHECKING:
    from mlc.lowering.graph_to_main.convert import Converter, FixedPlan
    from mlc.lowering.graph_to_main.symbolic import SymbolicPlan


class MainWriter:
    """Emits the body of @main: views at the top of the function, views of rows in the loop that moves them."""

    def __init__(self, converter: Converter, sizes: SizeEmitter, plan: FixedPlan | SymbolicPlan, inputs: int) -> None:
        self.storage = converter.storage
        self.starts = converter.starts
        self.flows = converter.flows
        self.symbols_of_call = converter.symbols_of_call
        self.top = self.block = sizes.block
        self.sizes = sizes
        self.plan = plan
        self.inputs = inputs
        self.weights, self.workspace = self.top.args[-2], self.top.args[-1]
        self.values: dict[SSAValue, SSAValue] = {}

    def write(self, ops: Sequence[Operation], returned: Sequence[SSAValue], outputs: list[Storage | None]) -> None:
        """Emit the whole body: plan, ops, copies of outputs, return."""
        self.plan.begin(self.sizes, self.workspace)
        self.write_ops(ops)
        for index, (value, storage) in enumerate(zip(returned, outputs, strict=True)):
            if storage is None:
                self.copy(self.value(value), self.block.args[self.inputs + index], like(value))
        self.block.add_op(func.ReturnOp())

    def write_ops(self, ops: Iterable[Operation]) -> None:
        """Emit the calls and the control flow among some ops."""
        for op in ops:
            if isinstance(op, CallOp):
                self.call(op)
            elif isinstance(op, ControlOp):
                control.write(self, op, self.flows[op])

    def call(self, op: CallOp) -> None:
        """Emit one kernel call in destination-passing style, with the kernel's size arguments."""
        ins, outs = [self.value(v) for v in op.operands], [self.value(v) for v in op.results]
        sizes = [self.sizes(size) for size in self.symbols_of_call(op)]
        call = runtime.CallOp(op.callee.string_value(), ins, outs, sizes)
        call.attributes.update(op.attributes)
        call.location = op.location
        self.block.add_op(call)

    def copy(self, source: SSAValue, target: SSAValue, storage: Storage) -> None:
        """Emit a copy of as many bytes as `storage` has."""
        if isinstance(storage.bytes, int):
            self.block.add_op(memref.CopyOp(source, target))
        else:
            self.block.add_op(runtime.CopyOp(source, target, self.sizes(storage.bytes)))

    def value(self, tensor: SSAValue) -> SSAValue:
        """The buffer of a tensor, with the tensor's shape."""
        if (known := self.values.get(tensor)) is None:
            storage = self.storage(tensor)
            place = self.block if storage.root.moves else self.top
            buffer = self.buffer(storage)
            if tensor in self.starts:
                known = self.part(buffer, self.starts[tensor], like(tensor), place)
            else:
                known = self.cast(buffer, like(tensor), place)
            self.values[tensor] = known
        return known

    def shaped(self, storage: Storage) -> SSAValue:
        """The buffer of a storage, with the storage's own shape."""
        return self.cast(self.buffer(storage), storage, self.block if storage.root.moves else self.top)

    def buffer(self, storage: Storage) -> SSAValue:
        """The buffer of a storage; emitted at the first request."""
        around = [storage]
        while around[-1].value is None and (outer := around[-1].inside) is not None:
            around.append(outer)
        whole = around.pop()
        found = whole.value = self.view(whole) if whole.value is None else whole.value
        for part in reversed(around):
            found = part.value = self.part(found, part.at, part, self.top)
        return found

    def part(self, whole: SSAValue, start: Dim, like: Storage, place: Block) -> SSAValue:
        """The part of a buffer that begins at byte `start` and has the type of `like`."""
        offset, shift = (start, None) if isinstance(start, int) else (0, self.sizes(start))
        return _add(place, runtime.PartOp(whole, offset, like.type, shift, self.sizes.open(like.bytes)))

    def view(self, storage: Storage) -> SSAValue:
        """The view of the workspace or of the weights at a storage's offset."""
        memory = self.workspace if storage.key is None else self.weights
        view = memref.ViewOp(memory, self.sizes(storage.offset), [], storage.type)
        view.attributes.update(storage.facts)
        return _add(self.top, view)

    def cast(self, value: SSAValue, like: Storage, place: Block) -> SSAValue:
        """The same memory with another shape; symbolic sizes and strides are computed in @main."""
        if value.type == like.type:
            return value
        shape = like.shape
        strides: list[Any] = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        dynamic = [[self.sizes(n) for n in row if isinstance(n, DimExpr)] for row in (shape, strides)]
        static = [[DYNAMIC_INDEX if isinstance(n, DimExpr) else n for n in row] for row in (shape, strides)]
        (sizes, steps), (numbers, numbered) = dynamic, static
        return _add(place, memref.ReinterpretCastOp(value, [], sizes, steps, [0], numbers, numbered, like.type))


def like(tensor: SSAValue) -> Storage:
    """A storage of a tensor's type."""
    owner = tensor.owner if isinstance(tensor.owner, Operation) else tensor.owner.parent_op()
    assert owner is not None
    return Storage.of(owner, tensor.type)


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


__all__ = ["MainWriter"]
