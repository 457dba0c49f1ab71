"""
The database of a tuner: what was measured, what passed the paired check, who measures what right now.

    with Database("r.db") as database:
        if database.lease(task, values, seconds=60):
            database.add(task, values, result)              # stored when it returns
        database.keep(task, values, comparison)             # the winner, after the paired check
        database.best(task)                                 # a Record, or None

One file serves several tuners at once. `add` returns when the result is on the disk: a process that is killed loses
what it had not added. On a full disk `add` writes into spare room (spare.py), and `lease` stops the tuner.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from types import TracebackType
from uuid import uuid4

from mlc.support.errors import UserError, warn
from mlc.support.records import ALGORITHM
from mlc.support.version import __version__
from mlc.tuning.records.lines import record_line, rows_of_line, task_line
from mlc.tuning.records.pruning import prune
from mlc.tuning.records.record import (
    Comparison,
    Record,
    TaskKey,
    comparison_of,
    comparison_text,
    result_json,
    result_of,
    space_of,
    space_text,
    values_of,
    values_text,
)
from mlc.tuning.records.schema import connect, full_error, is_full, told, transaction
from mlc.tuning.records.spare import Spare
from mlc.tuning.results import FOREIGN, MeasureResult
from mlc.tuning.space import STRATEGY, KnobValue, Values
from mlc.tuning.task import Task

Version = Callable[[str], str]
"""A strategy's name -> its version now; empty where there is no such strategy."""


