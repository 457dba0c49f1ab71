"""Whole models through the graph pipelines: the same values, few kernels, work that grows linearly with the layers."""

import importlib.util
import sys
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
import pytest
from deep_models import encoder
from graph_passes import kernels
from randomize import before_softmax, randomize

import mlc
from mlc.dialects.graph import ConcatenateOp, GraphOp, ParamOp, ReshapeOp, SliceOp, SplitOp, static_shape
from mlc.dialects.graph.store import attach_store
from mlc.dialects.graph.types import numpy_dtype
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import run_function


def package_file(package, path):
    spec = importlib.util.find_spec(package)
    assert spec is not None
    return str(Path(spec.origin).parent / path)


def light(name):
    return before_softmax(randomize(onnx.load(package_file("onnx", f"backend/test/data/light/light_{name}.onnx"))))


def ocr(name, shape):
    return mlc.load(package_file("rapidocr_onnxruntime", f"models/ch_{name}_infer.onnx"), {"x": shape})


VIEWS = ParamOp | ReshapeOp | ConcatenateOp | SliceOp | SplitOp

# The model, how many kernels may run, how many of them may differ.
MODELS = {
    "rec": (lambda: ocr("PP-OCRv4_rec", (1, 3, 48, 320)), 80, 56),
    "cls": (lambda: ocr("ppocr_mobile_v2.0_cls", (1, 3, 48, 192)), 77, 62),
    "resnet50": (lambda: mlc.load(light("resnet50")), 57, 33),
    "squeezenet": (lambda: mlc.load(light("squeezenet")), 32, 28),
    "magika": (
        lambda: mlc.load(package_file("magika", "models/standard_v3_3/model.onnx"), {"bytes": (1, 2048)}),
        17,
        17,
    ),
}


def random_inputs(model):
    rng = np.random.default_rng(0)
    for type in model.main.function_type.inputs:
        dtype = numpy_dtype(type.element_type)
        shape = static_shape(type)
        yield (rng.integers(0, 256, shape) if dtype.kind == "i" else rng.standard_normal(shape)).astype(dtype)


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    load, calls, distinct = MODELS[name]
    model = load()
    attach_store(model.module, model.weights)
    inputs = list(random_inputs(model))
    wanted = run_function(model.main, inputs, model.weights)
    run_passes(model.module, make_context(), ["graph-O3"], verify=True)
    for a, b in zip(run_function(model.main, inputs, model.weights), wanted, strict=True):
        assert np.abs(a - b).max() <= 2e-5 * np.abs(b).max()
        assert np.abs(b).max() > 0
    ops = list(model.main.body.block.ops)
    assert sum(op.name == "graph.call" for op in ops) <= calls
    assert len(kernels(model.module)) <= distinct
    # Besides calls, @main holds views and weights; and no kernel transforms a weight.
    assert all(isinstance(op, VIEWS) for op in ops if isinstance(op, GraphOp))
    for op in ops:
        if op.name == "graph.call" and op.callee.root_reference.data.startswith("layout_transform"):
            assert not any(isinstance(operand.owner, ParamOp) for operand in op.operands)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_levels_agree(level):
    model = MODELS["cls"][0]()
    attach_store(model.module, model.weights)
    inputs = list(random_inputs(model))
    (wanted,) = run_function(model.main, inputs, model.weights)
    run_passes(model.module, make_context(), [f"graph-O{level}"], verify=True)
    (result,) = run_function(model.main, inputs, model.weights)
    assert np.abs(result - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_work_is_linear_in_the_layers():
    def calls(layers: int) -> int:
        """The Python calls that the graph passes make: a measure of their work that no machine's load changes."""
        model, context = mlc.load(encoder(layers)), make_context()
        count = 0

        def note(frame: FrameType, event: str, argument: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            run_passes(model.module, context, ["graph-O3"])
        finally:
            sys.setprofile(None)
        return count

    calls(1)  # The first run in a process also fills caches.
    few, many, more = calls(4), calls(12), calls(20)
    assert more - many < 1.2 * (many - few)
