"""
convert-graph-to-main: @main, a list of kernel calls on tensors, becomes one on buffers.

Goes in: @main after graph-outline-kernels: `graph.param`, `graph.constant`, `graph.call`, views, return.
Comes out: @main(inputs..., outputs..., %weights, %workspace), in which every tensor is

    an input or an output           the argument (its producer writes an output in place)
    a parameter or a constant       memref.view %weights[offset] {param = "name"} or {value = dense<...>}
    an intermediate                 memref.view %workspace[offset], as lowering/memory/ places it
    a reshape                       memref.reinterpret_cast of its operand's buffer
    a slice, a result of a split    runtime.part of its operand's buffer
    an operand of a concatenate     runtime.part of the buffer of the result: its producer writes it there

and every call is in destination-passing style: `runtime.call @k ins(...) outs(...)`.
With symbolic sizes the symbols are arguments, @main(inputs..., outputs..., symbols..., %weights, %workspace); sizes and
offsets are arithmetic on them, and calls hand each kernel those that it is made of: `sizes(...)`. Control flow is in
control.py, the plan of symbolic sizes in symbolic.py. The kernels stay as they are, to be lowered one by one.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from mlc.dialects.attributes import MAIN_INPUTS, MAIN_OUTPUTS, MAIN_PLAN, MAIN_POOLS
from mlc.dialects.graph import OPS, CallOp, ParamOp
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.ops.structure import bound_symbols
from mlc.dialects.graph.other_names import counterparts
from mlc.dialects.scalar import INDEX, byte_size
from mlc.dialects.value_names import value_name
from mlc.lowering.complete import expect_converted
from mlc.lowering.graph_to_main import control
from mlc.lowering.graph_to_main.sizes import SizeEmitter
from mlc.lowering.graph_to_main.storage import Storage, bytes_of
from mlc.lowering.graph_to_main.symbolic import SymbolicPlan, input_symbols, lifetimes_of
from mlc.lowering.graph_to_main.writer import MainWriter
from mlc.lowering.memory.lifetimes import align
from mlc.lowering.memory.planners import MemoryPlan, PlannerName
from mlc.lowering.memory.pools import UsedPool, place_constants, plan_in_pools
from mlc.passes.graph.shared.views import part_starts
from mlc.support.errors import UserError, fail
from mlc.support.registered.memory_pools import ConstantPool, DeclaredPool, WorkspacePool, pools_of


@dataclass(frozen=True)
class ConvertGraphToMainPass(ModulePass):
    """
    Give every tensor of @main a buffer in one planned workspace, and call the kernels on buffers.

    `%1 = graph.call @k(%x)` -> `%1 = memref.view %workspace[%c0][]`, `runtime.call @k ins(%x) outs(%1)`
    """

    name = "convert-graph-to-main"

    function: str = "main"
    """The function to convert."""
    planner: PlannerName = "best"
    """How the buffers are placed: lowering/memory/planners.py."""
    seed: int = 0
    """The random choices of the planner "hill-climb"."""
    workspace_pools: str = ""
    """Pools for the intermediates as NAME:BYTES,NAME:BYTES, in the order in which they are filled."""
    constant_pools: str = ""
    """Pools for the weights, in the same form."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = find_function(op, self.function)
        converter = Converter(main, content_keys(op))
        converter.workspace_pools = pools_of(self.workspace_pools, WorkspacePool)
        converter.constant_pools = pools_of(self.constant_pools, ConstantPool)
        converter.convert(self.planner, self.seed)
        expect_converted(main, self.name, "graph")


def find_function(module: ModuleOp, name: str) -> func.FuncOp:
    """The func.func of that name."""
    for candidate in module.body.block.ops:
        if isinstance(candidate, func.FuncOp) and candidate.sym_name.data == name:
            return candidate
    fail(module, f"expected a function @{name}, but there is none")


def content_keys(module: ModuleOp) -> Callable[[str], Hashable]:
    """The key of a parameter's content, by which equal ones are stored once; its name if no store is attached."""
    from mlc.dialects.graph.store import store_of

    store = store_of(module)
    keys = {} if store is None else store.content_keys()
    return lambda name: keys.get(name, name)