class Database:
    """
    Records in a sqlite file; safe for threads and processes, each of which opens its own.

    Raises UserError where the file is no database of records, is of a newer format, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], readonly: bool = False, version: Version | None = None) -> None:
        self.path = Path(path)
        self.readonly = readonly
        self.version: Version = cache(version or _strategy_version)
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex}"
        """Who holds this object's leases."""
        self.notes: list[str] = []
        """Why records were ignored, each sentence once."""
        self._lock = RLock()
        self._process = os.getpid()
        self._spare: Spare | None = None
        self._is_full = False
        self._rescued: set[TaskKey] = set()
        """The tasks that this object has written into the spare room."""
        self._connection = connect(self.path, readonly)
        if not readonly:
            try:
                self._spare = Spare(spare_path(self.path))
                self._absorb()
            except OSError as error:
                self._connection.close()
                raise UserError(f"{spare_path(self.path)}: {error.strerror}") from error

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back this object's leases and close the file."""
        with self._lock:
            if self._process == os.getpid():
                if not self.readonly and not self._is_full:
                    with told(self.path), transaction(self._connection):
                        self._connection.execute("DELETE FROM leases WHERE owner = ?", (self.owner,))
                self._connection.close()
            if self._spare is not None:
                self._spare.close()
                self._spare = None

    # --- writing ---

    def add(self, task: Task, values: Values, result: MeasureResult) -> None:
        """
        Store a result, durably, and give back the lease of the candidate.

        On a full disk it goes to the spare room, with one warning; UserError where that is full, too.
        """
        row = (values_text(values), self.version(_strategy(values)), __version__, result)
        with self._lock:
            try:
                with transaction(self._open()):
                    number = self._task_number(task)
                    self._insert(number, *row)
                    self._connection.execute(
                        "DELETE FROM leases WHERE task = ? AND vals = ? AND owner = ?", (number, row[0], self.owner)
                    )
            except sqlite3.Error as error:
                if not is_full(error):
                    with told(self.path):
                        raise
                self._rescue(task, row, error)

    def keep(self, task: Task, values: Values, comparison: Comparison) -> None:
        """Store the winner of a task: the candidate that passed the paired check, or the default that beat them all."""
        row = (values_text(values), self.version(_strategy(values)), __version__, comparison_text(comparison))
        with self._lock, told(self.path), transaction(self._open()):
            self._connection.execute("REPLACE INTO kept VALUES(?, ?, ?, ?, ?)", (self._task_number(task), *row))

    def lease(self, task: Task, candidate: int | Values, seconds: float) -> bool:
        """
        Take a candidate (its number or values) for `seconds`, so that no other tuner measures it meanwhile.

        False where another tuner holds it, or where it has a result of this version. The lease of a process of this
        machine that died is free at once. Raises UserError where a full disk would lose the result.
        """
        values = task.space[candidate] if isinstance(candidate, int) else candidate
        text, now = values_text(values), time.time()
        with self._lock, told(self.path):
            if self._is_full:
                raise full_error(self.path)
            with transaction(self._open()):
                number = self._task_number(task)
                done = self._connection.execute(
                    "SELECT 1 FROM results WHERE task = ? AND vals = ? AND strategy_version = ? "
                    f"AND json_extract(result, '$.machine.device') IS NOT '{FOREIGN}'",
                    (number, text, self.version(_strategy(values))),
                ).fetchone()
                held = self._connection.execute(
                    "SELECT owner, expires FROM leases WHERE task = ? AND vals = ?", (number, text)
                ).fetchone()
                if done or (held and held[0] != self.owner and held[1] > now and _is_alive(held[0])):
                    return False
                self._connection.execute(
                    "REPLACE INTO leases VALUES(?, ?, ?, ?)", (number, text, self.owner, now + seconds)
                )
        return True

    # --- reading ---

    def results(self, task: Task) -> list[tuple[Values, MeasureResult]]:
        """The results of a task that mlc measured under the versions of now, in the order in which they were added."""
        mine = [one for one in self.records(task.key) if not one.result.is_foreign]
        return [(one.values, one.result) for one in mine if self._is_current(one)]

    def hints(self, task: Task) -> list[Values]:
        """The candidates that another compiler's log holds, its fastest first: worth measuring early."""
        return [values for values, _ in self.foreign(task)]

    def foreign(self, task: Task) -> list[tuple[Values, MeasureResult]]:
        """What another compiler's log holds of a task, its fastest first: seconds of that compiler's kernels."""
        found = [one for one in self.records(task.key) if one.result.is_foreign and self._is_current(one)]
        return [(one.values, one.result) for one in sorted(found, key=lambda one: one.result.cost)]

    def best(self, task: Task | TaskKey) -> Record | None:
        """
        The record that passed the paired check; None where none did, or where it is of another version.

        An ignored record is noted in `notes`.
        """
        record = self.kept(task.key if isinstance(task, Task) else task)
        return record if record is not None and self._is_current(record) else None

    def kept(self, key: TaskKey) -> Record | None:
        """The record that passed the paired check, whatever its version."""
        with self._lock, told(self.path):
            row = self._open().execute(
                "SELECT t.name, k.vals, k.strategy_version, k.compiler, k.comparison, "
                "  (SELECT r.result FROM results r WHERE r.task = k.task AND r.vals = k.vals AND r.cost IS NOT NULL "
                "   ORDER BY r.cost LIMIT 1) "
                "FROM kept k JOIN tasks t ON t.id = k.task "
                "WHERE t.kernel_hash = ? AND t.target = ? AND t.threads = ?",
                key,
            ).fetchone()  # fmt: skip
        comparison = comparison_of(row[4]) if row else None
        if comparison is None:
            return None
        name, vals, version, compiler, _, result = row
        found = result_of(json.loads(result)) if result else MeasureResult((comparison.seconds,))
        return Record(*key, name, values_of(vals), found, version, compiler, comparison)

    def fastest(self, task: Task | TaskKey, algorithm: str = "") -> Record | None:
        """The record of the least median, checked or not; None where nothing of this version, or algorithm, ran."""
        key = task.key if isinstance(task, Task) else task
        mine = [one for one in self.records(key) if not one.result.is_foreign]
        mine = [one for one in mine if not algorithm or one.values.get(ALGORITHM, algorithm) == algorithm]
        ran = [one for one in mine if one.result.cost < float("inf") and self._is_current(one)]
        return min(ran, key=lambda one: one.result.cost, default=None)

    def records(self, key: TaskKey | None = None) -> list[Record]:
        """All records, or those of a task, in the order in which they were added; `comparison` is of the kept ones."""
        where = "" if key is None else "WHERE t.kernel_hash = ? AND t.target = ? AND t.threads = ? "
        with self._lock, told(self.path):
            rows = self._open().execute(
                "SELECT t.kernel_hash, t.target, t.threads, t.name, r.vals, r.result, r.strategy_version, r.compiler, "
                "  k.comparison "
                "FROM results r JOIN tasks t ON t.id = r.task "
                "LEFT JOIN kept k ON k.task = r.task AND k.vals = r.vals AND k.strategy_version = r.strategy_version "
                f"{where}ORDER BY r.id",
                key or (),
            ).fetchall()  # fmt: skip
        return [
            Record(
                kernel_hash,
                target,
                threads,
                name,
                values_of(vals),
                result_of(json.loads(result)),
                version,
                compiler,
                comparison_of(compared),
            )
            for kernel_hash, target, threads, name, vals, result, version, compiler, compared in rows
        ]

    def tasks(self) -> list[Task]:
        """The tasks that have been met, with their spaces."""
        with self._lock, told(self.path):
            rows = self._open().execute(
                "SELECT name, kernel, target, threads, space, flops, weight, compiled_for FROM tasks ORDER BY id"
            )
            return [
                Task(name, kernel, target, threads, space_of(space), flops, weight, compiled_for)
                for name, kernel, target, threads, space, flops, weight, compiled_for in rows
            ]

    def history(self, like: Task) -> list[tuple[Task, list[tuple[Values, MeasureResult]]]]:
        """Other tasks of the target and number of threads with their results, for transfer; similar names first."""
        family = like.name.rpartition("_")[0]
        others = [t for t in self.tasks() if t.key[1:] == like.key[1:] and t.key != like.key]
        others.sort(key=lambda task: task.name.rpartition("_")[0] != family)
        return [(task, results) for task in others if (results := self.results(task))]

    def named(self, name: str, target: str, threads: int) -> list[TaskKey]:
        """The keys of the tasks of that name: their te text may have changed since."""
        with self._lock, told(self.path):
            rows = self._open().execute(
                "SELECT kernel_hash, target, threads FROM tasks WHERE name = ? AND target = ? AND threads = ?",
                (name, target, threads),
            )
            return [(row[0], row[1], row[2]) for row in rows]

    # --- records in and out ---

    def lines(self, kept_only: bool = False) -> Iterator[str]:
        """JSON lines of everything: each task, then its results and its kept candidate; `add_lines` takes them."""
        for task in self.tasks():
            best = self.kept(task.key)
            if kept_only and best is None:
                continue
            yield task_line(task)
            for one in self.records(task.key):
                if not kept_only or (best is not None and one.values == best.values):
                    yield record_line(task.key, values_text(one.values), one.strategy_version, one.compiler, one.result)
            if best is not None and best.comparison is not None:
                versions = best.strategy_version, best.compiler
                yield record_line(task.key, values_text(best.values), *versions, best.comparison)

    def add_lines(self, lines: Sequence[str], place: str) -> int:
        """
        Store records from JSON lines, once each; the number of new ones.

        Raises UserError with `place` and the line's number for a line that is none, before anything is stored.
        """
        rows = [row for number, line in enumerate(lines, 1) if (row := rows_of_line(line, f"{place}:{number}"))]
        with self._lock, told(self.path), transaction(self._open()):
            for row in rows:
                if isinstance(row, Task):
                    self._task_number(row)
            touched = self._connection.total_changes
            for row in rows:
                if not isinstance(row, Task):
                    key, text, version, compiler, content = row
                    number = self._number_of(key, place)
                    if isinstance(content, MeasureResult):
                        self._insert(number, text, version, compiler, content)
                    else:
                        self._keep_better(number, text, version, compiler, content)
            return self._connection.total_changes - touched

    def merge(self, other: str | os.PathLike[str]) -> int:
        """Store the records of another database, once each; the number of new ones."""
        with Database(other, readonly=True, version=self.version) as database:
            return self.add_lines(list(database.lines()), str(other))

    def prune(self, keep: int = 0, errors: bool = True, old: bool = True) -> int:
        """
        Remove records of other versions (`old`), failed ones (`errors`), and all but the fastest `keep` of a task.

        `keep` 0 keeps all of them; a kept candidate's records stay. The number of the removed ones.
        """
        with self._lock, told(self.path), transaction(self._open()):
            gone = prune(self._connection, keep, errors, lambda vals, version: old and not self._is_now(vals, version))
        with self._lock, told(self.path):
            self._connection.execute("VACUUM")
        return gone

    # --- inside ---

    def _open(self) -> sqlite3.Connection:
        """The connection; a forked process gets its own."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._connection = connect(self.path, self.readonly)
        return self._connection

    def _task_number(self, task: Task) -> int:
        """The row of a task, made or brought up to date inside a transaction."""
        facts = (task.name, task.kernel, space_text(task.space), task.flops, task.weight, task.compiled_for)
        row = self._connection.execute(
            "SELECT id, name, kernel, space, flops, weight, compiled_for FROM tasks "
            "WHERE kernel_hash = ? AND target = ? AND threads = ?",
            task.key,
        ).fetchone()
        if row is None:
            return int(
                self._connection.execute(
                    "INSERT INTO tasks(kernel_hash, target, threads, name, kernel, space, flops, weight, compiled_for) "
                    "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                    (*task.key, *facts),
                ).fetchone()[0]
            )
        if row[1:] != facts:
            self._connection.execute(
                "UPDATE tasks SET name = ?, kernel = ?, space = ?, flops = ?, weight = ?, compiled_for = ? "
                "WHERE id = ?",
                (*facts, row[0]),
            )
        return int(row[0])

    def _find(self, key: TaskKey) -> int | None:
        row = self._connection.execute(
            "SELECT id FROM tasks WHERE kernel_hash = ? AND target = ? AND threads = ?", key
        ).fetchone()
        return None if row is None else int(row[0])

    def _has(self, key: TaskKey) -> bool:
        try:
            return self._find(key) is not None
        except sqlite3.Error:
            return False

    def _number_of(self, key: TaskKey, place: str) -> int:
        number = self._find(key)
        if number is None:
            raise UserError(f"{place}: expected the task of a record in front of it, but kernel {key[0][:12]} has none")
        return number

    def _insert(self, task: int, vals: str, version: str, compiler: str, result: MeasureResult) -> None:
        cost = None if result.cost == float("inf") else result.cost
        self._connection.execute(
            "INSERT OR IGNORE INTO results(task, vals, strategy_version, compiler, cost, result) "
            "VALUES(?, ?, ?, ?, ?, ?)",
            (task, vals, version, compiler, cost, json.dumps(result_json(result), sort_keys=True)),
        )

    def _keep_better(self, task: int, vals: str, version: str, compiler: str, comparison: Comparison) -> None:
        """Keep a merged winner unless the one here is of this version and surer to be fast."""
        row = self._connection.execute(
            "SELECT vals, strategy_version, comparison FROM kept WHERE task = ?", (task,)
        ).fetchone()
        if row is not None:
            here = comparison_of(row[2])
            if here is not None and self._is_now(row[0], row[1]) and here.low >= comparison.low:
                return
        self._connection.execute(
            "REPLACE INTO kept VALUES(?, ?, ?, ?, ?)", (task, vals, version, compiler, comparison_text(comparison))
        )

    def _is_now(self, vals: str, version: str) -> bool:
        """Whether a row is of the version that its strategy has now."""
        return version == self.version(_strategy(values_of(vals)))

    def _is_current(self, record: Record) -> bool:
        """Whether a record is of the strategy's version of now; else it is noted."""
        now = self.version(record.strategy)
        if record.strategy_version == now:
            return True
        note = (
            f"{self.path}: records of strategy '{record.strategy}' version {record.strategy_version} are ignored: "
            f"it is version {now or 'unknown'} now; tune again"
        )
        if note not in self.notes:
            self.notes.append(note)
        return False

    def _rescue(self, task: Task, row: tuple[str, str, str, MeasureResult], error: sqlite3.Error) -> None:
        """Write a result that the database cannot take into the spare room."""
        known = task.key in self._rescued or self._has(task.key)
        lines = [record_line(task.key, *row)] if known else [task_line(task), record_line(task.key, *row)]
        if self._spare is None or not self._spare.write(lines):
            raise UserError(f"{self.path}: the disk is full ({error}), and the spare room for records, too") from error
        self._rescued.add(task.key)
        if not self._is_full:
            self._is_full = True
            warn(
                None,
                f"{self.path}: the disk is full ({error}); results go to {spare_path(self.path).name}, whose room was "
                "taken before. Free some room and tune on with --resume",
            )

    def _absorb(self) -> None:
        """Move over what an earlier tuner wrote into the spare room."""
        assert self._spare is not None
        try:
            with self._spare.taken() as lines:
                if lines:
                    self.add_lines(lines, str(self._spare.path))
        except UserError as error:
            if not isinstance(error.__cause__, sqlite3.Error) or not is_full(error.__cause__):
                raise
            self._is_full = True


@contextmanager
def reading(path: str | os.PathLike[str]) -> Generator[Database]:
    """A database of records that exists, to read."""
    with Database(path, readonly=True) as database:
        yield database


def spare_path(path: Path) -> Path:
    """The file of spare room beside a database."""
    return path.with_name(f"{path.name}-spare")


def _strategy_version(name: str) -> str:
    """The version of a strategy now; the strategies are loaded only where they are asked for."""
    from mlc.schedules.registry import strategy_version

    return strategy_version(name)


def _strategy(values: Values) -> str:
    name: KnobValue = values.get(STRATEGY, "")
    return str(name)


def _is_alive(owner: str) -> bool:
    """Whether the process that holds a lease may still run: one of another machine, or one that is there."""
    host, pid, _ = owner.rsplit(":", 2)
    if host != socket.gethostname():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


__all__ = ["Comparison", "Database", "Record", "reading"]
