"""The documentation says what is so: pages made from docstrings are current, and the code on the others runs."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
FOLDERS = (DOCS, DOCS / "course", DOCS / "tutorials")
WRITTEN = [*(page for folder in FOLDERS for page in sorted(folder.glob("*.md"))), ROOT / "README.md"]
REMEDY = "run `python docs/generate.py` and read the difference"


def load(name: str):
    sys.path.insert(0, str(DOCS))
    try:
        spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(DOCS))


blocks = load("blocks")
operators = load("operators")
generate = load("generate")


def test_dialect_pages_are_current():
    for name, text in generate.pages().items():
        assert (generate.PAGES / name).read_text() == text, f"docs/dialects/{name} is out of date: {REMEDY}"


def test_the_page_of_supported_ops_is_current():
    assert generate.OPERATORS.read_text() == operators.page(), f"docs/operators.md is out of date: {REMEDY}"
    assert operators.untested() == []


def test_every_op_is_documented():
    text = "".join(generate.pages().values())
    for name in ("graph.conv2d", "te.compute", "sched.split", "loop.fma", "llvm_ext.masked_load", "runtime.call"):
        assert f"\n## `{name}`\n\n" in text
    assert not re.search(r"^## `.*`\n\n(#|- |\Z)", text, re.MULTILINE), "an op without a docstring"


@pytest.mark.parametrize("page", [*generate.WITH_COMMANDS, *generate.TUTORIALS], ids=lambda page: page.stem)
def test_the_code_on_a_page_runs(page, tmp_path, monkeypatch):
    if missing := generate.lacking(page):
        pytest.skip(missing)
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "page"
    folder.mkdir()
    text, differences = blocks.run_page(page.read_text(), folder)
    assert not differences, f"{REMEDY}\n" + "\n".join(map(str, differences))
    assert text == page.read_text()


def test_a_page_says_what_is_missing(monkeypatch, tmp_path):
    pages = [page for page in generate.TUTORIALS if page.stem == "6-blas"]
    monkeypatch.setattr("numpy.__file__", str(tmp_path / "numpy" / "__init__.py"))
    assert [generate.lacking(page) for page in pages] == [
        "numpy has no OpenBLAS of its own here: its wheels from PyPI have one, in numpy.libs"
    ]


@pytest.mark.parametrize("page", generate.TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_draws_its_steps_beside_numpy(page):
    pictures = re.findall(r"!\[time by step\]\((\w+\.svg)\)", page.read_text())
    assert pictures
    for name in pictures:
        assert ">numpy</text>" in (page.parent / name).read_text()


def test_the_code_on_the_page_of_onednn_runs(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("onednn", ROOT / "examples" / "byoc" / "onednn" / "onednn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.find() is None:
        pytest.skip("oneDNN 3 is not installed: onednn-devel-cpu-gomp, onednn-cpu-gomp")
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    _, differences = blocks.run_page((DOCS / "onednn.md").read_text(), tmp_path)
    assert not differences, "\n".join(map(str, differences))


def test_the_code_of_the_course_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "course"
    folder.mkdir()
    assert len(generate.COURSE) == 8
    for page in generate.COURSE:
        if generate.lacking(page):
            continue
        text, differences = blocks.run_page(page.read_text(), folder)
        assert not differences, f"{page.name}: {REMEDY}\n" + "\n".join(map(str, differences))
        assert text == page.read_text()


def test_a_wrong_page_is_noticed(tmp_path):
    page = "```python hi.py\nprint(1 + 1)\n```\n```console\n$ python hi.py\n3\n```\n```python\nraise ValueError\n```\n"
    text, differences = blocks.run_page(page, tmp_path)
    assert [one.got for one in differences][:1] == ["2\n"]
    assert "ValueError" in differences[1].got
    assert text == page.replace("\n3\n", "\n2\n")


@pytest.mark.parametrize(
    ("expected", "output", "same"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n  ...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("(a*)\n", "(a*)\n", True),
    ],
)
def test_lines_may_be_left_out(expected, output, same):
    assert blocks.matches(expected, output) is same


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
