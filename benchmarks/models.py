"""
The models that are measured: files, input shapes, inputs, and onnxruntime as the peer.

Two of them exist as PyTorch weights; `benchmarks/export.py` writes them as ONNX, and until then they are left out.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from contenders import Job

ROOT = Path(__file__).resolve().parents[1]
EXPORTED = ROOT / "build" / "models"
sys.path += [str(ROOT / "tests" / "models"), str(ROOT / "tests" / "helpers")]

from deep_models import Width, encoder, encoder_inputs  # noqa: E402
from randomize import before_softmax, randomize  # noqa: E402

onnxruntime.set_default_logger_severity(3)


@dataclass(frozen=True)
class Case:
    """A model file, the shapes of its inputs, and inputs."""

    name: str
    path: Path
    shapes: dict[str, tuple[int, ...]]
    inputs: dict[str, Any]

    def save_fixed(self, path: Path) -> None:
        """Write the model with these input shapes; chains of Shape and Gather that follow from them are folded."""
        model = onnx.load(self.path)
        for value in model.graph.input:
            if value.name in self.shapes:
                for dim, size in zip(value.type.tensor_type.shape.dim, self.shapes[value.name], strict=True):
                    dim.dim_value = size
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        folded = onnx.load(path)
        used = {node.domain for node in folded.graph.node} | {""}
        kept = [one for one in folded.opset_import if one.domain in used]
        del folded.opset_import[:]
        folded.opset_import.extend(kept)
        for output, info in zip(folded.graph.output, session.get_outputs(), strict=True):
            del output.type.tensor_type.shape.dim[:]
            for size in info.shape:
                output.type.tensor_type.shape.dim.add(dim_value=size)
        weights = {tensor.name for tensor in folded.graph.initializer}
        for value in [one for one in folded.graph.input if one.name in weights]:
            folded.graph.input.remove(value)  # as old versions of the format want it
        folded.ir_version = max(folded.ir_version, 8)
        onnx.save(onnx.shape_inference.infer_shapes(folded), path)


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


_EXPORTS = ("efficientnet-lite0", "minilm-l6-128")


def _exported(name: str) -> Path:
    path = EXPORTED / f"{name}.onnx"
    if not path.exists():
        raise SystemExit(f"expected {path}; run benchmarks/export.py, or make bench-peers")
    return path


# Name -> (its file, made in the directory given if need be; input shapes of a file that leaves them open)
_MODELS: dict[str, tuple[Callable[[Path], Path], dict[str, tuple[int, ...]]]] = {
    "resnet50": (lambda directory: _light("resnet50", directory), {}),
    "squeezenet": (lambda directory: _light("squeezenet", directory), {}),
    "ocr-rec 48x320": (lambda directory: _ocr("ch_PP-OCRv4_rec_infer"), {"x": (1, 3, 48, 320)}),
    "ocr-det 640x640": (lambda directory: _ocr("ch_PP-OCRv4_det_infer"), {"x": (1, 3, 640, 640)}),
    "ocr-cls 48x192": (lambda directory: _ocr("ch_ppocr_mobile_v2.0_cls_infer"), {"x": (1, 3, 48, 192)}),
    **{name: (lambda directory, name=name: _exported(name), {}) for name in _EXPORTS},
    "magika": (lambda directory: _in_package("magika", "models/standard_v3_3/model.onnx"), {"bytes": (1, 2048)}),
}
NAMES = tuple(_MODELS)


_LENGTH = 128  # tokens
_HEAD = 64


def deep(layers: int, hidden: int, directory: Path) -> Case:
    """A text encoder of so many layers, of random weights."""
    width = Width(hidden, max(1, hidden // _HEAD), 4 * hidden)
    path = directory / f"encoder-{layers}x{hidden}.onnx"
    onnx.save(encoder(layers, width), path)
    inputs = encoder_inputs(1, _LENGTH, width)
    return Case(path.stem, path, {name: array.shape for name, array in inputs.items()}, inputs)


# Inputs of a text encoder that are no words.
_FILLED = {"attention_mask": 1, "token_type_ids": 0}


def available() -> list[str]:
    """The models whose files are there or can be made."""
    return [name for name in NAMES if name not in _EXPORTS or (EXPORTED / f"{name}.onnx").exists()]


def case(name: str, directory: Path) -> Case:
    """The model of that name; files that must be made go to the directory."""
    make, shapes = _MODELS[name]
    path = make(directory)
    return Case(name, path, shapes, _inputs(path, shapes))


def _inputs(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """Random pictures between -1 and 1, random bytes or words, a mask that hides the last quarter of them."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {}
    for info in session(path, 1).get_inputs():
        shape = shapes.get(info.name) or tuple(info.shape)
        if info.name in _FILLED:
            inputs[info.name] = np.full(shape, _FILLED[info.name], info.type[7:-1])
            inputs[info.name][..., shape[-1] * 3 // 4 :] = 0
        elif "int" in info.type:
            inputs[info.name] = rng.integers(0, 256, shape).astype(info.type[7:-1])
        else:
            inputs[info.name] = rng.uniform(-1, 1, shape).astype(np.float32)
    return inputs


def session(path: Path, threads: int, optimised: bool = True) -> onnxruntime.InferenceSession:
    """The model in onnxruntime."""
    options = onnxruntime.SessionOptions()
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def job(case: Case, threads: int, directory: Path) -> Job:
    """The model as files for processes of their own; files that are there stay."""
    directory.mkdir(exist_ok=True)
    result = Job(case.name, directory, threads, case.path, case.shapes)
    if not result.fixed.exists():
        case.save_fixed(result.fixed)
        np.savez(directory / "inputs.npz", **case.inputs)
        np.savez(directory / "reference.npz", *session(case.path, 1, optimised=False).run(None, case.inputs))
    return result


def error(ours: dict[str, Any], theirs: list[Any]) -> float:
    """The greatest difference of any output over that output's greatest magnitude."""
    pairs = zip(ours.values(), theirs, strict=True)
    return max(float(np.max(np.abs(a - b)) / max(1e-30, np.max(np.abs(b)))) for a, b in pairs)
