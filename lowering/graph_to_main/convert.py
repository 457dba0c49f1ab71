"""
convert-graph-to-main: @main, a list of kernel calls on tensors, becomes one on buffers.

Goes in: @main after graph-outline-kernels: `graph.param`, `graph.constant`, `graph.call`, views, return.
Comes out: @main(inputs..., outputs..., %weights, %workspace), in which every tensor is

    an input or an output           the argument (its producer writes an output in place)
    a parameter or a constant       memref.view %weights[offset] {param = "name"} or {value = dense<...>}
    an intermediate                 memref.view %workspace[offset], as driver/memory_plan.py places it
    a reshape                       memref.reinterpret_cast of its operand's buffer
    a slice, a result of a split    runtime.part of its operand's buffer
    an operand of a concatenate     runtime.part of the buffer of the result: its producer writes it there

and every call is in destination-passing style: `runtime.call @k ins(...) outs(...)`.
Control flow is in control.py, symbolic sizes are in symbolic.py. The kernels stay as they are, to be lowered one by
one.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import runtime
from mlc.dialects.graph import ControlOp, ParamOp
from mlc.driver.memory_plan import Lifetime, MemoryPlan, align, plan
from mlc.lowering.graph_to_main import control
from mlc.lowering.graph_to_main.storage import Storage, byte_size, bytes_of, to_memref
from mlc.lowering.graph_to_main.symbolic import SymbolicConverter, is_symbolic
from mlc.passes.errors import fail
from mlc.passes.graph.views import part_starts

INDEX = IndexType()


@dataclass(frozen=True)
class ConvertGraphToMainPass(ModulePass):
    """
    Give every tensor of @main a buffer in one planned workspace, and call the kernels on buffers.

    `%1 = graph.call @k(%x)` -> `%1 = memref.view %workspace[%c0][]`, `runtime.call @k ins(%x) outs(%1)`
    """

    name = "convert-graph-to-main"

    function: str = "main"
    """The function to convert."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = find_function(op, self.function)
        content = _content_keys(op)
        (SymbolicConverter if is_symbolic(main) else Converter)(main, content).convert()


def find_function(module: ModuleOp, name: str) -> func.FuncOp:
    """The func.func of that name."""
    for candidate in module.body.block.ops:
        if isinstance(candidate, func.FuncOp) and candidate.sym_name.data == name:
            return candidate
    fail(module, f"expected a function @{name}, but there is none")


def _content_keys(module: ModuleOp) -> Callable[[str], Hashable]:
    """What identifies a parameter's content: the store's hash, or its name where no store is attached."""
    from mlc.passes.graph.weights import store_of

    store = store_of(module)
    return (lambda name: name) if store is None else (lambda name: store.hash(name) if name in store else name)


