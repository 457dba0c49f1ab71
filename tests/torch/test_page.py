"""What docs/pytorch.md shows is what happens."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the tests of the PyTorch frontend need torch")

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_code_on_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    run_page = __import__("blocks").run_page
    sys.modules.pop("blocks")
    page = (DOCS / "pytorch.md").read_text()
    text, differences = run_page(page, tmp_path)
    assert not differences, "\n".join(map(str, differences))
    assert text == page