class Converter:
    """Bufferizes one function: the state is the storage of each tensor."""

    def __init__(self, main: func.FuncOp, content: Callable[[str], Hashable]) -> None:
        self.main = main
        self.content = content
        self.storages: dict[SSAValue, Storage] = {}
        self.starts: dict[SSAValue, Dim] = {}
        """The byte offset of a slice in its storage."""
        self.constants: dict[Hashable, Storage] = {}
        self.buffers: list[Storage] = []
        self.flows: dict[Operation, control.Flow] = {}
        self.steps = 0
        self.symbols = input_symbols(main)
        self.workspace_pools: list[DeclaredPool] = []
        self.constant_pools: list[DeclaredPool] = []
        self.used_pools: list[UsedPool] = []
        self.kernels: dict[str, list[DimExpr]] = {}
        """Kernel -> the symbols, and products of symbols, from which its sizes are computed."""

    def convert(self, planner: str = "best", seed: int = 0) -> None:
        """Assign storages, plan the memory, and emit the new body."""
        main = self.main
        old = main.body.block
        inputs = [Storage.of(main, arg.type) for arg in old.args]
        self.storages.update(zip(old.args, inputs, strict=True))
        ops = list(old.ops)
        for op in ops:
            self.visit(op)
        self.check_symbols()
        returned = list(ops[-1].operands)
        outputs = self.choose_outputs(returned)
        inner = [s for s in self.buffers if s.instead is None and s.root not in outputs]
        planned = self.planned(inner, planner, seed)
        types: list[Attribute] = [s.type for s in (*inputs, *(Storage.of(main, v.type) for v in returned))]
        types += [*(INDEX for _ in self.symbols), MemRefType(i8, [self.place_constants()]), planned.workspace]
        block = Block(arg_types=types)
        for argument, storage in zip(block.args, [*inputs, *outputs], strict=False):
            if storage is not None:
                storage.value = argument
        outs = [f"out{index}" for index in range(len(returned))]
        hints = [*(argument.name_hint for argument in old.args), *outs, *self.symbols, "weights", "workspace"]
        for argument, hint in zip(block.args, hints, strict=True):
            argument.name_hint = value_name(hint)
        first = len(inputs) + len(outputs)
        sizes = SizeEmitter(block, dict(zip(self.symbols, block.args[first:], strict=False)))
        MainWriter(self, sizes, planned, len(inputs)).write(ops, returned, outputs)
        attributes = planned.attributes(main)
        self.replace(block, types, len(inputs), len(outputs), planned.planned)
        main.attributes |= attributes

    def planned(self, inner: Sequence[Storage], planner: str, seed: int) -> "SymbolicPlan | FixedPlan":
        """The memory plan of the intermediates; UserError where they do not fit the pools."""
        if not self.symbols:
            fixed = FixedPlan(inner, planner, seed, self.workspace_pools)
            self.used_pools += fixed.used_pools
            return fixed
        if self.workspace_pools:
            names = ", ".join(self.symbols)
            raise UserError(f"expected workspace pools for static sizes only, but the model has open sizes: {names}")
        return SymbolicPlan(inner, self.symbols, planner, seed)

    def check_symbols(self) -> None:
        """UserError if a size uses a symbol that occurs in no input's shape."""
        for value, storage in self.storages.items():
            names = {name for size in storage.shape if isinstance(size, DimExpr) for name in size.symbols()}
            if unknown := sorted(names - self.symbols.keys()):
                known = ", ".join(self.symbols) or "none"
                blamed = value.owner if isinstance(value.owner, Operation) else self.main
                fail(blamed, f"expected sizes over the symbols of the inputs of @main ({known}), but got {unknown[0]}")

    def visit(self, op: Operation) -> None:
        """Assign storages to the op's results and extend the lifetimes of its operands."""
        visitor = _VISITORS.get(op.name)
        if visitor is None:
            fail(op, f"expected only kernel calls, parameters and views in @main; {remedy_of(op)}")
        visitor(self, op)

    def storage(self, value: SSAValue) -> Storage:
        """The storage of a value."""
        return self.storages[value].final

    def visit_source(self, op: Operation) -> None:
        """A parameter or a constant: a view of the weights."""
        self.storages[op.results[0]] = self.constant(op)

    def visit_reshape(self, op: Operation) -> None:
        """A reshape shares the operand's storage."""
        (x,), (result,) = op.operands, op.results
        self.storages[result] = self.storages[x]
        if x in self.starts:
            self.starts[result] = self.starts[x]

    def visit_part(self, op: Operation) -> None:
        """A contiguous slice, or a result of a split: a part of the operand's storage."""
        x, starts = op.operands[0], part_starts(op)
        if starts is None or (self.storages[x].key is not None and isinstance(x.owner, Operation)):
            fail(op, f"expected a {op.name} in @main to be one piece of a computed tensor; run graph-outline-kernels")
        size = byte_size(self.storages[x].element)
        for result, start in zip(op.results, starts, strict=True):
            self.storages[result] = self.storages[x]
            self.starts[result] = self.starts.get(x, 0) + start * size

    def visit_concatenate(self, op: Operation) -> None:
        """A concatenation: the operands' storages become parts of the result's."""
        whole = Storage.of(op, op.results[0].type, last=self.steps)
        start: Dim = 0
        for index, operand in enumerate(op.operands):
            part = self.storage(operand)
            if part not in self.buffers or part.inside is not None or operand in self.starts:
                fail(op, f"expected operand {index} to be written for it alone; run graph-outline-kernels first")
            part.inside, part.at = whole, start
            start += part.bytes
        self.storages[op.results[0]] = whole
        self.buffers.append(whole)

    def visit_call(self, op: Operation) -> None:
        """A kernel call: reads the operands, writes the results."""
        self.use(op)
        for result in op.results:
            self.storages[result] = storage = Storage.of(op, result.type, first=self.steps, last=self.steps)
            self.buffers.append(storage)
        self.steps += 1

    def use(self, op: Operation) -> None:
        """Extend the lifetimes of the operands to the current step."""
        for operand in op.operands:
            self.storage(operand).last = self.steps

    def constant(self, op: Operation) -> Storage:
        """The storage of a parameter or constant; equal contents of one type share it."""
        storage = Storage.of(op, op.results[0].type)
        if isinstance(op, ParamOp):
            key: Hashable = self.content(op.entry)
            storage.facts["param"] = op.properties["entry"]
        else:
            value = op.properties["value"]
            assert isinstance(value, DenseIntOrFPElementsAttr)
            key, storage.facts["value"] = (value.data, storage.element), value
        storage.key = key = (key, storage.bytes)
        return self.constants.setdefault(key, storage)

    def symbols_of_call(self, op: Operation) -> list[Dim]:
        """The size arguments of a kernel call, as expressions over the symbols of @main."""
        from mlc.lowering.graph_to_te.convert import kernel_symbols

        if not self.symbols:
            return []
        assert isinstance(op, CallOp)
        name = op.callee.string_value()
        if name not in self.kernels:
            kernel = SymbolTable.lookup_symbol(self.main, name)
            self.kernels[name] = kernel_symbols(kernel) if isinstance(kernel, func.FuncOp) else []
        given = bound_symbols(op)
        return [size.evaluate(given) for size in self.kernels[name]]

    def choose_outputs(self, returned: Sequence[SSAValue]) -> "list[Storage | None]":
        """The storage that each output argument replaces; None where the output needs a copy."""
        outputs: list[Storage | None] = []
        for value in returned:
            storage = self.storage(value)
            mine = storage in self.buffers and storage not in outputs and storage.inside is None
            mine = mine and value not in self.starts
            outputs.append(storage if mine else None)
        return outputs

    def place_constants(self) -> int:
        """Assign each constant its offset in the weights; returns their total size in bytes."""
        storages = list(self.constants.values())
        sizes = [bytes_of(storage.type) for storage in storages]
        offsets, used = place_constants(sizes, self.constant_pools)
        self.used_pools += used
        for storage, offset in zip(storages, offsets, strict=True):
            storage.offset = offset
        return max((offset + align(size) for offset, size in zip(offsets, sizes, strict=True)), default=0)

    def replace(self, block: Block, types: Sequence[Attribute], inputs: int, outputs: int, planned: MemoryPlan) -> None:
        """Put the new body in place of the old one."""
        main = self.main
        for op in reversed(list(main.body.block.ops)):
            op.detach()
            op.erase(safe_erase=False)
        main.body.detach_block(main.body.block)
        main.body.add_block(block)
        names = _name_attributes(main, inputs, outputs, 2 + len(self.symbols))
        main.properties.pop("res_attrs", None)
        if names is not None:
            main.properties["arg_attrs"] = names
        main.function_type = FunctionType.from_lists(types, [])
        figures = {"bytes": planned.bytes, "sum": planned.sum_bytes, "bound": planned.bound_bytes}
        main.attributes[MAIN_INPUTS] = IntegerAttr(inputs, i64)
        main.attributes[MAIN_OUTPUTS] = IntegerAttr(outputs, i64)
        main.attributes[MAIN_PLAN] = DictionaryAttr({k: IntegerAttr(v, i64) for k, v in figures.items()})
        if self.used_pools:
            main.attributes[MAIN_POOLS] = ArrayAttr([_pool_attribute(one) for one in self.used_pools])


