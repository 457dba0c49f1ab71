"""The functions that a program calls by name: its table of them in rt, and what they raise."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from mlc.support.abi import RT_ERROR, RuntimeStruct
from mlc.support.errors import UserError
from mlc.support.registered import functions


class _FunctionEntry(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("context", ctypes.c_void_p)]


class CalledFunctions:
    """
    The table of the functions that a program calls by name, at `rt->functions` of the runtimes that it is given to.

    It follows the registry: a function that is registered anew is called from the next run on.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._table = (_FunctionEntry * max(len(self.names), 1))()
        self._seen = -1

    def attach(self, rt: int) -> None:
        """Give the table to a runtime, whose owner keeps this object."""
        if self.names:
            RuntimeStruct.from_address(rt).functions = ctypes.addressof(self._table)

    def check(self, what: str) -> None:
        """Bring the table up to date; UserError if a function that `what` calls is not registered."""
        if not self.names or self._seen == (now := functions.changes()):
            return
        for name, row in zip(self.names, self._table, strict=False):
            row.function = functions.entry(name) or None
        missing = [name for name, row in zip(self.names, self._table, strict=False) if not row.function]
        if missing:
            listed = ", ".join(f"'{name}'" for name in missing)
            raise UserError(f'{what} calls {listed}: register it first, by mlc.register_func("{missing[0]}", fn)')
        self._seen = now

    def failure(self, rt: int, what: str, status: int) -> Exception:
        """The exception for a run that returned a status, with what a registered function raised as its cause."""
        if not self.names:
            return RuntimeError(f"{what} returned error {status}")
        return functions.take_failure(rt + RT_ERROR, what, status)
