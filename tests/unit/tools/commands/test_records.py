"""mlc records: what each action prints and does, and the package of records that mlc.compile finds when installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tuning_records import (
    SPACE,
    dense_model,
    failed,
    keep,
    opened,
    ran,
    some_task,
    strategies_of,
    tasks_of,
)

import mlc
from mlc.support.errors import UserError
from mlc.support.records import packages
from mlc.tools.cli import run
from mlc.tuning.records.context import snapshot_of_json
from mlc.tuning.records.database import Database
from mlc.tuning.records.package import write_package
from mlc.tuning.records.record import Comparison

TASK = some_task()


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database of four measurements of two kernels, one of which failed; one is a winner."""
    monkeypatch.setattr("mlc.schedules.registry.strategy_version", lambda name: "3" if name == "rows" else "1")
    path = tmp_path / "r.db"
    with opened(path) as found:
        found.add(TASK, SPACE[3], ran(2e-6, at=1.0))
        found.add(TASK, SPACE[0], ran(1e-6, at=2.0))
        found.add(TASK, SPACE[1], failed(at=3.0))
        found.add(some_task("conv_77", "another"), SPACE[74], ran(4e-6, at=4.0))
        found.keep(TASK, SPACE[0], Comparison(1e-6, 2e-6, 1.9, 2.1, 20))
    return str(path)


def test_off_a_terminal_there_is_one_line_a_record(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "list", database]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["dense_1234", "2", "matmul", "2e-06", "", "tile=1x8 unroll=0"],
        ["dense_1234", "2", "matmul", "1e-06", "2.00 (1.90 to 2.10)", "tile=1x1 unroll=0"],
        ["dense_1234", "2", "matmul", "", "run timeout", "tile=1x2 unroll=0"],
        ["conv_77", "2", "rows", "4e-06", "", "lanes=16"],
    ]
    assert run(["records", "best", database]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        ["dense_1234", "2", "matmul", "1e-06", "4.1", "2.00 (1.90 to 2.10)", "tile=1x1 unroll=0"],
        ["conv_77", "2", "rows", "4e-06", "1.0", "not checked", "lanes=16"],
    ]
    assert run(["records", "best", database, "--kernel", "conv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_a_terminal_gets_a_table_of_its_width(
    database: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["records", "list", database]) == 0
    text = re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out)  # without the colours
    assert "kernel" in text
    assert "run timeout" in text
    assert max(map(len, text.splitlines())) <= 80


def test_export_import_and_merge(database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, other = str(tmp_path / "r.jsonl"), str(tmp_path / "other.db")
    assert run(["records", "export", database, "-o", lines]) == 0
    assert "4 records" in capsys.readouterr().out
    assert run(["records", "import", other, lines]) == 0
    assert capsys.readouterr().out == f"{lines}: 5 records new\n", "four measurements and a winner"
    assert run(["records", "export", other]) == 0
    assert capsys.readouterr().out == Path(lines).read_text()
    assert run(["records", "merge", other, database]) == 0
    assert capsys.readouterr().out == f"{database}: 0 records new\n"
    assert run(["records", "export", database, "--kept"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3, "a task, its winner's measurement, the check"


def test_prune(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["records", "prune", database, "--keep", "1"]) == 0
    assert capsys.readouterr().out == f"{database}: removed 2 records, 2 left\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["list", "no.db"], "no.db: expected a database of records; `mlc tune MODEL --records no.db` makes one"),
        (["prune", "no.db"], "no.db: expected a database of records"),
        (["list", "."], "expected a database of records, but got the directory ."),
        (["list"], "the following arguments are required: DB"),
        (["prune", "no.db", "--keep", "0"], "expected a number from 1, but got '0'"),
        (["import", "new.db", "no.jsonl"], "no.jsonl: No such file or directory"),
        ([], "the following arguments are required: ACTION"),
    ],
)
def test_a_wrong_command_line(
    line: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["records", *line]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_compile_takes_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = dense_model(tmp_path / "m.onnx", (64, 96))
    keep(tmp_path / "r.db", tasks_of(model)[0])
    command = ["compile", str(model), "--emit", "te", "--threads", "1"]
    assert run([*command, "--records", str(tmp_path / "r.db")]) == 0
    assert 'strategy = "contraction"' in capsys.readouterr().out
    assert run([*command, "--no-records"]) == 0
    assert 'strategy = "matmul"' in capsys.readouterr().out
    assert run([*command, "--records", str(tmp_path / "no.db")]) == 1
    assert "expected a database of records" in capsys.readouterr().err
    assert run([*command, "--no-records", "--records", "r.db"]) == 1
    assert "expected --records or --no-records, but got both" in capsys.readouterr().err


def test_an_installed_package_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    model = dense_model(tmp_path / "m.onnx", (64, 96))
    before = mlc.compile(model, threads=1)
    assert strategies_of(before) == ["matmul"]
    keep(tmp_path / "r.db", tasks_of(model)[0])
    assert run(["records", "package", str(tmp_path / "r.db"), "-o", str(tmp_path / "p"), "--name", "my-records"]) == 0
    site = tmp_path / "site"
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    subprocess.run([sys.executable, *install, str(tmp_path / "p")], check=True, env={**os.environ, "PIP_NO_INPUT": "1"})
    monkeypatch.syspath_prepend(str(site))
    assert len(packages()) == 1
    tuned = mlc.compile(model, threads=1)
    assert strategies_of(tuned) == ["contraction"]
    assert mlc.compile(model, threads=1).artifact.path == tuned.artifact.path
    assert strategies_of(mlc.compile(model, threads=1, records=False)) == ["matmul"]
    assert strategies_of(mlc.compile(model, threads=2)) == ["matmul"], "the key has the number of threads"
    keep(tmp_path / "own.db", tasks_of(model)[0], "matmul")
    with mlc.records(tmp_path / "own.db"):
        assert strategies_of(mlc.compile(model, threads=1)) == ["matmul"], "a context is asked before a package"


def test_what_cannot_be_packaged(tmp_path: Path) -> None:
    with Database(tmp_path / "r.db") as database:
        database.add(TASK, SPACE[0], ran(1.0))
    with pytest.raises(UserError, match="expected at least one record that passed the paired check"):
        write_package(tmp_path / "r.db", tmp_path / "p", "my-records")
    keep(tmp_path / "r.db", TASK)
    with pytest.raises(UserError, match="expected a name of letters, digits and hyphens, but got 'my records'"):
        write_package(tmp_path / "r.db", tmp_path / "p", "my records")
    with pytest.raises(UserError, match="expected a new or empty directory"):
        write_package(tmp_path / "r.db", tmp_path, "my-records")


def test_the_shipped_package_installs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = Path(__file__).parents[4] / "examples" / "records"
    shutil.copytree(examples / "package", tmp_path / "p")
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run([sys.executable, *install, str(tmp_path / "site"), str(tmp_path / "p")], check=True)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    (found,) = packages()
    text = (examples / "package" / "small_convolutions" / "records.json").read_text()
    table = snapshot_of_json(text, "shipped").table
    assert len(table) == 2
    for key, entry in table.items():
        assert found.answer(key)
        assert found.best(*key) == entry.values or "tune again" in found.note("", key)
    model = dense_model(tmp_path / "m.onnx", (64, 96))
    asked = mlc.compile(model, target="x86-64-v3", threads=1, cache=False).report["records"]
    assert {row["target"] for row in asked} == {key[1] for key in table}, "its target is that of a compilation"
