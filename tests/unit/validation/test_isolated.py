"""Functions in child processes: values, exceptions, deaths, notes."""

import ctypes
import os
import signal
import sys

import pytest

from mlc.validation.isolated import Note, isolated, quiet


def test_a_value_comes_back_and_changes_do_not():
    kept = [1]
    assert isolated(lambda: kept.append(2) or list(kept)).value == [1, 2]
    assert kept == [1]


def test_an_exception_has_its_text():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        isolated(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("run", "died"),
    [
        (lambda: ctypes.string_at(0), "SIGSEGV"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os._exit(3), "exit code 3"),
    ],
)
def test_a_death_is_told(run, died):
    assert isolated(run).died == died


def test_what_never_ends_is_ended():
    def spin():
        while True:
            pass

    assert isolated(spin, seconds=0.2).died == "timeout"


def test_a_note_outlives_its_writer():
    note = Note()

    def run():
        note.write("a long line before")
        note.write("last words")
        os._exit(1)

    isolated(run)
    assert note.read() == "last words"


def test_nothing_is_printed_inside(capfd):
    with quiet():
        print("out")
        print("err", file=sys.stderr)
    assert capfd.readouterr() == ("", "")
