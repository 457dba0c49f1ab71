"""Nothing is left where temporary files are, however a compilation ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_model

import mlc
from mlc.support import scratch

# A linker that says that it runs, and never comes to an end.
STUCK = """#!/bin/sh
echo $$ > "$STARTED.part" && mv "$STARTED.part" "$STARTED"
exec sleep 600
"""
PYTHON = "import sys, mlc; mlc.compile(sys.argv[1], threads=1, cache=False)"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files, and a linker that gets stuck."""
    place = tmp_path / "tmp"
    place.mkdir()
    (tmp_path / "stuck").write_text(STUCK)
    (tmp_path / "stuck").chmod(0o755)
    for name, value in {"TMPDIR": place, "CC": tmp_path / "stuck", "STARTED": tmp_path / "started"}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    scratch.sweep.cache_clear()
    return place


def killed(number: signal.Signals, words: list[str], started: Path) -> int:
    """The exit status of a compilation that gets a signal while the linker runs."""
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not started.exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    status = process.wait(60)
    try:
        os.kill(int(started.read_text()), signal.SIGKILL)
    except ProcessLookupError:
        pass
    return status


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGHUP, -signal.SIGHUP), (signal.SIGINT, 130)]
)
def test_a_compilation_that_is_stopped_leaves_nothing(place: Path, tmp_path: Path, number: signal.Signals, status: int):
    model = small_model.write(tmp_path)
    words = ["-m", "mlc.tools.cli", "compile", str(model), "--threads", "1", "--no-cache", "-o", str(tmp_path / "m.so")]
    assert killed(number, words, tmp_path / "started") == status
    assert list(place.iterdir()) == []
    assert not [p for p in tmp_path.iterdir() if p.suffix in (".so", ".h") or p.name.startswith("mlc.")]


def test_a_cached_compilation_that_is_stopped_leaves_no_draft(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    code = PYTHON.replace(", cache=False", "")
    assert killed(signal.SIGTERM, ["-c", code, str(small_model.write(tmp_path))], tmp_path / "started") == -15
    assert list((tmp_path / "cache" / "models").iterdir()) == []
    assert list(place.iterdir()) == []


def test_what_sigkill_leaves_goes_with_the_next_compilation(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = small_model.write(tmp_path)
    assert killed(signal.SIGKILL, ["-c", PYTHON, str(model)], tmp_path / "started") == -signal.SIGKILL
    left = list(place.iterdir())
    assert any((path / "weights.bin").exists() for path in left)
    monkeypatch.delenv("CC")
    exe = mlc.compile(model, threads=1, cache=False)
    assert [path for path in left if path.exists()] == []
    assert exe.artifact.path.exists()
    del exe
    assert list(place.iterdir()) == []


def test_directories_of_the_living_stay(place: Path):
    mine = scratch.make_scratch(place)
    other = place / "mlc.1.0.abcdef"  # of another container: only its lock tells that its owner lives
    other.mkdir()
    process = subprocess.Popen(["flock", str(other), "cat"], stdin=subprocess.PIPE)
    while subprocess.run(["flock", "-n", str(other), "true"]).returncode == 0:
        time.sleep(0.01)
    scratch.sweep.cache_clear()
    scratch.sweep(place)
    assert mine.exists()
    assert other.exists()
    process.communicate()
    scratch.sweep.cache_clear()
    scratch.sweep(place)
    assert mine.exists()
    assert not other.exists()
    scratch.remove_scratch(mine)
    assert list(place.iterdir()) == []


def test_a_handler_of_the_program_stays(place: Path):
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with scratch.scratch_directory() as directory:
            os.kill(os.getpid(), signal.SIGTERM)
            assert directory.exists()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_forked_process_leaves_the_directory_to_its_parent(place: Path):
    directory = scratch.make_scratch(place)
    pid = os.fork()
    if pid == 0:
        scratch.remove_scratch(directory)
        os._exit(0)
    os.waitpid(pid, 0)
    assert directory.exists()
    scratch.remove_scratch(directory)
    assert not directory.exists()
