"""Which records of a database are removed where its owner wants room."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

IsOld = Callable[[str, str], bool]
"""Whether a record is to go for its age, by its values and the version of its strategy."""


def prune(connection: sqlite3.Connection, keep: int, errors: bool, is_old: IsOld) -> int:
    """
    Remove old records, failed ones (`errors`), and all but the fastest `keep` of a task, inside a transaction.

    `keep` 0 keeps all of them; a kept candidate's records stay. Tasks without records go, too. Returns the number of
    removed results.
    """
    gone: list[int] = []
    for (task,) in connection.execute("SELECT id FROM tasks").fetchall():
        gone += _prunable(connection, task, keep, errors, is_old)
    connection.executemany("DELETE FROM results WHERE id = ?", [(one,) for one in gone])
    for task, vals, version in connection.execute("SELECT task, vals, strategy_version FROM kept").fetchall():
        if is_old(vals, version):
            connection.execute("DELETE FROM kept WHERE task = ?", (task,))
    connection.execute(
        "DELETE FROM tasks WHERE id NOT IN (SELECT task FROM results) AND id NOT IN (SELECT task FROM kept) "
        "AND id NOT IN (SELECT task FROM leases)"
    )
    return len(gone)


def _prunable(connection: sqlite3.Connection, task: int, keep: int, errors: bool, is_old: IsOld) -> list[int]:
    """The results of a task that go."""
    kept = connection.execute("SELECT vals FROM kept WHERE task = ?", (task,)).fetchone()
    rows = connection.execute(
        "SELECT id, vals, strategy_version, cost FROM results WHERE task = ? ORDER BY cost IS NULL, cost", (task,)
    ).fetchall()
    gone: list[int] = []
    left = 0
    for number, vals, version, cost in rows:
        beyond = keep and left >= keep and not (kept and kept[0] == vals)
        if is_old(vals, version) or (errors and cost is None) or beyond:
            gone.append(number)
        else:
            left += 1
    return gone
