"""Depthwise windows about as large as the picture: rows in the padding are left out, values are onnxruntime's."""

from pathlib import Path

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

CASES = [
    # batch, channels, picture, window, dilation, stride, padding
    (1, 32, (14, 14), (31, 31), 1, 1, (15, 15, 15, 15)),
    (2, 21, (9, 13), (11, 7), 1, 1, (5, 3, 5, 3)),  # channels that fill no whole vector
    (1, 16, (5, 6), (13, 13), 1, 1, (6, 6, 6, 6)),  # a picture smaller than the window
    (1, 24, (19, 17), (13, 13), 1, 2, (6, 6, 6, 6)),
    (1, 16, (15, 18), (5, 5), 5, 1, (10, 10, 10, 10)),
    (1, 8, (6, 7), (9, 5), 1, 1, (8, 4, 3, 0)),  # sides that differ; rows of the result without a tap on one side
    (1, 16, (8, 40), (15, 3), 1, 1, (7, 0, 7, 0)),  # rows are padded alone
    (1, 16, (1, 9), (7, 7), 1, 1, (3, 3, 3, 3)),  # one row of taps
    (1, 16, (4, 9), (5, 3), 1, 1, (6, 1, 6, 1)),  # rows of the result that lie in the padding as a whole
]


def model(cases: list) -> Small:
    """A model with a depthwise convolution, a bias and an activation for each case."""
    small = Small()
    for batch, c, size, window, dilation, stride, pads in cases:
        x, w, b = small.x(batch, c, *size), small.w(c, 1, *window), small.w(c)
        y = small.op("Conv", x, w, b, group=c, dilations=[dilation] * 2, strides=[stride] * 2, pads=pads)
        small.out(small.op("Relu", y))
    return small


def kernels(small: Small, directory: Path, level: str, threads: int = 1) -> str:
    """The kernels of a model on a level."""
    compilation = Compilation(load_model(small.proto(), {}), Options(threads=threads, keep=frozenset([level])))
    compilation.write(directory)
    return compilation.texts[level]


@pytest.mark.parametrize("cases", [CASES[:4], CASES[4:]])
@pytest.mark.parametrize(("target", "threads"), [("native", 4), ("x86-64-v3", 1)])
def test_values(target, threads, cases):
    small = model(cases)
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_rows_are_clipped_where_many_lie_in_the_padding(tmp_path):
    mostly_inside = (1, 16, (56, 56), (5, 5), 1, 1, (2, 2, 2, 2))
    few_taps = (1, 16, (28, 28), (3, 3), 12, 1, (12, 12, 12, 12))
    text = kernels(model([CASES[0], mostly_inside, few_taps]), tmp_path, "te")
    assert text.count('strategy = "clipped"') == 1
    assert text.count('"pad_columns"') == 2  # the stage and its block in the schedule
    assert text.count('"clip"') == 1


@pytest.mark.parametrize("threads", [1, 4])
def test_only_columns_are_padded_in_a_copy_of_one_block_of_channels(tmp_path, threads):
    text = kernels(model([CASES[0]]), tmp_path, "loop", threads)
    (own,) = [part for part in text.split("loop.func @")[1:] if part.startswith("conv2d")]
    copies = [line for line in own.splitlines() if "loop.alloc" in line]
    assert copies
    assert all('"local"' in line and "memref<1x1x14x44x" in line for line in copies)
    assert own.index("loop.for") < own.index("loop.alloc")
