"""Products whose right factor has rows of whole pages: a tile of rows computes runs of columns, from a copy."""

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

WITH_RUNS = [
    # channels, filters, picture
    (25, 40, (32, 32)),  # columns whose lines evict each other from L1
    (96, 48, (32, 64)),
    (16, 20, (41, 43)),  # planes that leave a rest of a vector, and of a run
    (33, 7, (64, 33)),
]
WITHOUT = [
    (24, 40, (28, 30)),  # less than a page
    (20, 4, (40, 40)),  # one tile of rows
]


def model(cases: list[tuple]) -> Small:
    """1x1 convolutions between plain pictures, which stay on planes."""
    small = Small()
    for c, o, size in cases:
        y = small.op("Conv", small.x(1, c, *size), small.w(o, c, 1, 1), small.w(o))
        small.out(small.op("Relu", y))
    return small


def copies(case: tuple, target: str) -> bool:
    """Whether the kernel copies columns of its right factor."""
    compilation = Compilation(load_model(model([case]).proto(), {}), Options(target, threads=1))
    (text,) = compilation.schedule_texts().values()
    return "sched.cache_read" in text


@pytest.mark.parametrize(("target", "cases"), [("x86-64-v3", WITH_RUNS), ("znver4", WITH_RUNS[::2])])
def test_which_products_have_runs(target: str, cases: list[tuple]) -> None:
    assert [copies(case, target) for case in cases] == [True] * len(cases)
    assert [copies(case, target) for case in WITHOUT] == [False] * len(WITHOUT)


def test_every_pass_keeps_the_values() -> None:
    for target in ("native", "znver4"):
        assert mlc.compile(model(WITH_RUNS[2:]).proto(), target=target, threads=2, validate_each=True)


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(WITH_RUNS + WITHOUT)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []
