"""Processes that are killed, that tune side by side, and full disks: nothing that was stored is lost."""

from __future__ import annotations

import os
import resource
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tuning_records import SPACE, opened, ran, some_task

from mlc.support.errors import UserError, collected_warnings
from mlc.tuning.records.database import Database, spare_path
from mlc.tuning.space import Space

TASK = some_task()


def forked(work: Callable[[int], None]) -> tuple[int, int]:
    """Run work(pipe) in a child; the child's number and the pipe's end to read from."""
    here, there = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(here)
            work(there)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(there)
    return pid, here


def said(handle: int) -> list[int]:
    """The numbers that a child wrote, one a line; a line that was cut off does not count."""
    with os.fdopen(handle, "rb") as pipe:
        text = pipe.read()
    return [int(line) for line in text[: text.rfind(b"\n") + 1].split()]


def tuner(path: Path, start: int) -> Callable[[int], None]:
    """A process that adds a result for each of the time stamps from `start`, and says so when it is stored."""

    def work(pipe: int) -> None:
        with opened(path) as database:
            for number in range(start, start + 10000):
                index = number % SPACE.size
                database.lease(TASK, index, 60)
                database.add(TASK, SPACE[index], ran(1.0, at=float(number)))
                os.write(pipe, b"%d\n" % number)

    return work


def stamps(path: Path) -> list[float]:
    with opened(path, readonly=True) as database:
        return [one.result.timestamp for one in database.records()]


@pytest.mark.parametrize("seed", range(4))
def test_two_tuners_are_killed_at_any_moment(tmp_path: Path, seed: int) -> None:
    path, random = tmp_path / "r.db", Random(seed)
    stored: list[int] = []
    for start in (0, 20000):
        children = [forked(tuner(path, start)), forked(tuner(path, start + 10000))]
        for pid, _ in children:
            time.sleep(random.uniform(0.0, 0.15))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        stored += [number for _, handle in children for number in said(handle)]
    opened(path).close()
    found = stamps(path)
    assert set(map(float, stored)) <= set(found)
    assert len(found) == len(set(found)) <= len(stored) + 4, "at most the one in flight of each process comes on top"


def test_the_leases_of_a_killed_tuner_are_free(tmp_path: Path) -> None:
    path = tmp_path / "r.db"

    def work(pipe: int) -> None:
        database = opened(path)
        assert database.lease(TASK, 3, 3600)
        os.write(pipe, b"3\n")
        time.sleep(60)

    pid, handle = forked(work)
    assert os.read(handle, 2) == b"3\n"
    os.close(handle)
    with opened(path) as database:
        assert not database.lease(TASK, 3, 60)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert database.lease(TASK, 3, 60)


def test_two_tuners_share_a_space(tmp_path: Path) -> None:
    path = tmp_path / "r.db"

    def work(pipe: int) -> None:
        with opened(path) as database:
            for index in range(40):
                if database.lease(TASK, index, 60):
                    time.sleep(0.001)
                    database.add(TASK, SPACE[index], ran(1.0))
                    os.write(pipe, b"%d\n" % index)

    children = [forked(work), forked(work)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, _ in children] == [0, 0]
    assert sorted(number for _, handle in children for number in said(handle)) == list(range(40))
    with opened(path, readonly=True) as database:
        assert len(database.results(TASK)) == 40


def fill(database: Database, pipe: int) -> None:
    """Measure one task after another until there is no room."""
    for number in range(10000):
        task = some_task(kernel=f"kernel {number}")
        database.lease(task, 0, 60)
        database.add(task, SPACE[0], ran(1.0, at=float(number)))
        os.write(pipe, b"%d\n" % number)


def test_a_limit_on_the_size_of_files_stops_a_tuner_with_one_message(tmp_path: Path) -> None:
    path = tmp_path / "r.db"

    def work(pipe: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (400 << 10, resource.RLIM_INFINITY))
        database = opened(path)
        with collected_warnings() as warned:
            with pytest.raises(UserError, match=r"the disk is full.*what was stored is safe.*--resume"):
                fill(database, pipe)
            number = len(database.records())
            for last in range(number, number + 8):  # what was measured meanwhile
                database.add(some_task(kernel=f"kernel {last}"), SPACE[1], ran(1.0, at=20000.0 + last))
                os.write(pipe, b"%d\n" % (20000 + last))
        assert len(warned) == 1, warned
        assert "results go to r.db-spare" in warned[0]
        database.close()

    pid, handle = forked(work)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stored = said(handle)
    assert len(stored) > 12
    assert spare_path(path).exists()
    opened(path).close()  # there is room now: what lies in the spare room is moved over
    assert not spare_path(path).exists()
    assert sorted(stamps(path)) == sorted(map(float, stored))


def test_a_database_that_is_full(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    with collected_warnings() as warned, opened(path) as database:
        database.add(TASK, SPACE[0], ran(1.0, at=0.0))
        pages = database._connection.execute("PRAGMA page_count").fetchone()[0]  # pyright: ignore[reportPrivateUsage] a limit of sqlite's that a test sets
        database._connection.execute(f"PRAGMA max_page_count={pages}")  # pyright: ignore[reportPrivateUsage]
        for number in range(1, 60):
            database.add(TASK, SPACE[number], ran(1.0, at=float(number)))
        with pytest.raises(UserError, match=r"the disk is full.*what was stored is safe.*--resume"):
            database.lease(TASK, 70, 60)
    assert len(warned) == 1
    with opened(path) as database:
        assert [one.result.timestamp for one in database.records()] == list(map(float, range(60)))
        assert database.lease(TASK, 70, 60)


def test_a_full_spare_room_is_said(tmp_path: Path) -> None:
    long = some_task(kernel="x" * 300_000)
    with collected_warnings(), opened(tmp_path / "r.db") as database:
        database._connection.execute("PRAGMA max_page_count=1")  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(UserError, match="and the spare room for records, too"):
            database.add(long, SPACE[0], ran(1.0))


def test_no_room_for_the_spare_file_is_said_before_anything_is_measured(tmp_path: Path) -> None:
    def work(pipe: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, resource.RLIM_INFINITY))
        with pytest.raises(UserError, match=r"r\.db-spare: File too large"):
            opened(tmp_path / "r.db")

    pid, handle = forked(work)
    os.close(handle)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_fork_may_read(tmp_path: Path) -> None:
    space: Space = SPACE
    with opened(tmp_path / "r.db") as database:
        database.add(TASK, space[0], ran(1.0))

        def work(pipe: int) -> None:
            os.write(pipe, b"%d\n" % len(database.results(TASK)))

        pid, handle = forked(work)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert said(handle) == [1]
        database.add(TASK, space[1], ran(1.0))
        assert len(database.results(TASK)) == 2
