"""The symbols of a kernel function: its index arguments, and what its attributes say about them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from mlc.dialects.graph.dims import DimExpr, SymbolAttr, basis
from mlc.dialects.graph.symbols import symbols_of
from mlc.dialects.graph.types import shape_of
from mlc.dialects.te_builder import kernels


def kernel_symbols(kernel: func.FuncOp) -> list[DimExpr]:
    """The symbols (and products of symbols) of the sizes in a kernel: its index arguments, which follow the tensors."""
    values = [*kernel.body.block.args, *(r for op in kernel.body.block.ops for r in op.results)]
    shapes = [shape_of(v.type) for v in values if isinstance(v.type, TensorType) and not v.type.has_static_shape()]
    return basis(size for shape in shapes for size in shape)


def _ranges(kernel: func.FuncOp, symbols: Sequence[DimExpr]) -> dict[str, SymbolAttr]:
    """The declared ranges of the graph's symbols."""
    names = {name for symbol in symbols for name in symbol.symbols()}
    return {name: span for name, span in symbols_of(kernel).items() if name in names}


def size_attributes(kernel: func.FuncOp, symbols: Sequence[DimExpr]) -> dict[str, Attribute]:
    """The attributes `sizes` (shapes over the symbols), `typical` and `least` (values of the symbols) of a kernel."""
    if not symbols:
        return {}
    types = (*kernel.function_type.inputs, *kernel.function_type.outputs)
    return kernels.size_attributes([shape_of(t) for t in types], symbols, _ranges(kernel, symbols))
