"""The models that are measured: files, input shapes, inputs, and onnxruntime as the peer."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests" / "models"))

from randomize import before_softmax, randomize  # noqa: E402

onnxruntime.set_default_logger_severity(3)


@dataclass(frozen=True)
class Case:
    """A model file, the shapes of its inputs, and inputs."""

    name: str
    path: Path
    shapes: dict[str, tuple[int, ...]]
    inputs: dict[str, Any]


def _in_package(package: str, path: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"expected {package} to be installed; run `make venv`")
    return Path(spec.origin).parent / path


def _light(name: str, directory: Path) -> Path:
    """A light_* model of onnx with random weights, its output before the softmax."""
    model = onnx.load(_in_package("onnx", f"backend/test/data/light/light_{name}.onnx"))
    path = directory / f"{name}.onnx"
    onnx.save(before_softmax(randomize(model)), path)
    return path


def _ocr(name: str) -> Path:
    return _in_package("rapidocr_onnxruntime", f"models/{name}.onnx")


# Name -> (its file, made in the directory given if need be; input shapes of a file that leaves them open)
_MODELS: dict[str, tuple[Callable[[Path], Path], dict[str, tuple[int, ...]]]] = {
    "resnet50": (lambda directory: _light("resnet50", directory), {}),
    "squeezenet": (lambda directory: _light("squeezenet", directory), {}),
    "ocr-rec 48x320": (lambda directory: _ocr("ch_PP-OCRv4_rec_infer"), {"x": (1, 3, 48, 320)}),
    "ocr-cls 48x192": (lambda directory: _ocr("ch_ppocr_mobile_v2.0_cls_infer"), {"x": (1, 3, 48, 192)}),
    "magika": (lambda directory: _in_package("magika", "models/standard_v3_3/model.onnx"), {"bytes": (1, 2048)}),
}
NAMES = tuple(_MODELS)


def case(name: str, directory: Path) -> Case:
    """The model of that name; files that must be made go to the directory."""
    make, shapes = _MODELS[name]
    path = make(directory)
    return Case(name, path, shapes, _inputs(path, shapes))


def _inputs(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Random pictures between -1 and 1, random bytes."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for info in session(path, 1).get_inputs():
        shape = shapes.get(info.name) or tuple(info.shape)
        if "int" in info.type:
            inputs[info.name] = rng.integers(0, 256, shape).astype(info.type[7:-1])
        else:
            inputs[info.name] = rng.uniform(-1, 1, shape).astype(np.float32)
    return inputs


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """The model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def error(ours: dict[str, Any], theirs: list[Any]) -> float:
    """The greatest difference of any output over that output's greatest magnitude."""
    pairs = zip(ours.values(), theirs, strict=True)
    return max(float(np.max(np.abs(a - b)) / max(1e-30, np.max(np.abs(b)))) for a, b in pairs)
