"""
Parts of an ONNX graph as functions: nodes with the names that they read and give, to be imported for given arguments.

    nodes  a b | c d        `c` needs what only the data says: divided(2) is the part [a b], and the function [c d]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper

from mlc.frontends.common.model import Model
from mlc.frontends.onnx.external import ExternalData
from mlc.frontends.onnx.files import ModelSource, check_model, read_model
from mlc.frontends.onnx.importer import import_proto
from mlc.frontends.onnx.ordered import in_order, read_names
from mlc.frontends.onnx.structured import StructuredValues

Argument = Any
"""An array, a list of arrays, or None."""
OpenAxes = Mapping[int, Sequence[int]]
"""Number of an argument -> the axes whose sizes stay open."""


@dataclass(frozen=True)
class OnnxSource:
    """What all parts of a model share."""

    proto: onnx.ModelProto
    name: str
    external: ExternalData


@dataclass(eq=False)
class OnnxFunction:
    """Nodes in order, the names of their inputs and outputs, and the constants that they may read."""

    source: OnnxSource
    nodes: Sequence[onnx.NodeProto]
    inputs: Sequence[str]
    outputs: Sequence[str]
    constants: Mapping[str, onnx.TensorProto]
    parts: dict[tuple[str, int], int] = field(default_factory=dict["tuple[str, int]", int])
    """The numbers of the functions that this one was divided into, by kind and first node."""

    def reads(self) -> list[str]:
        """The names that the nodes and the outputs read, those that the nodes define among them."""
        return list(dict.fromkeys([*_read(self.nodes), *self.outputs]))

    def load(self, arguments: Sequence[Argument], wanted: Iterable[int], open_axes: OpenAxes | None = None) -> Model:
        """
        The model of the nodes for arguments of these shapes, and with the values of the wanted ones.

        `open_axes` has for an argument the axes whose size stays symbolic. Raises NeedsValues.
        """
        read = {*self.reads()}
        shapes = {name: _shape(a, k, open_axes) for k, (name, a) in enumerate(zip(self.inputs, arguments, strict=True))}
        values: dict[str, Any] = {}
        for k in wanted:
            values |= self.tensors(k, arguments[k])
        infos = [_info(name, a, shapes[name]) for name, a in zip(self.inputs, arguments, strict=True)]
        graph = helper.make_graph(
            list(self.nodes),
            self.source.proto.graph.name or "graph",
            infos,
            [onnx.ValueInfoProto(name=name) for name in self.outputs],
        )
        graph.initializer.extend(t for n, t in self.constants.items() if n in read and n not in self.inputs)
        proto = onnx.ModelProto(ir_version=self.source.proto.ir_version, graph=graph)
        proto.opset_import.extend(self.source.proto.opset_import)
        proto.functions.extend(self.source.proto.functions)
        return import_proto(proto, self.source.name, self.source.external, shapes, values)

    def tensors(self, index: int, argument: Argument) -> dict[str, Any]:
        """The tensors that an argument is, by the names that the import gives them."""
        name = self.inputs[index]
        if isinstance(argument, list):
            items = cast("list[Argument]", argument)
            return dict(zip(StructuredValues().split(name, len(items), self.inputs), items, strict=True))
        return {} if argument is None else {name: argument}

    def part(self, kind: str, at: int = 0) -> OnnxFunction:
        """A part: the `rest` from a node on, what comes `after` the first one, or a body of the first, by its name."""
        if kind == "rest":
            return self.divided(at)[1]
        node = self.nodes[0]
        if kind == "after":
            return self.rest(self.nodes[1:], [*self.inputs, *(n for n in node.output if n)])
        return self.body(next(a.g for a in node.attribute if a.name == kind))

    def divided(self, at: int) -> tuple[OnnxFunction, OnnxFunction]:
        """The part before a node, whose outputs are what is read later, and the function from the node on."""
        before, after = self.nodes[:at], self.nodes[at:]
        later = {*_read(after), *self.outputs}
        made = [name for name in _defined(before) if name in later]
        read = {*_read(before)}
        first = OnnxFunction(self.source, before, [n for n in self.inputs if n in read], made, self.constants)
        return first, self.rest(after, [*self.inputs, *made])

    def rest(self, nodes: Sequence[onnx.NodeProto], known: Sequence[str]) -> OnnxFunction:
        """The function of later nodes, which may read the known names, and gives the outputs that they define."""
        defined = {*_defined(nodes)}
        outputs = [name for name in self.outputs if name in defined]
        read = {*_read(nodes)} - defined
        return OnnxFunction(self.source, nodes, [n for n in known if n in read], outputs, self.constants)

    def body(self, graph: onnx.GraphProto) -> OnnxFunction:
        """The function of a body, with what it reads from around it as further inputs."""
        nodes, constants = without_constants([node for _, node in in_order(graph.node, self.inputs)])
        constants = {**self.constants, **{t.name: t for t in graph.initializer}, **constants}
        own = [info.name for info in graph.input]
        outputs = [info.name for info in graph.output]
        defined = {*own, *_defined(nodes)}
        read = [*_read(nodes), *outputs]
        captured = [n for n in dict.fromkeys(read) if n in self.inputs and n not in defined]
        return OnnxFunction(self.source, nodes, [*own, *captured], outputs, constants)


def function_of(source: ModelSource) -> OnnxFunction:
    """The function that a whole model is."""
    proto, name, external = read_model(source)
    check_model(proto, name)
    given = {tensor.name: tensor for tensor in proto.graph.initializer}
    inputs = [info.name for info in proto.graph.input if info.name not in given]
    nodes, constants = without_constants([node for _, node in in_order(proto.graph.node, {*inputs, *given})])
    outputs = [info.name for info in proto.graph.output]
    return OnnxFunction(OnnxSource(proto, name, external), nodes, inputs, outputs, {**given, **constants})


def without_constants(nodes: Iterable[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], dict[str, onnx.TensorProto]]:
    """The nodes other than Constant, and the tensors of the Constant nodes by name."""
    left: list[onnx.NodeProto] = []
    constants: dict[str, onnx.TensorProto] = {}
    for node in nodes:
        tensor = _constant(node) if node.op_type == "Constant" and node.domain in ("", "ai.onnx") else None
        if tensor is None:
            left.append(node)
        else:
            constants[node.output[0]] = tensor
    return left, constants


def _constant(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The tensor of a Constant node; None of a kind that has none."""
    (attribute,) = node.attribute if len(node.attribute) == 1 else (onnx.AttributeProto(),)
    name, value = node.output[0], helper.get_attribute_value(attribute) if attribute.name else None
    if attribute.name == "value" and isinstance(value, onnx.TensorProto):
        tensor = onnx.TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return tensor
    dtypes = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    if attribute.name not in dtypes:
        return None
    return onnx.numpy_helper.from_array(np.array(value, dtypes[attribute.name]), name)


def _read(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return [name for node in nodes for name in read_names(node) if name]


def _defined(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return [name for node in nodes for name in node.output if name]


def _shape(argument: Argument, index: int, open_axes: OpenAxes | None) -> Any:
    """A shape as `shapes=` takes it; of a list one for each tensor."""
    if isinstance(argument, list):
        return [_shape(one, index, None) for one in cast("list[Argument]", argument)]
    if argument is None:
        return None
    axes = (open_axes or {}).get(index, ())
    return tuple(f"n{index}_{axis}" if axis in axes else size for axis, size in enumerate(argument.shape))


def _info(name: str, argument: Argument, shape: Any) -> onnx.ValueInfoProto:
    """The declaration of an input."""
    if isinstance(argument, list):
        items = cast("list[Argument]", argument)
        element = helper.np_dtype_to_tensor_dtype(items[0].dtype) if items else onnx.TensorProto.FLOAT
        return helper.make_value_info(
            name, helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))
        )
    if argument is None:
        tensor = helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        return helper.make_value_info(name, helper.make_optional_type_proto(tensor))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(argument.dtype), shape)


__all__ = ["Argument", "OnnxFunction", "OnnxSource", "OpenAxes", "function_of"]
