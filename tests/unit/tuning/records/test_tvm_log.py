"""AutoTVM's log lines: read and written without a loss, their indices, and the tile sizes that they stand for."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlc.support.errors import UserError
from mlc.tuning.records.tvm.log import Entity, TvmRecord, costs_of, parse_line, parse_log, pick_best
from mlc.tuning.records.tvm.tiles import TileSizes, entities_of, full_split, tiles_of
from mlc.tuning.records.tvm.workloads import (
    Convolution,
    MatrixProduct,
    Workload,
    index_of,
    splits,
    workload_of,
)
from mlc.tuning.results import ErrorCode

LOG = Path(__file__).parents[4] / "examples" / "records" / "tvm_x86.log"
LINES = [line for line in LOG.read_text().splitlines() if not line.startswith("#")]

CONV = Convolution(1, 64, 56, 56, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), "float32")

TILES = [
    TileSizes(rows=28, lanes=16, in_block=16),
    TileSizes(rows=14, lanes=32, in_block=8, unrolls_taps=True),
    TileSizes(rows=28, lanes=16, in_block=3),
    TileSizes(rows=7, lanes=8, in_block=8),
    TileSizes(rows=28, lanes=16, in_block=16),
    TileSizes(rows=14, lanes=16, in_block=16, image_rows=2),
    TileSizes(rows=28, lanes=16, in_block=16, unrolls_taps=True),
    TileSizes(rows=8, lanes=8, in_block=8),
    TileSizes(rows=8, lanes=32, row_part=4, column_part=8, depth=4, inner=8),
    TileSizes(rows=1, lanes=10, column_part=4),
    TileSizes(rows=8, lanes=8, depth=16),
    TileSizes(rows=16, lanes=32, depth=8),
]
"""The tile sizes of the log's lines, the last one of which failed."""


def space_size(workload: Workload) -> int:
    """The number of the template's configurations."""
    return prod(len(candidates) for _, candidates in workload.knobs.values())


def entities_at(workload: Workload, index: int) -> tuple[Entity, ...]:
    """The configuration of that number."""
    found: list[Entity] = []
    for name, (tag, candidates) in workload.knobs.items():
        index, digit = divmod(index, len(candidates))
        value = candidates[digit]
        found.append((name, tag, list(value) if isinstance(value, tuple) else value))
    return tuple(found)


@pytest.mark.parametrize("line", LINES)
def test_a_line_comes_back_as_it_was(line: str) -> None:
    record = parse_line(line)
    assert record is not None
    assert record.text == line
    workload = workload_of(record)
    assert workload is not None
    assert (workload.task, workload.args) == (record.task, record.args)
    assert index_of(workload, record.entities) == record.index
    assert entities_at(workload, record.index) == record.entities


def test_the_tile_sizes_of_the_log() -> None:
    records = parse_log(LOG.read_text(), str(LOG))
    assert [tiles_of(one) for one in records[:-1]] == TILES
    for record, tiles in zip(records, TILES, strict=False):
        workload = workload_of(record)
        assert workload is not None
        assert entities_of(workload, tiles) == record.entities


def test_costs_and_errors() -> None:
    records = parse_log(LOG.read_text())
    assert records[0].result.seconds == (1.02e-3, 1.01e-3, 1.05e-3)
    assert records[0].result.machine["target"] == "llvm -keys=cpu -mcpu=skylake-avx512"
    failed = records[-1].result
    assert failed.error is ErrorCode.RUN_TIMEOUT
    assert failed.cost == float("inf")
    assert costs_of(failed) == (records[-1].costs, records[-1].error)
    assert costs_of(records[0].result) == (records[0].costs, 0)


def test_the_best_of_each_task() -> None:
    best = pick_best(parse_log(LOG.read_text()))
    assert len(best) == len(LINES) - 2, "two lines of the first task and a failure"
    assert tiles_of(best[0]) == TILES[1]


def test_indices_are_those_of_autotvm() -> None:
    """The first entity is least significant: tile_ic 16 is number 4 of 7, tile_oc 16 likewise, unroll_kw True is 0."""
    ow = [one[-1] for one in cast("list[tuple[int, ...]]", CONV.knobs["tile_ow"][1])]
    assert sorted(ow) == [1, 2, 4, 7, 8, 14, 16, 28, 32, 56]
    entities: tuple[Entity, ...] = (
        ("tile_ic", "sp", [-1, 16]),
        ("tile_oc", "sp", [-1, 16]),
        ("tile_ow", "sp", [-1, ow[3]]),
        ("unroll_kw", "ot", True),
    )
    assert index_of(CONV, entities) == 4 + 7 * (4 + 7 * 3)
    assert space_size(CONV) == 7 * 7 * 10 * 2
    assert splits(8, 3)[:6] == [(-1, 1, 1), (-1, 2, 1), (-1, 4, 1), (-1, 8, 1), (-1, 1, 2), (-1, 2, 2)]


