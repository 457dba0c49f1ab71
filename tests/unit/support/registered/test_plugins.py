"""The search for installed distributions with entry points of mlc's."""

import sys
import zipfile
from pathlib import Path

import pytest

from mlc.support.registered.plugins import entry_points, plugins, plugins_key


def install(site: Path, name: str, version: str, points: str, kind: str = "dist-info") -> None:
    info = site / f"{name}-{version}.{kind}"
    info.mkdir(parents=True)
    metadata = info / ("METADATA" if kind == "dist-info" else "PKG-INFO")
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(points)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(tmp_path / "a"), str(tmp_path / "b")])
    return tmp_path


def test_only_those_of_mlc_are_found(site: Path) -> None:
    install(site / "a", "Other_One", "3", "[console_scripts]\nmlc.x = a:b\n")
    install(site / "a", "First.One", "1.5", "[console_scripts]\nx = a:b\n\n[mlc.passes]\nmy-pass = first:Pass\n")
    install(site / "b", "first-one", "9", "[mlc.passes]\nmy-pass = hidden:Pass\n")
    install(site / "b", "second", "2", "[mlc.strategies]\nfast = second:fast\n", "egg-info")
    assert [(p.name, p.version) for p in plugins()] == [("first-one", "1.5"), ("second", "2")]
    assert {name: point.value for name, point in entry_points("mlc.passes").items()} == {"my-pass": "first:Pass"}
    assert list(entry_points("mlc.strategies")) == ["fast"]
    assert "console_scripts" not in plugins_key()
    assert "first-one 1.5" in plugins_key()


def test_a_distribution_in_an_archive(site: Path) -> None:
    install(site / "x", "packed", "1", "[mlc.dialects]\nd = packed:D\n")
    with zipfile.ZipFile(site / "a", "w") as archive:
        for path in (site / "x").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(site / "x"))
    assert [(p.name, p.version) for p in plugins()] == [("packed", "1")]


def test_without_any_the_key_is_empty(site: Path) -> None:
    assert (plugins(), plugins_key()) == ((), "")
