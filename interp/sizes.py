"""
Sizes at which functions of symbolic ones are run: a function is run once for each case.

    case 0     usual sizes, though none above `LARGEST`
    case 1     odd ones, of which no tile's size is a divisor: "k #1"
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IndexType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.graph.dims import Dim, DimExpr, SymbolAttr
from mlc.dialects.graph.symbols import bind, symbols_of
from mlc.dialects.graph.types import shape_of
from mlc.dialects.index import IndexMapAttr

CASES = (0, 1)
LARGEST = 71
"""What the interpreters are slow above; larger than most tiles, and a multiple of none."""
ODD = (7, 5, 3)


def case_name(name: str, case: int) -> str:
    """What a case of a function is called."""
    return f"{name} #{case}" if case else name


def chosen(span: SymbolAttr, case: int, which: int = 0) -> int:
    """The value of the symbol of this number in a case: odd ones differ, so that one in another's place shows."""
    low, high, step = span.low.data, span.high.data, span.step.data
    if case == 0:
        return min(span.typical, max(-(-low // step) * step, LARGEST // step * step))
    fitting = (odd * step for odd in (*ODD[which % len(ODD) :], *ODD) if low <= odd * step <= high)
    return next(fitting, -(-low // step) * step)


def symbols_in(types: Iterable[Attribute]) -> list[str]:
    """The names of the symbols in tensor types, each once."""
    sizes = [s for t in types if isinstance(t, TensorType) and not t.has_static_shape() for s in shape_of(t)]
    return list(dict.fromkeys(name for size in sizes if isinstance(size, DimExpr) for name in size.symbols()))


def sizes_of(func: FuncOp, case: int) -> dict[str, int]:
    """The values of a function's symbols in a case; none for a function of static sizes."""
    names = symbols_in(a.type for a in func.body.block.args) or symbols_in(
        r.type for op in func.body.walk() for r in op.results
    )
    if not names:
        return {}
    spans = symbols_of(func)
    plain = SymbolAttr(1, (1 << 31) - 1)
    every = enumerate(dict.fromkeys([*names, *spans]))
    return {name: chosen(spans.get(name, plain), case, k) for k, name in every}


def solved(func: FuncOp, arrays: Sequence[Any]) -> dict[str, int]:
    """The values of a function's symbols that the shapes of its inputs imply; ValueError where these do not fit."""
    values: dict[str, int] = {}
    pairs: list[tuple[Dim, int]] = []
    for argument, array in zip(func.body.block.args, arrays, strict=True):
        shape = shape_of(argument.type)
        if len(shape) != len(array.shape):
            raise ValueError(f"expected inputs of @{func.sym_name.data} of rank {len(shape)}, but got {array.shape}")
        pairs += zip(shape, array.shape, strict=True)
    for size, number in pairs:
        if isinstance(size, DimExpr) and len(size.terms) == 1 and len(size.terms[0][0]) == 1:
            (atom,), factor = size.terms[0]
            if isinstance(atom, str):
                values.setdefault(atom, number // factor)
    for size, number in pairs:
        found = size.evaluate(values) if isinstance(size, DimExpr) else size
        if found != number:
            raise ValueError(f"expected a size of an input of @{func.sym_name.data} to be {found}, but got {number}")
    return values


def at_sizes(func: FuncOp, values: Mapping[str, int]) -> FuncOp:
    """A copy of a function in which symbols are these sizes."""
    copy = func.clone()
    bind(copy, values)
    return copy


# --- below the graph level ---------------------------------------------------------------------------------------


def typical_of(func: Operation) -> tuple[int, ...] | None:
    """Usual values of a kernel's index arguments, where it says them."""
    usual = func.attributes.get("typical")
    return tuple(int(n) for n in usual.get_values()) if isinstance(usual, DenseArrayBase) else None


def shapes_at(func: Operation, symbols: Sequence[int]) -> list[tuple[int, ...]] | None:
    """The shapes of a kernel's inputs and outputs, which its attribute `sizes` says."""
    rows = func.attributes.get("sizes")
    if not isinstance(rows, ArrayAttr):
        return None
    return [tuple(int(e.evaluate(symbols)) for e in row.data) for row in rows if isinstance(row, IndexMapAttr)]


def index_arguments(args: Sequence[SSAValue], symbols: Sequence[int]) -> dict[SSAValue, int]:
    """The values of a kernel's index arguments."""
    return dict(zip([a for a in args if isinstance(a.type, IndexType)], symbols, strict=True))
