"""The root folders are packages of mlc, in a checkout, in the lists of pyproject.toml, and in a wheel."""

import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = sorted(p.name for p in (ROOT / "mlc").iterdir() if p.is_symlink())
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def packages():
    """Every folder of Python files under the root folders."""
    return sorted({p.parent.relative_to(ROOT) for f in FOLDERS for p in (ROOT / f).rglob("*.py")})


def test_there_are_links():
    assert {"dialects", "passes", "lowering", "tools", "codegen", "runtime"} <= set(FOLDERS)
    for folder in FOLDERS:
        assert (ROOT / "mlc" / folder).readlink() == Path("..") / folder


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_root_folder_is_a_package_of_mlc(folder):
    module = import_module(f"mlc.{folder}")
    assert module.__file__ is not None, "a checkout without symbolic links"
    assert Path(module.__file__).resolve() == ROOT / folder / "__init__.py"


def test_every_folder_with_code_is_a_package():
    assert [p for p in packages() if not (ROOT / p / "__init__.py").exists()] == []


def test_the_lists_in_pyproject_name_every_link():
    tool = PYPROJECT["tool"]
    assert tool["basedpyright"]["include"] == ["mlc", *(f"mlc/{f}" for f in FOLDERS)]
    assert sorted(tool["coverage"]["run"]["source"]) == FOLDERS
    banned = tool["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert {name: entry["msg"] for name, entry in banned.items()} == {f: f"import mlc.{f}" for f in FOLDERS}


def test_the_version_is_stated_once():
    import mlc

    assert PYPROJECT["project"]["version"] == mlc.__version__


def test_the_scripts_exist():
    for name, target in PYPROJECT["project"]["scripts"].items():
        module, _, function = target.partition(":")
        assert callable(getattr(import_module(module), function)), name


def test_a_wheel_holds_every_module(tmp_path):
    # The build backend is called as pip would, without a build environment of its own and out of the tree.
    code = (
        "import os, sys; from setuptools import setup; sys.argv[1:] = "
        "['-q', 'egg_info', '-e', {0!r}, 'build', '-b', {0!r}, 'bdist_wheel', '-d', {0!r}]; setup()"
    ).format(str(tmp_path))
    pytest.importorskip("setuptools")
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = [p for f in FOLDERS for p in (ROOT / f).rglob("*.py")]
    missing = [str(p.relative_to(ROOT)) for p in modules if f"mlc/{p.relative_to(ROOT)}" not in names]
    assert missing == []
    assert "mlc/py.typed" in names
    assert {f"mlc/targets/machines/{path.name}" for path in (ROOT / "targets" / "machines").iterdir()} <= names
    assert {f"mlc/tools/html/page/{path.name}" for path in (ROOT / "tools" / "html" / "page").iterdir()} <= names
    templates = [p for p in (ROOT / "tools" / "new" / "templates").rglob("*") if p.is_file()]
    assert len(templates) > 40
    assert {f"mlc/{path.relative_to(ROOT)}" for path in templates} <= names
    assert not [n for n in names if not n.startswith("mlc")]
