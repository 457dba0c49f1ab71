"""graph-dynamic-to-static: symbols whose size is known become that size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import DimsAttr, SymbolAttr
from mlc.dialects.graph.types import with_symbols
from mlc.passes.errors import did_you_mean, fail
from mlc.passes.graph.infer_types import retype
from mlc.passes.graph.rewriting import functions

SYMBOLS = "graph.symbols"


def symbols_of(function: FuncOp) -> dict[str, SymbolAttr]:
    """The symbols of a function with their ranges."""
    declared = function.attributes.get(SYMBOLS)
    if not isinstance(declared, DictionaryAttr):
        return {}
    return {name: attr for name, attr in declared.data.items() if isinstance(attr, SymbolAttr)}


def bind(function: FuncOp, sizes: Mapping[str, int]) -> None:
    """Put sizes in the place of a function's symbols, in the types of all its values."""

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
        function.attributes[SYMBOLS] = DictionaryAttr(rest)
    else:
        function.attributes.pop(SYMBOLS, None)


@dataclass(frozen=True)
class DynamicToStaticPass(ModulePass):
    """
    Replace symbols of one possible size, and those that `sizes` names, by their sizes.

    `%x: tensor<?x8xf32, #graph.dims<[N]>>`, N in 4 to 4  ->  `%x: tensor<4x8xf32>`

    `sizes` holds `N:4` for each symbol. Ops whose shapes depended on symbols are static then, and are folded as such.
    """

    name = "graph-dynamic-to-static"

    sizes: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; a size that its symbol cannot have is a user error."""
        given = self.given(op)
        declared = {function: symbols_of(function) for function in functions(op)}
        known = {name for symbols in declared.values() for name in symbols}
        for name in given:
            if name not in known:
                fail(op, f"expected sizes of symbols of the module, but got '{name}'{did_you_mean(name, known)}")
        for function, symbols in declared.items():
            sizes = {name: s.low.data for name, s in symbols.items() if s.low.data == s.high.data}
            for name in given.keys() & symbols.keys():
                sizes[name] = _checked(function, name, given[name], symbols[name])
            if sizes:
                bind(function, sizes)

    def given(self, module: ModuleOp) -> dict[str, int]:
        """The option `sizes` as a table."""
        result: dict[str, int] = {}
        for text in self.sizes:
            name, _, size = text.partition(":")
            if not name or not size.isdecimal():
                fail(module, f"expected sizes like 'N:4', but got '{text}'")
            result[name] = int(size)
        return result


def _checked(function: FuncOp, name: str, size: int, symbol: SymbolAttr) -> int:
    low, high, step = symbol.low.data, symbol.high.data, symbol.step.data
    if not low <= size <= high or size % step:
        wanted = f"{low} to {high}" + (f" step {step}" if step > 1 else "")
        fail(function, f"expected the size of {name} in {wanted}, but got {size}")
    return size
