"""graph-dynamic-to-static: symbols of known size are replaced by the size."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from mlc.dialects.graph import SymbolAttr
from mlc.dialects.graph.symbols import bind, symbols_of
from mlc.passes.rewriting import functions
from mlc.support.errors import did_you_mean, fail


@dataclass(frozen=True)
class DynamicToStaticPass(ModulePass):
    """
    Replace symbols whose range is one size, and the symbols in `sizes`, by their sizes.

    `%x: tensor<?x8xf32, #graph.dims<[N]>>`, N in 4 to 4  ->  `%x: tensor<4x8xf32>`

    `sizes` holds `N:4` for each symbol.
    """

    name = "graph-dynamic-to-static"

    sizes: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; a size outside of its symbol's range is a user error."""
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
