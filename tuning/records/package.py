"""
Packages of records (TVM's tophub): a distribution that is installed with pip and found by its entry point.

    pyproject.toml           the entry point `my-records = "my_records:records"` in the group `mlc.records`
    my_records/__init__.py   reads the file when mlc first asks for it
    my_records/records.json  the kept candidates of a database

mlc.compile asks installed packages behind the contexts around the call; `records=False`, `--no-records` leave them out.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path

from mlc.support.errors import UserError
from mlc.support.records import GROUP
from mlc.support.version import __version__
from mlc.tuning.records.context import Snapshot, opened, snapshot_json, snapshot_of_json

RECORDS = "records.json"
"""The file of a package's records."""

_PROJECT = """\
[build-system]
build-backend = "setuptools.build_meta"
requires = [ "setuptools>=77" ]

[project]
name = "{name}"
version = "{version}"
description = "The winners of tuning with mlc for {kernels}"
readme = "README.md"
requires-python = ">=3.11"
# The records are read by mlc; those that its strategies have outgrown are ignored with a note.
dependencies = [ "mlc" ]
entry-points."{group}".{name} = "{module}:records"

[tool.setuptools]
packages = [ "{module}" ]
package-data.{module} = [ "{records}" ]
"""

_MODULE = '''\
"""Records of tuning for mlc, which finds them by the entry point group `{group}`."""

from pathlib import Path

from mlc.tuning.records.package import packaged

records = packaged(Path(__file__).with_name("{records}"))
'''

_README = """\
# {name}

The winners of tuning for {kernels}, by mlc {mlc}: what was faster than mlc's own choice for sure, or that choice
where nothing was. Install it, and `mlc.compile` uses a record where kernel, target and number of threads are the same.

| kernel | threads | strategy | target |
|---|---|---|---|
{rows}
"""


def packaged(path: str | os.PathLike[str]) -> Snapshot:
    """The records of an installed package; what its module names as its entry point."""
    facts = os.stat(path)
    return _read(str(path), facts.st_mtime_ns, facts.st_size)


@lru_cache(maxsize=16)
def _read(path: str, _time: int, _size: int) -> Snapshot:
    return snapshot_of_json(Path(path).read_text(), Path(path).parent.name)


def write_package(
    database: str | os.PathLike[str], directory: str | os.PathLike[str], name: str, version: str = "1"
) -> list[Path]:
    """
    Write a distribution of a database's kept candidates into a new or empty directory; its files.

    `name` is that of the distribution, of letters, digits and hyphens. Raises UserError where the database keeps
    nothing, for another name, and for a directory that holds files.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(-[A-Za-z0-9]+)*", name):
        raise UserError(f"expected a name of letters, digits and hyphens, but got '{name}'")
    target = Path(directory)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target}: expected a new or empty directory")
    found = opened(database)
    if not found.table:
        raise UserError(f"{database}: expected at least one record that passed the paired check; `mlc tune` makes them")
    module = name.lower().replace("-", "_")
    count = len(found.table)
    facts = {
        "name": name.lower(),
        "version": version,
        "module": module,
        "group": GROUP,
        "records": RECORDS,
        "kernels": f"{count} kernel{'s' * (count != 1)}",
        "mlc": __version__,
        "rows": "\n".join(
            f"| {one.name} | {key[2]} | {one.values.get('strategy', '')} | `{key[1]}` |"
            for key, one in sorted(found.table.items(), key=lambda row: row[1].name)
        ),
    }
    files = {
        "pyproject.toml": _PROJECT.format(**facts),
        "README.md": _README.format(**facts),
        f"{module}/__init__.py": _MODULE.format(**facts),
        f"{module}/{RECORDS}": snapshot_json(found),
    }
    for place, text in files.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text)
    return [target / place for place in files]
