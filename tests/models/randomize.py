"""Models whose weights are one constant, made to mean something: random weights, the same for each seed."""

from typing import Any

import numpy as np
import onnx


def randomize(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """The model with every ConstantOfShape weight replaced by seeded random values.

    Kernels and matrices get He scale, variances and scales lie around 1, and biases and means around 0.
    """
    graph = model.graph
    shapes = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    roles = _roles(graph)
    rng = np.random.default_rng(seed)
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape" or node.input[0] not in shapes:
            kept.append(node)
            continue
        shape = tuple(int(size) for size in shapes[node.input[0]])
        array = _random(rng, shape, roles.get(node.output[0], "bias"))
        graph.initializer.append(onnx.numpy_helper.from_array(array, node.output[0]))
    del graph.node[:]
    graph.node.extend(kept)
    return model


def _roles(graph: onnx.GraphProto) -> dict[str, str]:
    """What each weight is: a positive vector, or (by its rank) a kernel or a bias."""
    roles: dict[str, str] = {}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            roles[node.input[1]] = roles[node.input[4]] = "positive"
    return roles


def _random(rng: Any, shape: tuple[int, ...], role: str) -> Any:
    if role == "positive":
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    if len(shape) >= 2:
        scale = np.sqrt(2.0 / max(1, int(np.prod(shape[1:]))))
        return (rng.standard_normal(shape) * scale).astype(np.float32)
    return (rng.standard_normal(shape) * 0.1).astype(np.float32)


def before_softmax(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model cut before its last Softmax: its output are the logits."""
    last = model.graph.node[-1]
    assert last.op_type == "Softmax"
    model.graph.output[0].name = last.input[0]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    del model.graph.node[-1]
    return model
