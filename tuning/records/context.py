"""
Compile with records: AutoTVM's apply_history_best.

    with mlc.records("r.db"):
        exe = mlc.compile("model.onnx")

Contexts nest: the innermost is asked first, what it does not know goes outward, then to installed packages of records;
where nobody answers, the schedule is the analytic one. A kernel's record is the candidate that passed the paired check
against the analytic choice, for the same te text, target and number of threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from mlc.support.errors import UserError
from mlc.support.records import KnobValues, Provider, RecordKey, chained, preferring
from mlc.tuning.records.database import Database
from mlc.tuning.records.record import FORMAT, Record, values_of, values_text
from mlc.tuning.space import STRATEGY


@dataclass(frozen=True)
class SnapshotEntry:
    """What a snapshot holds of a task."""

    values: KnobValues
    strategy_version: str
    name: str


@dataclass(frozen=True)
class Snapshot:
    """The records of one source as they were when it was read: a Provider that is handed on by value."""

    source: str
    """The file or package, for people."""
    table: Mapping[RecordKey, SnapshotEntry]

    def best(self, kernel_hash: str, target: str, threads: int) -> KnobValues | None:
        """The record's values; None where there is none, or where the strategy has another version now."""
        entry = self.table.get((kernel_hash, target, threads))
        return entry.values if entry is not None and self._is_current(entry) else None

    def answer(self, key: RecordKey) -> str:
        """The values and the version of their strategy."""
        entry = self.table.get(key)
        return "" if entry is None else f"{values_text(entry.values)} {entry.strategy_version}"

    def note(self, name: str, key: RecordKey) -> str:
        """Why a record is ignored: another version of the strategy, or another te text under the kernel's name."""
        entry = self.table.get(key)
        if entry is not None and not self._is_current(entry):
            strategy = entry.values.get(STRATEGY, "")
            now = _version(str(strategy)) or "unknown"
            return (
                f"{self.source}: the record of kernel '{entry.name}' is ignored: it is of version "
                f"{entry.strategy_version} of strategy '{strategy}', which is {now} now; tune again"
            )
        others = [one for one, found in self.table.items() if found.name == name and one[1:] == key[1:]]
        if entry is None and name and others:
            return (
                f"{self.source}: the record of kernel '{name}' is ignored: its te text is another one now; tune again"
            )
        return ""

    def _is_current(self, entry: SnapshotEntry) -> bool:
        return _version(str(entry.values.get(STRATEGY, ""))) == entry.strategy_version


def _version(strategy: str) -> str:
    from mlc.schedules.registry import strategy_version  # it loads xDSL, which a cached model does without

    return strategy_version(strategy)


def snapshot(database: Database, unchecked: bool = False) -> Snapshot:
    """
    The kept candidates of a database; with `unchecked`, elsewhere the fastest one that was measured.

    An unchecked one is of the algorithm that the compiler chooses: another algorithm is taken by a record of its own.
    """
    found: list[Record] = []
    for task in database.tasks():
        record = database.kept(task.key)
        if record is None and unchecked:
            record = database.fastest(task, task.space.parts[0].algorithm)
        if record is not None:
            found.append(record)
    table = {one.key: SnapshotEntry(one.values, one.strategy_version, one.name) for one in found}
    return Snapshot(str(database.path), table)


def opened(path: str | os.PathLike[str], unchecked: bool = False) -> Snapshot:
    """The snapshot of a database in a file; UserError where it is none."""
    with Database(path, readonly=True) as database:
        return snapshot(database, unchecked)


@contextmanager
def records(*sources: str | os.PathLike[str] | Database | Provider, unchecked: bool = False) -> Generator[Provider]:
    """
    Compile with the records of these databases inside a `with` statement; the first one is asked first.

    A database is read when the statement begins. `unchecked` also takes what was measured as the fastest, but has not
    passed the paired check against the default. Raises UserError for a file that is no database of records.
    """
    found = chained([_provider(one, unchecked) for one in sources])
    if found is None:
        raise UserError("expected at least one database of records")
    with preferring(found):
        yield found


def _provider(source: str | os.PathLike[str] | Database | Provider, unchecked: bool) -> Provider:
    if isinstance(source, Database):
        return snapshot(source, unchecked)
    if isinstance(source, str | os.PathLike):
        return opened(source, unchecked)
    if not callable(getattr(source, "best", None)):
        raise UserError(f"expected the path of a database of records, but got {source!r}")
    return source


def snapshot_json(found: Snapshot) -> str:
    """As JSON, for packages: `{"format": 1, "records": [[hash, target, threads, name, version, values], ..]}`."""
    rows = [
        [*key, entry.name, entry.strategy_version, json.loads(values_text(entry.values))]
        for key, entry in sorted(found.table.items())
    ]
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    return f'{{"format": {FORMAT}, "records": [\n{lines}\n]}}\n'


def snapshot_of_json(text: str, source: str) -> Snapshot:
    """The snapshot of `snapshot_json`; UserError for another text."""
    try:
        data = json.loads(text)
        if data["format"] > FORMAT:
            raise UserError(f"{source}: expected records of format {FORMAT}, but got {data['format']}")
        table = {
            (str(h), str(target), int(threads)): SnapshotEntry(values_of(json.dumps(values)), str(version), str(name))
            for h, target, threads, name, version, values in data["records"]
        }
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{source}: expected a package's records, but got {text[:40]!r}") from error
    return Snapshot(source, table)