class Converter:
    """One run over one function: where each tensor is."""

    def __init__(self, main: func.FuncOp, content: Callable[[str], Hashable]) -> None:
        self.main = main
        self.content = content
        self.storages: dict[SSAValue, Storage] = {}
        self.starts: dict[SSAValue, int] = {}
        """Of a slice: where it is in its storage, in bytes."""
        self.constants: dict[Hashable, Storage] = {}
        self.buffers: list[Storage] = []
        self.flows: dict[Operation, control.Flow] = {}
        self.steps = 0

    def convert(self) -> None:
        """Find the storages, plan them, and write the new body."""
        main = self.main
        old = main.body.block
        inputs = [Storage(0, to_memref(main, arg.type)) for arg in old.args]
        self.storages.update(zip(old.args, inputs, strict=True))
        ops = list(old.ops)
        for op in ops:
            self.visit(op)
        returned = list(ops[-1].operands)
        outputs = self.choose_outputs(ops[-1], returned)
        inner = [s for s in self.buffers if s.instead is None and s.root not in outputs]
        planned = plan(_lifetimes(inner))
        weights = self.place_constants()
        types = [s.type for s in inputs] + [to_memref(main, v.type) for v in returned]
        types += [MemRefType(i8, [weights]), MemRefType(i8, [planned.bytes])]
        block = Block(arg_types=types)
        for argument, storage in zip(block.args, [*inputs, *outputs], strict=False):
            if storage is not None:
                storage.value = argument
        outs = [f"out{index}" for index in range(len(returned))]
        hints = [*(argument.name_hint for argument in old.args), *outs, "weights", "workspace"]
        for argument, hint in zip(block.args, hints, strict=True):
            argument.name_hint = hint
        offsets = dict(zip(inner, planned.offsets, strict=True))
        Writer(self, block, offsets, len(inputs)).write(ops, returned, outputs)
        self.replace(block, types, len(inputs), len(outputs), planned)

    def visit(self, op: Operation) -> None:
        """Note the storage of the op's results and the use of its operands."""
        visitor = _VISITORS.get(op.name)
        if visitor is None:
            fail(op, "expected only kernel calls, parameters and views in @main; run graph-outline-kernels first")
        visitor(self, op)

    def storage(self, value: SSAValue) -> Storage:
        """Where a value is."""
        return self.storages[value].final

    def visit_source(self, op: Operation) -> None:
        """A parameter or a constant."""
        self.storages[op.results[0]] = self.constant(op)

    def visit_reshape(self, op: Operation) -> None:
        """The operand's storage, in another shape."""
        (x,), (result,) = op.operands, op.results
        self.storages[result] = self.storages[x]
        if x in self.starts:
            self.starts[result] = self.starts[x]

    def visit_part(self, op: Operation) -> None:
        """A part of the operand's storage."""
        x, starts = op.operands[0], part_starts(op)
        if starts is None or (self.storages[x].key is not None and isinstance(x.owner, Operation)):
            fail(op, f"expected a {op.name} in @main to be one piece of a computed tensor; run graph-outline-kernels")
        size = byte_size(to_memref(op, x.type).element_type)
        for result, start in zip(op.results, starts, strict=True):
            self.storages[result] = self.storages[x]
            self.starts[result] = self.starts.get(x, 0) + start * size

    def visit_concatenate(self, op: Operation) -> None:
        """A storage that those of the operands become parts of."""
        type_ = to_memref(op, op.results[0].type)
        whole = Storage(bytes_of(type_), type_, last=self.steps)
        start = 0
        for index, operand in enumerate(op.operands):
            part = self.storage(operand)
            if part not in self.buffers or part.inside is not None or operand in self.starts:
                fail(op, f"expected operand {index} to be written for it alone; run graph-outline-kernels first")
            part.inside, part.at = whole, start
            start += part.bytes
        self.storages[op.results[0]] = whole
        self.buffers.append(whole)

    def visit_call(self, op: Operation) -> None:
        """A kernel reads the operands and writes the results."""
        self.use(op)
        for result in op.results:
            type_ = to_memref(op, result.type)
            storage = Storage(bytes_of(type_), type_, first=self.steps, last=self.steps)
            self.storages[result] = storage
            self.buffers.append(storage)
        self.steps += 1

    def use(self, op: Operation) -> None:
        """The operands are in use now."""
        for operand in op.operands:
            self.storage(operand).last = self.steps

    def constant(self, op: Operation) -> Storage:
        """The storage of a parameter or constant; equal contents of one type share it."""
        type_ = to_memref(op, op.results[0].type)
        if isinstance(op, ParamOp):
            key: Hashable = self.content(op.entry)
            facts: dict[str, Attribute] = {"param": op.properties["entry"]}
        else:
            value = op.properties["value"]
            assert isinstance(value, DenseIntOrFPElementsAttr)
            key, facts = (value.data, type_.element_type), {"value": value}
        key = (key, bytes_of(type_))
        return self.constants.setdefault(key, Storage(bytes_of(type_), type_, key, facts))

    def choose_outputs(self, ret: Operation, returned: Sequence[SSAValue]) -> "list[Storage | None]":
        """The intermediate that each output argument is; None where the output needs a copy."""
        outputs: list[Storage | None] = []
        for value in returned:
            storage = self.storage(value)
            mine = storage in self.buffers and storage not in outputs and storage.inside is None
            mine = mine and value not in self.starts
            outputs.append(storage if mine else None)
        return outputs

    def place_constants(self) -> int:
        """Give each constant its offset in the blob of weights; return the blob's size."""
        total = 0
        for storage in self.constants.values():
            storage.first = total
            total += align(storage.bytes)
        return total

    def replace(self, block: Block, types: Sequence[Attribute], inputs: int, outputs: int, planned: MemoryPlan) -> None:
        """Put the new body in place of the old one."""
        main = self.main
        for op in reversed(list(main.body.block.ops)):
            op.detach()
            op.erase(safe_erase=False)
        main.body.detach_block(main.body.block)
        main.body.add_block(block)
        names = _name_attributes(main, inputs, outputs)
        main.properties.pop("res_attrs", None)
        if names is not None:
            main.properties["arg_attrs"] = names
        main.function_type = FunctionType.from_lists(types, [])
        figures = {"bytes": planned.bytes, "sum": planned.sum_bytes, "bound": planned.bound_bytes}
        main.attributes["mlc.inputs"] = IntegerAttr(inputs, i64)
        main.attributes["mlc.outputs"] = IntegerAttr(outputs, i64)
        main.attributes["mlc.plan"] = DictionaryAttr({k: IntegerAttr(v, i64) for k, v in figures.items()})


