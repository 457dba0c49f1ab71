"""
The sizes at which functions with symbolic sizes are run: such a function is run once per case.

    case 0     the typical sizes, clipped to `LARGEST_SIZE`
               and smaller ones where an input would have too many elements (`MOST_ELEMENTS`)
    case 1     small odd sizes, which no tile size divides; the function is then called "k #1"
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, IndexType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.attributes import KERNEL_SIZES, KERNEL_TYPICAL
from mlc.dialects.constants import integers
from mlc.dialects.graph.dims import Dim, DimExpr, SymbolAttr
from mlc.dialects.graph.symbols import bind, symbols_of
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.dialects.index import IndexMapAttr
from mlc.support.bounded_sizes import bounded_sizes

CASES = (0, 1)
LARGEST_SIZE = 71
"""Size above which the interpreters are too slow; larger than most tiles, and a multiple of none."""
ODD_SIZES = (7, 5, 3)
"""Candidate sizes of case 1; symbol number k starts at the k-th."""


def case_name(name: str, case: int) -> str:
    """The name of a function in a case: "k", or "k #1"."""
    return f"{name} #{case}" if case else name


def symbol_value(span: SymbolAttr, case: int, which: int = 0) -> int:
    """The value of symbol number `which` in a case; in case 1 symbols differ, which exposes swapped symbols."""
    low, high, step = span.low.data, span.high.data, span.step.data
    if case == 0:
        return min(span.typical, max(-(-low // step) * step, LARGEST_SIZE // step * step))
    candidates = (*ODD_SIZES[which % len(ODD_SIZES) :], *ODD_SIZES)
    fitting = (odd * step for odd in candidates if low <= odd * step <= high)
    return next(fitting, -(-low // step) * step)


def symbols_in(types: Iterable[Attribute]) -> list[str]:
    """The names of the symbols in tensor types, each once."""
    sizes = [s for t in types if isinstance(t, TensorType) and not t.has_static_shape() for s in shape_of(t)]
    return list(dict.fromkeys(name for size in sizes if isinstance(size, DimExpr) for name in size.symbols()))


def sizes_of(func: FuncOp, case: int) -> dict[str, int]:
    """The values of a function's symbols in a case; empty for a function of static sizes."""
    names = symbols_in(a.type for a in func.body.block.args) or symbols_in(
        r.type for op in func.body.walk() for r in op.results
    )
    if not names:
        return {}
    spans = symbols_of(func)
    plain = SymbolAttr(1, (1 << 31) - 1)
    every = enumerate(dict.fromkeys([*names, *spans]))
    values = {name: symbol_value(spans.get(name, plain), case, k) for k, name in every}
    ranges = {name: (one.low.data, one.step.data) for name in values for one in [spans.get(name, plain)]}
    return bounded_sizes(values, ranges, lambda sizes: _largest_input(func, sizes))


def _largest_input(func: FuncOp, values: Mapping[str, int]) -> int:
    """The elements of the largest input of a function at these sizes."""
    shapes = [shape_of(a.type) for a in func.body.block.args if isinstance(a.type, TensorType)]
    return max((math.prod(sizes_at(shape, values)) for shape in shapes), default=0)


def solved(func: FuncOp, arrays: Sequence[Any]) -> dict[str, int]:
    """The values of a function's symbols, solved from the shapes of its inputs; ValueError if no value fits."""
    return solved_types(func.sym_name.data, [a.type for a in func.body.block.args], [a.shape for a in arrays])


def solved_types(name: str, types: Sequence[Attribute], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """The values of the symbols in tensor types for which these are the shapes; ValueError if no value fits."""
    values: dict[str, int] = {}
    pairs: list[tuple[Dim, int]] = []
    for t, given in zip(types, shapes, strict=True):
        shape = shape_of(t)
        if len(shape) != len(given):
            raise ValueError(f"expected inputs of @{name} of rank {len(shape)}, but got {given}")
        pairs += zip(shape, given, strict=True)
    for size, number in pairs:
        if isinstance(size, DimExpr) and len(size.terms) == 1 and len(size.terms[0][0]) == 1:
            (atom,), factor = size.terms[0]
            if isinstance(atom, str):
                values.setdefault(atom, number // factor)
    for size, number in pairs:
        found = size.evaluate(values) if isinstance(size, DimExpr) else size
        if found != number:
            raise ValueError(f"expected a size of an input of @{name} to be {found}, but got {number}")
    return values


def at_sizes(func: FuncOp, values: Mapping[str, int]) -> FuncOp:
    """A copy of a function with its symbols replaced by these sizes."""
    copy = func.clone()
    bind(copy, values)
    return copy


# --- below the graph level ---------------------------------------------------------------------------------------


def typical_of(func: Operation) -> tuple[int, ...] | None:
    """The typical values of a kernel's index arguments: its attribute `typical`, if present."""
    return integers(func.attributes.get(KERNEL_TYPICAL))


def shapes_at(func: Operation, symbols: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The shapes of a kernel's inputs and outputs at these symbols, by its attribute `sizes`; None without it."""
    rows = func.attributes.get(KERNEL_SIZES)
    if not isinstance(rows, ArrayAttr):
        return None
    return [tuple(int(e.evaluate(symbols)) for e in row.data) for row in rows if isinstance(row, IndexMapAttr)]


def index_arguments(args: Sequence[SSAValue], symbols: Sequence[int]) -> dict[SSAValue, int]:
    """The values of a kernel's index arguments."""
    return dict(zip([a for a in args if isinstance(a.type, IndexType)], symbols, strict=True))
