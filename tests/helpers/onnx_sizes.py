"""Small ONNX models whose inputs have symbolic sizes."""

import onnx
from onnx import TensorProto, helper


def model_of(nodes, inputs, constants=()):
    """A model of inputs with these sizes, numbers or names."""
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name="y")], list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def node(kind, inputs, output, **attrs):
    return helper.make_node(kind, inputs, [output], name=output, **attrs)


def ints(name, *values):
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)