_VISITORS: dict[str, Callable[[Converter, Operation], None]] = {
    "graph.param": Converter.visit_source,
    "graph.constant": Converter.visit_source,
    "graph.reshape": Converter.visit_reshape,
    "graph.slice": Converter.visit_part,
    "graph.split": Converter.visit_part,
    "graph.concatenate": Converter.visit_concatenate,
    "graph.call": Converter.visit_call,
    "func.return": Converter.use,
    "graph.if": control.visit,
    "graph.loop": control.visit,
    "graph.scan": control.visit,
}


def _lifetimes(storages: Sequence[Storage]) -> list[Lifetime]:
    """What the planner reads; a part names the number of what it is in."""
    number = {storage: index for index, storage in enumerate(storages)}
    return [Lifetime(s.bytes, s.first, s.last, None if s.inside is None else number[s.inside], s.at) for s in storages]


def _name_attributes(main: func.FuncOp, inputs: int, outputs: int) -> "ArrayAttr[DictionaryAttr] | None":
    """The attributes of the arguments and results, for the arguments that they become."""
    if main.arg_attrs is None and main.res_attrs is None:
        return None
    empty = DictionaryAttr({})
    arguments = main.arg_attrs.data if main.arg_attrs is not None else (empty,) * inputs
    results = main.res_attrs.data if main.res_attrs is not None else (empty,) * outputs
    return ArrayAttr([*arguments, *results, empty, empty])


