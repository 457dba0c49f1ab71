"""ONNX models with loops, and runs of them beside onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto as T
from onnx import helper as H
from onnx import numpy_helper as N

import mlc

ort = pytest.importorskip("onnxruntime")


RNG = np.random.default_rng(0)


DTYPES = {np.float32: T.FLOAT, np.int64: T.INT64, np.bool_: T.BOOL, np.int32: T.INT32}


TYPES = {np.dtype(a): b for a, b in DTYPES.items()}


def value(name, dtype, shape):
    return H.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, **attrs):
    return H.make_node(op, inputs.split(), outputs.split(), **attrs)


def constant(name, array):
    return H.make_node("Constant", [], [name], value=N.from_array(np.asarray(array), name))


def model(nodes, feeds, outputs, opset=17):
    """A model whose inputs are those that are fed."""
    inputs = [value(n, TYPES[a.dtype], a.shape) for n, a in feeds.items()]
    graph = H.make_graph(nodes, "g", inputs, [value(o, t, None) for o, t in outputs.items()])
    return H.make_model(graph, opset_imports=[H.make_opsetid("", opset)], ir_version=8)


def compiled(proto, *cases, **options):
    """The outputs for the last of some inputs; all are compared with onnxruntime's."""
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    exe = mlc.compile(proto, threads=1, cache=False, **options)
    got = {}
    for feeds in cases:
        wanted, got = session.run(None, feeds), exe(feeds)
        for a, b in zip(wanted, got.values(), strict=True):
            assert a.shape == b.shape
            assert a.dtype == b.dtype
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    return list(got.values())


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def halving():
    """`s = s / 2` while the sum exceeds 1; captures nothing."""
    inputs = [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, [4])]
    nodes = [
        constant("half", np.float32(0.5)),
        constant("one", np.float32(1)),
        node("Mul", "s half", "t"),
        node("ReduceSum", "t", "sum", keepdims=0),
        node("Greater", "sum one", "more"),
    ]
    outputs = [value("more", T.BOOL, []), value("t", T.FLOAT, [4])]
    return H.make_graph(nodes, "halving", inputs, outputs)


def powers(size=4):
    """Rows of `s`, which is multiplied by the outer `x` in each of a known number of iterations."""
    inputs = [value("i", T.INT64, []), value("c", T.BOOL, []), value("s", T.FLOAT, [size])]
    nodes = [node("Identity", "c", "more"), node("Mul", "s x", "t"), node("Cast", "i", "f", to=T.FLOAT)]
    nodes.append(node("Add", "t f", "row"))
    outputs = [value("more", T.BOOL, []), value("t", T.FLOAT, [size]), value("row", T.FLOAT, [size])]
    return H.make_graph(nodes, "powers", inputs, outputs)


def opened(proto, **names):
    """The model with sizes of its inputs open: `x0="N"` is the first axis of input x."""
    infos = {info.name: info for info in proto.graph.input}
    for key, name in names.items():
        infos[key[:-1]].type.tensor_type.shape.dim[int(key[-1])].dim_param = name
    return proto
