"""graph-partition: each region that an external compiler takes over becomes a function of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    UnknownLoc,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.attributes import (
    CALL_ORIGINS,
    EXTERNAL_COMPILER,
    GRAPH_KERNEL,
    GRAPH_SYMBOLS,
    OFFLOAD_COMPILER,
    OFFLOAD_MATCH,
    OFFLOAD_REGION,
)
from mlc.dialects.graph import CallOp, ConstantOp, DimsAttr, ParamOp
from mlc.dialects.graph.symbols import symbols_around
from mlc.dialects.syntax.source_nodes import location_names, nodes_location
from mlc.passes.graph.fusion.outline_kernels import unused_name
from mlc.passes.rewriting import erase_dead, functions, outer_blocks


@dataclass
class RegionOutliner:
    """One run over a module; equal regions, with the same weights, share a function."""

    module: ModuleOp
    made: dict[str, FuncOp] = field(default_factory=dict)

    def block(self, block: Block) -> None:
        """Outline the regions of a block."""
        regions: dict[Attribute, list[Operation]] = {}
        for op in block.ops:
            number = op.attributes.get(OFFLOAD_REGION) or op.attributes.get(OFFLOAD_MATCH)
            if number is not None:
                regions.setdefault(number, []).append(op)
        for ops in regions.values():
            self.outline(block, ops)
        if regions:
            sort_block(block)

    def outline(self, block: Block, ops: Sequence[Operation]) -> None:
        """Replace the ops of a region by a call of a function."""
        members = set(ops)
        results = [r for op in ops for r in op.results if any(use.operation not in members for use in r.uses)]
        read = dict.fromkeys(v for op in ops for v in op.operands if v.owner not in members)
        constants = [v for v in read if isinstance(v.owner, ParamOp | ConstantOp)]
        inputs = [v for v in read if v not in constants]
        function = self.function(ops, inputs, constants, results)
        call = CallOp(function.sym_name.data, inputs, [r.type for r in results])
        names = list(dict.fromkeys(name for op in ops for name in location_names(op.location)))
        call.location = nodes_location(names) or ops[-1].location
        if names:
            call.attributes[CALL_ORIGINS] = ArrayAttr(map(StringAttr, names))
        block.insert_op_before(call, ops[-1])
        for old, new in zip(results, call.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_uses_with_if(new, lambda use: use.operation not in members)
        for op in reversed(ops):
            op.detach()
            op.erase()
        for value in constants:
            assert isinstance(value.owner, Operation)
            erase_dead(value.owner)

    def function(
        self,
        ops: Sequence[Operation],
        inputs: Sequence[SSAValue],
        constants: Sequence[SSAValue],
        results: Sequence[SSAValue],
    ) -> FuncOp:
        """The function of a region, new or that of an equal region."""
        block = Block(arg_types=[v.type for v in inputs])
        values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for index, arg in enumerate(block.args):
            arg.name_hint = f"a{index}"
        matches: dict[Attribute, int] = {}
        for op in (*(v.owner for v in constants), *ops):
            assert isinstance(op, Operation)
            copy = op.clone(values)
            copy.location = UnknownLoc()
            for result in copy.results:
                result.name_hint = None
            copy.attributes.pop(OFFLOAD_REGION, None)
            if (match := copy.attributes.get(OFFLOAD_MATCH)) is not None:
                copy.attributes[OFFLOAD_MATCH] = IntegerAttr(matches.setdefault(match, len(matches)), i64)
            block.add_op(copy)
        outputs = [values[r] for r in results]
        block.add_op(ReturnOp(*outputs))
        compiler = ops[0].attributes[OFFLOAD_COMPILER]
        assert isinstance(compiler, StringAttr)
        function = FuncOp("region", ([a.type for a in block.args], [v.type for v in outputs]), Region(block), "private")
        if symbols := _symbols(ops[0], block):
            function.attributes[GRAPH_SYMBOLS] = symbols
        digest = hashlib.sha256(f"{compiler.data}\n{function}".encode()).hexdigest()
        if digest in self.made:
            return self.made[digest]
        function.properties["sym_name"] = StringAttr(unused_name(self.module, f"{compiler.data}_{digest[:8]}"))
        function.attributes |= {GRAPH_KERNEL: UnitAttr(), EXTERNAL_COMPILER: compiler}
        self.module.body.block.add_op(function)
        self.made[digest] = function
        return function


def _symbols(op: Operation, body: Block) -> DictionaryAttr | None:
    """The ranges of the symbols in a region's sizes, which its function declares; None without symbols."""
    values = [*body.args, *(r for inner in body.ops for r in inner.results)]
    encodings = [v.type.encoding for v in values if isinstance(v.type, TensorType)]
    names = {name for dims in encodings if isinstance(dims, DimsAttr) for size in dims.data for name in size.symbols()}
    return DictionaryAttr({n: span for n, span in symbols_around(op).items() if n in names}) if names else None


def sort_block(block: Block) -> None:
    """Put the ops of a block in an order in which each stands behind what it reads; otherwise as they stood."""
    ops = list(block.ops)
    order = {op: k for k, op in enumerate(ops)}
    readers: dict[int, set[int]] = {k: set() for k in range(len(ops))}
    waiting = [0] * len(ops)
    for k, op in enumerate(ops):
        owners = {v.owner for inner in op.walk() for v in inner.operands}
        for before in {order[o] for o in owners if isinstance(o, Operation) and o in order and o is not op}:
            readers[before].add(k)
            waiting[k] += 1
    ready = [k for k, count in enumerate(waiting) if not count]
    heapify(ready)
    sorted_: list[int] = []
    while ready:
        k = heappop(ready)
        sorted_.append(k)
        for reader in readers[k]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(ready, reader)
    assert len(sorted_) == len(ops), "a region that reads from itself"
    if sorted_ != list(range(len(ops))):
        for op in ops:
            op.detach()
        block.add_ops(ops[k] for k in sorted_)


class PartitionGraphPass(ModulePass):
    """
    Move each annotated region to a private function with the attribute `compiler`, which no graph pass looks into.

    `%1 = graph.dense %x, %w {offload.compiler = "toy", ..}`
    ->  `%1 = graph.call @toy_0a1b2c3d(%x)` and `func.func private @toy_0a1b2c3d(%a0: ..) attributes {compiler = "toy"}`

    Weights and constants that it reads stand in the function. Without graph-merge-regions, each match is a region.
    """

    name = "graph-partition"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        run = RegionOutliner(op)
        for function in list(functions(op)):
            for block in list(outer_blocks(function)):
                run.block(block)
