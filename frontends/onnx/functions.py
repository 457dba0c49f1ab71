"""Expansion of ops that are defined by others: functions of the model, function bodies of ONNX's op schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx

from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.files import printable
from mlc.frontends.onnx.node import Node, node_path, op_key, plain_domain
from mlc.frontends.onnx.ordered import in_order
from mlc.frontends.onnx.table import find_converter

Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]
"""(domain, name, overload) -> a function of the model."""
MAX_FUNCTION_DEPTH = 32
"""The deepest nesting of function calls."""


def functions_of(model: onnx.ModelProto) -> Functions:
    """The functions in a model."""
    return {(plain_domain(one), one.name, one.overload): one for one in model.functions}


def function_key(node: onnx.NodeProto) -> tuple[str, str, str]:
    """The key of a model's function: (domain, name, overload)."""
    return *op_key(node), node.overload


def missing_nodes(
    graph: onnx.GraphProto, opsets: Mapping[str, int], functions: Functions
) -> Iterator[tuple[str, str, str]]:
    """(node path, op type, reason) of each node that mlc does not support, including nodes in bodies."""
    yield from _missing(graph.node, "", opsets, functions, set())


def _missing(
    nodes: Iterable[onnx.NodeProto], place: str, opsets: Mapping[str, int], functions: Functions, seen: set[Any]
) -> Iterator[tuple[str, str, str]]:
    for index, node in enumerate(nodes):
        key, path = op_key(node), place + node_path(node, index)
        domain, kind = key
        if function := functions.get(function_key(node)):
            if function_key(node) not in seen:
                seen.add(function_key(node))
                yield from _missing(function.node, f"{path}/", inner_opsets(function, opsets), functions, seen)
        elif find_converter(key) is None and not _has_body(node, opsets):
            yield path, printable(f"{domain}.{kind}" if domain else kind), "another domain" if domain else ""
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _missing(attribute.g.node, f"{path}/", opsets, functions, seen)


def count_nodes(nodes: Iterable[onnx.NodeProto], functions: Functions, known: dict[Any, int]) -> int:
    """The number of nodes after expanding the model's functions; recursive calls count as one."""
    total = 0
    for node in nodes:
        total += 1
        key = function_key(node)
        if key in functions:
            if key not in known:
                known[key] = 0
                known[key] = count_nodes(functions[key].node, functions, known)
            total += known[key]
    return total


def inner_opsets(function: onnx.FunctionProto, opsets: Mapping[str, int]) -> dict[str, int]:
    """The opset versions in a function's body."""
    return dict(opsets) | {("" if o.domain == "ai.onnx" else o.domain): o.version for o in function.opset_import}


def _schema(node: onnx.NodeProto, opsets: Mapping[str, int]) -> Any:
    """The schema of a node's op at the model's opset, or None."""
    domain = plain_domain(node)
    try:
        return onnx.defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except onnx.defs.SchemaError:
        return None


def _has_body(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
    schema = _schema(node, opsets)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def expand(node: Node) -> list[Value | None]:
    """The results of a node, by expanding the function that defines its op."""
    importer = node.importer
    function = importer.functions.get(function_key(node.proto)) or _body(node)
    if function is None:
        raise node.fail("expected an op that mlc has, but got one without a counterpart")
    if importer.depth >= MAX_FUNCTION_DEPTH:
        raise node.fail(f"expected functions nested at most {MAX_FUNCTION_DEPTH} deep, but got more")
    inner = inner_opsets(function, node.opsets)
    outer, missing, names = importer.values, importer.missing, importer.defined
    given: dict[str, Any] = dict(zip(function.input, [*node.inputs, *[None] * len(function.input)], strict=False))
    importer.values, importer.missing, importer.defined = given, {}, set(given)
    importer.depth += 1
    try:
        for index, one in in_order(function.node, given):
            importer.convert(_bound_attributes(one, node, function), f"{node.path}/{node_path(one, index)}", inner)
        return [importer.values.get(name) for name in function.output]
    finally:
        importer.values, importer.missing, importer.defined = outer, missing, names
        importer.depth -= 1


def _body(node: Node) -> onnx.FunctionProto | None:
    """The function body of the op's schema, for the inputs that the node has."""
    schema = _schema(node.proto, node.opsets)
    if schema is None:
        return None
    text = None
    if schema.has_context_dependent_function:
        types = [_type_proto(value).SerializeToString() for value in node.inputs]
        version = _version(schema.context_dependent_function_opset_versions, node.opset)
        text = schema.get_context_dependent_function_with_opset_version(version, node.proto.SerializeToString(), types)
    elif schema.has_function:
        version = _version(schema.function_opset_versions, node.opset)
        text = schema.get_function_with_opset_version(version)
    function = onnx.FunctionProto.FromString(text) if text else None
    if function is not None and node.proto.op_type == "AffineGrid":
        _name_squeezed_axes(function)
    return function


def _name_squeezed_axes(function: onnx.FunctionProto) -> None:
    """Let the body of AffineGrid squeeze axis 1 alone, which it has cut; as it is, it drops a batch of one as well."""
    branches = [attribute.g for node in function.node for attribute in node.attribute]
    for node in (node for branch in branches for node in branch.node):
        if node.op_type == "Squeeze" and len(node.input) == 1:
            node.input.append("one_1d")


def _version(versions: list[int], opset: int) -> int:
    """The newest version up to the opset, else the oldest, since a body may be of a later opset than its op."""
    return max((v for v in versions if v <= opset), default=min(versions))


def _type_proto(value: Value | None) -> onnx.TypeProto:
    if value is None or value.absent:
        return onnx.TypeProto()
    if value.items is not None:
        element = _type_proto(value.items[0]) if value.items else onnx.helper.make_tensor_type_proto(1, None)
        return onnx.helper.make_sequence_type_proto(element)
    shape = [size if isinstance(size, int) else str(size) for size in value.shape]
    return onnx.helper.make_tensor_type_proto(onnx.helper.np_dtype_to_tensor_dtype(dtype_like(value)), shape)


def _bound_attributes(inner: onnx.NodeProto, node: Node, function: onnx.FunctionProto) -> onnx.NodeProto:
    """A node of a function's body, with references to attributes of the call replaced by their values."""
    if not any(a.ref_attr_name for a in inner.attribute):
        return inner
    given = {a.name: a for a in (*_defaults(node), *function.attribute_proto, *node.proto.attribute)}
    result = onnx.NodeProto()
    result.CopyFrom(inner)
    del result.attribute[:]
    for attribute in inner.attribute:
        source = given.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
        if source is not None:
            copy = result.attribute.add()
            copy.CopyFrom(source)
            copy.name = attribute.name
    return result


def _defaults(node: Node) -> list[onnx.AttributeProto]:
    """The default attributes of the op's schema."""
    try:
        schema = onnx.defs.get_schema(node.proto.op_type, node.opset, plain_domain(node.proto))
    except onnx.defs.SchemaError:
        return []
    return [a.default_value for a in schema.attributes.values() if a.default_value.name]
