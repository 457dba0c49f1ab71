"""`mlc tune --explain`: what a record changed, and the diagnostics of a kernel that has none."""

import pytest
from tuning_records import ran

from mlc import te
from mlc.support.errors import UserError
from mlc.tools import cli
from mlc.tuning.extract import candidate_module, task_of
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import Comparison
from mlc.tuning.session.explain import candidate_costs, explain, schedule_difference

N = 96
TEXT = f"""te.func @product(%a: tensor<{N}x{N}xf32>, %b: tensor<{N}x{N}xf32>) -> tensor<{N}x{N}xf32> {{
  %c = te.compute "c" (%i : {N}, %j : {N}) reduce (%k : {N}) sum {{
    %0 = te.read %a[%i, %k] : f32
    %1 = te.read %b[%k, %j] : f32
    %2 = arith.mulf %0, %1 : f32
    te.yield %2 : f32
  }} : tensor<{N}x{N}xf32>
  te.return %c : tensor<{N}x{N}xf32>
}}
"""


@pytest.fixture(scope="module")
def task():
    return task_of(TEXT, "x86-64-v4", threads=1)


@pytest.fixture
def path(tmp_path, task):
    with Database(tmp_path / "r.db") as database:
        database.add(task, task.space.default, ran(20e-6))
        database.add(task, {**task.space.default, "tile_rows": 4}, ran(16e-6))
    return tmp_path / "r.db"


def test_an_unchecked_record_is_told_as_such(task, path):
    lines = explain([task], path, "prod").splitlines()
    assert lines[0] == "product: 1 x 1.769 MFLOP, 1 thread"
    assert lines[1] == "not checked: 20 us by default, 16 us by the fastest candidate"


def test_a_kept_record_shows_knobs_tiles_registers_misses_and_the_difference(task, path):
    with Database(path) as database:
        database.keep(task, {**task.space.default, "tile_rows": 4}, Comparison(16e-6, 20e-6, 1.2, 1.3, 15))
    lines = explain([task], path, "product").splitlines()
    assert "1.25 times as fast (95 %: 1.20 to 1.30)" in lines[2]
    table = {line[:17].strip(): line[17:].split() for line in lines[3 : lines.index("")]}
    assert table["knob tile_rows"] == [str(task.space.default["tile_rows"]), "4"]
    default, record = map(int, table["vector registers"])
    assert record < default <= 32
    assert float(table["L1 misses (model)"][1]) > 0
    assert "+++ record" in lines
    assert any(line.startswith("+") and "[?, 4]" in line for line in lines)
    assert all(len(line) <= 80 for line in lines[: lines.index("")])


def test_the_default_differs_from_itself_in_nothing(task, path):
    assert schedule_difference(task, task.space.default) == []
    with Database(path) as database:
        database.keep(task, task.space.default, Comparison(1.0, 1.0, 1.0, 1.0, 15))
    assert explain([task], path, "product").splitlines()[-1] == "the record is the default schedule"


def test_a_smaller_tile_fetches_more_lines():
    """A panel of %b that does not fit L1 is fetched once for each tile of rows."""
    task = task_of(TEXT.replace("96", "512"), "x86-64-v4", threads=1)
    small, large = (
        candidate_costs(task, candidate_module(task, {**task.space.default, "tile_rows": rows})) for rows in (1, 8)
    )
    assert small.l1_misses > 3 * large.l1_misses
    assert small.registers < large.registers


def test_unknown_kernels_and_those_without_records_have_diagnostics(task, path, tmp_path):
    with pytest.raises(UserError, match=r"expected the name of a kernel of the model, but got 'produkt'.*'product'"):
        explain([task], path, "produkt")
    with Database(tmp_path / "empty.db"):
        pass
    with pytest.raises(UserError, match=r"expected a record of kernel 'product' in .*empty.db, but it has none"):
        explain([task], tmp_path / "empty.db", "product")


def test_the_command_explains_an_operator_in_a_file(task, path, tmp_path, capsys):
    (tmp_path / "product.mlir").write_text(TEXT)
    words = [str(tmp_path / "product.mlir"), "--records", str(path), "--target", "x86-64-v4", "--threads", "1"]
    assert cli.run(["tune", *words, "--explain", "product"]) == 0
    assert capsys.readouterr().out == explain([task], path, "product") + "\n"


def test_te_tensors_are_one_operator(tmp_path):
    from mlc.tuning.tune import is_operator

    a = te.placeholder((4,), name="a")
    assert is_operator([a, te.compute((4,), lambda i: a[i] + a[i], name="b")])
    assert is_operator(TEXT)
    assert not is_operator("model.onnx")
    assert not is_operator("func.func @main() { te.func }")
