"""The tables of a database of records, and how a file is opened: sqlite, with a write-ahead log."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from mlc.support.errors import UserError
from mlc.tuning.records.record import FORMAT

BUSY_SECONDS = 60
"""How long a statement waits for another process that writes."""

TABLES = """
CREATE TABLE tasks(
  id INTEGER PRIMARY KEY, kernel_hash TEXT NOT NULL, target TEXT NOT NULL, threads INTEGER NOT NULL,
  name TEXT NOT NULL, kernel TEXT NOT NULL, space TEXT NOT NULL, flops INTEGER NOT NULL, weight INTEGER NOT NULL,
  compiled_for TEXT NOT NULL,
  UNIQUE(kernel_hash, target, threads));
CREATE TABLE results(
  id INTEGER PRIMARY KEY, task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE, vals TEXT NOT NULL,
  strategy_version TEXT NOT NULL, compiler TEXT NOT NULL, cost REAL, result TEXT NOT NULL,
  UNIQUE(task, vals, result));
CREATE TABLE kept(
  task INTEGER PRIMARY KEY REFERENCES tasks ON DELETE CASCADE, vals TEXT NOT NULL,
  strategy_version TEXT NOT NULL, compiler TEXT NOT NULL, comparison TEXT NOT NULL);
CREATE TABLE leases(
  task INTEGER NOT NULL REFERENCES tasks ON DELETE CASCADE, vals TEXT NOT NULL, owner TEXT NOT NULL,
  expires REAL NOT NULL, PRIMARY KEY(task, vals));
CREATE INDEX results_by_cost ON results(task, cost);
"""
"""`vals` is the text of a candidate's values, `cost` the median seconds, NULL where the candidate failed."""


def connect(path: Path, readonly: bool) -> sqlite3.Connection:
    """
    Open a database; one for writing is made where there is none.

    Raises UserError for a file that is none, or of a newer format.
    """
    with told(path):
        found = _open(path, readonly)
        try:
            _prepare(found, path, readonly)
        except BaseException:
            found.close()
            raise
        return found


def _open(path: Path, readonly: bool) -> sqlite3.Connection:
    if readonly and not path.is_file():
        raise UserError(f"{path}: expected a database of records; `mlc tune MODEL --records {path.name}` makes one")
    if not path.parent.is_dir():
        raise UserError(f"{path}: expected the folder {path.parent} to exist")
    uri = f"file:{quote(str(path.absolute()))}?mode={'ro' if readonly else 'rwc'}"
    return sqlite3.connect(uri, BUSY_SECONDS, uri=True, isolation_level=None, check_same_thread=False)


def _prepare(found: sqlite3.Connection, path: Path, readonly: bool) -> None:
    """Check the format, or make the tables."""
    version = found.execute("PRAGMA user_version").fetchone()[0]
    if version > FORMAT:
        raise UserError(f"{path}: expected records of format {FORMAT}, but got {version}, which a newer mlc wrote")
    found.execute("PRAGMA foreign_keys=ON")
    if readonly:
        if version == 0:
            raise UserError(f"{path}: expected a database of records, but it has none of its tables")
        return
    _write_ahead(found)
    found.execute("PRAGMA synchronous=FULL")
    with transaction(found):
        if found.execute("PRAGMA user_version").fetchone()[0] == 0:  # another process may have been first
            if found.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise UserError(f"{path}: expected a database of records, but it is another program's")
            for statement in filter(str.strip, TABLES.split(";")):
                found.execute(statement)
            found.execute(f"PRAGMA user_version={FORMAT}")


def _write_ahead(found: sqlite3.Connection) -> None:
    """Switch to a write-ahead log; sqlite itself does not wait for another process that does so at the same time."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            found.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(0.01)


@contextmanager
def transaction(found: sqlite3.Connection) -> Generator[None]:
    """All statements of a `with` statement are written or none; nobody else writes meanwhile."""
    found.execute("BEGIN IMMEDIATE")
    try:
        yield
        found.execute("COMMIT")
    except BaseException:
        if found.in_transaction:
            found.execute("ROLLBACK")
        raise


@contextmanager
def told(path: Path) -> Generator[None]:
    """Turn sqlite's errors into one sentence about the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise (full_error(path) if is_full(error) else UserError(f"{path}: {_sentence(error)}")) from error


def full_error(path: Path) -> UserError:
    """The error of a tuner that has no room for what it would measure next."""
    return UserError(f"{path}: the disk is full; what was stored is safe: free some room and tune on with --resume")


def is_full(error: sqlite3.Error) -> bool:
    """Whether sqlite could not write for want of room; a limit on a file's size reads as an I/O error."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _sentence(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return f"expected a database of records, but got another file or a damaged one ({error})"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
        return f"it cannot be opened to write ({error})"
    if code == sqlite3.SQLITE_BUSY:
        return f"another process has been writing for {BUSY_SECONDS} s"
    return str(error)
