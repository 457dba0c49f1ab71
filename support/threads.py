"""How many threads a model runs on."""

import os

from mlc.support.errors import UserError


def thread_count(threads: int | None) -> int:
    """The number of threads: by default one for each CPU that the process may use."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads is None:
        return count
    if not isinstance(threads, int) or not 1 <= threads <= 256:
        raise UserError(f"expected threads to be 1 to 256, but got {threads!r}")
    return threads