class Writer:
    """Writes the body on buffers."""

    def __init__(self, converter: Converter, block: Block, offsets: dict[Storage, int], inputs: int) -> None:
        self.storage = converter.storage
        self.starts = converter.starts
        self.flows = converter.flows
        self.top = self.block = block
        """Views of what does not move stand at the top, the rest where it is used."""
        self.offsets = offsets
        self.inputs = inputs
        self.weights, self.workspace = block.args[-2], block.args[-1]
        self.values: dict[SSAValue, SSAValue] = {}
        self.indices: dict[int, SSAValue] = {}

    def write(self, ops: Sequence[Operation], returned: Sequence[SSAValue], outputs: "list[Storage | None]") -> None:
        """All of it."""
        self.write_ops(ops)
        for index, (value, storage) in enumerate(zip(returned, outputs, strict=True)):
            if storage is None:
                target = self.block.args[self.inputs + index]
                self.block.add_op(memref.CopyOp(self.cast(self.value(value), target.type), target))
        self.block.add_op(func.ReturnOp())

    def write_ops(self, ops: Iterable[Operation]) -> None:
        """The calls and the control flow among some ops."""
        for op in ops:
            if op.name == "graph.call":
                self.call(op)
            elif isinstance(op, ControlOp):
                control.write(self, op, self.flows[op])

    def call(self, op: Operation) -> None:
        """One kernel call in destination-passing style."""
        ins, outs = [self.value(v) for v in op.operands], [self.value(v) for v in op.results]
        call = runtime.CallOp(op.properties["callee"].string_value(), ins, outs)  # pyright: ignore
        call.attributes.update(op.attributes)
        call.location = op.location
        self.block.add_op(call)

    def value(self, tensor: SSAValue) -> SSAValue:
        """The buffer of a tensor, with the tensor's shape."""
        if (known := self.values.get(tensor)) is None:
            type_ = to_memref(self.main_op(tensor), tensor.type)
            storage = self.storage(tensor)
            place = self.block if storage.root.moves else self.top
            buffer = self.buffer(storage)
            if tensor in self.starts:
                known = _add(place, runtime.PartOp(buffer, self.starts[tensor], type_))
            else:
                known = self.cast(buffer, type_, place)
            self.values[tensor] = known
        return known

    def shaped(self, storage: Storage) -> SSAValue:
        """The buffer that a storage is, with the storage's own shape."""
        return self.cast(self.buffer(storage), storage.type, self.block if storage.root.moves else self.top)

    def buffer(self, storage: Storage) -> SSAValue:
        """The buffer that a storage is."""
        if storage.value is None:
            if storage.inside is None:
                storage.value = self.view(storage)
            else:
                whole = self.buffer(storage.inside)
                storage.value = _add(self.top, runtime.PartOp(whole, storage.at, storage.type))
        return storage.value

    def index(self, value: int) -> SSAValue:
        """A constant, once."""
        if value not in self.indices:
            self.indices[value] = _add(self.top, arith.ConstantOp(IntegerAttr(value, INDEX)))
        return self.indices[value]

    @staticmethod
    def main_op(tensor: SSAValue) -> Operation:
        """An op to blame for a tensor's type."""
        owner = tensor.owner
        return owner if isinstance(owner, Operation) else owner.parent_op()  # pyright: ignore[reportReturnType]

    def view(self, storage: Storage) -> SSAValue:
        """The view of the workspace or of the weights that a storage is."""
        is_weight = storage not in self.offsets
        offset = storage.first if is_weight else self.offsets[storage]
        constant = arith.ConstantOp(IntegerAttr(offset, INDEX))
        base = self.weights if is_weight else self.workspace
        view = memref.ViewOp(base, constant, [], storage.type)
        view.attributes.update(storage.facts)
        self.top.add_ops([constant, view])
        return view.result

    def cast(self, value: SSAValue, type_: Attribute, place: Block | None = None) -> SSAValue:
        """The same memory with another shape; the op goes where we are, or to `place`."""
        if value.type == type_:
            return value
        assert isinstance(type_, MemRefType)
        shape = type_.get_shape()
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        return _add(place or self.block, memref.ReinterpretCastOp(value, [], [], [], [0], shape, strides, type_))


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def plan_of(main: func.FuncOp) -> MemoryPlan:
    """The plan's figures that the conversion left on @main."""
    figures = main.attributes["mlc.plan"]
    assert isinstance(figures, DictionaryAttr)
    values = {k: v.value.data for k, v in figures.data.items() if isinstance(v, IntegerAttr)}
    return MemoryPlan((), values["bytes"], values["sum"], values["bound"])


def is_main_on_buffers(main: func.FuncOp) -> bool:
    """Whether the function has been converted."""
    return "mlc.plan" in main.attributes


__all__ = ["ConvertGraphToMainPass", "bytes_of", "find_function", "is_main_on_buffers", "plan_of"]
