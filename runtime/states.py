"""
What one call of a compiled model works in, and the bounded pool of it, which lets calls run side by side.

    state = workspace + runtime struct with its scratch + the array of operands; weights and code are shared

A call takes a free state, or makes one while there are fewer than the limit, or waits. The state that was used last is
taken first: its memory is in the caches. While several calls run, each gets a part of the model's threads.
"""

import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from mlc.runtime.arrays import address_of, aligned
from mlc.runtime.code import Code
from mlc.runtime.functions import CalledFunctions
from mlc.support.abi import RuntimeStruct
from mlc.support.threads import available_cpus


def most_states() -> int:
    """Calls of one executable that run at the same time: one for each CPU of the process, and at least 2."""
    return max(2, available_cpus())


class CallState:
    """The memory of one call; `at` is the address of its array of operands."""

    def __init__(
        self,
        code: Code,
        threads: int,
        scratch: int,
        workspace: int,
        operands: int,
        functions: CalledFunctions | None = None,
    ) -> None:
        self.rt, self._keeper = code.runtime(threads, scratch)
        self._functions = functions  # whose table the runtime struct points to
        if functions is not None:
            functions.attach(self.rt)
        self.workspace = aligned(workspace)
        self.workspace_at = address_of(self.workspace)
        self.operands = (ctypes.c_void_p * operands)()
        self.at = ctypes.addressof(self.operands)
        self._struct = RuntimeStruct.from_address(self.rt)
        self.most_threads = self.threads = self._struct.threads
        self.call: Callable[[], int] | None = None
        """The call of the model's main function in this state, once it is made."""
        self.kept: dict[str, Any] = {}
        """What an executor keeps from one call to the next."""

    def share(self, calls: int) -> None:
        """Use this call's share of the threads while `calls` calls run at once."""
        threads = max(1, self.most_threads // calls)
        if threads != self.threads:
            self.threads = self._struct.threads = threads

    def resize(self, size: int, slack: int) -> None:
        """A workspace of at least `size` bytes, and of not many times that."""
        if not size <= len(self.workspace) <= slack * size + (1 << 20):
            self.workspace = aligned(size)
            self.workspace_at = address_of(self.workspace)


class StatePool:
    """States of one executable, made by `make` when they are needed. A child after fork begins with the free ones."""

    def __init__(self, make: Callable[[], CallState], limit: int | None = None) -> None:
        self._make = make
        self.limit = limit or most_states()
        self.free: list[CallState] = [make()]
        self.made = 1
        self._waiting = 0
        self._change = threading.Condition()
        _TO_FORK.add(self)

    def take(self) -> CallState:
        """A state that no other call uses; waits while `limit` calls run. Each is to be given back."""
        try:
            state = self.free.pop()
        except IndexError:
            state = self._other()
        if state.most_threads > 1:
            state.share(max(1, self.made - len(self.free)))
        return state

    def give(self, state: CallState) -> None:
        """Give a state back."""
        self.free.append(state)
        if self._waiting:
            with self._change:
                self._change.notify()

    def _other(self) -> CallState:
        """A new state, or the first that is given back."""
        with self._change:
            if self.made >= self.limit:
                # `give` appends, then asks who waits; this thread says that it waits, then looks.
                self._waiting += 1
                try:
                    while True:
                        try:
                            return self.free.pop()
                        except IndexError:
                            self._change.wait()
                finally:
                    self._waiting -= 1
            self.made += 1
        try:
            return self._make()
        except BaseException:
            self.made -= 1
            raise

    def after_fork(self) -> None:
        """In a child: what other threads held is lost, and nobody waits."""
        self._change, self._waiting, self.made = threading.Condition(), 0, len(self.free)


class Submitter:
    """Threads on which calls run while the caller goes on; they start at the first call."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._threads: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        _TO_FORK.add(self)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "Future[Any]":
        """The future of `function(*arguments)`."""
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self._limit, "mlc")
            return self._threads.submit(function, *arguments)

    def after_fork(self) -> None:
        """In a child: the threads are gone."""
        self._threads, self._lock = None, threading.Lock()


_TO_FORK: "weakref.WeakSet[StatePool | Submitter]" = weakref.WeakSet()


def _after_fork() -> None:
    for one in list(_TO_FORK):
        one.after_fork()


os.register_at_fork(after_in_child=_after_fork)

__all__ = ["CallState", "StatePool", "Submitter", "most_states"]
