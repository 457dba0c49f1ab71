"""The light_* models of onnx at sizes that nobody tuned: another batch, another picture, random weights."""

from pathlib import Path
from typing import Any

import onnx
import zoo
from onnx import helper, numpy_helper
from randomize import before_softmax, randomize

NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)
NARROW = {4096: 509}  # hidden layers of the old classifiers: a prime, and a hundredth of the weights


def light(name: str, shape: zoo.Shape) -> onnx.ModelProto:
    """The model before its softmax, with random weights, for an input of this shape."""
    proto = onnx.load(Path(zoo.package_file("onnx", zoo.LIGHT + name + ".onnx")))
    if proto.graph.node[-1].op_type == "Softmax":
        before_softmax(proto)
    _set_input(proto, shape)
    _pool_everything(proto)
    _reshape_rows(proto)
    _reshape_groups(proto)
    _fit_matrices(proto)
    return randomize(proto)


def _set_input(proto: onnx.ModelProto, shape: zoo.Shape) -> None:
    weights = {tensor.name for tensor in proto.graph.initializer}
    (image,) = [value for value in proto.graph.input if value.name not in weights]
    for dim, size in zip(image.type.tensor_type.shape.dim, shape, strict=True):
        dim.Clear()
        dim.dim_value = size
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")


def _pool_everything(proto: onnx.ModelProto) -> None:
    """The last average over the whole picture is one over whatever size the picture has now."""
    pools = [node for node in proto.graph.node if node.op_type == "AveragePool"]
    for node in pools:
        kernel = next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")
        if min(kernel) >= 7:
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]


def _reshape_rows(proto: onnx.ModelProto) -> None:
    """`reshape %x to 1 x K -> flatten %x`, for any batch."""
    weights = _constants(proto)
    for node in proto.graph.node:
        if node.op_type == "Reshape" and node.input[0] not in weights and len(_sizes(proto, node.input[1])) == 2:
            node.op_type = "Flatten"
            del node.input[1:]


def _reshape_groups(proto: onnx.ModelProto) -> None:
    """Reshapes that split channels into groups, or join them: their batch and picture follow their operand's."""
    weights = _constants(proto)
    for node in proto.graph.node:
        if node.op_type != "Reshape" or node.input[0] in weights:
            continue
        batch, *_, height, width = _inferred(proto, node.input[0])
        channels = _sizes(proto, node.input[1])[1:-2]
        _set(proto, node.input[1], [batch, *channels, height, width])


def _fit_matrices(proto: onnx.ModelProto) -> None:
    """Weights of a classifier have as many columns as its operand now has."""
    made = {node.output[0]: node.input[0] for node in proto.graph.node if node.op_type == "ConstantOfShape"}
    gemms = [node for node in proto.graph.node if node.op_type == "Gemm" and node.input[1] in made]
    for node in gemms:
        rows, _ = _sizes(proto, made[node.input[1]])
        rows = NARROW.get(rows, rows)
        columns = _inferred(proto, node.input[0])[-1]
        _set(proto, made[node.input[1]], [rows, columns])
        _set(proto, made[node.input[2]], [rows])


def _constants(proto: onnx.ModelProto) -> set[str]:
    return {node.output[0] for node in proto.graph.node if node.op_type == "ConstantOfShape"}


def _tensor(proto: onnx.ModelProto, name: str) -> onnx.TensorProto:
    return next(tensor for tensor in proto.graph.initializer if tensor.name == name)


def _sizes(proto: onnx.ModelProto, name: str) -> list[int]:
    return numpy_helper.to_array(_tensor(proto, name)).tolist()


def _set(proto: onnx.ModelProto, name: str, sizes: list[int]) -> None:
    _tensor(proto, name).CopyFrom(helper.make_tensor(name, onnx.TensorProto.INT64, [len(sizes)], sizes))


def _inferred(proto: onnx.ModelProto, name: str) -> list[int]:
    """The shape of a value, from the nodes before it."""
    graph = onnx.GraphProto()
    graph.CopyFrom(proto.graph)
    index = next(k for k, node in enumerate(graph.node) if name in node.output)
    del graph.node[index + 1 :]
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    inferred = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=proto.opset_import))
    dims: Any = inferred.graph.output[0].type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims]
