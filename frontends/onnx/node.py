"""One ONNX node during its conversion: its inputs and attributes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import onnx

from mlc.dialects.graph.dims import DimExpr
from mlc.frontends.common.source_node import NeedsValues, SourceNode
from mlc.frontends.common.values import Value
from mlc.frontends.onnx.files import printable, tensor_array
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.frontends.onnx.importer import Importer

Result: TypeAlias = "Value | Sequence[Value | None]"
"""The results of a node; None for one that mlc does not compute."""
Converter: TypeAlias = "Callable[[Node], Result]"


class UseBody(Exception):
    """Raised by a converter: expand the function body of the op's schema instead."""


class Node(SourceNode):
    """One ONNX node during its conversion: its inputs and attributes, and the means to emit graph ops."""

    def __init__(
        self,
        importer: Importer,
        proto: onnx.NodeProto,
        path: str,
        inputs: list[Value | None],
        opsets: Mapping[str, int],
    ):
        super().__init__(importer, path)
        self.importer: Importer = importer
        self.proto = proto
        self.inputs = inputs
        self.opsets = opsets
        self.opset = opsets.get(plain_domain(proto), 1)
        self._attributes = {attribute.name: attribute for attribute in proto.attribute}

    @property
    def kind(self) -> str:
        """The op type, without its domain."""
        return self.proto.op_type

    def check_attributes(self) -> None:
        """Check the attributes' types against ONNX's own schema of the op, where it has one."""
        domain, kind = op_key(self.proto)
        if domain or not onnx.defs.has(kind):
            return
        try:
            schema = onnx.defs.get_schema(kind, self.opset).attributes
        except onnx.defs.SchemaError:
            raise self.fail(f"expected an op of opset {self.opset}, but it has no {kind}") from None
        for name, attribute in schema.items():
            if attribute.required and name not in self._attributes:
                raise self.fail(f"expected an attribute {name}, but got none")
        for name, proto in self._attributes.items():
            wanted: Any = schema[name].type if name in schema else None  # an enum, which the stubs do not say
            if wanted is not None and int(wanted.value) != proto.type:
                names = onnx.AttributeProto.AttributeType
                raise self.fail(f"expected attribute {name} of type {wanted.name}, but got {names.Name(proto.type)}")

    def attr(self, name: str, default: Any = None) -> Any:
        """An attribute as a Python value; a tensor as an array."""
        proto = self._attributes.get(name)
        if proto is None:
            return default
        value = onnx.helper.get_attribute_value(proto)
        if isinstance(value, onnx.TensorProto):
            return tensor_array(value, f"{self.path}: attribute {name}", self.importer.external)
        return value.decode() if isinstance(value, bytes) else list(value) if proto.type > 5 else value

    def fail(self, message: str) -> UserError:
        """An error about this node."""
        return UserError(f"{self.importer.source}: {self.path} ({printable(self.proto.op_type)}): {one_line(message)}")

    def has(self, index: int) -> bool:
        """Whether input `index` is given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        return value is not None and not value.absent

    def input(self, index: int) -> Value:
        """Input `index`, which must be given."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if value is None:
            raise self.fail(f"expected at least {index + 1} inputs, but got {len(self.inputs)}")
        return value

    def constant(self, index: int) -> Any:
        """Input `index` as an array; it must be known at import."""
        value = self.input(index)
        return self.known(value, f"input {index} ('{value.name}')")

    def ints(self, index: int, name: str | None = None, default: Any = None) -> Any:
        """Integers from an attribute `name`, else from input `index`."""
        if name is not None and name in self._attributes:
            return list(self.attr(name))
        if not self.has(index):
            return default
        return [v if isinstance(v, DimExpr) else int(v) for v in self.constant(index).reshape(-1).tolist()]


def node_path(node: onnx.NodeProto, index: int) -> str:
    """The name of a node in messages and locations: its own, else op type and index."""
    return printable(node.name or f"{node.op_type}_{index}")


def one_line(message: str) -> str:
    """A message with line breaks, as those of libraries have, replaced by spaces."""
    return " ".join(message.split()) if "\n" in message else message


def plain_domain(node: onnx.NodeProto | onnx.FunctionProto) -> str:
    """The domain of a node or function; that of `ai.onnx` is ''."""
    return "" if node.domain == "ai.onnx" else node.domain


def op_key(node: onnx.NodeProto) -> tuple[str, str]:
    """The key of a node in the table of converters: (domain, op type)."""
    return plain_domain(node), node.op_type


__all__ = [
    "Converter", "NeedsValues", "Node", "Result", "UseBody", "Value", "node_path", "one_line", "op_key", "plain_domain",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """The table of converters stood here in mlc 0.1: its names work for one more release, with a warning."""
    if name not in ("CUSTOM", "converters", "find_converter", "register_op"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from mlc.frontends.onnx import table

    warnings.warn(f"{__name__}.{name} is now {table.__name__}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(table, name)
