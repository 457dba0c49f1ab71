"""Many small ONNX graphs in one model, so that one compilation tries them all; and what onnxruntime makes of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import mlc

OPSET = 19


@dataclass
class Small:
    """A model under construction: each case adds its nodes, inputs and weights, and marks its outputs."""

    nodes: list[Any] = field(default_factory=list)
    arrays: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    case: str = ""

    def x(self, *shape: int, dtype: Any = np.float32, positive: bool = False) -> str:
        """A random input."""
        return self._add(self.arrays, shape, dtype, positive)

    def w(self, *shape: int, dtype: Any = np.float32, positive: bool = False) -> str:
        """A random weight."""
        return self._add(self.weights, shape, dtype, positive)

    def const(self, values: Any, dtype: Any = np.int64) -> str:
        """A weight of these values."""
        name = f"{self.case}.c{len(self.weights)}"
        self.weights[name] = np.array(values, dtype)
        return name

    def op(self, kind: str, *inputs: str, count: int = 1, **attributes: Any) -> Any:
        """A node; its output's name, or names where it has several."""
        names = [f"{self.case}.{kind}{len(self.nodes)}.{i}" for i in range(count)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if count == 1 else names

    def out(self, *names: str) -> None:
        """Mark the case's results."""
        for name in names:
            label = f"{self.case} #{len(self.outputs)}"
            self.nodes.append(helper.make_node("Identity", [name], [label]))
            self.outputs.append(label)

    def _add(self, table: dict[str, Any], shape: tuple[int, ...], dtype: Any, positive: bool) -> str:
        name = f"{self.case}.x{len(self.arrays)}_{len(self.weights)}"
        rng = np.random.default_rng(len(self.arrays) * 1000 + len(self.weights))
        if np.dtype(dtype).kind == "f":
            array = rng.uniform(0.5 if positive else -1.5, 1.5, shape).astype(dtype)
        else:
            array = rng.integers(0, 5, shape).astype(dtype)
        table[name] = array
        return name

    def proto(self) -> onnx.ModelProto:
        """The ONNX model."""
        tensor = helper.np_dtype_to_tensor_dtype
        inputs = [helper.make_tensor_value_info(n, tensor(a.dtype), a.shape) for n, a in self.arrays.items()]
        outputs = [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in self.outputs]
        weights = [onnx.numpy_helper.from_array(a, n) for n, a in self.weights.items()]
        graph = helper.make_graph(self.nodes, "small", inputs, outputs, weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        return inferred


Cases = Iterable[tuple[str, Callable[[Small], Any]]]


def small_model(cases: Cases) -> Small:
    """All cases in one model."""
    small = Small()
    for name, build in cases:
        small.case = name
        build(small)
    return small


def onnxruntime_results(small: Small) -> list[Any]:
    """What onnxruntime computes, unoptimized."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(small.proto().SerializeToString(), options)
    return session.run(small.outputs, small.arrays)


def mismatches(small: Small, exe: "mlc.Executable", wanted: list[Any], tolerance: float = 2e-5) -> list[str]:
    """The outputs that differ, each with its error over its largest magnitude."""
    results = {spec.name: np.full(spec.shape, 77, spec.dtype) for spec in exe.outputs}
    exe(small.arrays, out=results)
    found: list[str] = []
    for name, want in zip(small.outputs, wanted, strict=True):
        got = results[name]
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            found.append(f"{name}: expected {want.shape} {want.dtype}, but got {got.shape} {got.dtype}")
        elif want.dtype.kind != "f":
            wrong = int(np.sum(got != want))
            found += [f"{name}: {wrong} of {want.size} elements differ"] if wrong else []
        elif want.size:
            error = np.max(np.abs(got.astype(np.float64) - want)) / max(float(np.max(np.abs(want))), 1e-30)
            found += [] if error <= tolerance else [f"{name}: error {error:.2g}"]
    return found