def _pool_attribute(one: UsedPool) -> DictionaryAttr:
    """A pool in the attribute `mlc.pools`."""
    kind = "constant" if isinstance(one.pool, ConstantPool) else "workspace"
    numbers = {"offset": one.start, "used": one.used, "bytes": one.pool.bytes}
    texts = {"name": StringAttr(one.pool.name), "kind": StringAttr(kind)}
    return DictionaryAttr({**texts, **{key: IntegerAttr(value, i64) for key, value in numbers.items()}})


def remedy_of(op: Operation) -> str:
    """What an error advises for an op outside of kernels: the pass that makes kernels, or the graph op to write."""
    if op.name.startswith("graph."):
        return "run graph-outline-kernels first"
    meant = counterparts(op.name, OPS)
    return f"a model is made of graph ops: write {' or '.join(meant)}" if meant else "a model is made of graph ops"


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


class FixedPlan:
    """The memory plan of static sizes: constant offsets."""

    def __init__(self, inner: Sequence[Storage], planner: str, seed: int, pools: Sequence[DeclaredPool] = ()) -> None:
        lifetimes = lifetimes_of(inner, {})

        def name(index: int) -> str:
            shape = "x".join(map(str, inner[index].shape))
            return f"a {shape} intermediate of {lifetimes[index].bytes} bytes"

        self.planned, self.used_pools = plan_in_pools(lifetimes, pools, planner, seed, name)
        self.storages = inner
        self.workspace = MemRefType(i8, [self.planned.bytes])

    def begin(self, sizes: SizeEmitter, workspace: SSAValue) -> None:
        """Give the buffers their offsets; views are emitted at their first use."""
        for storage, offset in zip(self.storages, self.planned.offsets, strict=True):
            storage.offset = offset

    def attributes(self, main: func.FuncOp) -> dict[str, Attribute]:
        """No attributes besides the figures of the plan."""
        return {}


