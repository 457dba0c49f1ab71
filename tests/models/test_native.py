"""Whole models, compiled, beside onnxruntime: values, repeatability, plans and the number of kernels."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from randomize import before_softmax, randomize

import mlc
from mlc.tools.cli_run import random_inputs

ort = pytest.importorskip("onnxruntime")


def package(name: str) -> Path:
    """Where an installed package is, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed")
    return Path(spec.origin).parent


def light(name: str, size: int, directory: Path) -> Path:
    """A light model with random weights, at an input size of its own, cut before the softmax."""
    model = randomize(onnx.load(package("onnx") / "backend/test/data/light" / f"light_{name}.onnx"))
    if model.graph.node[-1].op_type == "Softmax":
        before_softmax(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    (image,) = [value for value in model.graph.input if value.name not in weights]
    sizes = image.type.tensor_type.shape.dim
    sizes[2].dim_value = sizes[3].dim_value = size
    del model.graph.value_info[:]
    model.graph.output[0].type.tensor_type.ClearField("shape")
    path = directory / f"{name}-{size}.onnx"
    onnx.save(model, path)
    return path


Case = tuple[Path, Any, tuple[int, ...]]

MODELS: dict[str, tuple[str, Any, Any, tuple[int, ...]]] = {
    "ocr-cls": ("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 131)}, (1,)),
    "squeezenet-97": ("squeezenet", 97, None, (2,)),
    "resnet50-224": ("resnet50", 224, None, (2,)),
}


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The model's file, its shapes, and at how many threads it is tried."""
    place, what, shapes, threads = MODELS[request.param]
    if isinstance(what, int):
        return light(place, what, tmp_path_factory.mktemp("light")), shapes, threads
    return package(place) / what, shapes, threads


def reference(path: Path, inputs: dict[str, Any]) -> list[Any]:
    """onnxruntime's outputs."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, inputs)


def test_values_are_onnxruntimes(model: Case):
    path, shapes, counts = model
    wanted: list[Any] = []
    for threads in counts:
        exe = mlc.compile(path, shapes=shapes, threads=threads)
        inputs = random_inputs(exe)
        wanted = wanted or reference(path, inputs)
        first: dict[str, Any] = {}
        for _ in range(2):
            out = {spec.name: np.full(spec.shape, np.nan, spec.dtype) for spec in exe.outputs}
            exe(inputs, out=out)
            first = first or out
            assert all(np.array_equal(out[name], first[name]) for name in out)  # the same, bit by bit
        for array, other in zip(first.values(), wanted, strict=True):
            assert np.max(np.abs(array - other)) <= 1e-4 * np.max(np.abs(other))
        plan = exe.graph_json["plan"]
        assert plan["bytes"] <= 1.15 * plan["bound"]
