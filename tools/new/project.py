"""Writes a project from the templates."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

from mlc.support.errors import UserError

TEMPLATES = Path(__file__).parent / "templates"
SUFFIX = ".tmpl"
LEVELS = {
    "graph": "before graph-fuse-ops",
    "te": "after te-inline",
    "loop": "after loop-promote-tiles",
}
"""Level of a pass -> the place in the compiler at which its project shows it."""
KINDS = {
    "pass": "a pass, on the graph level or that of --level",
    "op": "a graph op with its te, and the ONNX node that becomes it",
    "dialect": "a dialect, and its lowering to graph",
    "strategy": "a strategy: schedules for a family of kernels",
    "backend": "a target: a machine's description, and a strategy for it",
}
_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def write_project(kind: str, name: str, level: str | None = None, output: Path | None = None) -> list[Path]:
    """
    Write a project and return its files; `output` is its folder, by default one of the project's name.

    `level` is that of a pass: by default the one with which its name begins, else graph.
    Raises UserError for a name that cannot be a package's or is taken, and for a folder that exists.
    """
    _check_name(kind, name)
    level = _level_of(name, level) if kind == "pass" else "graph"
    folder = Path(name) if output is None else output
    if folder.exists():
        raise UserError(f"expected a new folder, but '{folder}' exists; give another with -o DIR")
    parts = ["common", kind, *([f"pass-{level}"] if kind == "pass" else [])]
    written: list[Path] = []
    for source, relative in _files(parts):
        path = folder / _renamed(str(relative), name).removesuffix(SUFFIX)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text().replace("MY_PLACE", LEVELS[level])
        path.write_text(_renamed(text, name))
        written.append(path)
    return sorted(written)


def _level_of(name: str, level: str | None) -> str:
    """The level of a pass; UserError where its name says another one than it is told."""
    first = re.split(r"[-_]", name)[0]
    said = first if first in LEVELS else None
    if level is not None and said not in (None, level):
        raise UserError(f"expected the name of a pass of the {level} level, but '{name}' begins with another level's")
    return level or said or "graph"


def _files(parts: list[str]) -> Iterator[tuple[Path, Path]]:
    """The templates of these parts, each with its path inside the project."""
    for part in parts:
        root = TEMPLATES / part
        for path in sorted(root.rglob(f"*{SUFFIX}")):
            yield path, path.relative_to(root)


def _renamed(text: str, name: str) -> str:
    """The text with the project's name, in its four spellings, in the place of the template's."""
    words = re.split(r"[-_]", name)
    spellings = {
        "my_example": "_".join(words),
        "my-example": "-".join(words),
        "MY_EXAMPLE": "_".join(words).upper(),
        "MyExample": "".join(word.capitalize() for word in words),
    }
    return re.sub("|".join(spellings), lambda match: spellings[match[0]], text)


def _check_name(kind: str, name: str) -> None:
    """UserError unless a name is one of a package, and free."""
    if not _NAME.fullmatch(name):
        words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)]
        better = "-".join(words)
        nearest = f"; did you mean '{better}'?" if _NAME.fullmatch(better) else ""
        raise UserError(f"expected a name {_wanted(name)}, but got '{name}'{nearest}")
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or keyword.issoftkeyword(module):
        raise UserError(f"expected a name that Python modules may have, but got '{name}', a word of Python's")
    if module in sys.stdlib_module_names or find_spec(module) is not None:
        raise UserError(f"expected the name of a new Python module, but '{module}' is one that Python finds already")
    if is_taken := _TAKEN.get(kind):
        is_taken(name, module)


def _wanted(name: str) -> str:
    """What a name that is no package's lacks."""
    if not re.fullmatch(r"[a-z0-9_-]+", name):
        return "of small letters, digits, '-' and '_'"
    return "that begins with a letter" if not name[0].isalpha() else "with one '-' or '_' between two words, none last"


def _check_pass(name: str, module: str) -> None:
    from mlc.driver.pipeline.registry import is_pass

    pass_name = module.replace("_", "-")
    if is_pass(pass_name):
        raise UserError(f"expected a new pass name, but '{pass_name}' is a pass already")


def _check_dialect(name: str, module: str) -> None:
    from mlc.driver.pipeline.registry import dialect_names

    if module in dialect_names():
        raise UserError(f"expected a new dialect name, but '{module}' is a dialect already")


def _check_target(name: str, module: str) -> None:
    from mlc.targets.target import Target

    if (target := module.replace("_", "-")) in Target.names():
        raise UserError(f"expected a new target name, but '{target}' is a target already")


_TAKEN: dict[str, Callable[[str, str], None]] = {
    "pass": _check_pass,
    "dialect": _check_dialect,
    "backend": _check_target,
}
