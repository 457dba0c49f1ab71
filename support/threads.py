"""The number of threads that a model runs on."""

import os

from mlc.support.abi import MAX_THREADS
from mlc.support.errors import UserError


def available_cpus() -> int:
    """The CPUs that this process may run on, at least 1."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def thread_count(threads: object) -> int:
    """
    The number of threads that was asked for; None stands for one on each CPU that the process may use.

    Raises UserError for anything but None or an integer from 1 to 256.
    """
    if threads is None:
        return available_cpus()
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MAX_THREADS:
        raise UserError(f"expected threads to be 1 to {MAX_THREADS}, but got {threads!r}")
    return threads
