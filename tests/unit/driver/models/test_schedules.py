"""The schedules of a model's kernels: written out, edited, handed back, and refused where they do not fit."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_model

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.kernels.workers import run_jobs
from mlc.driver.models import kernels
from mlc.driver.models.schedules import Schedules, place_of
from mlc.schedules.summary import summary_of
from mlc.support.errors import UserError
from mlc.tools import cli

TILED = """{{
  %dense = sched.block "dense" : !sched.block
  %i, %j, %k = sched.loops %dense : 3
  // {rows} rows of the weight, sched.split's factor
  %jo, %ji = sched.split %j [?, {rows}]
  %ko, %ki = sched.split %k [?, 16]
  sched.reorder %i, %jo, %ko, %ji, %ki
  %init, %update = sched.decompose_reduction %dense at %ko
  sched.vectorize %ji, %ki
}}
"""
SPLIT = "sched.split %j [?, 8]"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A weight that is an input is not packed: the kernel stays as it is written.
    text = small_model.ONE_TEXT.replace("\n  %w = graph.param", "\n  // ").replace(
        '{graph.name = "x"})', '{graph.name = "x"}, %w: tensor<32x64xf32> {graph.name = "w"})'
    )
    return small_model.write(tmp_path_factory.mktemp("model"), text)


@pytest.fixture
def dumped(model: Path, tmp_path: Path) -> Path:
    assert cli.run(["compile", str(model), "--threads", "1", "--dump-schedules", str(tmp_path / "by_hand")]) == 0
    return tmp_path / "by_hand"


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "schedules-cache"))


def edit(directory: Path, change: Callable[[str], str]) -> Path:
    (path,) = directory.glob("*.mlir")
    path.write_text(change(path.read_text()))
    return path


def tiled(rows: int) -> Callable[[str], str]:
    return lambda text: re.sub(r"(sched\.schedule @\w+).*\Z", rf"\1 {TILED.format(rows=rows)}", text, flags=re.DOTALL)


def test_the_dump_holds_the_kernel_and_its_schedule(dumped: Path):
    (path,) = dumped.glob("*.mlir")
    text = path.read_text()
    pieces = ["// Edit the sched.schedule", f"te.func @{path.stem}(", "te.compute ", "te.return", "sched.schedule @"]
    places = [text.index(piece) for piece in (*pieces, "sched.block ")]
    assert places == sorted(places)
    te_func, schedule = parse_module(text).body.block.ops
    assert (te_func.name, schedule.name) == ("te.func", "sched.schedule")


@pytest.mark.parametrize("rows", [4, 8])
def test_an_edited_schedule_changes_the_code_and_not_the_values(
    model: Path, dumped: Path, capsys: pytest.CaptureFixture[str], rows: int
):
    edit(dumped, tiled(rows))
    words = ["compile", str(model), "--threads", "1", "--schedules", str(dumped), "--emit", "loop"]
    capsys.readouterr()
    assert cli.run(words) == 0
    assert re.search(rf"loop.fma .* : .*vector<{rows}x16xf32>$", capsys.readouterr().out, re.MULTILINE)
    exe = mlc.compile(model, threads=1, schedules=dumped)
    given = {name: small_model.inputs()["x"] if name == "x" else small_model.weights()[name] for name in ("x", "w")}
    np.testing.assert_allclose(exe(given)["out"], np.maximum(given["x"] @ given["w"].T, 0), rtol=1e-5, atol=1e-5)
    assert exe.profile(given)[0].schedule == f"by hand: dense {rows}x16"


def test_a_schedule_by_hand_is_validated_like_any_other(model: Path, dumped: Path):
    edit(dumped, tiled(8))
    mlc.compile(model, threads=1, schedules=dumped, validate_each=True)


def test_what_was_dumped_gives_the_same_code(model: Path, dumped: Path):
    objects = [mlc.compile(model, threads=1, schedules=where).artifact.objects() for where in (None, dumped)]
    assert objects[0] == objects[1]


def test_the_files_are_part_of_the_key(model: Path, dumped: Path):
    def place() -> Path:
        return mlc.compile(model, threads=1, schedules=dumped).artifact.path

    first = place()
    assert place() == first != mlc.compile(model, threads=1).artifact.path
    edit(dumped, tiled(8))
    assert place() != first


def test_only_the_kernels_with_a_file_are_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, directory = small_model.write(tmp_path), tmp_path / "by_hand"
    mlc.compile(path, threads=1)
    assert cli.run(["compile", str(path), "--threads", "1", "--dump-schedules", str(directory)]) == 0
    first, *others = sorted(directory.glob("*.mlir"))
    assert others
    for other in others:
        other.unlink()
    compiled: list[str] = []

    def recording(jobs: Any, workers: int | None = None, meanwhile: Any = None) -> list[bytes]:
        compiled.extend(job.name for job in jobs)
        return run_jobs(jobs, workers, meanwhile=meanwhile)

    monkeypatch.setattr(kernels, "run_jobs", recording)
    mlc.compile(path, threads=1, schedules=directory)
    assert compiled == [first.stem, "main"]  # @main is compiled among the kernels


def test_a_file_that_was_handed_in_is_dumped_as_it_is(model: Path, dumped: Path, tmp_path: Path):
    path = edit(dumped, tiled(8))
    words = ["--threads", "1", "--schedules", str(dumped), "--dump-schedules", str(tmp_path / "again")]
    assert cli.run(["compile", str(model), *words]) == 0
    assert (tmp_path / "again" / path.name).read_text() == path.read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("te.func @", "te.func @x"), "expected the kernel and the schedule of @"),
        (("arith.mulf", "arith.addf"), "expected the te.func of the model as it is now, with `%2 = arith.mulf"),
        (("sched.vectorize", "sched.vectorise"), "operation 'sched.vectorise' is not registered; did you mean"),
        (("sched.schedule @", "te.func @f() { te.return }\nsched.schedule @"), "expected one te.func and one sched"),
        ((SPLIT, "sched.split %j [3, 8]"), "sched.split: expected factors that cover the 32 iterations of"),
        (("sched.vectorize %ji, %ki", "sched.vectorize %ki, %ji"), "sched.vectorize: expected loops directly"),
        (('block "dense"', 'block "conv"'), "sched.block: expected the name of a block of"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(model: Path, dumped: Path, change: tuple[str, str], message: str):
    edit(dumped, tiled(8))
    path = edit(dumped, lambda text: text.replace(*change))
    with pytest.raises(UserError) as error:
        mlc.compile(model, threads=1, schedules=dumped)
    text = path.read_text()
    line = text[: text.index(change[1])].count("\n") + 1
    place = f"{path}:{line}:" if message.startswith("sched.") else str(path)
    assert re.search(rf"{re.escape(place)}.*{re.escape(message)}", str(error.value))


def test_a_file_of_no_kernel_is_refused_with_the_nearest_name(model: Path, dumped: Path):
    (path,) = dumped.glob("*.mlir")
    path.rename(dumped / f"{path.stem}x.mlir")
    with pytest.raises(UserError, match=rf"{path.stem}x.mlir: expected a file named .*; did you mean '{path.stem}'\?"):
        mlc.compile(model, threads=1, schedules=dumped)


def test_a_directory_without_schedules_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UserError, match=r"expected at least one \.mlir file"):
        mlc.compile(model, schedules=tmp_path)
    with pytest.raises(UserError, match="expected a directory of schedules; write one with"):
        mlc.compile(model, schedules=tmp_path / "none")
    (tmp_path / "k.mlir").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="invalid start byte"):
        mlc.compile(model, schedules=tmp_path)
    mlc.compile(model, threads=1).save(tmp_path / "saved")
    assert cli.run(["run", str(tmp_path / "saved"), "--schedules", str(tmp_path)]) == 1
    assert "expected a model file to compile with --schedules" in capsys.readouterr().err


def test_the_place_of_a_directive():
    block = '%b = sched.block "x" : !sched.block // sched.split'
    text = f"te.func @f() {{}}\nsched.schedule @f {{\n  {block}\n\n  sched.parallel %b\n}}"
    assert [place_of(text, index) for index in range(2)] == ["3:8", "5:3"]


SUMMED = """
te.func @f(%a: tensor<60x64xf32>) -> tensor<60xf32> {{
  %y = te.compute "y" (%i : 60) reduce (%k : 64) sum {{
    %0 = te.read %a[%i, %k] : f32
    te.yield %0 : f32
  }} : tensor<60xf32>
  te.return %y : tensor<60xf32>
}}
sched.schedule @f {{
  %y = sched.block "y" : !sched.block
  %i, %k = sched.loops %y : 2
  {}
}}
"""


@pytest.mark.parametrize(
    ("directives", "summary"),
    [
        ("", "default"),
        ("sched.vectorize %k", "default: y 64"),
        (
            "%o, %j = sched.split %i [?, 16]\n sched.parallel %o\n sched.vectorize %j, %k",
            "default: y 16x64, parallel 4",
        ),
        ("%o, %p, %j, %l = sched.tile %i, %k [7, 16]\n sched.parallel %o\n sched.vectorize %j, %l", None),
        ('%t = sched.knob "t" [4, 8] default 8\n %o, %j = sched.split %k [?, %t]\n sched.vectorize %j', "default: y 8"),
        ("%f = sched.fuse %i, %k\n sched.parallel %f", "default: parallel 3840"),
    ],
)
def test_the_summary_of_a_schedule(directives: str, summary: str | None):
    expected = summary or "default: y 7x16, parallel 9"
    assert summary_of(parse_module(SUMMED.format(directives))) == expected


def test_schedules_are_read_once(dumped: Path):
    schedules = Schedules.read(dumped)
    assert schedules is not None
    key = schedules.key()
    edit(dumped, tiled(8))
    again = Schedules.read(dumped)
    assert again is not None
    assert schedules.key() == key != again.key()
