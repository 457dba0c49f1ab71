"""The symbols that a function declares in `graph.symbols`, and their replacement by sizes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.attributes import GRAPH_SYMBOLS
from mlc.dialects.graph.dims import DimsAttr, SymbolAttr
from mlc.dialects.graph.types import with_symbols


def retype(value: SSAValue, type: Attribute) -> None:
    """Give a value another type."""
    value._type = type  # pyright: ignore[reportPrivateUsage] - xDSL replaces the value instead


def symbols_of(function: Operation) -> dict[str, SymbolAttr]:
    """The symbols of a function with their ranges."""
    declared = function.attributes.get(GRAPH_SYMBOLS)
    if not isinstance(declared, DictionaryAttr):
        return {}
    return {name: attr for name, attr in declared.data.items() if isinstance(attr, SymbolAttr)}


def symbols_around(op: Operation | None) -> dict[str, SymbolAttr]:
    """The symbols of the function that an op is, or stands in, with their ranges."""
    while op is not None:
        if GRAPH_SYMBOLS in op.attributes:
            return symbols_of(op)
        op = op.parent_op()
    return {}


def bind(function: FuncOp, sizes: Mapping[str, int]) -> None:
    """Replace a function's symbols by sizes, in the types of all its values."""

    def static(type: Attribute) -> Attribute:
        if isinstance(type, TensorType) and isinstance(type.encoding, DimsAttr):
            return with_symbols(type, sizes)
        return type

    def change(value: SSAValue) -> None:
        if (new := static(value.type)) is not value.type:
            retype(value, new)

    for block in function.body.blocks:
        for argument in block.args:
            change(argument)
    for op in function.body.walk():
        for result in op.results:
            change(result)
        for region in op.regions:
            for argument in (a for block in region.blocks for a in block.args):
                change(argument)
    inputs, outputs = function.function_type.inputs.data, function.function_type.outputs.data
    function.function_type = FunctionType.from_lists([static(t) for t in inputs], [static(t) for t in outputs])
    rest: dict[str, Attribute] = {n: attr for n, attr in symbols_of(function).items() if n not in sizes}
    if rest:
        function.attributes[GRAPH_SYMBOLS] = DictionaryAttr(rest)
    else:
        function.attributes.pop(GRAPH_SYMBOLS, None)
