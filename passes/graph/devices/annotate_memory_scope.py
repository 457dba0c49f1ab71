"""graph-annotate-memory-scope: each value gets the memory scope of its device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from mlc.dialects.attributes import GRAPH_DEVICE, GRAPH_SCOPE
from mlc.passes.rewriting import functions
from mlc.support.errors import UserError

GLOBAL = "global"
"""The scope of memory that the host reads and writes."""


def parse_scopes(text: str) -> dict[str, str]:
    """`npu:sram+dsp:vtcm` as device -> scope; UserError for another text."""
    scopes: dict[str, str] = {}
    for item in text.split("+") if text else ():
        device, _, scope = item.partition(":")
        if not device or not scope:
            raise UserError(f"expected scopes like npu:sram+dsp:vtcm, but got '{item}'")
        scopes[device] = scope
    return scopes


def scope_of(attributes: Mapping[str, Attribute], scopes: Mapping[str, str]) -> str | None:
    """The scope of what has these attributes; None where it has no device."""
    device = attributes.get(GRAPH_DEVICE)
    return scopes.get(device.data, GLOBAL) if isinstance(device, StringAttr) else None


@dataclass(frozen=True)
class AnnotateMemoryScopePass(ModulePass):
    """
    Write the memory scope of each op's results and each function's arguments and results: that of the device.

    `%1 = graph.relu %0 {graph.device = "npu"}`
    ->  `%1 = graph.relu %0 {graph.device = "npu", graph.scope = "sram"}` with `scopes=npu:sram`

    A device that `scopes` does not name has scope global, the memory of the host.
    """

    name = "graph-annotate-memory-scope"
    scopes: str = ""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        scopes = parse_scopes(self.scopes)
        for function in functions(op):
            function.arg_attrs = _with_scopes(function.arg_attrs, scopes)
            function.res_attrs = _with_scopes(function.res_attrs, scopes)
            for inner in function.walk():
                if (scope := scope_of(inner.attributes, scopes)) is not None:
                    inner.attributes[GRAPH_SCOPE] = StringAttr(scope)


def _with_scopes(
    attrs: ArrayAttr[DictionaryAttr] | None, scopes: Mapping[str, str]
) -> ArrayAttr[DictionaryAttr] | None:
    if attrs is None:
        return None
    found: Sequence[str | None] = [scope_of(record.data, scopes) for record in attrs.data]
    return ArrayAttr(
        [
            record if scope is None else DictionaryAttr({**record.data, GRAPH_SCOPE: StringAttr(scope)})
            for record, scope in zip(attrs.data, found, strict=True)
        ]
    )
