"""
Memory planning with symbolic sizes: offsets that @main computes from its symbols.

The planner places the buffers for typical sizes. The resulting order of offsets is kept for all sizes: of two buffers
alive at the same time, the earlier in that order lies below: offset_j = max of offset_i + size_i over the i before j
that are alive with j. A buffer with parts is alive as a whole, from its first part's write to its last use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    TensorType,
    i8,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.attributes import MAIN_BUFFERS, MAIN_SCRATCH, MAIN_SHAPES, MAIN_SYMBOLS
from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, SymbolAttr
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.lowering.graph_to_main.sizes import SizeEmitter
from mlc.lowering.graph_to_main.storage import Storage
from mlc.lowering.memory.lifetimes import Lifetime, Timeline, life_of, pieces_of
from mlc.lowering.memory.planners import MemoryPlan, plan
from mlc.support.alignment import ALIGNMENT

BYTES = MemRefType(i8, [DYNAMIC_INDEX])


def input_symbols(main: func.FuncOp) -> dict[str, SymbolAttr]:
    """The symbols in the sizes of the inputs, in order, each with its range."""
    ranges, found = symbols_of(main), dict[str, SymbolAttr]()
    for t in main.function_type.inputs:
        for size in shape_of(t) if isinstance(t, TensorType) else ():
            for name in size.symbols() if isinstance(size, DimExpr) else ():
                found[name] = ranges.get(name, SymbolAttr(1, (1 << 31) - 1))
    return found


class SymbolicPlan:
    """The memory plan of symbolic sizes: offsets that @main computes."""

    def __init__(
        self, inner: Sequence[Storage], symbols: Mapping[str, SymbolAttr], planner: str = "best", seed: int = 0
    ) -> None:
        self.symbols = symbols
        self.planned = MemoryPlan((), 0, 0, 0)
        self.workspace = BYTES
        typical = {name: s.typical for name, s in symbols.items()}
        self.order, self.below = ordered(inner, typical, planner, seed)

    def begin(self, sizes: SizeEmitter, workspace: SSAValue) -> None:
        """Emit the offsets and views of all buffers, and the view of the kernels' workspace behind them."""
        block, ends = sizes.block, list[SSAValue]()

        def highest(places: Sequence[int]) -> SSAValue:
            value = sizes(0) if not places else ends[places[0]]
            for k in places[1:]:
                value = sizes.add(arith.MaxSIOp, value, ends[k])
            return value

        for storage, below in zip(self.order, self.below, strict=True):
            offset = highest(below)
            ends.append(sizes.add(arith.AddiOp, offset, sizes(aligned(storage.bytes))))
            extents = [sizes(size) for size in storage.shape if not isinstance(size, int)]
            view = memref.ViewOp(workspace, offset, extents, storage.type)
            block.add_op(view)
            storage.value = view.result
        behind = memref.ViewOp(workspace, highest(range(len(self.order))), [], MemRefType(i8, [0]))
        behind.attributes[MAIN_SCRATCH] = IntegerAttr(1, i64)
        block.add_op(behind)

    def attributes(self, main: func.FuncOp) -> dict[str, Attribute]:
        """Attributes of @main for the runtime: symbols, shapes of inputs and outputs, sizes and order of buffers."""
        declared = main.function_type
        sized = [DimsAttr((DimExpr.of(aligned(storage.bytes)),)) for storage in self.order]
        places = [ArrayAttr([IntegerAttr(k, i64) for k in row]) for row in self.below]
        named = [DictionaryAttr({"name": StringAttr(name), "range": s}) for name, s in self.symbols.items()]
        return {
            MAIN_SYMBOLS: ArrayAttr(named),
            MAIN_SHAPES: ArrayAttr([*declared.inputs, *declared.outputs]),
            MAIN_BUFFERS: ArrayAttr([ArrayAttr(pair) for pair in zip(sized, places, strict=True)]),
        }


def aligned(size: Dim) -> Dim:
    """The next multiple of the alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def at_typical(size: Dim, values: Mapping[str, int]) -> int:
    """A size at these values of the symbols."""
    (found,) = sizes_at([size], values)
    return found


def lifetimes_of(storages: Sequence[Storage], values: Mapping[str, int]) -> list[Lifetime]:
    """The planner's input: the lifetimes of storages at these values of the symbols."""
    number = {storage: index for index, storage in enumerate(storages)}
    return [
        Lifetime(
            at_typical(s.bytes, values),
            s.first,
            s.last,
            None if s.inside is None else number[s.inside],
            at_typical(s.at, values),
        )
        for s in storages
    ]


def ordered(
    inner: Sequence[Storage], values: dict[str, int], planner: str = "best", seed: int = 0
) -> tuple[list[Storage], list[list[int]]]:
    """
    The root buffers in the order of their offsets at typical sizes; for each, the positions of those directly below it.

    Of two buffers alive at the same time, the earlier one ends before the other begins, at any sizes.
    """
    pieces = pieces_of(lifetimes_of(inner, values))
    roots = list(pieces)
    lifetimes = [Lifetime(at_typical(inner[k].bytes, values), *life_of(pieces[k])) for k in roots]
    offsets = plan(lifetimes, planner, seed).offsets
    order = sorted(range(len(roots)), key=lambda k: (offsets[k], lifetimes[k].first))
    alive = [lifetimes[k] for k in order]
    before: list[list[int]] = []
    below: list[int] = []  # bit i of below[j]: whether buffer i ends before buffer j begins
    times = Timeline()
    for own in alive:
        direct: list[int] = []
        reached = 0
        for i in reversed(times.meeting(own)):
            if not reached >> i & 1:
                direct.append(i)
                reached |= below[i] | 1 << i
        before.append(direct)
        below.append(reached)
        times.add(own)
    return [inner[roots[k]] for k in order], before


__all__ = ["SymbolicPlan", "input_symbols", "lifetimes_of"]
