"""
The table of converters: (domain, op type) -> the function that converts a node of it.

Each module of `ops/` has a dict CONVERTERS (of DOMAIN, if it names one, else of ai.onnx). An op has one converter; one
that handles some nodes in its place, and leaves the others to it, says so where it stands:

    CONVERTERS = {"Reshape": wraps("shape", _reshape)}      def _reshape(node, own): ... return own(node)

Two modules with an op that neither wraps are an error, so the order in which modules are named has no meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

import onnx

from mlc.dialects.own_ops import load_installed_ops
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.node import Converter, Node, Result
from mlc.support.errors import UserError

Key: TypeAlias = "tuple[str, str]"
"""(domain, op type); the domain of ai.onnx is ''."""
Wrapper: TypeAlias = "Callable[[Node, Converter], Result]"
"""Converts a node, or leaves it to the converter that is its second argument."""

MODULES = (
    "computed", "control", "indexing", "legacy", "math", "microsoft.attention", "microsoft.fusions",
    "microsoft.quantized", "nn", "pooling", "quantized", "recurrent", "resize", "sampling", "selection", "sequences",
    "shape", "signal", "simplified", "special",
)  # fmt: skip
"""The modules of `ops/`."""
STANDARD_OPSET = 13
"""The least opset by which `convert_as` reads nodes of other domains that are like ONNX's own ops."""


@dataclass(frozen=True)
class Wraps:
    """A converter in front of that of another module."""

    module: str
    convert: Wrapper


Entries: TypeAlias = "Mapping[Key, Converter | Wraps]"
"""The entries of one module."""


def wraps(module: str, convert: Wrapper) -> Wraps:
    """An entry of CONVERTERS: `convert(node, own)`, where `own` is the converter of the op in a module of `ops/`."""
    return Wraps(module, convert)


def assembled(modules: Mapping[str, Entries]) -> dict[Key, Converter]:
    """The converters of all modules, by name; ValueError for an op that two have and neither wraps."""
    by_key: dict[Key, dict[str, Converter | Wraps]] = {}
    for module, entries in modules.items():
        for key, entry in entries.items():
            by_key.setdefault(key, {})[module] = entry
    return {key: _chained(key, entries) for key, entries in by_key.items()}


def _chained(key: Key, entries: Mapping[str, Converter | Wraps]) -> Converter:
    """The outermost converter of an op, of those that modules have of it."""
    innermost = [(module, entry) for module, entry in entries.items() if not isinstance(entry, Wraps)]
    if len(innermost) != 1:
        raise ValueError(f"expected one converter of {key}, but got them in {sorted(m for m, _ in innermost)}")
    ((module, converter),) = innermost
    left = {name: entry for name, entry in entries.items() if isinstance(entry, Wraps)}
    while left:
        around = [name for name, entry in left.items() if entry.module == module]
        if len(around) != 1:
            raise ValueError(
                f"expected one of {sorted(left)} to wrap the converter of {key} in {module}, but got {around}"
            )
        (module,) = around
        converter = partial(_wrapped, left.pop(module).convert, converter)
    return converter


def _wrapped(convert: Wrapper, own: Converter, node: Node) -> Result:
    return convert(node, own)


@cache
def converters() -> dict[Key, Converter]:
    """(domain, op type) -> the converter of such nodes."""
    modules = {name: import_module(f"mlc.frontends.onnx.ops.{name}") for name in MODULES}
    return assembled(
        {
            name: {(getattr(module, "DOMAIN", ""), op): entry for op, entry in module.CONVERTERS.items()}
            for name, module in modules.items()
        }
    )


CUSTOM: dict[Key, Converter] = {}
"""Converters that this program has registered."""


def register_op(name: str, converter: Converter, domain: str = "") -> None:
    """
    Teach the import an op: `converter` turns a Node into the Value (or Values) of its results.

    `register_op("Twice", lambda node: node.emit(g.AddOp, node.input(0), node.input(0)), domain="my.ops")`
    """
    if not name or not callable(converter):
        raise UserError(f"expected the op's name and a function, but got {name!r} and {converter!r}")
    CUSTOM[domain if domain != "ai.onnx" else "", name] = converter


def find_converter(key: Key) -> Converter | None:
    """The converter of an op: the program's own, mlc's, that of an installed op (group `mlc.ops`), in this order."""
    found = CUSTOM.get(key) or converters().get(key)
    if found is None:
        load_installed_ops()
        found = CUSTOM.get(key)
    return found


def convert_as(node: Node, kind: str, *inputs: Value | None) -> Any:
    """The result, or results, of one of ONNX's own ops on inputs, with the attributes of a node of another domain."""
    proto = onnx.NodeProto()
    proto.CopyFrom(node.proto)
    proto.op_type, proto.domain = kind, ""
    opsets = {**node.opsets, "": max(node.opsets.get("", 1), STANDARD_OPSET)}
    return converters()["", kind](Node(node.importer, proto, node.path, list(inputs), opsets))


__all__ = [
    "CUSTOM", "Wrapper", "Wraps", "assembled", "convert_as", "converters", "find_converter", "register_op", "wraps",
]  # fmt: skip
