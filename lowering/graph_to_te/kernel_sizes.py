"""The symbols of a kernel function: its index arguments, and what its attributes say about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, TensorType, i64
from xdsl.ir import Attribute

from mlc.dialects.attributes import GRAPH_SYMBOLS, KERNEL_LEAST, KERNEL_SIZES, KERNEL_TYPICAL
from mlc.dialects.graph.dims import DimExpr, SymbolAttr, basis, bounds_between
from mlc.dialects.graph.types import shape_of, sizes_at
from mlc.dialects.index import TYPICAL, UNBOUNDED, IndexMapAttr, dim
from mlc.dialects.te_builder.indices import index_of


def kernel_symbols(kernel: func.FuncOp) -> list[DimExpr]:
    """The symbols (and products of symbols) of the sizes in a kernel: its index arguments, which follow the tensors."""
    values = [*kernel.body.block.args, *(r for op in kernel.body.block.ops for r in op.results)]
    shapes = [shape_of(v.type) for v in values if isinstance(v.type, TensorType) and not v.type.has_static_shape()]
    return basis(size for shape in shapes for size in shape)


def _sizes_attribute(types: Sequence[Attribute], symbols: Sequence[DimExpr]) -> ArrayAttr[Any]:
    """The shape of each operand and result as expressions over the kernel's index arguments."""
    number = {symbol: dim(k) for k, symbol in enumerate(symbols)}
    return ArrayAttr([IndexMapAttr.get(index_of(n, number.__getitem__) for n in shape_of(t)) for t in types])


def _ranges(kernel: func.FuncOp, symbols: Sequence[DimExpr]) -> dict[str, SymbolAttr]:
    """The declared ranges of the graph's symbols."""
    known = kernel.attributes.get(GRAPH_SYMBOLS)
    ranges: Mapping[str, Attribute] = known.data if isinstance(known, DictionaryAttr) else {}
    names = {name for symbol in symbols for name in symbol.symbols()}
    return {name: s for name in names if isinstance(s := ranges.get(name), SymbolAttr)}


def size_attributes(kernel: func.FuncOp, symbols: Sequence[DimExpr]) -> dict[str, Attribute]:
    """The attributes `sizes` (shapes over the symbols), `typical` and `least` (values of the symbols) of a kernel."""
    if not symbols:
        return {}
    types = (*kernel.function_type.inputs, *kernel.function_type.outputs)
    ranges = _ranges(kernel, symbols)
    plain = dict.fromkeys((name for symbol in symbols for name in symbol.symbols()), TYPICAL)
    usual = sizes_at(symbols, plain | {name: s.typical for name, s in ranges.items()})
    ends = {name: (s.low.data, s.high.data) for name, s in ranges.items()}
    least = [int(max(bounds_between(symbol, ends)[0], -UNBOUNDED)) for symbol in symbols]
    return {
        KERNEL_SIZES: _sizes_attribute(types, symbols),
        KERNEL_TYPICAL: DenseArrayBase.from_list(i64, list(usual)),
        KERNEL_LEAST: DenseArrayBase.from_list(i64, least),
    }
