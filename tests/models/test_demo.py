"""The demo reads the picture, says what happened, and needs no OpenCV."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples" / "demo.py"


@pytest.fixture(scope="module")
def demo():
    spec = importlib.util.spec_from_file_location("mlc_demo", DEMO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_demo_reads_the_picture():
    code = (
        "import runpy, sys; sys.argv = ['demo.py', '--seconds', '0.1']; "
        f"runpy.run_path({str(DEMO)!r}, run_name='__main__'); "
        "assert 'cv2' not in sys.modules and 'rapidocr_onnxruntime' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "the picture says: mlc compiles tensors\n" in done.stdout
    for part in ("level by level", "distinct kernels", "workspace, planned", "kernels", "onnxruntime", "loop.fma"):
        assert part in done.stdout


def test_the_picture_becomes_what_the_model_wants(demo):
    picture = demo.read_picture(demo.HERE / "line.png")
    assert picture.shape == (1, 3, 48, 320)
    assert picture.dtype == np.float32
    assert picture.min() >= -1
    assert picture.max() <= 1
    assert picture.max() - picture.min() > 1.5  # dark letters on a light ground


def test_ctc_drops_repetitions_and_none(demo):
    classes = [0, 1, 1, 0, 1, 2, 2, 0, 3]
    scores = np.eye(4, dtype=np.float32)[classes][None]
    assert demo.decode(scores, ["", "a", "b", "c"]) == "aabc"


def test_a_missing_model_is_said(demo, monkeypatch):
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="expected rapidocr-onnxruntime to be installed"):
        demo.model_path()
