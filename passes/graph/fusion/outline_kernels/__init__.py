"""
graph-outline-kernels: each fused region becomes a private function, equal regions the same one.

In: functions of graph ops and `graph.fused`. Out: @main calls kernels (`graph.call`), and holds views (reshapes, and
the slices, splits and concatenations that shared/views.py finds), weights and constants. Kernels are equal if their
text is, without names and locations; they have symbols of their own (symbols.py), to which a call binds sizes. If
regions differ only in the value of a one-element constant, the constant becomes an operand, and they share one kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, TensorType, UnitAttr, UnknownLoc
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import SymbolTable

from mlc.dialects.attributes import GRAPH_DEVICE, GRAPH_SYMBOLS
from mlc.dialects.graph import (
    BandOp,
    CallOp,
    ConstantOp,
    ControlOp,
    DimsAttr,
    FullOp,
    FusedOp,
    GraphOp,
    IotaOp,
    ParamOp,
    ReshapeOp,
    SymbolAttr,
    YieldOp,
)
from mlc.dialects.graph.dims import Bounded
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.symbols import symbols_around, symbols_of
from mlc.dialects.syntax.source_nodes import nodes_location, source_nodes
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.fusion.defuse_ops import defuse
from mlc.passes.graph.fusion.fuse_ops import drop_unused_constants, fuse
from mlc.passes.graph.fusion.outline_kernels.symbols import KernelSymbols, own_symbols
from mlc.passes.graph.shared.constants import SOURCES
from mlc.passes.graph.shared.views import concatenates_in_place, insert_copy, is_part
from mlc.passes.rewriting import functions, outer_blocks

KERNEL = "graph.kernel"
"""The attribute that marks a function as one kernel."""
PREFIX = "const."


@dataclass
class Outliner:
    """One run over a module."""

    module: ModuleOp
    texts: dict[tuple[Attribute, tuple[int, ...]], str] = field(default_factory=dict)
    outlined: dict[str, FuncOp] = field(default_factory=dict)
    nodes: dict[FuncOp, list[str]] = field(default_factory=dict)
    """Kernel -> the source nodes of all its calls, which become its location."""
    entries: dict[Attribute, str] = field(default_factory=dict)
    symbols: dict[FusedOp, KernelSymbols] = field(default_factory=dict)
    """Region -> its symbols, for regions of symbolic sizes."""
    parts: bool = True

    def run(self) -> None:
        """Outline every function's regions; kernels are appended to the module."""
        eliminate_dead_code(self.module)
        made: list[FusedOp] = []
        for function in list(functions(self.module)):
            if KERNEL in function.attributes:
                continue
            for block in list(outer_blocks(function)):
                made += self.regions(block)
        for fused in made:
            if (own := own_symbols(fused.body.block)) is not None:
                self.symbols[fused] = own
        self.share_constants(made)
        for fused in made:
            self.outline(fused)
        for kernel, nodes in self.nodes.items():
            kernel.location = nodes_location(nodes) or kernel.location
        self.constants_to_store()

    def regions(self, block: Block) -> list[FusedOp]:
        """The block's fused regions, with new ones for ops in none; regions of only reshapes are dissolved."""
        made: list[FusedOp] = []
        constants = [op for op in block.ops if not op.operands]
        in_place = concatenates_in_place(block) if self.parts else {}
        for op, copied in in_place.items():
            for index in copied:
                _copy(op, index)
        for op in list(block.ops):
            if isinstance(op, FusedOp):
                if all(isinstance(inner, ReshapeOp) for inner in list(op.body.block.ops)[:-1]):
                    defuse(op)
                else:
                    made += [*_sources(op), op]
            elif isinstance(op, GraphOp) and not isinstance(op, (*SOURCES, ReshapeOp)) and op not in in_place:
                if not (self.parts and is_part(op)):
                    made.append(fuse([op]))
            elif isinstance(op, CallOp | ControlOp | YieldOp | ReturnOp | ReshapeOp):
                made += _sources(op)
        drop_unused_constants(constants)
        return made

    def share_constants(self, regions: Iterable[FusedOp]) -> None:
        """Make operands of one-element constants that differ between otherwise equal regions."""
        alike: dict[str, list[FusedOp]] = {}
        for fused in regions:
            alike.setdefault(self.signature(fused, mask=True), []).append(fused)
        for family in alike.values():
            columns = list(zip(*(_scalars(fused) for fused in family), strict=True)) if len(family) > 1 else []
            for column in columns:
                if any(op.value != column[0].value for op in column):
                    for fused, constant in zip(family, column, strict=True):
                        lift(fused, constant)

    def signature(self, fused: FusedOp, mask: bool = False) -> str:
        """The region as text without names; with `mask`, one-element constants without their values."""
        block = fused.body.block
        number: dict[SSAValue, int] = {value: index for index, value in enumerate(block.args)}
        lines = [",".join(self.text(type) for type in block.arg_types)]
        if (device := fused.attributes.get(GRAPH_DEVICE)) is not None:
            lines.append(f"on {device}")
        lines += [f"{name} step {span.step.data}" for name, span in self.ranges(fused).items()]
        for op in block.ops:
            masked = mask and _is_scalar(op)
            attrs = "" if masked else ",".join(f"{name}={self.text(a)}" for name, a in sorted(op.properties.items()))
            types = ",".join(self.text(type) for type in op.result_types)
            lines.append(f"{op.name} {[number[v] for v in op.operands]} {{{attrs}}} {types}")
            for result in op.results:
                number[result] = len(number)
        return "\n".join(lines)

    def text(self, attribute: Attribute) -> str:
        """An attribute as text; printed once."""
        key = attribute, _ends(attribute)
        known = self.texts.get(key)
        if known is None:
            known = self.texts[key] = str(attribute)
        return known

    def outline(self, fused: FusedOp) -> None:
        """Replace a region by a call of its kernel."""
        digest = hashlib.sha256(self.signature(fused).encode()).hexdigest()
        kernel = self.outlined.get(digest)
        inputs, outputs = list(fused.operands), list(fused.result_types)
        block = fused.parent
        assert block is not None
        if kernel is None:
            kernel = self.outlined[digest] = self.kernel(fused, digest)
        call = CallOp(kernel.sym_name.data, inputs, outputs)
        call.location = fused.location
        if fused in self.symbols:
            call.attributes["symbols"] = DimsAttr(tuple(self.symbols[fused].values))
            widen(kernel, self.ranges(fused))
        if fused.origins is not None:
            call.attributes["origins"] = fused.origins
        self.nodes.setdefault(kernel, []).extend(source_nodes(call))
        block.insert_op_before(call, fused)
        for old, new in zip(fused.results, call.results, strict=True):
            new.name_hint = old.name_hint
            old.replace_all_uses_with(new)
        fused.detach()
        fused.erase()

    def ranges(self, fused: FusedOp) -> dict[str, SymbolAttr]:
        """The ranges of a region's symbols."""
        own = self.symbols.get(fused)
        return {} if own is None else own.ranges(symbols_around(fused))

    def kernel(self, fused: FusedOp, digest: str) -> FuncOp:
        """A new function of the module, to which the region's body is moved."""
        name = unused_name(self.module, f"{fused.label.data or 'kernel'}_{digest[:8]}")
        symbols = self.ranges(fused)
        body = fused.detach_region(fused.body)
        fused.add_region(Region(Block()))
        last = body.block.last_op
        assert last is not None
        types = list(body.block.arg_types), list(last.operand_types)
        body.block.insert_op_before(ReturnOp(*last.operands), last)
        last.detach()
        last.erase()
        for index, value in enumerate(body.block.args):
            value.name_hint = f"a{index}"
        for op in body.block.ops:
            # Calls know the source nodes; a kernel may stand for several.
            op.location = UnknownLoc()
            for result in op.results:
                result.name_hint = None
        function = FuncOp(name, types, body, "private")
        function.attributes[KERNEL] = UnitAttr()
        if (device := fused.attributes.get(GRAPH_DEVICE)) is not None:
            function.attributes[GRAPH_DEVICE] = device
        if symbols:
            function.attributes[GRAPH_SYMBOLS] = DictionaryAttr(symbols)
        self.module.body.block.add_op(function)
        return function

    def constants_to_store(self) -> None:
        """Constants that calls read become weights, if the module has a store."""
        store = store_of(self.module)
        if store is None:
            return
        for function in functions(self.module):
            if KERNEL in function.attributes:
                continue
            for op in [op for op in function.body.walk() if isinstance(op, ConstantOp)]:
                value = op.value
                if value not in self.entries:
                    self.entries[value] = store.add(store.fresh(f"{PREFIX}{len(self.entries)}"), op.array())
                param = ParamOp.make(result=op.type, entry=self.entries[value], location=op.location)
                block = op.parent
                assert block is not None
                block.insert_op_before(param, op)
                op.result.replace_all_uses_with(param.result)
                op.detach()
                op.erase()


