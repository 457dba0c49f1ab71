"""Convolutions whose picture is padded by the copy that changes its layout: values are those of onnxruntime."""

import re
from pathlib import Path

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

CASES = [
    # channels, filters, picture, window, stride, dilation, pads
    (32, 32, (40, 41), (3, 3), 2, 1, (1, 1, 1, 1)),
    (64, 16, (23, 37), (3, 3), 2, 1, (0, 1, 2, 0)),
    (20, 33, (33, 19), (3, 3), 2, 1, (1, 1, 1, 1)),  # channels that a block pads
    (33, 20, (17, 50), (1, 7), 1, 1, (0, 3, 0, 3)),
    (48, 16, (30, 30), (3, 3), 1, 2, (2, 2, 2, 2)),
    (16, 16, (60, 16), (5, 5), 2, 1, (2, 2, 1, 1)),
]
COPIES = 4
"""The cases of blocks of 16 channels, and of pictures that grow little."""


def model() -> Small:
    """A model with a convolution, a bias and an activation for each case."""
    small = Small()
    for c, o, size, window, stride, dilation, pads in CASES:
        x, w, b = small.x(1, c, *size), small.w(o, c, *window), small.w(o)
        y = small.op("Conv", x, w, b, dilations=[dilation] * 2, strides=[stride] * 2, pads=pads)
        small.out(small.op("Relu", y))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model()
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_the_copy_pads_on_targets_that_load_under_masks() -> None:
    exe = mlc.compile(model().proto(), target="znver5", threads=1, cache=False)
    names = [node["kernel"] for node in exe.graph_json["nodes"]]
    assert sum(name.startswith("layout_transform_pad") for name in names) == COPIES


def test_a_prime_number_of_rows_of_many_groups_is_one_block(tmp_path: Path) -> None:
    """The padded copy of a block holds the channels of one task: all rows fit L2, and none is copied for each tap."""
    small = Small()
    x, w = small.x(1, 64, 43, 33), small.w(64, 1, 3, 3)
    blocked = small.op("Conv", x, small.w(64, 64, 3, 3), pads=[1] * 4)  # so that the window is in blocks, too
    window = small.op("Conv", blocked, w, dilations=[4] * 2, pads=[4] * 4, group=64)
    small.out(small.op("Conv", window, small.w(64, 64, 3, 3), pads=[1] * 4))
    options = Options(target="znver3", threads=1, keep=frozenset(["loop"]))
    compilation = Compilation(load_model(small.proto(), {}), options)
    compilation.write(tmp_path)
    (rows,) = re.findall(r'%pad = loop.alloc "local".* : memref<1x1x(\d+)x41x8xf32>', compilation.texts["loop"])
    assert int(rows) == 43 + 2 * 4
    exe = mlc.compile(small.proto(), target="x86-64-v3", threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_blocks_of_one_row_count_what_neighbours_copy_twice(tmp_path: Path) -> None:
    """A dilation of 128 makes a copy of 256 pixels more: blocks of two tiles of 6 pixels would copy little else."""
    small = Small()
    x, w = small.x(1, 128, 850), small.w(128, 128, 3)
    small.out(small.op("Conv", x, w, dilations=[128], pads=[128, 128]))
    compilation = Compilation(
        load_model(small.proto(), {}), Options(target="znver3", threads=1, keep=frozenset(["loop"]))
    )
    compilation.write(tmp_path)
    copies = re.findall(r'%pad\w* = loop.alloc "local".* : memref<[x\d]*x(\d+)x8xf32>', compilation.texts["loop"])
    assert copies
    assert max(map(int, copies)) - 256 > 64
    exe = mlc.compile(small.proto(), target="x86-64-v3", threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []
