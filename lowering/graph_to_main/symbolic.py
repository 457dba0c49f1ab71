"""
@main with symbolic sizes: the same list of calls, its sizes and offsets computed when it runs.

Comes out: @main(inputs..., outputs..., symbols..., %weights, %workspace). Sizes are arithmetic on the symbols
(index arguments); `runtime.call @k ins(...) outs(...) sizes(...)` hands each kernel those that it is made of. The
planner places the buffers for typical sizes; from that comes an order in which, of two buffers that live at the same
time, the first one lies below the other: offset_j = max over those i before j of offset_i + size_i, for any sizes.
Every computed tensor has a buffer of its own: of symbolic sizes, no slice or concatenation is a part of another buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    i8,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import SymbolTable

from mlc.dialects import runtime
from mlc.dialects.graph import ParamOp
from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, FloorDiv, SymbolAttr
from mlc.dialects.graph.types import shape_of
from mlc.driver.memory_plan import ALIGNMENT, Lifetime, align, plan
from mlc.lowering.graph_to_main.storage import byte_size, bytes_of
from mlc.passes.errors import fail

INDEX = IndexType()
SCRATCH = "mlc.scratch"
"""The attribute of the view behind all buffers: the memory that kernels use while they run."""


def is_symbolic(main: func.FuncOp) -> bool:
    """Whether a function works on tensors of symbolic sizes."""
    return any(isinstance(t, TensorType) and not t.has_static_shape() for t in main.function_type.inputs)


def symbols_of(main: func.FuncOp) -> dict[str, SymbolAttr]:
    """The symbols in the sizes of the inputs, in order, each with its range."""
    known = main.attributes.get("graph.symbols")
    ranges = known.data if isinstance(known, DictionaryAttr) else {}
    found: dict[str, SymbolAttr] = {}
    for t in main.function_type.inputs:
        for size in shape_of(t):
            for name in size.symbols() if isinstance(size, DimExpr) else ():
                given = ranges.get(name)
                found[name] = given if isinstance(given, SymbolAttr) else SymbolAttr(1, (1 << 31) - 1)
    return found


def byte_count(type_: Attribute) -> Dim:
    """The bytes of a tensor."""
    assert isinstance(type_, TensorType)
    total: Dim = byte_size(type_.element_type)
    for size in shape_of(type_):
        total = total * size
    return total


def buffer_type(op: Operation, type_: Attribute) -> MemRefType[Any]:
    """The buffer of a tensor."""
    if not isinstance(type_, TensorType):
        fail(op, f"expected values of @main to be tensors, but got {type_}")
    return MemRefType(type_.element_type, type_.get_shape())


@dataclass(eq=False)
class Buffer:
    """The memory of a tensor of @main (of several, if they are reshapes of one)."""

    bytes: Dim
    first: int = -1
    last: int = -1
    facts: dict[str, Attribute] = field(default_factory=dict)
    """Of a constant: which parameter it is, or its value."""
    type: MemRefType[Any] | None = None
    value: SSAValue | None = None


class Sizes:
    """Sizes as arithmetic on the symbols, each computed once."""

    def __init__(self, block: Block, symbols: dict[str, SSAValue]) -> None:
        self.block = block
        self.symbols = symbols
        self.known: dict[Any, SSAValue] = {}

    def __call__(self, size: Dim) -> SSAValue:
        """The SSA value of a size."""
        if size not in self.known:
            self.known[size] = self._constant(size) if isinstance(size, int) else self._sum(size)
        return self.known[size]

    def add(self, op: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
        """The result of an operation on two indices."""
        made = op.create(operands=[x, y], result_types=[INDEX])
        self.block.add_op(made)
        return made.results[0]

    def _constant(self, number: int) -> SSAValue:
        op = arith.ConstantOp(IntegerAttr(number, INDEX))
        self.block.add_op(op)
        return op.result

    def _sum(self, size: DimExpr) -> SSAValue:
        total: SSAValue | None = None
        for product, c in size.terms:
            part = self(c) if c != 1 or not product else None
            for atom in product:
                value = self.symbols[atom] if isinstance(atom, str) else self._quotient(atom)
                part = value if part is None else self.add(arith.MuliOp, part, value)
            assert part is not None
            total = part if total is None else self.add(arith.AddiOp, total, part)
        assert total is not None
        return total

    def _quotient(self, atom: FloorDiv) -> SSAValue:
        if atom not in self.known:
            self.known[atom] = self.add(arith.DivUIOp, self(atom.value), self(atom.divisor))
        return self.known[atom]


class SymbolicConverter:
    """One run over one function."""

    def __init__(self, main: func.FuncOp, content: Callable[[str], Hashable]) -> None:
        self.main = main
        self.content = content
        self.buffers: dict[SSAValue, Buffer] = {}
        self.constants: dict[Hashable, Buffer] = {}
        self.inner: list[Buffer] = []
        self.steps = 0
        self.symbols = symbols_of(main)
        module = main.parent_op()
        assert module is not None
        self.module = module

    def convert(self) -> None:
        """Find the buffers, order them, and write the new body."""
        old = self.main.body.block
        ops = list(old.ops)
        for argument in old.args:
            self.buffers[argument] = Buffer(0)
        for op in ops:
            self.visit(op)
        self.write(ops, ops[-1])

    def visit(self, op: Operation) -> None:
        """Note the buffers of an op's results, and the use of those of its operands."""
        if op.name in ("graph.param", "graph.constant"):
            self.buffers[op.results[0]] = self.constant(op)
        elif op.name == "graph.reshape":
            self.buffers[op.results[0]] = self.buffers[op.operands[0]]
        elif op.name in ("graph.call", "func.return"):
            for operand in op.operands:
                self.buffers[operand].last = self.steps
            for result in op.results:
                self.buffers[result] = made = Buffer(byte_count(result.type), self.steps, self.steps)
                self.inner.append(made)
            self.steps += 1
        else:
            fail(
                op, f"expected only kernel calls, parameters and reshapes in @main of symbolic sizes, but got {op.name}"
            )

    def constant(self, op: Operation) -> Buffer:
        """The memory of a parameter or constant; equal contents of one type share it."""
        type_ = buffer_type(op, op.results[0].type)
        if isinstance(op, ParamOp):
            key: Hashable = self.content(op.entry)
            facts: dict[str, Attribute] = {"param": op.properties["entry"]}
        else:
            value = op.properties["value"]
            assert isinstance(value, DenseIntOrFPElementsAttr)
            key, facts = (value.data, type_.element_type), {"value": value}
        size = bytes_of(type_)
        return self.constants.setdefault((key, size), Buffer(size, facts=facts, type=type_))

    def outputs(self, ret: Operation) -> list[Buffer]:
        """The buffer that each output argument is."""
        found: list[Buffer] = []
        for k, value in enumerate(ret.operands):
            buffer = self.buffers[value]
            if buffer not in self.inner or buffer in found:
                why = "as sizes are symbolic; run graph-outline-kernels first"
                fail(ret, f"expected a kernel to write output {k} alone, {why}")
            found.append(buffer)
        return found

    def write(self, ops: Sequence[Operation], ret: Operation) -> None:
        """The new body in place of the old one."""
        main, old, returned = self.main, self.main.body.block, list(ret.operands)
        outputs = self.outputs(ret)
        weights = 0
        for buffer in self.constants.values():
            buffer.first, weights = weights, weights + align(int(buffer.bytes))  # pyright: ignore[reportArgumentType]
        ins, outs = ([buffer_type(main, v.type) for v in values] for values in (old.args, returned))
        types = [
            *ins,
            *outs,
            *(INDEX for _ in self.symbols),
            MemRefType(i8, [weights]),
            MemRefType(i8, [DYNAMIC_INDEX]),
        ]
        block = Block(arg_types=types)
        hints = [*(a.name_hint for a in old.args), *(f"out{k}" for k in range(len(returned))), *self.symbols]
        for argument, hint in zip(block.args, [*hints, "weights", "workspace"], strict=True):
            argument.name_hint = hint
        for argument, value in zip(block.args, old.args, strict=False):
            self.buffers[value].value = argument
        for argument, buffer in zip(block.args[len(ins) :], outputs, strict=False):
            buffer.value = argument
        first = len(ins) + len(outs)
        sizes = Sizes(block, dict(zip(self.symbols, block.args[first:], strict=False)))
        inner = [b for b in self.inner if b not in outputs]
        before = ordered(inner, {name: s.typical for name, s in self.symbols.items()})
        self.place(block, sizes, inner, before)
        for op in ops:
            if op.name == "graph.call":
                self.call(block, sizes, op)
        block.add_op(func.ReturnOp())
        self.replace(block, types, len(ins), len(outs), inner, before)

    def place(self, block: Block, sizes: Sizes, inner: Sequence[Buffer], before: Sequence[Sequence[int]]) -> None:
        """Offsets and views of all buffers in the workspace, and what lies behind them."""
        workspace, ends = block.args[-1], list[SSAValue]()

        def highest(places: Sequence[int]) -> SSAValue:
            value = sizes(0) if not places else ends[places[0]]
            for k in places[1:]:
                value = sizes.add(arith.MaxSIOp, value, ends[k])
            return value

        for k, buffer in enumerate(inner):
            offset = highest(before[k])
            ends.append(sizes.add(arith.AddiOp, offset, sizes(aligned(buffer.bytes))))
            view = memref.ViewOp(workspace, offset, [sizes(aligned(buffer.bytes))], MemRefType(i8, [DYNAMIC_INDEX]))
            block.add_op(view)
            buffer.value = view.result
        behind = memref.ViewOp(workspace, highest(range(len(inner))), [], MemRefType(i8, [0]))
        behind.attributes[SCRATCH] = IntegerAttr(1, i64)
        block.add_op(behind)

    def value(self, block: Block, sizes: Sizes, tensor: SSAValue) -> SSAValue:
        """The buffer of a tensor, with the tensor's shape."""
        buffer, type_ = self.buffers[tensor], buffer_type(self.main, tensor.type)
        if buffer.value is None:
            view = memref.ViewOp(block.args[-2], sizes(buffer.first), [], buffer.type)  # pyright: ignore
            view.attributes.update(buffer.facts)
            block.add_op(view)
            buffer.value = view.result
        if buffer.value.type == type_:
            return buffer.value
        return self.cast(block, sizes, buffer.value, shape_of(tensor.type), type_)

    def cast(
        self, block: Block, sizes: Sizes, value: SSAValue, shape: Sequence[Dim], type_: MemRefType[Any]
    ) -> SSAValue:
        """The same memory in a shape, whose sizes and strides are computed where they are symbolic."""
        strides: list[Dim] = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        dynamic = [[sizes(n) for n in row if isinstance(n, DimExpr)] for row in (shape, strides)]
        static = [[DYNAMIC_INDEX if isinstance(n, DimExpr) else n for n in row] for row in (shape, strides)]
        cast = memref.ReinterpretCastOp(value, [], *dynamic, [0], *static, type_)  # pyright: ignore
        block.add_op(cast)
        return cast.result

    def call(self, block: Block, sizes: Sizes, op: Operation) -> None:
        """One kernel call, with the sizes that the kernel is made of."""
        from mlc.lowering.graph_to_te.convert import kernel_symbols

        name = op.properties["callee"].string_value()  # pyright: ignore[reportAttributeAccessIssue]
        kernel = SymbolTable.lookup_symbol(self.module, name)
        given = [sizes(s) for s in kernel_symbols(kernel)] if isinstance(kernel, func.FuncOp) else []
        ins, outs = ([self.value(block, sizes, v) for v in values] for values in (op.operands, op.results))
        call = runtime.CallOp(name, ins, outs, given)
        call.attributes.update(op.attributes)
        call.location = op.location
        block.add_op(call)

    def replace(
        self,
        block: Block,
        types: Sequence[Attribute],
        inputs: int,
        outputs: int,
        inner: Sequence[Buffer],
        before: Sequence[Sequence[int]],
    ) -> None:
        """Put the new body in place of the old one, and note what the runtime must know."""
        main, declared = self.main, self.main.function_type
        for op in reversed(list(main.body.block.ops)):
            op.detach()
            op.erase(safe_erase=False)
        main.body.detach_block(main.body.block)
        main.body.add_block(block)
        for name in ("arg_attrs", "res_attrs"):
            main.properties.pop(name, None)
        main.function_type = FunctionType.from_lists(types, [])
        main.attributes["mlc.inputs"] = IntegerAttr(inputs, i64)
        main.attributes["mlc.outputs"] = IntegerAttr(outputs, i64)
        figures = {"bytes": 0, "sum": 0, "bound": 0}
        main.attributes["mlc.plan"] = DictionaryAttr({k: IntegerAttr(v, i64) for k, v in figures.items()})
        main.attributes["mlc.symbols"] = ArrayAttr(
            [DictionaryAttr({"name": StringAttr(name), "range": s}) for name, s in self.symbols.items()]
        )
        main.attributes["mlc.shapes"] = ArrayAttr([*declared.inputs, *declared.outputs])
        sized = [DimsAttr((DimExpr.of(aligned(b.bytes)),)) for b in inner]
        places = [ArrayAttr([IntegerAttr(k, i64) for k in row]) for row in before]
        main.attributes["mlc.buffers"] = ArrayAttr([ArrayAttr(pair) for pair in zip(sized, places, strict=True)])


def aligned(size: Dim) -> Dim:
    """The next multiple of the alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def ordered(inner: list[Buffer], values: dict[str, int]) -> list[list[int]]:
    """
    Sort the buffers by where the plan for typical sizes puts them; for each, those directly below it.

    Of two buffers that live at the same time the earlier one ends before the other begins, whatever the sizes are.
    """

    def at_typical(size: Dim) -> int:
        return int(size.evaluate(values)) if isinstance(size, DimExpr) else size  # pyright: ignore[reportArgumentType]

    lifetimes = [Lifetime(at_typical(b.bytes), b.first, b.last) for b in inner]
    offsets = plan(lifetimes).offsets
    order = sorted(range(len(inner)), key=lambda k: (offsets[k], inner[k].first))
    inner[:] = [inner[k] for k in order]
    alive = [lifetimes[k] for k in order]
    before: list[list[int]] = []
    below: list[set[int]] = []
    for j, own in enumerate(alive):
        direct: list[int] = []
        reached: set[int] = set()
        for i in range(j - 1, -1, -1):
            if alive[i].meets(own) and i not in reached:
                direct.append(i)
                reached |= below[i] | {i}
        before.append(direct)
        below.append(reached)
    return before