def _ends(attribute: Attribute) -> tuple[int, ...]:
    """The bounds of the symbols of a type, which its equality ignores."""
    dims = attribute.encoding if isinstance(attribute, TensorType) else None
    names = [name for size in dims.data for name in size.symbols()] if isinstance(dims, DimsAttr) else []
    return tuple(end for name in names if isinstance(name, Bounded) for end in (name.low, name.high))


def _sources(op: Operation) -> list[FusedOp]:
    """Copies, as kernels, of operands that are fills, iotas or bands, for an op that reads buffers."""
    return [
        _copy(op, index) for index, value in enumerate(op.operands) if isinstance(value.owner, FullOp | IotaOp | BandOp)
    ]


def _copy(op: Operation, index: int) -> FusedOp:
    """A kernel that copies an operand into a buffer that may be written in place."""
    fused = fuse([insert_copy(op, index)])
    fused.label = StringAttr("copy")
    return fused


def lift(fused: FusedOp, constant: ConstantOp) -> None:
    """Make a constant of the region an operand of it."""
    outer = constant.clone()
    outer.location = constant.location
    assert fused.parent is not None
    fused.parent.insert_op_before(outer, fused)
    block = fused.body.block
    argument = block.insert_arg(constant.type, len(block.args))
    constant.result.replace_all_uses_with(argument)
    constant.detach()
    constant.erase()
    fused.operands = [*fused.operands, outer.result]


