"""Convolutions that read their plain picture without a copy in blocks of channels: values are those of onnxruntime."""

import re

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

READ_PLAIN = [
    # channels, filters, picture, window, stride, dilation, pads
    (3, 24, (33, 47), (3, 3), 2, 1, (1, 1, 1, 1)),
    (3, 16, (40, 40), (7, 7), 2, 1, (3, 3, 3, 3)),
    (3, 33, (32, 36), (4, 4), 4, 1, (0, 0, 0, 0)),
    (1, 16, (19, 23), (3, 3), 2, 2, (2, 1, 0, 2)),
    (5, 40, (50, 9), (5, 1), 3, 1, (2, 0, 2, 0)),
    (32, 32, (29, 88), (3, 3), 3, 1, (1, 1, 1, 1)),
    (40, 24, (18, 29), (1, 1), 2, 1, (0, 0, 0, 0)),
]
COPIED = [
    (32, 32, (20, 21), (3, 3), 2, 1, (1, 1, 1, 1)),  # windows that overlap
    (32, 32, (20, 32), (2, 2), 2, 1, (0, 0, 0, 0)),  # no padding: the convolution would read far apart rows in place
    (40, 24, (18, 21), (1, 1), 2, 1, (0, 0, 0, 0)),  # short rows
    (3, 40, (20, 32), (5, 5), 1, 1, (2, 2, 2, 2)),  # stride 1
]


def model(cases: list[tuple]) -> Small:
    """A model with a convolution, a bias and an activation for each case."""
    small = Small()
    for c, o, size, window, stride, dilation, pads in cases:
        x, w, b = small.x(1, c, *size), small.w(o, c, *window), small.w(o)
        y = small.op("Conv", x, w, b, dilations=[dilation] * 2, strides=[stride] * 2, pads=pads)
        small.out(small.op("Relu", small.op("Add", y, y)))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(READ_PLAIN)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def layouts(cases: list[tuple], target: str) -> list[str]:
    """In what blocks the convolutions read their pictures: `NCHW1c` is the plain layout."""
    compilation = Compilation(load_model(model(cases).proto(), {}), Options(target, threads=1, keep={"graph"}))
    compilation.optimize()
    return re.findall(r'data_layout = "(\w+)"', compilation.texts["graph"])


@pytest.mark.parametrize("target", ["x86-64-v3", "znver4"])
def test_which_pictures_are_copied(target: str) -> None:
    assert layouts(READ_PLAIN, target) == ["NCHW1c"] * len(READ_PLAIN)
    assert "NCHW1c" not in layouts(COPIED, target)


def test_a_picture_with_another_reader_is_copied() -> None:
    small = Small()
    x = small.x(1, 3, 20, 20)
    for window, pad in ((3, 1), (5, 2)):
        small.out(small.op("Conv", x, small.w(16, 3, window, window), pads=[pad] * 4, strides=[2, 2]))
    exe = mlc.compile(small.proto(), target="x86-64-v3", threads=1, cache=False)
    assert any(node["kernel"].startswith("layout_transform") for node in exe.graph_json["nodes"][:2])
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_a_picture_whose_channels_come_last_is_copied_into_blocks() -> None:
    small = Small()
    x = small.op("Transpose", small.x(1, 20, 20, 3), perm=[0, 3, 1, 2])
    small.out(small.op("Relu", small.op("Conv", x, small.w(16, 3, 3, 3), pads=[1] * 4, strides=[2, 2])))
    exe = mlc.compile(small.proto(), target="x86-64-v3", threads=1, cache=False)
    assert not any(node["kernel"].startswith("transpose") for node in exe.graph_json["nodes"][:1])
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_every_pass_keeps_the_values() -> None:
    small = model([(3, 18, (11, 19), (3, 3), 2, 1, (1, 1, 1, 1)), (17, 16, (9, 20), (3, 3), 3, 1, (1, 1, 1, 1))])
    for target in ("native", "znver4"):
        assert mlc.compile(small.proto(), target=target, threads=1, validate_each=True)
