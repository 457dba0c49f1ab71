"""Convolutions of bytes by groups: exact sums, whatever the window, the layout and the machine."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_graphs import Small, mismatches

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.support.display.timing import PhaseTimer

WINDOWS = [
    # channels, picture, window, strides, padding, dilation, zero point
    (32, (9, 14), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 0),
    (21, (9, 13), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 7),
    (24, (8, 30), (5, 5), (1, 1), (2, 2, 2, 2), (1, 1), 128),
    (40, (11, 9), (5, 5), (2, 2), (1, 2, 2, 1), (1, 1), 255),
    (16, (7, 19), (3, 7), (1, 2), (0, 0, 0, 0), (1, 1), 3),
    (5, (6, 12), (1, 8), (1, 1), (0, 3, 0, 4), (1, 1), 9),
    (16, (12, 9), (5, 3), (1, 1), (4, 1, 4, 1), (2, 1), 17),
    (16, (9, 12), (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 17),
    (64, (20, 33), (3, 3), (2, 1), (1, 1, 1, 1), (1, 1), 1),
]


def depthwise(small: Small, dtype: Any, count: int = len(WINDOWS)) -> list[Any]:
    """The first convolutions of the table by integers; what they are."""
    rng, wanted = np.random.default_rng(7), []
    for channels, size, window, strides, padding, dilation, zero in WINDOWS[:count]:
        low = int(np.iinfo(dtype).min)
        x = small.x(1, channels, *size, dtype=dtype)
        small.arrays[x] = rng.integers(low, low + 256, (1, channels, *size)).astype(dtype)
        w = rng.integers(-128, 128, (channels, 1, *window)).astype(np.int8)
        attrs = {"group": channels, "strides": strides, "pads": padding, "dilations": dilation}
        zeros = small.const(low + zero, dtype)
        small.out(small.op("ConvInteger", x, small.const(w, np.int8), zeros, small.const(0, np.int8), **attrs))
        wanted.append(sums(small.arrays[x].astype(np.int64) - low - zero, w, strides, padding, dilation))
    return wanted


def sums(x: Any, w: Any, strides: Any, padding: Any, dilation: Any) -> Any:
    """A depthwise convolution, tap by tap."""
    x = np.pad(x, ((0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3])))
    rows, columns = ((x.shape[2 + k] - (w.shape[2 + k] - 1) * dilation[k] - 1) // strides[k] + 1 for k in range(2))
    total = np.zeros((*x.shape[:2], rows, columns), np.int64)
    for i in range(w.shape[2]):
        for j in range(w.shape[3]):
            at = x[:, :, i * dilation[0] :, j * dilation[1] :][:, :, :: strides[0], :: strides[1]]
            total += at[:, :, :rows, :columns] * w[None, :, 0, i, j, None, None].astype(np.int64)
    return total.astype(np.int32)


@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        ("native", np.uint8),
        ("native", np.int8),
        ("native,-avx512vnni", np.uint8),
        ("x86-64-v3", np.uint8),
        ("x86-64", np.uint8),
    ],
)
def test_depthwise_sums_are_exact(target: str, dtype: Any) -> None:
    small = Small(case="depthwise")
    wanted = depthwise(small, dtype)
    exe = mlc.compile(mlc.load(small.proto()), threads=1, target=target, cache=False)
    assert mismatches(small, exe, wanted) == []


def test_words_of_taps_are_what_is_multiplied() -> None:
    small = Small(case="depthwise")
    depthwise(small, np.uint8)
    compilation = Compilation(
        mlc.load(small.proto()), Options("native", 3, 1, keep=frozenset({"graph"})), None, PhaseTimer()
    )
    compilation.optimize()
    assert (
        compilation.texts["graph"].count('o4w", out_dtype') == len(WINDOWS) - 1
    )  # dilated rows are multiplied one by one


def test_every_pass_keeps_depthwise_sums() -> None:
    small = Small(case="depthwise")
    wanted = depthwise(small, np.uint8, 4)
    exe = mlc.compile(mlc.load(small.proto()), threads=2, validate_each=True)
    assert mismatches(small, exe, wanted) == []


def test_two_pixels_share_a_vector_that_the_channels_leave_half_empty() -> None:
    small = Small(case="half")
    pads = {"pads": [1, 1, 1, 1]}
    kernel = small.const(np.ones((24, 32, 3, 3)), np.int8)
    small.out(small.op("ConvInteger", small.x(1, 32, 7, 9, dtype=np.uint8), kernel, small.const(3, np.uint8), **pads))
    options = Options("x86-64-v4", 3, 1, keep=frozenset({"loop"}))
    compilation = Compilation(mlc.load(small.proto()), options, None, PhaseTimer())
    _, sources = compilation.plan()
    texts = [code.texts["loop"] for code in compilation.compile_kernels(sources).values()]
    assert any("vector<1x3x16x4xi8>, vector" in text and "floordiv 8" in text for text in texts)


def test_woven_words_leave_registers_for_the_order_of_their_lanes() -> None:
    small = Small(case="woven")
    kernel = small.const(np.ones((16, 1, 3, 3)), np.int8)
    x = small.x(1, 16, 4, 240, dtype=np.uint8)
    small.out(small.op("ConvInteger", x, kernel, small.const(3, np.uint8), group=16, pads=[1, 1, 1, 1]))
    options = Options("x86-64-v4", 3, 1, keep=frozenset({"loop"}))
    compilation = Compilation(mlc.load(small.proto()), options, None, PhaseTimer())
    _, sources = compilation.plan()
    texts = [code.texts["loop"] for code in compilation.compile_kernels(sources).values()]
    rows = {int(n) for text in texts for n in re.findall(r"iter_args.* -> vector<(\d+)x16xi32>", text)}
    assert rows
    assert max(rows) <= 32 - 4  # beside the sums: taps, the order of the lanes, two words


@pytest.mark.parametrize(("target", "tile"), [("znver3", (5, 2)), ("znver4", (12, 2))])
def test_products_by_pairs_leave_registers_to_them(target: str, tile: tuple[int, int], tmp_path: Path) -> None:
    """Without a dot product of bytes a vector of products, and the ones that sum it, need a register each: not 6x2."""
    small, rng = Small(case="window"), np.random.default_rng(0)
    x = small.x(1, 64, 24, 24, dtype=np.uint8)
    w = small.const(rng.integers(-64, 65, (64, 64, 3, 3)), np.int8)
    small.out(small.op("ConvInteger", x, w, small.const(0, np.uint8), small.const(0, np.int8), pads=[1, 1, 1, 1]))
    compilation = Compilation(mlc.load(small.proto()), Options(target, keep=frozenset({"te"})))
    compilation.write(tmp_path)
    chosen = re.findall(r'sched.knob "tile_(?:rows|columns)" .* default (\d+)', compilation.texts["te"])
    assert tuple(map(int, chosen)) == tile
