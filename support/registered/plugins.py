"""
Distributions that add to mlc: the installed ones with an entry point in a group `mlc.*`, and projects of `--load`.

    mlc.passes      name of the pass       -> module:Class     a ModulePass
    mlc.dialects    name of the dialect    -> module:NAME      an xDSL Dialect
    mlc.ops         name of a graph op     -> module:Class     whose module registers its te, and its ONNX converter
    mlc.strategies  any name               -> module:function  with @strategy
    mlc.targets     name of the target     -> module:NAME      the path of a machine's TOML file

Their names and versions are a part of every cache key, and the sources of those that may change while their version
stays (`pip install -e`, `--load`). So the search must be quick: `importlib.metadata` parses the metadata of every
distribution, this reads one small file of those that have it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.support.collector import finalize_at_exit

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_GROUP = re.compile(rb"^\s*\[\s*mlc\.", re.MULTILINE)
_INFO = (".dist-info", ".egg-info")
_SOURCES = (".py", ".toml")
"""The files of a plugin from which what it adds follows."""


@dataclass(frozen=True)
class Plugin:
    """A distribution that adds to mlc."""

    name: str
    version: str
    points: tuple[EntryPoint, ...]
    """Its entry points in groups of mlc's."""
    is_edited: bool = False
    """Whether its sources may change while its version stays."""


PROJECTS: dict[str, Plugin] = {}
"""The projects that this program has loaded by their folders, by name; they stand in front of installed ones."""


def plugins() -> tuple[Plugin, ...]:
    """The loaded projects, and the distributions on Python's path with an entry point of mlc's; the first of a name."""
    installed = _plugins(tuple(sys.path))
    return (*PROJECTS.values(), *(one for one in installed if one.name not in PROJECTS)) if PROJECTS else installed


def add_project(name: str, version: str, points: tuple[EntryPoint, ...]) -> None:
    """Make the entry points of a project known that is not installed; its modules must be on Python's path."""
    plain = _plain_name(name)
    PROJECTS[plain] = Plugin(plain, version, points, is_edited=True)


def is_plugins(module: str) -> bool:
    """Whether a module belongs to a plugin: what it registers is then a part of the cache keys."""
    package = module.partition(".")[0]
    return any(_package(point) == package for plugin in plugins() for point in plugin.points)


def entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed distributions in a group, by name, not yet loaded; the first of a name counts."""
    found: dict[str, EntryPoint] = {}
    for plugin in plugins():
        for point in plugin.points:
            if point.group == group:
                found.setdefault(point.name, point)
    if found:
        finalize_at_exit()
    return found


def plugins_key() -> str:
    """The part of a cache key that the plugins are: their versions, names, and sources that may change."""
    return "\n".join(f"{p.name} {p.version} {_plain(p)}{_sources(p) if p.is_edited else ''}" for p in plugins())


def _plain(plugin: Plugin) -> list[tuple[str, str, str]]:
    return sorted((point.group, point.name, point.value) for point in plugin.points)


def _sources(plugin: Plugin) -> str:
    """A hash of the Python and TOML files of a plugin's packages."""
    from importlib.util import find_spec

    digest = sha256()
    for package in sorted(set(map(_package, plugin.points))):
        spec = find_spec(package) if package.isidentifier() else None
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        files = [path for folder in folders for path in sorted(Path(folder).rglob("*")) if path.suffix in _SOURCES]
        if spec is not None and spec.origin is not None and not folders:
            files = [Path(spec.origin)]
        for path in files:
            digest.update(f"{path}\0".encode() + path.read_bytes())
    return f" {digest.hexdigest()}"


def _package(point: EntryPoint) -> str:
    """The top-level package of an entry point `package.module:name`; of a wrong one, its text."""
    return re.split(r"[.:]", point.value, maxsplit=1)[0].strip()


def _plain_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_editable(distribution: Distribution) -> bool:
    """Whether a distribution was installed with `pip install -e`."""
    text = distribution.read_text("direct_url.json") or ""
    return re.search(r'"editable"\s*:\s*true', text) is not None


def version_of(name: str) -> str:
    """The version of a distribution that is installed; "?" of one that is not."""
    return _version_of(name, tuple(sys.path))


@lru_cache(maxsize=16)
def _version_of(name: str, path: tuple[str, ...]) -> str:
    """By the name of its folder, NAME-VERSION.dist-info; where there is none, as of an archive, by its metadata."""
    wanted = _plain_name(name)
    for place in dict.fromkeys(path):
        for folder in _folders(place or os.curdir):
            stem, _, version = folder.removesuffix(".dist-info").partition("-")
            if folder.endswith(".dist-info") and version and _plain_name(stem) == wanted:
                return version
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "?"


def _folders(place: str) -> list[str]:
    """The names of the folders of metadata in a folder of Python's path, sorted."""
    try:
        return sorted(entry.name for entry in os.scandir(place) if entry.name.endswith(_INFO))
    except OSError:
        return []


@lru_cache(maxsize=4)
def _plugins(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    found: dict[str, Plugin] = {}
    for place in dict.fromkeys(path):
        for distribution in _distributions(place or os.curdir):
            points = tuple(p for p in distribution.entry_points if p.group.startswith("mlc."))
            name = _plain_name(distribution.metadata["Name"] or "?")
            if points and name not in found:
                found[name] = Plugin(name, distribution.version, points, _is_editable(distribution))
    return tuple(found[name] for name in sorted(found))


def _distributions(place: str) -> Iterator[Distribution]:
    """Those in a folder of Python's path whose entry points name a group of mlc's; all of an archive."""
    if os.path.isfile(place):
        from importlib.metadata import distributions

        yield from distributions(path=[place])
        return
    for name in _folders(place):
        try:
            with open(os.path.join(place, name, "entry_points.txt"), "rb") as file:
                text = file.read()
        except OSError:
            continue
        if _GROUP.search(text):
            from importlib.metadata import PathDistribution

            yield PathDistribution(Path(place, name))
