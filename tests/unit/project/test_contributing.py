"""CONTRIBUTING.md names files that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATH = re.compile(r"(?<![\w/.-])((?:[\w-]+/)+[\w.-]*[\w-]*|[\w-]+\.(?:md|toml))(?![\w/])")


def paths() -> set[str]:
    """The paths in code, in links and in the commands; `a-to-b.mlir` stands for any conversion."""
    code = [
        *re.findall(r"`([^`\n]+)`", TEXT),
        *re.findall(r"\]\(([^)]+)\)", TEXT),
        *re.findall(r"^\S.*$", commands(), re.M),
    ]
    found = {match for text in code for match in PATH.findall(text)}
    return {path for path in found if not path.startswith((".venv/", "com.", "mlc/*"))}


def commands() -> str:
    return TEXT.split("```")[1]


def test_every_path_exists():
    found = paths()
    assert {"docs/layers.toml", "driver/pipeline/registry.py", "tests/tiers.toml", "CHANGELOG.md"} <= found
    assert len(found) > 60
    assert sorted(path for path in found if not (ROOT / path).exists()) == []


def test_every_make_target_exists():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    named = set(re.findall(r"\bmake ([a-z-]+)", commands())) | set(re.findall(r"`make ([a-z-]+)`", TEXT))
    assert {"venv", "quick", "test"} <= named
    assert named <= set(targets)
