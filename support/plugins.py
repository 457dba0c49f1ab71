"""
Installed distributions that add to mlc: those with an entry point in a group `mlc.*` (mlc.passes, mlc.dialects,
mlc.strategies). Their names and versions are a part of every cache key, so the search must be quick:
`importlib.metadata` parses the metadata of every distribution, this reads one small file of those that have it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

_GROUP = re.compile(rb"^\s*\[\s*mlc\.", re.MULTILINE)
_INFO = (".dist-info", ".egg-info")


@dataclass(frozen=True)
class Plugin:
    """A distribution that adds to mlc."""

    name: str
    version: str
    points: tuple[EntryPoint, ...]
    """Its entry points in groups of mlc's."""


def plugins() -> tuple[Plugin, ...]:
    """The distributions on Python's path that have an entry point of mlc's; the first of a name counts."""
    return _plugins(tuple(sys.path))


def entry_points(group: str) -> dict[str, EntryPoint]:
    """The entry points of installed distributions in a group, by name, not yet loaded; the first of a name counts."""
    found: dict[str, EntryPoint] = {}
    for plugin in plugins():
        for point in plugin.points:
            if point.group == group:
                found.setdefault(point.name, point)
    return found


def plugins_key() -> str:
    """The part of a cache key that the plugins are: names, versions, and what they register."""
    return "\n".join(f"{p.name} {p.version} {_plain(p)}" for p in plugins())


def _plain(plugin: Plugin) -> list[tuple[str, str, str]]:
    return sorted((point.group, point.name, point.value) for point in plugin.points)


@lru_cache(maxsize=4)
def _plugins(path: tuple[str, ...]) -> tuple[Plugin, ...]:
    found: dict[str, Plugin] = {}
    for place in dict.fromkeys(path):
        for distribution in _distributions(place or os.curdir):
            points = tuple(p for p in distribution.entry_points if p.group.startswith("mlc."))
            name = re.sub(r"[-_.]+", "-", distribution.metadata["Name"] or "?").lower()
            if points:
                found.setdefault(name, Plugin(name, distribution.version, points))
    return tuple(found[name] for name in sorted(found))


def _distributions(place: str) -> Iterator[Distribution]:
    """Those in a folder of Python's path whose entry points name a group of mlc's; all of an archive."""
    try:
        names = sorted(entry.name for entry in os.scandir(place) if entry.name.endswith(_INFO))
    except NotADirectoryError:
        from importlib.metadata import distributions

        yield from distributions(path=[place])
        return
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(place, name, "entry_points.txt"), "rb") as file:
                text = file.read()
        except OSError:
            continue
        if _GROUP.search(text):
            from importlib.metadata import PathDistribution
            from pathlib import Path

            yield PathDistribution(Path(place, name))