def _name_attributes(main: func.FuncOp, inputs: int, outputs: int, others: int) -> "ArrayAttr[DictionaryAttr] | None":
    """`arg_attrs` of the new signature: those of the inputs, then those of the results, now output arguments."""
    if main.arg_attrs is None and main.res_attrs is None:
        return None
    empty = DictionaryAttr({})
    arguments = main.arg_attrs.data if main.arg_attrs is not None else (empty,) * inputs
    results = main.res_attrs.data if main.res_attrs is not None else (empty,) * outputs
    return ArrayAttr([*arguments, *results, *(empty for _ in range(others))])


def plan_of(main: func.FuncOp) -> MemoryPlan:
    """The figures of the memory plan, read from the attributes of @main."""
    figures = main.attributes[MAIN_PLAN]
    assert isinstance(figures, DictionaryAttr)
    values = {k: v.value.data for k, v in figures.data.items() if isinstance(v, IntegerAttr)}
    return MemoryPlan((), values["bytes"], values["sum"], values["bound"])


def is_main_on_buffers(main: func.FuncOp) -> bool:
    """Whether the function has been converted to buffers."""
    return MAIN_PLAN in main.attributes


__all__ = ["ConvertGraphToMainPass", "bytes_of", "find_function", "is_main_on_buffers", "plan_of"]
