"""
Control flow that is known at import: If takes a branch, Loop and Scan are written out.

An If whose condition is computed selects between the results of both branches, where these have the same types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.files import tensor_array
from mlc.frontends.onnx.node import Converter, Node, Value, dtype_like, node_path
from mlc.frontends.onnx.tools import element, stack

MAX_ITERATIONS = 1024
"""How many iterations are written out."""


def run_body(node: Node, graph: onnx.GraphProto, inputs: Sequence[Value], label: str) -> list[Value]:
    """The results of a subgraph, which sees the values round it, on these inputs."""
    importer = node.importer
    outer = importer.values
    importer.values = {**outer, **dict(zip((info.name for info in graph.input), inputs, strict=True))}
    try:
        for tensor in graph.initializer:
            array = tensor_array(tensor, f"{node.path}: initializer '{tensor.name}'", importer.directory)
            importer.values[tensor.name] = Value(None, array, tensor.name)
        for index, one in enumerate(graph.node):
            importer.convert(one, f"{node.path}/{label}{node_path(one, index)}", node.opsets)
        for info in graph.output:
            if info.name not in importer.values:
                raise node.fail(f"expected a node that gives '{info.name}', the output of its body")
        return [importer.values[info.name] for info in graph.output]
    finally:
        importer.values = outer


def _if(node: Node) -> list[Value]:
    condition = node.input(0)
    branches = [node.attr("then_branch"), node.attr("else_branch")]
    if condition.array is not None:
        return run_body(node, branches[0 if bool(condition.array.reshape(())) else 1], [], "")
    then, other = (
        run_body(node, branch, [], label) for branch, label in zip(branches, ("then/", "else/"), strict=True)
    )
    if any(a.shape != b.shape or dtype_like(a) != dtype_like(b) for a, b in zip(then, other, strict=True)):
        node.constant(0)
    test = node.emit(g.ReshapeOp, condition, shape=())
    return [node.emit(g.WhereOp, test, a, b) for a, b in zip(then, other, strict=True)]


def _loop(node: Node) -> list[Value]:
    """The body once an iteration; how many there are must be known."""
    body: onnx.GraphProto = node.attr("body")
    limit = int(node.constant(0).reshape(())) if node.has(0) else MAX_ITERATIONS + 1
    condition = node.input(1) if node.has(1) else node.array(np.array(True))
    carried = [node.input(i) for i in range(2, len(node.inputs))]
    scanned: list[list[Value]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    count = 0
    while count < limit and bool(node.known(condition, "the condition").reshape(())):
        if count == MAX_ITERATIONS:
            raise node.fail(f"expected at most {MAX_ITERATIONS} iterations, but got more")
        index = node.array(np.array(count, np.int64))
        condition, *results = run_body(node, body, [index, condition, *carried], f"{count}/")
        carried, rows = results[: len(carried)], results[len(carried) :]
        for row, into in zip(rows, scanned, strict=True):
            into.append(row)
        count += 1
    return [*carried, *(_stacked(node, rows, 0, body.output[1 + len(carried) + i]) for i, rows in enumerate(scanned))]


def _stacked(node: Node, rows: Sequence[Value], axis: int, info: onnx.ValueInfoProto) -> Value:
    """The rows of all iterations; of no iteration, what the body's output says that they are."""
    if rows:
        return stack(node, rows, axis)
    sizes = [d.dim_value for d in info.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    return node.array(np.zeros((0, *sizes), dtype))


def _scan(node: Node) -> list[Value]:
    """The body once a row of the scanned inputs."""
    body: onnx.GraphProto = node.attr("body")
    if node.opset < 9:
        return _scan_batches(node, body)
    inputs = [node.input(i) for i in range(len(node.inputs))]
    return _scan_once(node, body, inputs, "")


def _scan_batches(node: Node, body: onnx.GraphProto) -> list[Value]:
    """Before opset 9 each batch is scanned on its own, and an input says the lengths."""
    if node.has(0):
        raise node.fail("expected no sequence_lens, but got them")
    inputs = [node.input(i) for i in range(1, len(node.inputs))]
    each = [
        _scan_once(node, body, [element(node, x, 0, batch) for x in inputs], f"{batch}/")
        for batch in range(inputs[0].shape[0])
    ]
    return [stack(node, values, 0) for values in zip(*each, strict=True)]


def _scan_once(node: Node, body: onnx.GraphProto, inputs: Sequence[Value], label: str) -> list[Value]:
    count = node.attr("num_scan_inputs")
    states, rows = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(body.output) - len(states)
    old = "directions" if node.opset < 9 else "scan_input_directions"
    backward = node.attr(old, [0] * count)
    axes = [axis_of(a, len(x.shape)) for a, x in zip(node.attr("scan_input_axes", [0] * count), rows, strict=True)]
    length = rows[0].shape[axes[0]]
    if length > MAX_ITERATIONS:
        raise node.fail(f"expected at most {MAX_ITERATIONS} iterations, but got {length}")
    scanned: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        at = [length - 1 - step if back else step for back in backward]
        parts = [element(node, x, axis, i) for x, axis, i in zip(rows, axes, at, strict=True)]
        results = run_body(node, body, [*states, *parts], f"{label}{step}/")
        states = results[: len(states)]
        for row, into in zip(results[len(states) :], scanned, strict=True):
            into.append(row)
    reverse: Any = node.attr("scan_output_directions", [0] * outputs)
    places = node.attr("scan_output_axes", [0] * outputs)
    final = [
        _stacked(node, list(reversed(into)) if back else into, axis, body.output[len(states) + i])
        for i, (into, back, axis) in enumerate(zip(scanned, reverse, places, strict=True))
    ]
    return [*states, *final]


CONVERTERS: dict[str, Converter] = {"If": _if, "Loop": _loop, "Scan": _scan}
