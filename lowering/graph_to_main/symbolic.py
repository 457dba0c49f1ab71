"""
Symbolic sizes in @main: which symbols there are, and where buffers stand whose sizes only a call knows.

The planner places the buffers for typical sizes; from that comes an order in which, of two buffers that live at the
same time, the first one lies below the other: offset_j = max over those i before j of offset_i + size_i, for any
sizes. A buffer that is written as parts lives from its first part to its last use, as a whole.
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

from mlc.dialects.graph.dims import Dim, DimExpr, DimsAttr, SymbolAttr
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.lowering.graph_to_main.memory_plan import Lifetime, MemoryPlan, Timeline, pieces_of, plan
from mlc.lowering.graph_to_main.sizes import Sizes
from mlc.lowering.graph_to_main.storage import Storage
from mlc.support.alignment import ALIGNMENT

SCRATCH = "mlc.scratch"
"""The attribute of the view behind all buffers: the memory that kernels use while they run."""
BYTES = MemRefType(i8, [DYNAMIC_INDEX])


def is_symbolic(main: func.FuncOp) -> bool:
    """Whether a function works on tensors of symbolic sizes."""
    return any(isinstance(t, TensorType) and not t.has_static_shape() for t in main.function_type.inputs)


def symbols_of(main: func.FuncOp) -> dict[str, SymbolAttr]:
    """The symbols in the sizes of the inputs, in order, each with its range."""
    known = main.attributes.get("graph.symbols")
    ranges = known.data if isinstance(known, DictionaryAttr) else {}
    found: dict[str, SymbolAttr] = {}
    for t in main.function_type.inputs:
        for size in shape_of(t) if isinstance(t, TensorType) else ():
            for name in size.symbols() if isinstance(size, DimExpr) else ():
                given = ranges.get(name)
                found[name] = given if isinstance(given, SymbolAttr) else SymbolAttr(1, (1 << 31) - 1)
    return found


class OpenPlan:
    """Where buffers stand: offsets that @main computes."""

    def __init__(self, inner: Sequence[Storage], symbols: Mapping[str, SymbolAttr]) -> None:
        self.symbols = symbols
        self.planned = MemoryPlan((), 0, 0, 0)
        self.workspace = BYTES
        self.order, self.below = ordered(inner, {name: s.typical for name, s in symbols.items()})

    def begin(self, sizes: Sizes, workspace: SSAValue) -> None:
        """Write the offsets and views of all buffers, and what lies behind them."""
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
        behind.attributes[SCRATCH] = IntegerAttr(1, i64)
        block.add_op(behind)

    def offset(self, storage: Storage) -> Dim:
        """No buffer is placed later."""
        raise KeyError(storage)

    def attributes(self, main: func.FuncOp) -> dict[str, Attribute]:
        """What the runtime must know: the symbols, shapes of inputs and outputs, and the buffers' sizes and order."""
        declared = main.function_type
        sized = [DimsAttr((DimExpr.of(aligned(storage.bytes)),)) for storage in self.order]
        places = [ArrayAttr([IntegerAttr(k, i64) for k in row]) for row in self.below]
        named = [DictionaryAttr({"name": StringAttr(name), "range": s}) for name, s in self.symbols.items()]
        return {
            "mlc.symbols": ArrayAttr(named),
            "mlc.shapes": ArrayAttr([*declared.inputs, *declared.outputs]),
            "mlc.buffers": ArrayAttr([ArrayAttr(pair) for pair in zip(sized, places, strict=True)]),
        }


def aligned(size: Dim) -> Dim:
    """The next multiple of the alignment."""
    return (size + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT


def at_typical(size: Dim, values: Mapping[str, int]) -> int:
    """A size where the symbols have these values."""
    (found,) = sizes_at([size], values)
    return found


def lifetimes_of(storages: Sequence[Storage], values: Mapping[str, int]) -> list[Lifetime]:
    """What the planner reads; a part names the number of what it is in."""
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


def ordered(inner: Sequence[Storage], values: dict[str, int]) -> tuple[list[Storage], list[list[int]]]:
    """
    The buffers that are no parts, by where the plan for typical sizes puts them; for each, those directly below it.

    Of two buffers that live at the same time the earlier one ends before the other begins, whatever the sizes are.
    """
    pieces = pieces_of(lifetimes_of(inner, values))
    roots = list(pieces)
    lifetimes = [
        Lifetime(at_typical(inner[k].bytes, values), min(p.first for p in pieces[k]), max(p.last for p in pieces[k]))
        for k in roots
    ]
    offsets = plan(lifetimes).offsets
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


__all__ = ["SCRATCH", "OpenPlan", "is_symbolic", "lifetimes_of", "symbols_of"]
