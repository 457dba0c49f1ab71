"""Convolutions of few groups: the blocks of a group are columns of the register tile, and values are onnxruntime's."""

import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.support.errors import UserError

CASES = [
    # groups, channels, filters, picture, window, stride, padding
    (2, 192, 192, (11, 13), 3, 1, 1),
    (2, 96, 96, (9, 17), 3, 1, 1),
    (8, 256, 256, (7, 9), 3, 1, 1),
    (4, 64, 256, (8, 8), 3, 2, 1),
    (2, 160, 64, (5, 27), 1, 1, 0),
    (3, 144, 240, (6, 7), 3, 1, 1),
    (2, 64, 96, (4, 30), 5, 1, 2),
    (4, 48, 80, (9, 9), 3, 1, 0),
]


def model(cases: list[tuple]) -> Small:
    """A model with a grouped convolution, a bias and an activation for each case."""
    small = Small()
    for groups, c, o, size, window, stride, pad in cases:
        x, w, b = small.x(1, c, *size), small.w(o, c // groups, window, window), small.w(o)
        y = small.op("Conv", x, w, b, group=groups, strides=[stride] * 2, pads=[pad] * 4)
        small.out(small.op("Relu", y))
    return small


@pytest.mark.parametrize(("target", "threads"), [("native", 1), ("native", 2), ("x86-64-v3", 1)])
def test_values(target: str, threads: int) -> None:
    small = model(CASES)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


HALVES = [
    (4, 96, 96, (6, 7), 3, 1, 1),
    (2, 48, 96, (5, 6), 3, 2, 1),
    (1, 40, 120, (5, 7), 1, 1, 0),
    (72, 72, 72, (6, 5), 3, 1, 1),
]
"""Channels in blocks of 24 and of 8 lanes, where half of a vector of 16 costs half."""


@pytest.mark.parametrize("growth", [0, 16])
def test_vectors_and_a_half(growth: float) -> None:
    small = model(HALVES)
    assert mlc.compile(small.proto(), target="znver4", threads=1, error_growth=growth, validate_each=True)
    exe = mlc.compile(small.proto(), target="znver4", threads=2, error_growth=growth, cache=False)
    schedules = " ".join(n["schedule"] for n in exe.graph_json["nodes"])
    assert "x24" in schedules
    assert "x8" in schedules
    try:
        found = mismatches(small, exe, onnxruntime_results(small))
    except UserError as error:
        pytest.skip(str(error))  # this CPU is another one: the interpreters have run every level
    assert found == []


def tile_of(case: tuple) -> list[int]:
    """Rows, columns and lanes of the tile of the one convolution."""
    exe = mlc.compile(model([case]).proto(), target="znver5", threads=1, cache=False, error_growth=0)
    (schedule,) = [n["schedule"] for n in exe.graph_json["nodes"] if n["kernel"].startswith("conv2d")]
    return [int(size) for size in schedule.split("conv2d ")[1].split(",")[0].split("x")]


@pytest.mark.parametrize(("case", "blocks"), [(CASES[0], 6), (CASES[1], 3), (CASES[2], 2)])
def test_columns_are_a_part_of_a_groups_blocks(case: tuple, blocks: int) -> None:
    rows, columns, lanes = tile_of(case)
    assert columns > 1
    assert blocks % columns == 0
    assert lanes == 16
    assert rows * columns <= 31
