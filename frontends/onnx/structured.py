"""
Inputs and outputs that are sequences or optionals, of lengths known at import: they become tensors.

    x : sequence of 2 tensors   ->  "x.0", "x.1"
    x : optional, absent        ->  nothing
    x : optional, present       ->  "x", of the type of its content

@main has the tensors; its attribute `graph.structure` has the parts of each name: {x = ["x.0", "x.1"], y = unit}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute

from mlc.frontends.common.source_node import NeedsValues
from mlc.frontends.common.values import Value
from mlc.support.errors import UserError

STRUCTURE = "graph.structure"
"""The attribute of @main: name -> the names of a sequence's tensors, or unit for an absent optional."""


@dataclass
class StructuredValues:
    """The sequences and optionals by name: the names of a sequence's tensors, or None for an absent optional."""

    names: dict[str, list[str] | None] = field(default_factory=dict)

    def split(self, name: str, count: int, taken: Iterable[str]) -> list[str]:
        """Unused names for the tensors of a sequence."""
        used = set(taken)
        while any(f"{name}.{k}" in used for k in range(count)):
            name += "_"
        return [f"{name}.{k}" for k in range(count)]

    def values(self, tensors: Mapping[str, Value]) -> dict[str, Value]:
        """The sequences and absent optionals as values, from their tensors."""
        return {
            name: Value(None, None, name, absent=True)
            if parts is None
            else Value(None, None, name, items=tuple(tensors[part] for part in parts))
            for name, parts in self.names.items()
        }

    def attribute(self) -> dict[str, Attribute]:
        """The attributes of @main."""
        if not self.names:
            return {}
        parts = {
            name: UnitAttr() if names is None else ArrayAttr([StringAttr(one) for one in names])
            for name, names in self.names.items()
        }
        return {STRUCTURE: DictionaryAttr(parts)}


def structure_of(attributes: Mapping[str, Attribute]) -> dict[str, list[str] | None]:
    """The parts by name, from the attributes of @main."""
    found: Any = attributes.get(STRUCTURE, DictionaryAttr({}))
    return {
        name: None if isinstance(parts, UnitAttr) else [part.data for part in parts.data]
        for name, parts in found.data.items()
    }


def tensor_type(proto: onnx.TypeProto) -> tuple[bool, bool, onnx.TypeProto | None]:
    """(whether a type is optional, whether it is a sequence, its tensor type; None if its elements are not tensors)."""
    optional = proto.HasField("optional_type")
    proto = proto.optional_type.elem_type if optional else proto
    sequence = proto.HasField("sequence_type")
    proto = proto.sequence_type.elem_type if sequence else proto
    return optional, sequence, proto if proto.HasField("tensor_type") else None


def take_apart(
    infos: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, Any], source: str
) -> tuple[list[onnx.ValueInfoProto], dict[str, Any], StructuredValues]:
    """The inputs as tensors, the shapes that are given for these, and the sequences and optionals."""
    tensors: list[onnx.ValueInfoProto] = []
    sizes: dict[str, Any] = dict(shapes)
    parts = StructuredValues()
    for info in infos:
        optional, sequence, element = tensor_type(info.type)
        if not (optional or sequence):
            tensors.append(info)
            continue
        what = f"{source}: input '{info.name}'"
        if element is None:
            raise UserError(f"{what}: expected tensors, or sequences or optionals of tensors, but got another type")
        if info.name not in shapes:
            wanted = "[(..), (..)], a shape for each tensor of the sequence" if sequence else "(..)"
            absent = ", or None where the optional is absent" if optional else ""
            raise NeedsValues(f'{what}: expected what it holds; pass shapes={{"{info.name}": {wanted}}}{absent}', set())
        given: Any = sizes.pop(info.name)
        if given is None and optional:
            parts.names[info.name] = None
            continue
        if sequence and (isinstance(given, str) or not isinstance(given, Sequence)):
            raise UserError(f"{what}: expected a list of shapes, since it is a sequence, but got {given!r}")
        held: list[Any] = list(given or ()) if sequence else [given]
        names = [info.name]
        if sequence:
            names = parts.split(info.name, len(held), (other.name for other in infos))
            parts.names[info.name] = names
        sizes.update(zip(names, held, strict=True))
        tensors += (onnx.ValueInfoProto(name=name, type=element) for name in names)
    return tensors, sizes, parts


def outputs_apart(names: Sequence[str], values: dict[str, Value], parts: StructuredValues) -> list[str]:
    """The outputs' names, with a sequence's replaced by those of its tensors, which are added to the values."""
    result: list[str] = []
    for name in names:
        value = values.get(name)
        if value is None or (value.items is None and not value.absent):
            result.append(name)
        elif value.absent:
            parts.names[name] = None
        else:
            own = parts.split(name, len(value.items or ()), (*values, *names))
            parts.names[name] = own
            values |= zip(own, value.items or (), strict=True)
            result += own
    return result
