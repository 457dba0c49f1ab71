"""`mlc inspect --memory`: the picture, and the options of memory planning on the command line."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from mlc.tools.cli import run
from mlc.tools.memory_picture import picture_of

MODEL = str(Path(__file__).parents[3] / "examples/mlp.mlir")
GRAPH = {
    "plan": {"bytes": 4096, "sum": 6144, "bound": 3072},
    "nodes": [
        {"kernel": "up_0123abcd", "inputs": [], "outputs": [0]},
        {"kernel": "down_0123abcd", "inputs": [0], "outputs": [1]},
        {"kernel": "out<&_0123abcd", "inputs": [1], "outputs": []},
    ],
    "values": [
        {"storage": "workspace", "offset": 0, "shape": [512], "dtype": "float32"},
        {"storage": "workspace", "offset": 2048, "shape": [512], "dtype": "float32"},
    ],
    "copies": [],
}
PLOT = 1200 / 3


def test_a_rectangle_spans_its_calls_and_its_bytes():
    root = ElementTree.fromstring(picture_of("tiny", GRAPH, [{"kind": "workspace", "name": "slow", "offset": 2048}]))
    boxes = [one.find("{*}rect") for one in root.findall("{*}g")]
    first, second = ({k: float(v) for k, v in box.attrib.items() if k in "x y width height".split()} for box in boxes)
    assert first["width"] == second["width"] == 2 * PLOT
    assert second["x"] - first["x"] == PLOT
    assert first["height"] == second["height"] == first["y"] - second["y"] == 560 / 2
    texts = " | ".join(one.text or "" for one in root.iter("{http://www.w3.org/2000/svg}text"))
    for expected in ("up 512 f", "out<&", "peak 4 KiB", "lower bound 3 KiB", "pool slow"):
        assert expected in texts


def test_the_picture_of_a_compiled_model(tmp_path, capsys):
    path = tmp_path / "mlp.svg"
    arguments = ["--threads", "1", "-O0", "--memory-planner", "hill-climb", "--memory-seed", "1"]
    assert run(["inspect", MODEL, *arguments, "--memory", str(path), "--workspace-pool", "ram=4KiB"]) == 0
    assert "peak 2.0 KiB, no plan can be below 2.0 KiB" in capsys.readouterr().out
    assert "dense 1x256" in path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "out.png"], "expected a FILE that ends in .svg, but got 'out.png'"),
        (["--memory", "missing/out.svg"], "expected a FILE in a directory that exists"),
        (["--workspace-pool", "sram"], "expected NAME=SIZE with a size such as 4096, 256KiB or 4MiB, but got 'sram'"),
        (["--constant-pool", "flash=1XB"], "but got 'flash=1XB'"),
        (["--memory-planner", "fastest"], "invalid choice: 'fastest'"),
    ],
)
def test_wrong_options_are_refused(options, message, capsys):
    assert run(["inspect", MODEL, "--threads", "1", "--no-cache", *options])
    assert message in capsys.readouterr().err
