"""
Compile many kernels at once in forked workers.

    parent                                  worker (one for each CPU)
      sends the index of a kernel   ---->     lowers it: the module is in memory since the fork
      keeps the packed result       <----     sends it packed, or what went wrong
      sends `_END`                  ---->     ends with os._exit, as it does where the pipe is closed: the parent died

Kernels that the cache holds are not sent. A few small ones are compiled in this process, since forking takes longer.
The order of the results does not depend on who was faster. Several threads may compile at once: a forked process closes
what it inherits of the pipes to others.
"""

import gc
import os
import pickle
import selectors
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

from mlc.passes.pass_manager import PassFailed
from mlc.support.collector import collect_rarely
from mlc.support.display.progress import ProgressBar
from mlc.support.errors import UserError, located
from mlc.support.threads import available_cpus

Report = Callable[[int, int], None]
"""Called with the number of finished kernels and the number of all."""


class KernelError(UserError):
    """A kernel that cannot be compiled, through an error of the user's, or (`of_pass`) of a pass of the user's own."""

    def __init__(self, message: str, kernel: str, place: str = "", of_pass: bool = False) -> None:
        super().__init__(message, place=place)
        self.kernel = kernel
        self.of_pass = of_pass


class KernelCrash(RuntimeError):
    """A bug in mlc while compiling one kernel; `detail` is the worker's traceback."""

    def __init__(self, message: str, kernel: str, detail: str) -> None:
        super().__init__(message)
        self.kernel = kernel
        self.detail = detail


@dataclass(frozen=True)
class Job:
    """One kernel: its name, the source nodes in it, and the work, which returns bytes."""

    name: str
    origins: tuple[str, ...]
    run: Callable[[], bytes]
    what: str = "kernel"
    effort: int = 0
    """An estimate of the work beside that of other jobs: the largest begin first, so that workers end together."""

    def __str__(self) -> str:
        nodes = ", ".join(f"'{node}'" for node in self.origins[:3])
        return f"{self.what} '{self.name}'" + (f" (from {nodes})" if nodes else "")


LEAST_SHARED_EFFORT = 17
"""The effort, @main's included, that workers take off this process, at least, for which forking pays. Source: 17 small
models of 1 to 6 kernels on two CPUs of Zen 3, in a process that has loaded PyTorch: forking takes 0.15 s of time and
0.3 s of CPU time, a unit of effort 0.02 s; without it models of one to three kernels take 0.4 to 0.8 of the time."""


def available_workers() -> int:
    """One worker for each CPU that this process may use; 0 if the system cannot fork."""
    return available_cpus() if hasattr(os, "fork") else 0


def run_jobs(
    jobs: Sequence[Job],
    workers: int | None = None,
    report: Report | None = None,
    meanwhile: Callable[[], None] | None = None,
) -> list[bytes]:
    """
    The results of all jobs, in order; the first failure stops the rest.

    `meanwhile` is what this process does while workers run, in a thread of its own; it is done before the results are
    returned, and its error is raised.
    """
    count = min(available_workers() if workers is None else workers, len(jobs))
    if workers is None and not worth_sharing([job.effort for job in jobs], count):
        count = 1
    with _progress(len(jobs), report) as done:
        if count < 2:
            if meanwhile is not None:
                meanwhile()
            results: list[bytes] = []
            for job in jobs:
                results.append(_run_here(job))
                done(len(results), len(jobs))
            return results
        crew = _Crew(jobs, count, done)
        if meanwhile is None:
            return crew.run()
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(1) as beside:  # begun after the workers were forked
            other = beside.submit(meanwhile)
            packed = crew.run()
            other.result()
            return packed


