"""Runs a program with branches and loops step by step: the items that driver/describe/program.py writes."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mlc.runtime.sizes import Size, evaluate

_COMPUTE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max, "and": lambda a, b: a & b,
    "<": operator.lt,
}  # fmt: skip
CELLS = {"i1": ctypes.c_bool, "i8": ctypes.c_int8, "i32": ctypes.c_int32, "i64": ctypes.c_int64}
"""The types of one element, by the dtype without its sign."""


Number: TypeAlias = "int | Mapping[str, Size] | tuple[str, Number, Number]"
"""A number that @main computes; JSON has lists in the place of tuples."""


def number_of(
    number: Number, symbols: Mapping[str, int], iterations: Mapping[int, int], cell: Callable[[int], Any]
) -> int:
    """The current value of a number, of symbols and iterations of loops; `cell` gives the one element of a value."""
    if isinstance(number, int):
        return number
    if not isinstance(number, Mapping):
        name, x, y = number
        a, b = number_of(x, symbols, iterations, cell), number_of(y, symbols, iterations, cell)
        return int(_COMPUTE[name](a, b))
    ((kind, what),) = number.items()
    if kind == "size":
        return evaluate(what, symbols)
    assert isinstance(what, int)
    return iterations[what] if kind == "loop" else int(cell(what).value)


class Runner:
    """Runs the items; `call` runs a node, `pointer` gives the address of a value."""

    def __init__(
        self,
        graph: Mapping[str, Any],
        call: Callable[[int], None],
        pointer: Callable[[int], int],
        symbols: Mapping[str, int],
    ) -> None:
        self.values, self.call, self.pointer, self.symbols = graph["values"], call, pointer, symbols
        self.iterations: dict[int, int] = {}

    def number(self, number: Number) -> int:
        """The current value of a number of the program."""
        return number_of(number, self.symbols, self.iterations, self._cell)

    def offset(self, value: int) -> int:
        """The bytes from where a value's stack begins to its row."""
        return sum(self.number(index) * self.number(size) for index, size in self.values[value].get("rows", ()))

    def run(self, items: Sequence[Any]) -> None:
        """Run items in order."""
        for kind, *rest in items:
            if kind == "call":
                self.call(rest[0])
            elif kind == "copy":
                source, target, size = rest
                ctypes.memmove(self.pointer(target), self.pointer(source), self.number(size))
            elif kind == "fill":
                ctypes.memset(self.pointer(rest[0]), 0, self.number(rest[1]))
            elif kind == "store":
                self._cell(rest[0]).value = self.number(rest[1])
            elif kind == "if":
                self.run(rest[1] if self.number(rest[0]) else rest[2])
            else:
                self._loop(kind, *rest)

    def _loop(self, kind: str, loop: int, number: Number, body: Sequence[Any]) -> None:
        """`for` reads its count once, at the start; `while` runs as long as its number is not 0."""
        self.iterations[loop] = 0
        most = self.number(number) if kind == "for" else None
        while self.iterations[loop] < most if most is not None else self.number(number):
            self.run(body)
            self.iterations[loop] += 1

    def _cell(self, value: int) -> Any:
        """The one element of a value."""
        return CELLS[self.values[value]["dtype"].removeprefix("u")].from_address(self.pointer(value))


__all__ = ["CELLS", "Number", "Runner", "number_of"]
