"""Convolutions of strong dilation: taps in the padding are left out, and values are those of onnxruntime."""

from pathlib import Path

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.support.errors import collected_warnings

CASES = [
    # batch, channels, filters, picture, window, dilation, stride, padding
    (1, 64, 32, (14, 14), (3, 3), 12, 1, (12, 12, 12, 12)),
    (2, 40, 24, (19, 23), (3, 3), 9, 1, (9, 9, 9, 9)),
    (1, 48, 70, (17, 31), (3, 5), 6, 1, (6, 12, 6, 12)),
    (1, 32, 16, (20, 37), (3, 3), 8, 2, (8, 8, 8, 8)),
    (1, 33, 7, (11, 13), (2, 3), 7, 1, (7, 10, 3, 5)),  # rows and columns that no tap reaches, one side wider
    (1, 64, 33, (6, 40), (3, 3), 18, 1, (18, 18, 18, 18)),  # one row of taps
]


def model(cases):
    """A model with a convolution, a bias and an activation for each case."""
    small = Small()
    for batch, c, o, size, window, dilation, stride, pads in cases:
        x, w, b = small.x(batch, c, *size), small.w(o, c, *window), small.w(o)
        y = small.op("Conv", x, w, b, dilations=[dilation] * 2, strides=[stride] * 2, pads=pads)
        small.out(small.op("Relu", y))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 2), ("x86-64-v3", 1)])
def test_values(target, threads):
    small = model(CASES)
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_weights_beyond_l2_stay_there_for_all_rows():
    small = model([(1, 720, 96, (9, 21), (3, 3), 5, 1, (5, 5, 5, 5))])
    exe = mlc.compile(small.proto(), threads=2)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def kernels(small: Small, directory: Path, level: str, target: str = "x86-64-v4") -> str:
    """The kernels of a model on a level."""
    compilation = Compilation(load_model(small.proto(), {}), Options(target=target, keep=frozenset([level])))
    compilation.write(directory)
    return compilation.texts[level]


@pytest.mark.parametrize("size", [(4, 4), (2, 2), (2, 7), (3, 3)])
def test_weights_of_small_pictures_are_fetched_ahead(size, tmp_path):
    """Columns and blocks of channels are one stream of weights; rows run inside of the taps."""
    small = model([(1, 480, 288, size, (3, 3), 1, 1, (1, 1, 1, 1))])
    (own,) = [part for part in kernels(small, tmp_path, "te").split("sched.schedule @") if '"dilated"' in part]
    assert own.count('"prefetch"') == 2
    for threads in (1, 2):
        exe = mlc.compile(small.proto(), threads=threads, cache=False)
        assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_few_taps_of_few_channels_are_left_in_a_padded_copy(tmp_path):
    few = (1, 64, 32, (30, 30), (3, 3), 2, 1, (2, 2, 2, 2))
    shallow = (1, 8, 16, (14, 14), (3, 3), 12, 1, (12, 12, 12, 12))
    text = kernels(model([CASES[0], few, shallow]), tmp_path, "te")
    assert text.count('strategy = "dilated"') == 1
    assert text.count('strategy = "contraction"') == 2


def test_sums_in_registers_win_where_little_is_padding(tmp_path):
    """Between tap and tap sums go to memory and back, which costs most where a tap has few channels."""
    few = (1, 32, 64, (51, 29), (5, 5), 1, 1, (2, 2, 2, 2))
    deep = (1, 192, 64, (21, 21), (5, 5), 1, 1, (2, 2, 2, 2))
    names = kernels(model([few, deep]), tmp_path, "te", "znver3").split('strategy = "')[1:]
    assert [name.split('"')[0] for name in names if not name.startswith("injective")] == ["contraction", "dilated"]


def test_nothing_is_padded_or_masked(tmp_path):
    text = kernels(model(CASES), tmp_path, "loop")
    assert "%pad" not in text
    own = [part for part in text.split("loop.func @")[1:] if part.startswith("conv2d")]
    lines = [line for part in own for line in part.splitlines() if "loop.load" in line]
    assert own
    assert not [line for line in lines if "mask" in line and "vector<1" in line]


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("width", [23, 26, 31])
def test_tiles_fit_the_registers(target: str, width: int, tmp_path: Path) -> None:
    """Narrow tiles have the rows that registers hold beside two vectors, whatever rows a single vector would have."""
    small = model([(1, 128, 64, (31, width), (3, 3), 12, 1, (12, 12, 12, 12))])
    with collected_warnings() as warned:
        text = kernels(small, tmp_path, "te", target)
    assert '"dilated"' in text
    assert [line for line in warned if "native vectors" in line] == []
