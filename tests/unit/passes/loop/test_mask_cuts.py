"""Loops that are split where masks turn: values of concatenations and padded rows, and that no mask is left."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options


def concatenated(small: Small, shape: list[int], axis: int, sizes: list[int]) -> str:
    """Inputs of these sizes along an axis, one behind the other."""
    parts = [small.x(*[size if k == axis else n for k, n in enumerate(shape)]) for size in sizes]
    return small.op("Concat", *parts, axis=axis)


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values(target: str, threads: int) -> None:
    draw, small = random.Random(threads), Small()
    for _ in range(24):
        shape = [draw.randint(1, 3), draw.randint(1, 9), draw.randint(1, 9), draw.randint(1, 50)]
        axis = draw.randrange(1, 4)
        y = concatenated(
            small, shape, axis, [draw.randint(1, 40 if axis == 3 else 5) for _ in range(draw.randint(2, 6))]
        )
        small.out(small.op("Relu", y) if draw.random() < 0.5 else y)
    for mode in ("constant", "edge", "reflect"):
        for _ in range(5):
            around = [draw.randint(0, 4) for _ in range(4)]
            pads = small.const([0, 0, *around[:2], 0, 0, *around[2:]])
            small.out(small.op("Pad", small.x(1, 3, draw.randint(5, 9), draw.randint(5, 90)), pads, mode=mode))
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize("axis", [1, 3])
def test_each_part_of_a_concatenation_reads_one_input(axis: int, tmp_path: Path) -> None:
    small = Small()
    small.out(concatenated(small, [1, 32, 5, 32], axis, [32] * 20))
    loads = loads_of(small, tmp_path)
    assert len(loads) <= 2 * 20
    assert not [line for line in loads if " mask " in line]
    exe = mlc.compile(small.proto(), threads=1, cache=False)
    (got,) = exe(small.arrays).values()
    assert np.array_equal(got, np.concatenate(list(small.arrays.values()), axis=axis))


def loads_of(small: Small, tmp_path: Path) -> list[str]:
    """The lines of the loads of a model's kernels, at the loop level."""
    compilation = Compilation(
        load_model(small.proto(), {}), Options(target="znver3", threads=1, keep=frozenset(["loop"]))
    )
    compilation.write(tmp_path)
    return [line for line in compilation.texts["loop"].splitlines() if "loop.load" in line]


def test_rows_between_padded_ones_are_split_along_their_columns(tmp_path: Path) -> None:
    """The loop over columns is one of three copies: its first tile and the rest of a row are masked, the others not."""
    small = Small()
    small.out(small.op("Pad", small.x(1, 32, 60, 70), small.const([0, 0, 1, 1, 0, 0, 1, 1])))
    loads = loads_of(small, tmp_path)
    assert [" mask " in line for line in loads] == [True, False, True]
    exe = mlc.compile(small.proto(), threads=1, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_both_versions_of_a_parallel_loop_are_split(tmp_path: Path) -> None:
    """A 3-D convolution of stride 2 concatenates three input frames for each output frame; the first one is padding."""
    small = Small()
    x, w = small.x(1, 16, 12, 26, 26), small.w(16, 16, 3, 3, 3)
    small.out(small.op("Conv", x, w, strides=[2, 2, 2], pads=[1] * 6))
    frames = [line for line in loads_of(small, tmp_path) if "%a0[%i0 * 2" in line]
    assert frames
    assert not [line for line in frames if " mask " in line]
    for threads in (1, 2):
        exe = mlc.compile(small.proto(), threads=threads, cache=False)
        assert mismatches(small, exe, onnxruntime_results(small)) == []
