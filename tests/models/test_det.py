"""PP-OCRv4's text detection, compiled, beside onnxruntime: resizing, transposed convolutions, concatenations."""

import importlib.util
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mlc

ort = pytest.importorskip("onnxruntime")
SHAPE = (1, 3, 64, 96)


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model, with what goes into its sigmoid as a second output: probabilities hide errors near 0 and 1."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if spec is None or spec.origin is None:
        pytest.skip("rapidocr_onnxruntime is not installed")
    model = onnx.load(Path(spec.origin).parent / "models/ch_PP-OCRv4_det_infer.onnx")
    (sigmoid,) = [node for node in model.graph.node if node.op_type == "Sigmoid"]
    model.graph.output.append(helper.make_tensor_value_info(sigmoid.input[0], TensorProto.FLOAT, None))
    path = tmp_path_factory.mktemp("det") / "det.onnx"
    onnx.save(model, path)
    return path


def page() -> np.ndarray:
    """Dark letters, all F, in a row on a light page."""
    page = np.full(SHAPE, 1.5, np.float32)
    for left in range(8, 84, 10):
        page[..., 24:40, left : left + 2] = -1.5
        page[..., 24:26, left : left + 7] = -1.5
        page[..., 31:33, left : left + 5] = -1.5
    return page


def test_text_is_detected_as_by_onnxruntime(detector: Path):
    exe = mlc.compile(detector, shapes={"x": SHAPE}, threads=1)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(str(detector), options, providers=["CPUExecutionProvider"])
    noise = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    for x, least in ((page(), 0.9), (noise, 0.0)):
        found, logits = exe({"x": x}).values()
        wanted = session.run(None, {"x": x})
        assert wanted[0].max() >= least
        assert np.max(np.abs(found - wanted[0])) <= 1e-4 * max(least, 1e-2)
        assert np.max(np.abs(logits - wanted[1])) <= 1e-4 * np.max(np.abs(wanted[1]))
