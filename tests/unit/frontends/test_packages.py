"""The packages of frontends/: what both share imports neither, and neither imports the other."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3] / "frontends"
BANNED = {
    "common": ("onnx", "torch", "mlc.frontends.onnx", "mlc.frontends.torch"),
    "onnx": ("torch", "mlc.frontends.torch"),
    "torch": ("onnx", "mlc.frontends.onnx"),
    "te": ("onnx", "torch", "mlc.frontends.onnx", "mlc.frontends.torch"),
}


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize("package", BANNED)
def test_a_frontend_imports_only_what_is_shared(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    for path in files:
        wrong = [n for n in _imports(path) if any(n == b or n.startswith(f"{b}.") for b in BANNED[package])]
        assert not wrong, f"{path}: {wrong}"


def test_the_table_names_every_package():
    assert {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()} == set(BANNED)