def worth_sharing(efforts: Sequence[int], workers: int) -> bool:
    """Whether `workers` workers finish the jobs enough earlier than one; always where no job has an estimate."""
    total = sum(efforts)
    return not total or total - max(*efforts, total // max(workers, 1)) >= LEAST_SHARED_EFFORT


def _run_here(job: Job) -> bytes:
    kind, value, detail = _attempt(job)
    if kind != "done":
        raise _failure(job, kind, value, detail)
    return value


def _attempt(job: Job) -> tuple[str, Any, str]:
    """
    The outcome of a job: ("done", bytes, ""), ("bug", message, a traceback), or with the place of the error ("user",
    message, place), and ("pass", message, place) where a pass of the user's own is wrong.
    """
    try:
        with located():
            return "done", job.run(), ""
    except UserError as error:
        return "pass" if isinstance(error, PassFailed) else "user", error.text, error.place
    except Exception as error:
        return "bug", f"{type(error).__name__}: {error}", traceback.format_exc()


def _failure(job: Job, kind: str, message: str, detail: str) -> Exception:
    if kind != "bug":
        return KernelError(f"{job}: {message}", job.name, detail, kind == "pass")
    return KernelCrash(f"a bug in mlc: {job} cannot be compiled: {message}", job.name, detail)


_END = 0xFFFF_FFFF
"""The command after which a worker ends: another process may hold a copy of the pipe, and so keep it open."""
_forking = threading.RLock()
"""Held while this process forks, and while pipes to workers are opened and closed: no fork falls in between."""
_ends: set[int] = set()
"""This process's ends of the pipes to all workers, of all threads."""


def _forget_workers() -> None:
    """In a forked process: the workers are its parent's, and so are the threads that might hold the lock."""
    global _forking
    _forking = threading.RLock()
    for end in _ends:
        os.close(end)
    _ends.clear()


if hasattr(os, "fork"):
    os.register_at_fork(
        before=lambda: _forking.acquire(), after_in_parent=lambda: _forking.release(), after_in_child=_forget_workers
    )


class _Worker:
    """A forked process, as its parent sees it."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.job = -1
        sys.stdout.flush()
        sys.stderr.flush()
        with _forking:
            commands, command_end = os.pipe()
            result_end, results = os.pipe()
            _ends.update((command_end, result_end))
            self.pid = os.fork()
            if self.pid == 0:
                _serve(jobs, os.fdopen(commands, "rb"), os.fdopen(results, "wb"))
            os.close(commands)
            os.close(results)
        self.commands: BinaryIO = os.fdopen(command_end, "wb", buffering=0)
        self.results: BinaryIO = os.fdopen(result_end, "rb")

    def send(self, index: int) -> None:
        """Give the worker a job."""
        self.job = index
        self.commands.write(index.to_bytes(4, "little"))

    def receive(self) -> tuple[str, Any, str]:
        """The outcome of the job; EOFError if the worker died."""
        return pickle.load(self.results)

    def end(self, kill: bool = False) -> int:
        """Let the worker go; its exit status."""
        if kill:
            os.kill(self.pid, signal.SIGKILL)
        with _forking:
            _ends.difference_update((self.commands.fileno(), self.results.fileno()))
            with suppress(BrokenPipeError):  # the worker died
                self.send(_END)
            self.commands.close()
            self.results.close()
        return os.waitpid(self.pid, 0)[1]


def _serve(jobs: Sequence[Job], commands: BinaryIO, results: BinaryIO) -> None:
    """The loop of a worker process; never returns."""
    status = 1
    try:
        collect_rarely()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the parent's handler removes the parent's directories
        while len(command := commands.read(4)) == 4 and (job := int.from_bytes(command, "little")) != _END:
            pickle.dump(_attempt(jobs[job]), results)
            results.flush()
        status = 0
    finally:
        os._exit(status)


class _Crew:
    """The workers, and which job is next."""

    def __init__(self, jobs: Sequence[Job], count: int, done: Report) -> None:
        self.jobs = jobs
        self.done = done
        self.results: list[bytes] = [b""] * len(jobs)
        self.waiting = iter(sorted(range(len(jobs)), key=lambda index: -jobs[index].effort))
        self.workers: list[_Worker] = []
        gc.freeze()  # the collector must not touch, and so copy, the pages that workers share
        for _ in range(count):
            self.workers.append(_Worker(jobs))
        gc.unfreeze()

    def run(self) -> list[bytes]:
        """Hand out the jobs until all are done."""
        finished, good = 0, False
        selector = selectors.DefaultSelector()
        try:
            for worker in self.workers:
                selector.register(worker.results, selectors.EVENT_READ, worker)
                self.next_job(worker)
            while finished < len(self.jobs):
                for key, _ in selector.select():
                    self.collect(key.data)
                    finished += 1
                    self.done(finished, len(self.jobs))
            good = True
            return self.results
        finally:
            selector.close()
            for worker in self.workers:
                worker.end(kill=not good)

    def next_job(self, worker: _Worker) -> None:
        index = next(self.waiting, None)
        if index is not None:
            worker.send(index)

    def collect(self, worker: _Worker) -> None:
        """Take one result; raise what the job raised."""
        job = self.jobs[worker.job]
        try:
            kind, value, detail = worker.receive()
        except (EOFError, pickle.UnpicklingError) as error:
            self.workers.remove(worker)
            status = worker.end()
            code = os.waitstatus_to_exitcode(status)
            how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            raise KernelCrash(f"a bug in mlc: {job} ended its worker with {how}", job.name, "") from error
        if kind != "done":
            raise _failure(job, kind, value, detail)
        self.results[worker.job] = value
        self.next_job(worker)


@contextmanager
def _progress(total: int, report: Report | None) -> Generator[Report]:
    """Progress for a person: a bar on a terminal once a second has passed, unless somebody else reports."""
    if report is not None or not sys.stderr.isatty():
        yield report or (lambda done, of: None)
        return
    bar = ProgressBar()
    try:
        yield lambda done, of: bar.update("compiling kernels", done, of)
    finally:
        bar.close()
