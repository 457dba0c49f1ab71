"""Reports of small models, as `mlc inspect --html` makes them."""

from pathlib import Path
from typing import Any

import mlc
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.tools.html.collect import collect
from mlc.tools.html.report import InspectReport, report_of

HOSTILE = '</script><script>document.title="owned"</script><img src=x onerror="document.title=1">'
"""A node's name that would run as a script if it were ever markup."""


def twins(names: tuple[str, ...] = ("first", "second", "third", "fourth")) -> Any:
    """An ONNX model of two equal blocks, each MatMul, Mul and Relu, the last two with these node names; x: 2x8."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    half = numpy_helper.from_array(np.float32(0.5), "half")
    weight = numpy_helper.from_array(np.arange(64, dtype=np.float32).reshape(8, 8), "weight")
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["a"], name="product"),
        helper.make_node("Mul", ["a", "half"], ["b"], name=names[0]),
        helper.make_node("Relu", ["b"], ["c"], name=names[1]),
        helper.make_node("MatMul", ["c", "weight"], ["d"], name="again"),
        helper.make_node("Mul", ["d", "half"], ["e"], name=names[2]),
        helper.make_node("Relu", ["e"], ["y"], name=names[3]),
    ]
    shape = [2, 8]
    graph = helper.make_graph(
        nodes,
        "twins",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [half, weight],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def report(source: Any, inputs: Any = None, name: str = "small") -> InspectReport:
    """The report of a model, measured if inputs are given."""
    executable = mlc.compile(source, threads=1)
    collected = collect(load_model(source), Options(threads=1))
    profile = None if inputs is None else executable.profile(inputs, 1)
    return report_of(name, executable, collected, profile, "" if profile else "nobody asked", inputs)


def saved(model: Any, directory: Path) -> Path:
    """An ONNX model as a file."""
    path = directory / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path
