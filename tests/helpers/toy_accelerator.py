"""The toy accelerator of examples/byoc/toy, its simulator built once a run, and a model that it takes parts of."""

import ctypes
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parents[2] / "examples" / "byoc" / "toy"


def load() -> ModuleType:
    """The module toy.py."""
    spec = importlib.util.spec_from_file_location("toy", HERE / "toy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy"] = module
    spec.loader.exec_module(module)
    return module


def build(directory: Path) -> Path:
    """The simulator as a shared library."""
    library = directory / "libtoy.so"
    flags = ["-O2", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", str(library), str(HERE / "simulator.c")], check=True)
    return library


def cycles(library: Path) -> int:
    """The cycles that the device has run in this process."""
    function = ctypes.CDLL(str(library)).toy_cycles
    function.restype = ctypes.c_int64
    return function()


def write_model(path: Path, shape: Sequence[int | str] = (2, 3, 17, 15)) -> Path:
    """A residual network: a strided convolution, a plain one without bias, a gate, a sum, a mean, a dense layer."""
    rng = np.random.default_rng(0)

    def weight(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.2).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name="conv1", strides=[2, 1], pads=[1, 0, 1, 2]),
        helper.make_node("Relu", ["a"], ["b"], name="relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["b"], ["s"], name="gate"),
        helper.make_node("Add", ["c", "s"], ["d"], name="add"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], name="pool"),
        helper.make_node("Flatten", ["e"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], name="fc"),
    ]
    weights = {"w1": weight(13, 3, 3, 3), "b1": weight(13), "w2": weight(13, 13, 3, 3)}
    weights |= {"w3": weight(13, 10), "b3": weight(10)}
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    stored = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", [x], [onnx.ValueInfoProto(name="y")], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def inputs() -> dict[str, Any]:
    """Inputs of that model."""
    return {"x": np.random.default_rng(1).standard_normal((2, 3, 17, 15)).astype(np.float32)}
