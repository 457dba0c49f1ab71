"""The symbols of a kernel function: its index arguments, and what its attributes say about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, TensorType, i64
from xdsl.ir import Attribute

from mlc.dialects.graph.dims import TYPICAL, DimExpr, SymbolAttr, basis
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.dialects.index import IndexMapAttr, dim
from mlc.lowering.graph_to_te.indices import index_of


def kernel_symbols(kernel: func.FuncOp) -> list[DimExpr]:
    """The symbols, and products of them, of which the sizes in a kernel are made: its arguments behind the tensors."""
    values = [*kernel.body.block.args, *(r for op in kernel.body.block.ops for r in op.results)]
    shapes = [shape_of(v.type) for v in values if isinstance(v.type, TensorType) and not v.type.has_static_shape()]
    return basis(size for shape in shapes for size in shape)


def _sizes_attribute(types: Sequence[Attribute], symbols: Sequence[DimExpr]) -> ArrayAttr[Any]:
    """The shape of each operand and result as expressions over the kernel's index arguments."""
    number = {symbol: dim(k) for k, symbol in enumerate(symbols)}
    return ArrayAttr([IndexMapAttr.get(index_of(n, number.__getitem__) for n in shape_of(t)) for t in types])


def _values(kernel: func.FuncOp, symbols: Sequence[DimExpr], of: Callable[[SymbolAttr], int]) -> list[int]:
    """The kernel's index arguments where each symbol of the graph is what `of` says of it."""
    known = kernel.attributes.get("graph.symbols")
    ranges = known.data if isinstance(known, DictionaryAttr) else {}
    names = {name for symbol in symbols for name in symbol.symbols()}
    plain = SymbolAttr(1, 3 * TYPICAL)
    values = {name: of(s if isinstance(s := ranges.get(name), SymbolAttr) else plain) for name in names}
    return list(sizes_at(symbols, values))


def size_attributes(kernel: func.FuncOp, symbols: Sequence[DimExpr]) -> dict[str, Attribute]:
    """The shapes of operands and results over the symbols; what a schedule is chosen for, and the least that may be."""
    if not symbols:
        return {}
    types = (*kernel.function_type.inputs, *kernel.function_type.outputs)
    usual, low = (_values(kernel, symbols, of) for of in (lambda s: s.typical, lambda s: s.low.data))
    return {
        "sizes": _sizes_attribute(types, symbols),
        "typical": DenseArrayBase.from_list(i64, usual),
        "least": DenseArrayBase.from_list(i64, low),
    }
