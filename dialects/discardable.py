"""
The discardable attributes of ops of mlc's dialects: those that `attributes` declares, and names with a prefix.

A name without a prefix that no level knows is a misspelling, which would otherwise be ignored:
`graph.softmax %x {axs = 0}`. As in MLIR, `mine.note` may stand on every op.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation

from mlc.dialects import DIALECTS
from mlc.dialects.attributes import UNPREFIXED
from mlc.support.errors import did_you_mean

_RESULT_TYPES = ("shape", "dtype", "to", "sizes", "new_shape")
"""Attributes that other compilers' ops have for what is the result's type here."""


def adopt_properties(op: Operation) -> None:
    """Move declared attributes of a graph op from its dictionary to its properties: the generic form has them there."""
    for name in _declared_by_graph_op(op):
        if name in op.attributes and name not in op.properties:
            op.properties[name] = op.attributes.pop(name)


def unknown_attribute(op: Operation) -> tuple[str, str] | None:
    """The first attribute that the op cannot have, and the sentence that says so; None if there is none."""
    properties = _properties(op)
    if properties is None:
        return None
    allowed = UNPREFIXED.get(op.name, frozenset())
    for name in op.attributes:
        if name in properties:
            return name, f"attribute '{name}' of {op.name} has a place of its own in the text; write it there"
        if name not in allowed and "." not in name:
            return name, f"unknown attribute '{name}' of {op.name}; {_remedy(op, name, properties, allowed)}"
    return None


def _declared_by_graph_op(op: Operation) -> Collection[str]:
    return cast("Mapping[str, Any]", getattr(op, "declared", {}))


def _properties(op: Operation) -> Collection[str] | None:
    """The properties that the op's class declares; None for ops of other dialects, which may have any attribute."""
    if hasattr(op, "declared"):
        return _declared_by_graph_op(op)
    if op.name.partition(".")[0] not in DIALECTS or not isinstance(op, IRDLOperation):
        return None
    return op.get_irdl_definition().properties


def _remedy(op: Operation, name: str, properties: Collection[str], allowed: Collection[str]) -> str:
    written = [*properties, *allowed] if hasattr(op, "declared") else [*allowed]
    if near := did_you_mean(name, [*properties, *allowed]).removeprefix("; "):
        return near
    if name in _RESULT_TYPES and getattr(op, "result_given", False):
        return "the type after the colon says what its result is"
    has = f"it has {', '.join(sorted(written))}" if written else "it has none"
    return f"{has}; a name with a prefix, as in my.{name}, may stand on every op"


def attribute_problem(op_name: str, attribute: str) -> str | None:
    """Why no pass reads an attribute of this name on an op; None if it may stand there."""
    known = sorted(UNPREFIXED.get(op_name, ()))
    if "." in attribute or attribute in known:
        return None
    near = did_you_mean(attribute, known)
    names = ", ".join(known)
    return f"expected an attribute of {op_name} ({names}) or a name with a prefix, but got '{attribute}'{near}"
