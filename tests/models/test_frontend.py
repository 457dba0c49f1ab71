"""Whole models through the ONNX frontend and the graph interpreter, against onnxruntime."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import mlc
from mlc.dialects.graph import CastOp, ConcatenateOp, ParamOp, location_name
from mlc.interp.graph import run_function

onnxruntime.set_default_logger_severity(3)


def helper(name: str):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


randomize = helper("randomize")


def package_file(package: str, path: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / path)


def light(name: str, size: int) -> onnx.ModelProto:
    model = onnx.load(package_file("onnx", f"backend/test/data/light/light_{name}.onnx"))
    model = randomize.before_softmax(randomize.randomize(model))
    for axis in (2, 3):
        image(model).type.tensor_type.shape.dim[axis].dim_value = size
    return model


def image(model: onnx.ModelProto) -> onnx.ValueInfoProto:
    weights = {tensor.name for tensor in model.graph.initializer}
    (info,) = [info for info in model.graph.input if info.name not in weights]
    return info


def against_onnxruntime(source, shapes, inputs) -> "mlc.Model":
    model = mlc.load(source, shapes)
    model.module.verify()
    results = run_function(model.main, [inputs[name] for name in model.inputs], model.weights)
    session = onnxruntime.InferenceSession(source if isinstance(source, str) else source.SerializeToString())
    wanted = session.run(None, inputs)
    assert tuple(output.name for output in session.get_outputs()) == model.outputs
    for a, b in zip(results, wanted, strict=True):
        assert a.shape == b.shape
        assert np.abs(b).max() > 0
        assert np.abs(a - b).max() <= 1e-4 * np.abs(b).max()
    return model


def noise(*shape: int):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)


def test_ocr_recognition():
    path = package_file("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx")
    model = against_onnxruntime(path, {"x": (1, 3, 48, 320)}, {"x": noise(1, 3, 48, 320)})
    ops = list(model.main.body.block.ops)
    assert not [op for op in ops if isinstance(op, CastOp | ConcatenateOp) and "int" in str(op.type)]  # shape chains
    assert all(location_name(op) for op in ops[:-1])
    # Weights keep their names, and none stands in the text.
    assert sum(isinstance(op, ParamOp) for op in ops) == len(model.weights)
    assert len(str(model.module)) < 400_000


def test_ocr_direction():
    path = package_file("rapidocr_onnxruntime", "models/ch_ppocr_mobile_v2.0_cls_infer.onnx")
    against_onnxruntime(path, {"x": (1, 3, 48, 192)}, {"x": noise(1, 3, 48, 192)})


def test_magika():
    path = package_file("magika", "models/standard_v3_3/model.onnx")
    data = np.random.default_rng(0).integers(0, 256, (1, 2048)).astype(np.int32)
    model = against_onnxruntime(path, {"bytes": (1, 2048)}, {"bytes": data})
    assert model.inputs == ("bytes",)


@pytest.mark.parametrize("name", ["resnet50", "squeezenet"])
def test_classifiers_with_random_weights(name):
    model = light(name, 224)
    against_onnxruntime(model, None, {image(model).name: noise(1, 3, 224, 224)})


def test_squeezenet_at_a_prime_size():
    model = light("squeezenet", 227)
    against_onnxruntime(model, None, {image(model).name: noise(1, 3, 227, 227)})


def test_constant_fills_stay_fills():
    path = package_file("onnx", "backend/test/data/light/light_squeezenet.onnx")
    model = mlc.load(path)
    fills = [name for name in model.weights if model.weights.fill(name) is not None]
    assert len(fills) == len(model.weights) > 20


def test_a_saved_model_is_the_same_model(tmp_path):
    model = mlc.load(light("squeezenet", 64))
    model.save(tmp_path / "m.mlir")
    again = mlc.load(tmp_path / "m.mlir")
    assert str(again.module) == str(model.module)
    assert (again.inputs, again.outputs) == (model.inputs, model.outputs)
    again.save(tmp_path / "n.mlir")
    assert (tmp_path / "n.mlir").read_text() == (tmp_path / "m.mlir").read_text()  # locations too
    x = noise(1, 3, 64, 64)
    np.testing.assert_array_equal(
        run_function(again.main, [x], again.weights)[0], run_function(model.main, [x], model.weights)[0]
    )
