"""The models that tests try: files of installed packages, with weights that mean something and inputs of any size."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from randomize import before_softmax, randomize

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Entry:
    """Where a model is, its input, the input's full size, and the size at which it is validated."""

    package: str
    path: str
    input: str
    full: Shape
    small: Shape
    logits: bool = False
    """Nearly all weights are one constant: they are replaced, and the last softmax is cut off."""


class Spec(NamedTuple):
    """A tensor's name, shape and dtype."""

    name: str
    shape: Shape
    dtype: str


LIGHT = "backend/test/data/light/light_"
MODELS: dict[str, Entry] = {
    "rec": Entry("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx", "x", (1, 3, 48, 320), (1, 3, 48, 64)),
    "cls": Entry(
        "rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", "x", (1, 3, 48, 192), (1, 3, 48, 64)
    ),
    "magika": Entry("magika", "models/standard_v3_3/model.onnx", "bytes", (1, 2048), (1, 2048)),
    "resnet50": Entry("onnx", LIGHT + "resnet50.onnx", "", (1, 3, 224, 224), (1, 3, 37, 37), True),
    "squeezenet": Entry("onnx", LIGHT + "squeezenet.onnx", "", (1, 3, 224, 224), (1, 3, 35, 35), True),
}


def package_file(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported; without it the test is skipped."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent / path


def model(name: str, shape: Shape) -> onnx.ModelProto:
    """A model of the table, its input of this shape."""
    entry = MODELS[name]
    proto = onnx.load(package_file(entry.package, entry.path))
    if entry.logits:
        proto = randomize(proto)
        if proto.graph.node[-1].op_type == "Softmax":
            before_softmax(proto)
    return resized(proto, shape)


def resized(proto: onnx.ModelProto, shape: Shape) -> onnx.ModelProto:
    """The model with another static shape of its one input; what depended on the old one goes."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    (image,) = [value for value in proto.graph.input if value.name not in weights]
    dims = image.type.tensor_type.shape.dim
    for dim, size in zip(dims, shape, strict=True):
        dim.Clear()
        dim.dim_value = size
    pooled = ""
    for node in proto.graph.node:
        if node.op_type == "AveragePool":  # over the whole picture, whose size is now another
            node.op_type, pooled = "GlobalAveragePool", node.output[0]
            del node.attribute[:]
        elif node.op_type == "Reshape" and node.input[0] == pooled:  # to one row
            node.op_type = "Flatten"
            del node.input[1:]
    del proto.graph.value_info[:]
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    return proto


def random_inputs(specs: Any, seed: int = 0) -> dict[str, Any]:
    """Random arrays for the inputs of an executable: normal floats, bytes for integers."""
    rng = np.random.default_rng(seed)
    draw: dict[str, Callable[[Any], Any]] = {
        "f": lambda spec: rng.standard_normal(spec.shape).astype(spec.dtype),
        "i": lambda spec: rng.integers(0, 256, spec.shape).astype(spec.dtype),
    }
    return {spec.name: draw[np.dtype(spec.dtype).kind](spec) for spec in specs}


def onnxruntime_results(proto: onnx.ModelProto, inputs: dict[str, Any]) -> list[Any]:
    """What onnxruntime computes."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def error(got: Any, wanted: Any) -> float:
    """The largest error over the largest magnitude; infinite where shapes differ or something is not finite."""
    if got.shape != wanted.shape or not np.isfinite(got).all():
        return float("inf")
    return float(np.max(np.abs(got - wanted)) / np.max(np.abs(wanted)))
