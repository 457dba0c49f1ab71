"""Keys that lie in a row for each channel: rows that push each other out of L1 are read through a copy in panels."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.support.errors import collected_warnings


def attention(small: Small, heads: int, queries: int, keys: int, d: int, causal: bool = False) -> None:
    """One attention whose keys are given as [d, keys]."""
    scores = small.op("MatMul", small.x(1, heads, queries, d), small.x(1, heads, d, keys))
    if causal:
        mask = np.triu(np.full((queries, keys), -1e9, np.float32), keys - queries + 1)
        scores = small.op("Add", scores, small.const(mask, np.float32))
    small.out(small.op("MatMul", small.op("Softmax", scores, axis=-1), small.x(1, heads, keys, d)))


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values(target: str, threads: int) -> None:
    small = Small()
    attention(small, 2, 64, 1024, 32)
    attention(small, 1, 131, 1280, 64)
    attention(small, 3, 200, 2048, 40, causal=True)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def panels(queries: int, keys: int, directory: Path, target: str = "znver3") -> list[tuple[int, int]]:
    """The panels of copied keys of a kernel, and the keys of one; nothing is warned about."""
    small = Small()
    attention(small, 2, queries, keys, 48)
    options = Options(target=target, threads=1, keep=frozenset(["loop"]))
    with collected_warnings() as warned:
        compilation = Compilation(load_model(small.proto(), {}), options)
        compilation.write(directory)
    assert not warned
    copies = re.findall(r'= loop.alloc "local".* : memref<1x1x(\d+)x48x(\d+)xf32>', compilation.texts["loop"])
    return [(int(count), int(size)) for count, size in copies]


@pytest.mark.parametrize("target", ["znver3", "znver4"])
def test_panels_hold_whole_tiles(target: str, tmp_path: Path) -> None:
    ((count, size),) = panels(64, 8192, tmp_path, target)
    assert 8 <= size <= 16
    assert (count - 1) * size < 8192 <= count * size


def test_rows_that_fit_l1_side_by_side_are_read_in_place(tmp_path: Path) -> None:
    assert panels(64, 1040, tmp_path) == []


def test_few_queries_are_not_worth_a_copy(tmp_path: Path) -> None:
    assert panels(32, 1024, tmp_path) == []
