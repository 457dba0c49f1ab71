"""graph-remove-unused-functions: erase functions that are not reachable from an entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, SymbolRefAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation
from xdsl.passes import ModulePass

from mlc.dialects.constants import items
from mlc.support.errors import did_you_mean, fail


def references(op: Operation) -> Iterator[str]:
    """The symbols that the ops inside an op name in their attributes."""
    for inner in op.walk():
        for attribute in (*inner.properties.values(), *inner.attributes.values()):
            yield from _symbols(attribute)


def _symbols(attribute: Attribute) -> Iterator[str]:
    if isinstance(attribute, SymbolRefAttr):
        yield attribute.root_reference.data
    elif isinstance(attribute, DictionaryAttr):
        for item in attribute.data.values():
            yield from _symbols(item)
    else:
        for item in items(attribute):
            yield from _symbols(item)


def is_public(function: FuncOp) -> bool:
    """Whether programs may call a function."""
    visibility = function.sym_visibility
    return visibility is None or visibility.data == "public"


@dataclass(frozen=True)
class RemoveUnusedFunctionsPass(ModulePass):
    """
    Keep the functions that are reachable through calls from `entries`, by default from all public functions.

    `func.func @main(..) { graph.call @f }; func.func private @f; func.func private @g` -> `@main` and `@f`
    """

    name = "graph-remove-unused-functions"

    entries: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; an entry that is no function of the module is a user error."""
        known = {inner.sym_name.data: inner for inner in op.body.block.ops if isinstance(inner, FuncOp)}
        for name in self.entries:
            if name not in known:
                fail(op, f"expected entries to be functions of the module, but got '{name}'{did_you_mean(name, known)}")
        if not self.entries and all(is_public(function) for function in known.values()):
            return
        others = [o for o in op.body.block.ops if not isinstance(o, FuncOp)]
        kept = list(self.entries) or [name for name, function in known.items() if is_public(function)]
        kept += [name for other in others for name in references(other) if name in known]
        reached = dict.fromkeys(kept)
        while kept:
            found = [name for name in references(known[kept.pop()]) if name in known and name not in reached]
            reached.update(dict.fromkeys(found))
            kept += found
        for name, function in known.items():
            if name not in reached:
                function.detach()
                function.erase()
