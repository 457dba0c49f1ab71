"""Small ONNX models for tests."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import mlc
from mlc.targets.target import native_target


def graph_of(nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any] | None = None, outputs=("y",)):
    """A graph; `inputs` are arrays like the ones it will be run on."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    return helper.make_graph(
        nodes,
        "g",
        infos,
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )


def model_of(nodes: list[Any], inputs: dict[str, Any], constants=None, outputs=("y",), opset=21) -> onnx.ModelProto:
    """A model of these nodes."""
    graph = graph_of(nodes, inputs, constants, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def one_node(kind: str, inputs: dict[str, Any], constants=None, outputs=("y",), opset=21, names=None, **attrs: Any):
    """A model of one node, whose inputs are `names`, or the inputs and then the constants."""
    names = [*inputs, *(constants or {})] if names is None else names
    node = helper.make_node(kind, names, list(outputs), name="op", **attrs)
    return model_of([node], inputs, constants, outputs, opset)


def theirs(
    kind: str,
    inputs: dict[str, Any],
    constants: dict[str, Any] | None = None,
    names: str = "",
    outputs: str = "y",
    **attrs: Any,
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of one op of com.microsoft, and its inputs; in `names`, _ is an input that is absent."""
    given = names.split() or [*inputs, *(constants or {})]
    node = helper.make_node(
        kind, ["" if n == "_" else n for n in given], outputs.split(), "op", domain="com.microsoft", **attrs
    )
    model = model_of([node], inputs, constants, outputs.split())
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model, inputs


def side_by_side(models: dict[str, onnx.ModelProto]) -> onnx.ModelProto:
    """Models of one opset as one; every name begins with that of its model."""
    whole = onnx.ModelProto()
    whole.CopyFrom(next(iter(models.values())))
    whole.ClearField("graph")
    whole.graph.name = "side by side"
    for prefix, model in models.items():
        graph = onnx.GraphProto()
        graph.CopyFrom(model.graph)
        for item in (*graph.input, *graph.output, *graph.initializer):
            item.name = f"{prefix}.{item.name}"
        for one in graph.node:
            one.name = f"{prefix}.{one.name}"
            for names in (one.input, one.output):
                names[:] = [f"{prefix}.{name}" if name else "" for name in names]
        for field in ("input", "output", "initializer", "node"):
            getattr(whole.graph, field).extend(getattr(graph, field))
    return whole


LARGEST_BYTE = 127 if any(i.startswith("dpbusd") for i in native_target().instructions) else 63
"""
The largest weight in bytes whose products all of onnxruntime's operators sum exactly.

Without VNNI it adds pairs of products in 16 bits; `session.x64quantprecision` keeps some of its operators from that.
"""


def check_beside_onnxruntime(cases: dict[str, tuple[onnx.ModelProto, dict]], nearness: dict[str, float] | None = None):
    """AssertionError unless models, compiled as one, give what onnxruntime does: floats nearly, bytes within one."""
    exe = mlc.compile(side_by_side({name: proto for name, (proto, _) in cases.items()}), threads=1, cache=False)
    found = exe({f"{name}.{key}": array for name, (_, feeds) in cases.items() for key, array in feeds.items()})
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    for name, (proto, feeds) in cases.items():
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for output, b in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            a = found[f"{name}.{output.name}"]
            assert (a.dtype, a.shape) == (b.dtype, b.shape), name
            near = (nearness or {}).get(name, 2e-4) if b.dtype.kind == "f" else 1 if b.dtype.itemsize < 4 else 0
            np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=1e-3, atol=near, err_msg=name)
