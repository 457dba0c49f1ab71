"""Smaller ONNX models for which a check still holds: nodes and outputs are removed, values become inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import onnx

from mlc.support.errors import UserError
from mlc.support.halving import shrink

Check = Callable[[onnx.ModelProto], bool]


def reduce_model(model: onnx.ModelProto, check: Check, seconds: float | None = None) -> onnx.ModelProto:
    """
    The smallest model found, by nodes, for which `check` holds; UserError if it does not hold for the model itself.

    A removed node's outputs become inputs of the model, with the types that ONNX infers. `seconds` bounds the time.
    """
    if not check(model):
        raise UserError("expected the check to hold for the input itself, but it does not")
    end = float("inf") if seconds is None else time.monotonic() + seconds
    types = _types(model)

    def attempt(current: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto | None:
        if time.monotonic() > end:
            return None
        candidate = without(current, set(names), types)
        if candidate is None or len(candidate.graph.node) >= len(current.graph.node):
            return None
        return candidate if check(candidate) else None

    def cut(current: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto | None:
        candidate = None if len(names) > 1 or time.monotonic() > end else ending_in(current, names[0], types)
        if candidate is None or len(candidate.graph.node) >= len(current.graph.node):
            return None
        return candidate if check(candidate) else None

    before = -1
    while before != len(model.graph.node):
        before = len(model.graph.node)
        model = shrink(model, _first_outputs, cut, largest=1)
        model = shrink(model, _first_outputs, attempt)
    return model


def _first_outputs(model: onnx.ModelProto) -> list[str]:
    """The first output of each node, which names the node."""
    return [node.output[0] for node in model.graph.node if node.output]


def _types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """The types of all values, as far as ONNX infers them."""
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # then only types that the model states are known
        graph = model.graph
    return {info.name: info for info in (*graph.value_info, *graph.output, *graph.input) if info.HasField("type")}


def without(model: onnx.ModelProto, names: set[str], types: dict[str, onnx.ValueInfoProto]) -> onnx.ModelProto | None:
    """The model without the nodes of which these are first outputs; None if a type is not known."""
    kept = [node for node in model.graph.node if not (node.output and node.output[0] in names)]
    return _with_nodes(model, kept, [info.name for info in model.graph.output], types)


def ending_in(model: onnx.ModelProto, name: str, types: dict[str, onnx.ValueInfoProto]) -> onnx.ModelProto | None:
    """The model that computes only this value; None if its type is not known."""
    return _with_nodes(model, list(model.graph.node), [name], types)


def _with_nodes(
    model: onnx.ModelProto,
    nodes: list[onnx.NodeProto],
    outputs: list[str],
    types: dict[str, onnx.ValueInfoProto],
) -> onnx.ModelProto | None:
    """A model of these nodes; values that they read and none gives are inputs, and dead nodes are dropped."""
    made = {name for node in nodes for name in node.output}
    outputs = [name for name in outputs if name in made] or [name for node in nodes[-1:] for name in node.output[:1]]
    if not outputs:
        return None
    live, kept = set(outputs), list[onnx.NodeProto]()
    for node in reversed(nodes):
        if live & set(node.output):
            kept.insert(0, node)
            live |= {*node.input, *_captured(node)}
    weights = [one for one in model.graph.initializer if one.name in live]
    given = {one.name for one in weights} | {name for node in kept for name in node.output} | {""}
    inputs = [name for name in dict.fromkeys((*types, *live)) if name in live and name not in given]
    if any(name not in types for name in (*inputs, *outputs)):
        return None
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    for field in ("node", "initializer", "input", "output", "value_info"):
        graph.ClearField(field)
    graph.node.extend(kept)
    graph.initializer.extend(weights)
    graph.input.extend(types[name] for name in inputs)
    graph.output.extend(types[name] for name in outputs)
    return result


def _captured(node: onnx.NodeProto) -> set[str]:
    """The names that the node's subgraphs read."""
    found: set[str] = set()
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= {*inner.input, *_captured(inner)}
            found |= {info.name for info in graph.output}
    return found
