"""Pictures between channels-first and channels-last: squares in blocks of whole cache lines where channels are few."""

import re

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options

TO_LAST, TO_FIRST = [0, 2, 3, 1], [0, 3, 1, 2]
BLOCKED = [
    ((1, 64, 12, 17), TO_LAST),
    ((2, 21, 13, 31), TO_LAST),
    ((1, 12, 17, 64), TO_FIRST),
    ((2, 31, 13, 37), TO_FIRST),
    ((200, 33), [1, 0]),
    ((5, 40, 300), [0, 2, 1]),
    ((9, 10), [1, 0]),
]
PLAIN = [((1, 6, 30, 20), TO_LAST), ((1, 30, 20, 7), TO_FIRST), ((300, 290), [1, 0]), ((1, 20, 30, 256), TO_FIRST)]


def model(cases: list[tuple]) -> Small:
    small = Small()
    for shape, perm in cases:
        small.out(small.op("Transpose", small.x(*shape), perm=perm))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 2), ("x86-64-v2", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(BLOCKED + PLAIN)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def blocks(cases: list[tuple], target: str) -> list[list[str]]:
    """The squares of 8 x 8 that each kernel has in a block, along either axis."""
    compilation = Compilation(load_model(model(cases).proto(), {}), Options(target, threads=1))
    return [re.findall(r"\[\?, (\d), 8\]", text) for text in compilation.schedule_texts().values()]


def test_blocks_have_whole_lines_where_one_axis_is_short() -> None:
    assert blocks(BLOCKED, "x86-64-v3") == [["8", "2"]] * len(BLOCKED)
    assert blocks(PLAIN, "x86-64-v3") == [[]] * len(PLAIN)
    assert blocks(BLOCKED, "znver4") == [[]] * len(BLOCKED)  # its squares have whole lines


def test_every_pass_keeps_the_values() -> None:
    for target in ("x86-64-v3", "znver4"):
        assert mlc.compile(model(BLOCKED[1:4:2]).proto(), target=target, threads=2, validate_each=True)
