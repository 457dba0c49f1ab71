"""The page is one file, and nothing of a model is markup in it."""

import base64
import hashlib
import re
from pathlib import Path

import html_reports
import pytest
import small_model

from mlc.tools import cli
from mlc.tools.html.page import page_of


def mlc(*words: object) -> int:
    return cli.run([str(word) for word in words])


def test_names_of_a_model_are_no_markup():
    names = tuple(f"{html_reports.HOSTILE}{k}" for k in range(4))
    report = html_reports.report(html_reports.twins(names), name=html_reports.HOSTILE)
    assert any(html_reports.HOSTILE in source for call in report.calls for source in call.sources)
    page = page_of(report)
    assert html_reports.HOSTILE not in page
    assert "owned" not in re.sub(r"<title>.*</title>", "", page)
    assert "&lt;/script&gt;" in page.partition("</title>")[0]


def test_only_the_script_of_the_page_may_run(tmp_path: Path):
    page = page_of(html_reports.report(small_model.write(tmp_path)))
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    assert len(scripts) == 1
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert "{{" not in page.replace(scripts[0], "")
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page.replace(scripts[0], ""))
    assert "innerHTML" not in scripts[0]
    assert [url for url in re.findall(r"https?://[^\"' ]*", page) if url != "http://www.w3.org/2000/svg"] == []


def test_the_command_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, out = small_model.write(tmp_path), tmp_path / "report.html"
    assert mlc("inspect", path, "--html", out, "--no-profile", "--threads", 1) == 0
    assert re.match(
        r"wrote .*report.html: [\d.]+ KiB in [\d.]+ s; without times: --no-profile", capsys.readouterr().out
    )
    assert out.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--html", "report.txt"], "expected a FILE that ends in .html or .htm, but got 'report.txt'"),
        (
            ["--html", "nowhere/report.html"],
            "expected a FILE in a directory that exists, but got 'nowhere/report.html'",
        ),
        (["--html", "report.html", "--json"], "expected --json or --html, but got both"),
        (["--no-profile"], "expected --html FILE.html beside --no-profile"),
        (["--at", "x=4,64"], "expected --html FILE.html beside --at"),
    ],
)
def test_wrong_options(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str], words, message):
    path = small_model.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert mlc("inspect", path, *words) == 1
    assert message in capsys.readouterr().err


def test_a_directory_has_no_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert mlc("inspect", tmp_path, "--html", tmp_path / "x.html") == 1
    assert "expected a model file to compile with --html, but got the directory" in capsys.readouterr().err