def unused_name(module: ModuleOp, name: str) -> str:
    """`name`, with a number appended if a symbol of the module has it already."""
    candidate, count = name, 0
    while SymbolTable.lookup_symbol(module, candidate) is not None:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def widen(kernel: FuncOp, ranges: Mapping[str, SymbolAttr]) -> None:
    """Extend the ranges of a kernel's symbols; their typical sizes stay those of the first call."""
    known = symbols_of(kernel)
    for name, span in ranges.items():
        old = known[name]
        low, high = min(old.low.data, span.low.data), max(old.high.data, span.high.data)
        known[name] = (
            old if (low, high) == (old.low.data, old.high.data) else SymbolAttr(low, high, old.step.data, old.typical)
        )
    kernel.attributes[GRAPH_SYMBOLS] = DictionaryAttr(known)


def _is_scalar(op: Operation) -> TypeGuard[ConstantOp]:
    return isinstance(op, ConstantOp) and all(size == 1 for size in op.type.get_shape())


def _scalars(fused: FusedOp) -> list[ConstantOp]:
    return [op for op in fused.body.block.ops if _is_scalar(op)]


@dataclass(frozen=True)
class OutlineKernelsPass(ModulePass):
    """
    Outline each fused region, and each op outside of one, to a private function; equal ones share a function.

    `%1 = graph.fused "relu" (%a = %x) { .. }`
    ->  `%1 = graph.call @relu_0a1b2c3d(%x) {origins = [..]}` and `func.func private @relu_0a1b2c3d .. {graph.kernel}`

    A kernel's location names the source nodes of all its calls.
    """

    name = "graph-outline-kernels"

    parts: bool = True
    """Whether slices, splits and concatenations may be views; without them every buffer is written as a whole."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; with a weight store, constants that calls read become its entries."""
        Outliner(op, parts=self.parts).run()
