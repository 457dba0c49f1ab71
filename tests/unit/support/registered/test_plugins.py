"""The search for installed distributions with entry points of mlc's."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from mlc.support.registered.plugins import entry_points, plugins, plugins_key, version_of


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


def test_the_version_of_a_distribution(site: Path) -> None:
    install(site / "a", "Some.Name", "1.5+cpu", "")
    install(site / "b", "some_name", "9", "")
    install(site / "b", "other", "2", "", "egg-info")
    assert version_of("some-name") == version_of("Some_Name") == "1.5+cpu"
    assert version_of("other") == "2"
    assert version_of("absent") == "?"


def test_versions_are_those_of_importlib() -> None:
    for name in ("xdsl", "llvmlite", "ml_dtypes", "typing-extensions"):
        assert version_of(name) == metadata.version(name)


def test_a_distribution_in_an_archive(site: Path) -> None:
    install(site / "x", "packed", "1", "[mlc.dialects]\nd = packed:D\n")
    with zipfile.ZipFile(site / "a", "w") as archive:
        for path in (site / "x").rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(site / "x"))
    assert [(p.name, p.version) for p in plugins()] == [("packed", "1")]


def test_without_any_the_key_is_empty(site: Path) -> None:
    assert (plugins(), plugins_key()) == ((), "")
