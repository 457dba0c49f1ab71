"""Convolutions of few output channels: on planes, or as sums over lanes, at 1 and 2 threads."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

CASES = [
    # channels, outputs, picture, window, dilation, whether a convolution stands in front
    (24, 3, (19, 45), 3, 1, False),
    (24, 1, (19, 45), 3, 1, False),
    (72, 1, (12, 31), 3, 1, True),  # sums over lanes
    (16, 1, (23, 9), 7, 1, True),
    (17, 1, (23, 9), 7, 1, True),  # channels that no block divides
    (40, 2, (17, 22), 5, 1, True),
    (16, 4, (9, 50), 3, 3, True),
    (528, 1, (3, 5), 1, 1, True),
]


def heads(cases: list[tuple]) -> Small:
    """A graph of such convolutions, each with an activation."""
    small = Small()
    for c, outputs, size, k, dilation, behind in cases:
        x = small.x(2, c, *size)
        if behind:
            x = small.op("Relu", small.op("Conv", x, small.w(c, c, 1, 1)))
        pad = [(k - 1) * dilation // 2] * 4
        y = small.op("Conv", x, small.w(outputs, c, k, k), small.w(outputs), dilations=[dilation] * 2, pads=pad)
        small.out(small.op("Sigmoid", y))
    return small


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values(target: str, threads: int) -> None:
    small = heads(CASES)
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def emitted(case: tuple, level: str, path: Path, threads: int = 1) -> str:
    """The IR of one such convolution for vectors of 8 lanes."""
    options = Options(target="znver3", threads=threads, keep=frozenset([level]))
    compilation = Compilation(load_model(heads([case]).proto(), {}), options)
    compilation.write(path)
    return compilation.texts[level]


def test_channels_of_a_plane_are_summed_one_after_another(tmp_path: Path) -> None:
    """Blocks of rows are padded apart, and the taps of a channel, which lie near each other, are the inner loops."""
    loops = emitted((200, 3, (60, 60), 3, 1, False), "loop", tmp_path)
    rows, channels, window = loops.index("%n_oc_o_oh"), loops.index("loop.for %ic_i"), loops.index("loop.for %kh")
    assert rows < loops.index("loop.alloc") < channels < window < loops.index("loop.for %kw")


@pytest.mark.parametrize("threads", [1, 2])
def test_one_channel_behind_blocks_is_a_sum_over_lanes(threads: int, tmp_path: Path) -> None:
    """All loops over terms carry the same sums in registers, which are added up once behind them."""
    loops = emitted((64, 1, (24, 24), 3, 1, True), "loop", tmp_path, threads)
    nest = loops[loops.index("loop.for %ic_o") :]
    nest = nest[: nest.index("loop.reduce sum")]
    assert nest.count("vector<4x2x8xf32>") > 0
    assert "arith.addf" not in nest
    assert ("parallel" in loops[: loops.index("loop.for %ic_o")].rsplit("loop.func", 1)[1]) == (threads > 1)
