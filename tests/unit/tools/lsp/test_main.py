"""The command `mlc-lsp`: what it says before it serves."""

import importlib.util

import pytest

from mlc.tools.lsp import main as lsp


def test_without_pygls_the_remedy_is_said(monkeypatch, capsys):
    monkeypatch.setattr(lsp, "find_spec", lambda name: None)
    assert lsp.main([]) == 1
    wanted = "mlc-lsp: error: expected pygls to be installed, which mlc-lsp needs; run: pip install 'mlc[lsp]'\n"
    assert capsys.readouterr().err == wanted


def test_a_file_that_cannot_be_loaded_is_named(monkeypatch, capsys):
    monkeypatch.setattr(lsp, "find_spec", lambda name: importlib.util.find_spec("re"))
    assert lsp.main(["--load", "/nowhere/mine.py"]) == 1
    assert capsys.readouterr().err == "/nowhere/mine.py: error: cannot load the file: no such file\n"


def test_an_unknown_option_is_one_line(capsys):
    with pytest.raises(SystemExit) as stop:
        lsp.main(["--lod", "mine.py"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "mlc-lsp: error: unrecognized arguments: --lod mine.py\n"
