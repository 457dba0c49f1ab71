"""
--load: the passes, ops, dialects and strategies in a user's Python file, or the entry points of a project's folder.

A project is read as an installer would: the entry points of its pyproject.toml in groups `mlc.*` count as if it were
installed, and its modules are found in its folder, or in `src/` below it.
"""

import re
import sys
import tomllib
import traceback
from collections.abc import Iterator, Mapping
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from inspect import isabstract
from pathlib import Path
from types import CodeType, ModuleType
from typing import TypeGuard, cast

from xdsl.ir import Dialect
from xdsl.passes import ModulePass

from mlc.dialects.syntax.input import reject
from mlc.driver.pipeline.registry import register_dialect, register_pass
from mlc.support.collector import finalize_at_exit
from mlc.support.diagnostics import Place, one_line
from mlc.support.errors import UserError
from mlc.support.registered.plugins import add_project


def load_user_file(path: str) -> None:
    """
    Run a Python file and register every ModulePass subclass and every Dialect that it defines; `@strategy` does.

    Of a folder, the entry points of the project in it are made known (support/registered/plugins.py); of a
    `.mlir` file, its intrinsics.
    """
    finalize_at_exit()
    if Path(path).is_dir():
        _load_project(Path(path))
        return
    if Path(path).suffix == ".mlir":
        _load_intrinsics(path)
        return
    if not Path(path).is_file():
        raise reject(Place(path), "cannot load the file: no such file")
    module = _execute(path)
    try:
        for value in list(vars(module).values()):
            if isinstance(value, Dialect):
                register_dialect(value, module.__name__)
            elif _is_pass_of(value, module):
                _check_name(value, path)
                register_pass(value)
    except UserError as error:
        raise reject(Place(path), str(error)) from error


def _load_intrinsics(path: str) -> None:
    """Declare the sched.intrinsic ops of a file."""
    from mlc.frontends.te.intrinsics import load_intrinsics

    try:
        load_intrinsics(path)
    except UserError as error:
        raise reject(Place(error.place or path), error.text) from error


def _load_project(folder: Path) -> None:
    """Make the entry points of a project's pyproject.toml known, and its modules importable."""
    file = folder / "pyproject.toml"
    if not file.is_file():
        raise reject(Place(str(folder)), "cannot load the folder: expected a pyproject.toml in it")
    try:
        project = _table(tomllib.loads(file.read_text()).get("project"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise reject(Place(str(file)), str(error)) from error
    points = tuple(_points(file, _table(project.get("entry-points"))))
    if not points:
        raise reject(Place(str(file)), 'expected entry points of mlc, as in [project.entry-points."mlc.passes"]')
    root = folder / "src" if (folder / "src").is_dir() else folder
    if str(root.resolve()) not in sys.path:
        sys.path.insert(0, str(root.resolve()))
    add_project(str(project.get("name", folder.resolve().name)), str(project.get("version", "0")), points)


def _points(file: Path, groups: Mapping[str, object]) -> Iterator[EntryPoint]:
    """The entry points in groups of mlc's."""
    for group, names in groups.items():
        if group.startswith("mlc."):
            values = _table(names)
            if not values or not all(isinstance(value, str) for value in values.values()):
                raise reject(Place(str(file)), f"expected a table of names and texts in {group}, but got {names!r}")
            yield from (EntryPoint(name, str(value), group) for name, value in values.items())


def _table(value: object) -> dict[str, object]:
    """A table of a TOML file; an empty one in the place of anything else."""
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _is_pass_of(value: object, module: ModuleType) -> TypeGuard[type[ModulePass]]:
    """Whether a value is a pass class that the file defines, and not the base of others."""
    if not isinstance(value, type) or not issubclass(value, ModulePass) or value.__module__ != module.__name__:
        return False
    return not isabstract(value) and (hasattr(value, "name") or not value.__subclasses__())


def _check_name(cls: type[ModulePass], path: str) -> None:
    """InputError at the class unless it has a name, by which a pipeline can call it."""
    name: object = getattr(cls, "name", None)
    if isinstance(name, str) and name and not any(c.isspace() or c in '(){}=,"$' for c in name):
        return
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", cls.__name__.removesuffix("Pass")).lower()
    got = "has none" if name is None else f"has {name!r}"
    message = f'expected a pass to have a name for pipelines, but class {cls.__name__} {got}; add name = "{words}"'
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    line = next((n for n, text in enumerate(lines, 1) if re.match(rf"\s*class {cls.__name__}\b", text)), 0)
    raise reject(Place(path, line, 1 if line else 0), message)


def _is_free(stem: str, path: str) -> bool:
    """Whether Python finds no other module of the name of a file."""
    spec = find_spec(stem) if stem.isidentifier() else None
    return spec is None or (spec.origin is not None and Path(spec.origin).resolve() == Path(path).resolve())


class _SourceLoader(SourceFileLoader):
    """
    Compiles a file from its text each time, and keeps no bytecode.

    Python's bytecode files hold the second and the size of their source: of two versions of a user's file of one
    size, saved within a second, it would run the first.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _execute(path: str) -> ModuleType:
    name = f"mlc_loaded_{Path(path).stem}"
    loader = _SourceLoader(name, str(Path(path).absolute())) if Path(path).suffix == ".py" else None
    spec = spec_from_file_location(name, path, loader=loader)
    if spec is None or spec.loader is None:
        raise reject(Place(path), "cannot load the file: expected a Python file, NAME.py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    stem = Path(path).stem
    if stem not in sys.modules and _is_free(stem, path):
        sys.modules[stem] = module  # a file that is loaded after it, and imports it, sees the same classes
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        place = Place(
            path if error.filename in (None, spec.origin) else str(error.filename), error.lineno or 1, error.offset or 1
        )
        raise reject(place, error.msg) from error
    except (Exception, SystemExit) as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == spec.origin]
        place = Place(path, lines[-1] or 1, 1) if lines else Place(path)
        kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
        raise reject(place, f"{kind}{one_line(str(error))}") from error
    return module
