"""AutoTVM's configurations as candidates of mlc: the layouts and tiles of the shipped log's lines, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuning_records import SPACE, ran, some_task

from mlc.schedules.summary import summary_of
from mlc.support.errors import UserError
from mlc.tools.cli import run
from mlc.tuning.extract import candidate_module
from mlc.tuning.records.database import Database
from mlc.tuning.records.tvm.log import TvmRecord, parse_log
from mlc.tuning.records.tvm.tasks import record_of_task, task_of_record
from mlc.tuning.records.tvm.tiles import tiles_of

LOG = Path(__file__).parents[4] / "examples" / "records" / "tvm_x86.log"
RECORDS = parse_log(LOG.read_text())
TARGET = "x86-64-v4"
"""The vectors of the log's skylake-avx512, whatever machine the test runs on."""

SCHEDULES = [
    (0, "tensor<4x4x3x3x16x16xf32>", "conv2d 28x16"),
    (1, "tensor<2x8x3x3x8x32xf32>", "conv2d 14x32"),
    (2, "tensor<4x1x7x7x3x16xf32>", "conv2d 28x16"),
    (4, "tensor<4x16x1x1x16x16xf32>", "conv2d 28x16"),
    (6, "tensor<2x1x3x3x16xf32>", "conv2d 28x16"),
    (8, "tensor<24x768x32xf32>", "dense 8x32"),
    (11, "tensor<4x32x96xf32>", "batch_matmul 16x32"),
]
"""A line of the log, the type of the packed weight in mlc's kernel, the register tile of the schedule."""


def mapped(record: TvmRecord):
    found = task_of_record(record, TARGET)
    assert found is not None
    return found


@pytest.mark.parametrize(("line", "weight", "tile"), SCHEDULES)
def test_a_configuration_becomes_layouts_and_a_tile(line: int, weight: str, tile: str) -> None:
    task, values = mapped(RECORDS[line])
    assert weight in task.kernel
    assert task.space[task.space.index_of(values)] == values
    assert f"{tile}" in summary_of(candidate_module(task, values)).split(",")[0]


@pytest.mark.parametrize("line", [0, 1, 4, 6, 8, 11])
def test_a_candidate_becomes_the_line_it_came_from(line: int) -> None:
    record = RECORDS[line]
    task, values = mapped(record)
    back = record_of_task(task, values, record.result, record.target)
    assert back is not None
    assert (back.task, back.args[1:], back.costs, back.target) == (
        record.task,
        record.args[1:],
        record.costs,
        record.target,
    )
    # the picture of a 1x1 convolution is one row: graph-collapse-dims
    assert back.args[0] == (["TENSOR", [1, 256, 1, 56 * 56], "float32"] if line == 4 else record.args[0])
    theirs, ours = tiles_of(record), tiles_of(back)
    names = ("rows", "lanes", "in_block") if line < 8 else ("rows", "lanes", "row_part")
    for name in names if line != 11 else names[:2]:
        assert getattr(ours, name) == getattr(theirs, name), name


def test_padding_that_no_output_reads_is_left_out() -> None:
    """7 x 7 with stride 2 and padding 3: the last padded row of 230 is read by no window."""
    task, values = mapped(RECORDS[2])
    back = record_of_task(task, values, RECORDS[2].result, "llvm")
    assert back is not None
    assert back.args[3] == [3, 3, 2, 2]
    assert back.args[:3] == RECORDS[2].args[:3]


def test_other_kernels_have_no_line() -> None:
    kernel = """te.func @kernel(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = te.compute "relu" (%i : 4, %j : 8) {
        %0 = te.read %x[%i, %j] : f32
        te.yield %0 : f32
      } : tensor<4x8xf32>
      te.return %y : tensor<4x8xf32>
    }"""
    assert record_of_task(some_task(kernel=kernel), SPACE[0], ran(1.0), "llvm") is None


def test_types_that_mlc_does_not_map() -> None:
    args = [["TENSOR", [8, 16], "int8"], ["TENSOR", [32, 16], "int8"], None, "int32"]
    record = TvmRecord("llvm", "dense_pack.x86", args, RECORDS[8].entities, 0, (1.0,))  # pyright: ignore[reportArgumentType] JSON
    with pytest.raises(UserError, match="expected a task of float32, but got one of int8"):
        task_of_record(record)


def test_a_log_gives_hints_and_a_database_gives_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, log = tmp_path / "r.db", tmp_path / "t.log"
    other = RECORDS[0].text.replace("conv2d_NCHWc.x86", "conv2d_transpose_nchw.x86")
    log.write_text(f"# two lines\n{RECORDS[0].text}\n{RECORDS[1].text}\n{other}\n")
    assert run(["records", "import", str(path), str(log), "--target", TARGET]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{log}: 2 records new\n"
    assert "records of conv2d_transpose_nchw.x86 are left out" in captured.err
    with Database(path) as database:
        first, second = database.tasks()
        assert database.results(first) == [], "TVM's seconds are no measurement of mlc's kernel"
        assert database.fastest(first) is None
        assert [dict(values)["tile_rows"] for values in database.hints(second)] == [14]
        (hint,) = database.hints(first)
        assert database.lease(first, hint, 60), "a hint is still to be measured"
        database.add(first, hint, ran(1.5e-3, at=7.0))
    assert run(["records", "export", str(path), "--tvm", "llvm -mcpu=skylake-avx512"]) == 0
    (line,) = parse_log(capsys.readouterr().out)
    assert (line.task, line.args, line.costs) == (RECORDS[0].task, RECORDS[0].args, (1.5e-3,))
    assert tiles_of(line) == tiles_of(RECORDS[0])
