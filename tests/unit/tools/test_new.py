"""`mlc new`: what it writes passes its own tests, lint included, and wrong names are refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlc.tools import cli
from mlc.tools.new.project import KINDS, LEVELS, TEMPLATES, write_project

ROOT = Path(__file__).parents[3]
WAYS = [("pass", level) for level in LEVELS] + [(kind, "graph") for kind in KINDS if kind != "pass"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, *words: str) -> str:
    """The output of a Python module's command that must succeed, with mlc on Python's path and nothing installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("kind", "level"), WAYS)
def test_what_is_written_is_green(here: Path, kind: str, level: str) -> None:
    folder = here / "some where"
    files = write_project(kind, "shrink-it2", level, folder)
    assert len(files) >= 8
    assert "Failed" not in run(folder, "lit.main", "-v", "tests")
    assert " passed" in run(folder, "pytest", "-q", "-W", "error::DeprecationWarning")
    assert "All checks passed" in run(folder, "ruff", "check", "--select", "B,E,F,I,UP,W")
    run(folder, "ruff", "format", "--check")


@pytest.mark.parametrize(("kind", "level"), WAYS)
def test_no_word_of_the_template_is_left(here: Path, kind: str, level: str) -> None:
    for file in write_project(kind, "shrink_it", level):
        text = str(file) + file.read_text()
        assert not any(word in text.lower() for word in ("example", ".tmpl", "my_place"))
    assert (here / "shrink_it" / "pyproject.toml").is_file()
    assert (here / "shrink_it" / "shrink_it" / "__init__.py").is_file()


def test_every_template_is_of_a_kind() -> None:
    parts = {path.name for path in TEMPLATES.iterdir()}
    assert parts == {"common", *KINDS, *(f"pass-{level}" for level in LEVELS)}


def test_the_command_says_what_comes_next(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["new", "pass", "my-thing", "--level", "te", "-o", "there"]) == 0
    out = capsys.readouterr().out
    assert "wrote there/my_thing/rewrite.py" in out
    assert out.endswith("next: cd there && pip install -e '.[test]' && make test\n")
    assert "te.ComputeOp" in (here / "there" / "my_thing" / "rewrite.py").read_text()
    assert "'after te-inline=my-thing'" in (here / "there" / "README.md").read_text()


def test_the_name_of_a_pass_may_say_its_level(here: Path) -> None:
    write_project("pass", "loop-thing")
    assert "loop.ForOp" in (here / "loop-thing" / "loop_thing" / "rewrite.py").read_text()
    write_project("pass", "other-loop")
    assert "AbsOp" in (here / "other-loop" / "other_loop" / "rewrite.py").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["pass", "MyThing"], "of small letters, digits, '-' and '_', but got 'MyThing'; did you mean 'my-thing'?"),
        (["pass", "../x"], "of small letters, digits, '-' and '_', but got '../x'"),
        (["pass", "2fast"], "expected a name that begins with a letter, but got '2fast'"),
        (["pass", "a--b"], "with one '-' or '_' between two words, none last, but got 'a--b'; did you mean 'a-b'?"),
        (["pass", "class"], "expected a name that Python modules may have, but got 'class'"),
        (["pass", "json"], "expected the name of a new Python module, but 'json'"),
        (["op", "numpy"], "expected the name of a new Python module, but 'numpy'"),
        (["pass", "te-inline"], "expected a new pass name, but 'te-inline' is a pass already"),
        (["dialect", "graph"], "expected a new dialect name, but 'graph' is a dialect already"),
        (["dialect", "arith"], "expected a new dialect name, but 'arith' is a dialect already"),
        (["backend", "znver4"], "expected a new target name, but 'znver4' is a target already"),
        (["op", "there"], "expected a new folder, but 'there' exists; give another with -o DIR"),
        (["pass", "loop-x", "--level", "te"], "a pass of the te level, but 'loop-x' begins with another level's"),
        (["op", "thing", "--level", "te"], "expected --level with 'pass' only, but got it with 'op'"),
        (["opp", "thing"], "invalid choice: 'opp'"),
    ],
)
def test_what_cannot_be_written_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    (here / "there").mkdir()
    assert cli.run(["new", *words]) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("\n") == 1
    assert [path.name for path in here.iterdir()] == ["there"]
