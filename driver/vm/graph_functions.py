"""
Functions on the graph level that call themselves, as code of the vm.

The functions on a cycle of calls, and the functions that call them, become functions of the vm. Calls among them become
`invoke`, a graph.if with such a call becomes branches, and the ops between become segments. Other calls are inlined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import CallOp as FuncCallOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.graph import CallOp, IfOp, YieldOp
from mlc.dialects.graph.ops.structure import SourceOp
from mlc.dialects.graph.types import shape_of
from mlc.driver.models.bind_sizes import copied
from mlc.frontends.common.model import Model
from mlc.passes.graph.cleanup.inline import inline_call
from mlc.runtime.vm.instructions import Instruction
from mlc.runtime.vm.program import Body, Function
from mlc.runtime.vm.segment import Segment
from mlc.support.errors import fail

if TYPE_CHECKING:
    from mlc.support.weights import WeightStore

Compile = Callable[[Model, str], Segment]
Call: TypeAlias = "CallOp | FuncCallOp"


def functions_of(model: Model) -> dict[str, FuncOp]:
    """The functions of a module by name."""
    return {op.sym_name.data: op for op in model.module.body.block.ops if isinstance(op, FuncOp)}


def recursive(functions: Mapping[str, FuncOp]) -> set[str]:
    """The functions that call themselves, directly or through others, and those that call these."""
    calls = {name: _callees(function) & functions.keys() for name, function in functions.items()}
    reach = {name: set(called) for name, called in calls.items()}
    changed = True
    while changed:
        changed = False
        for found in reach.values():
            before = len(found)
            found |= {one for name in tuple(found) for one in reach[name]}
            changed = changed or len(found) > before
    cyclic = {name for name, found in reach.items() if name in found}
    return {name for name, found in reach.items() if name in cyclic or found & cyclic}


def recursive_functions(model: Model, compile: Compile) -> list[Function]:
    """The functions of the vm that a module is, @main first."""
    model = copied(model)
    functions = functions_of(model)
    open_ = recursive(functions)
    for function in functions.values():
        for op in list(function.walk()):
            if isinstance(op, CallOp | FuncCallOp) and (name := _callee(op)) in functions and name not in open_:
                inline_call(op, functions[name])
    names = ["main", *sorted(open_ - {"main"})]
    numbers = {name: k for k, name in enumerate(names)}
    return [Function(name, _Writer(model.weights, numbers, name, compile).body(functions[name])) for name in names]


def _callee(op: Call) -> str:
    return op.callee.root_reference.data


def _callees(function: FuncOp) -> set[str]:
    return {_callee(op) for op in function.walk() if isinstance(op, CallOp | FuncCallOp)}


class _Writer:
    """Writes the code of one function."""

    def __init__(self, weights: WeightStore, numbers: Mapping[str, int], name: str, compile: Compile) -> None:
        self.weights, self.numbers, self.name, self.compile = weights, numbers, name, compile
        self.code: list[Instruction] = []
        self.segments: list[Segment] = []
        self.registers: dict[SSAValue, int] = {}
        self.count = 0

    def body(self, function: FuncOp) -> Body:
        """The code of a function."""
        for op in function.walk():
            for value in op.results:
                if any(not isinstance(size, int) for size in shape_of(value.type)):
                    fail(op, "expected known sizes in functions that call themselves, but got open ones")
        block = function.body.block
        self.place(block.args)
        self.block(block)
        last = block.last_op
        assert isinstance(last, ReturnOp)
        self.code.append(("ret", self.at(last.operands)))
        return Body(self.count, self.code, self.segments)

    def place(self, values: Sequence[SSAValue]) -> list[int]:
        """New registers for values."""
        for value in values:
            self.registers[value] = self.count
            self.count += 1
        return self.at(values)

    def at(self, values: Sequence[SSAValue]) -> list[int]:
        """The registers of values."""
        return [self.registers[value] for value in values]

    def block(self, block: Block) -> None:
        """The ops of a block but the last, which ends it."""
        pending: list[Operation] = []
        for op in block.ops:
            calls = [o for o in op.walk() if isinstance(o, CallOp | FuncCallOp) and _callee(o) in self.numbers]
            if not calls and op is not block.last_op:
                pending.append(op)
                continue
            self.segment(pending)
            pending = []
            if op is block.last_op:
                return
            if isinstance(op, CallOp | FuncCallOp):
                self.code.append(("invoke", self.numbers[_callee(op)], self.at(op.operands), self.place(op.results)))
            elif isinstance(op, IfOp):
                self.branch(op)
            else:
                fail(op, f"expected calls of @{_callee(calls[0])}, which calls itself, outside of loops, but got one")

    def branch(self, op: IfOp) -> None:
        """A graph.if whose regions call functions of the vm."""
        results = self.place(op.results)
        test, ends, starts = len(self.code), list[int](), list[int]()
        self.code.append(())
        for region in op.regions:
            starts.append(len(self.code))
            inner = region.block
            self.registers |= dict(zip(inner.args, self.at(op.reads), strict=True))
            self.block(inner)
            last = inner.last_op
            assert isinstance(last, YieldOp)
            self.code += [("move", to, of) for to, of in zip(results, self.at(last.operands), strict=True)]
            ends.append(len(self.code))
            self.code.append(())
        for end in ends:
            self.code[end] = "goto", len(self.code)
        self.code[test] = "iffalse", self.registers[op.condition], starts[1]

    def segment(self, ops: Sequence[Operation]) -> None:
        """A segment of ops that call nothing; values that are read behind it get registers."""
        inside = set(ops)
        results = [v for op in ops for v in op.results if any(_read_behind(op, u.operation, inside) for u in v.uses)]
        if not results:
            return
        needed = _with_sources(ops)
        made = {value for op in needed for value in op.results}
        reads = list(dict.fromkeys(v for op in needed for v in op.operands if v not in made))
        block = Block(arg_types=[v.type for v in reads])
        values: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))
        for op in needed:
            copy = op.clone(values)
            copy.location = op.location
            block.add_op(copy)
        block.add_op(ReturnOp(*(values[v] for v in results)))
        types = FunctionType.from_lists(block.arg_types, [v.type for v in results])
        module = ModuleOp([FuncOp("main", types, Region(block))])
        segment = self.compile(Model(module, self.weights), f"{self.name} {len(self.segments)}")
        self.segments.append(segment)
        self.code.append(("run", len(self.segments) - 1, self.at(reads), self.place(results)))


def _with_sources(ops: Sequence[Operation]) -> list[Operation]:
    """The ops, and before them the weights and constants from elsewhere that they read."""
    sources = [v.owner for op in ops for v in op.operands if isinstance(v.owner, SourceOp) and v.owner not in ops]
    return [*dict.fromkeys(sources), *ops]


def _read_behind(op: Operation, reader: Operation, inside: set[Operation]) -> bool:
    """Whether a reader of an op stands behind the segment; other segments have weights and constants of their own."""
    if reader in inside:
        return False
    ends = isinstance(reader, ReturnOp | YieldOp | CallOp | FuncCallOp | IfOp)
    return ends or not isinstance(op, SourceOp)


__all__ = ["functions_of", "recursive", "recursive_functions"]
