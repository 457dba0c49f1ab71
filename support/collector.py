"""Python's garbage collector, paused or slowed down while much is made that stays."""

import atexit
import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

RARE = 1_000_000
"""Further objects, about 100 MB, after which a compilation's collector looks for cycles (CPython's default: 700): few
are garbage before a compilation is done, and each collection walks over what there is of its modules."""


@contextmanager
def uncollected() -> Generator[None]:
    """
    No garbage collection inside.

    The objects of a module refer to each other, and the collector walks over all of them again and again while more are
    made: half of the time of parsing 100,000 operations.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_rarely() -> None:
    """Slow the collector of this process down for good."""
    gc.set_threshold(RARE, *gc.get_threshold()[1:])


def skip_last_collection() -> None:
    """
    Let the process of a command end without the interpreter's last collections, which walk over all classes of xDSL.

    Objects in cycles are not finalized then: see `finalize_at_exit`.
    """
    gc.freeze()


@cache
def finalize_at_exit() -> None:
    """Finalize objects in cycles at the end all the same: users' code is loaded, whose open files must be written."""
    atexit.register(gc.unfreeze)


class _Slowed:
    """How many compilations of this process have slowed the collector down, and its threshold before the first."""

    lock = threading.Lock()
    count = 0
    before = gc.get_threshold()


@contextmanager
def rarely_collected() -> Generator[None]:
    """Few garbage collections inside: a fourth of the time of compiling. Several threads may be inside at once."""
    with _Slowed.lock:
        if _Slowed.count == 0:
            _Slowed.before = gc.get_threshold()
            collect_rarely()
        _Slowed.count += 1
    try:
        yield
    finally:
        with _Slowed.lock:
            _Slowed.count -= 1
            if _Slowed.count == 0:
                gc.set_threshold(*_Slowed.before)