def test_the_default_of_dense_pack() -> None:
    """TVM's default of a dense layer of 128 x 768 x 768 on AVX-512 is x [3, 8, 32], y [4, 4, 8]."""
    record = parse_log(LOG.read_text())[8]
    values = cast("dict[str, list[int]]", record.values)
    assert full_split(768, values["tile_x"]) == (3, 8, 32)
    assert full_split(128, values["tile_y"]) == (4, 4, 8)


WORKLOADS = st.one_of(
    st.builds(
        lambda ic, oc, size, window, stride, depthwise: Convolution(
            1, oc if depthwise else ic, size, size, oc, (window, window), (stride, stride),
            (window // 2,) * 4, (1, 1), "float32", depthwise,
        ),
        st.integers(1, 96), st.integers(1, 96), st.integers(7, 60), st.sampled_from([1, 3, 5]), st.integers(1, 2),
        st.booleans(),
    ),
    st.builds(
        MatrixProduct, st.integers(1, 64), st.integers(1, 96), st.integers(1, 96), st.just("float32"),
        st.none(),
    ),
    st.builds(
        MatrixProduct, st.integers(1, 64), st.integers(1, 96), st.integers(1, 96), st.just("float32"),
        st.integers(1, 12), st.booleans(), st.booleans(),
    ),
)  # fmt: skip


@given(WORKLOADS, st.data())
@settings(max_examples=150)
def test_index_entities_tiles_and_text_are_the_same_thing(workload: Workload, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, space_size(workload) - 1))
    entities = entities_at(workload, index)
    assert index_of(workload, entities) == index
    record = TvmRecord("llvm", workload.task, workload.args, entities, index, (1.5,))
    again = parse_line(record.text)
    assert again == replace(record, kwargs={})
    assert workload_of(record) == workload
    assert entities_of(workload, tiles_of(record)) == entities


def _changed(**changes: object) -> str:
    return json.dumps({**json.loads(LINES[0]), **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{oh", "expected a JSON line of an AutoTVM log"),
        ('{"i": [], "r": [], "v": "v0.6"}', "expected an AutoTVM line with input and config"),
        (_changed(version=0.1), r"expected an AutoTVM line of version 0\.2, but got 0\.1"),
        (_changed(result=[1.0]), "expected a whole AutoTVM line"),
        (_changed(input=["llvm", "conv2d_NCHWc.x86"]), "expected a whole AutoTVM line"),
    ],
)
def test_a_wrong_line_is_refused_with_its_place(line: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_log(f"# a comment\n\n{line}\n", "t.log")
    assert caught.value.place == "t.log:3"


def test_arguments_and_entities_that_are_not_the_templates() -> None:
    record = parse_log(LOG.read_text())[0]
    with pytest.raises(UserError, match=r"expected the arguments of conv2d_NCHWc\.x86"):
        workload_of(replace(record, args=record.args[:3]))
    grouped = [record.args[0], ["TENSOR", [64, 32, 3, 3], "float32"], *record.args[2:]]
    with pytest.raises(UserError, match=r"expected the arguments of conv2d_NCHWc\.x86"):
        workload_of(replace(record, args=grouped))
    with pytest.raises(UserError, match=r"expected entity 'tile_oc' of conv2d_NCHWc\.x86 among its candidates"):
        tiles_of(replace(record, entities=(record.entities[0],)))
    assert workload_of(replace(record, task="conv2d_transpose_nchw.x86")) is None
    with pytest.raises(UserError, match=r"but got conv2d_transpose_nchw\.x86"):
        tiles_of(replace(record, task="conv2d_transpose_nchw.x86"))


def test_blocked_arguments_are_those_of_the_plain_layout() -> None:
    blocked = replace(
        parse_log(LOG.read_text())[0],
        args=[
            ["TENSOR", [1, 4, 56, 56, 16], "float32"], ["TENSOR", [4, 4, 3, 3, 16, 16], "float32"],
            [1, 1], [1, 1], [1, 1], "NCHW16c", "NCHW16c", "float32",
        ],
    )  # fmt: skip
    assert workload_of(blocked) == CONV
    packed: list[object] = [["TENSOR", [128, 768], "float32"], ["TENSOR", [24, 768, 32], "float32"], None, "float32"]
    dense = replace(parse_log(LOG.read_text())[8], args=packed)  # pyright: ignore[reportArgumentType] JSON
    assert workload_of(dense) == MatrixProduct(128, 768, 768, "float32")
