"""
Sizes of a model with symbolic shapes: a call's arrays give the symbols' values, which give all other sizes.

    size ::= integer | [[coefficient, [atom, ...]], ...]        a sum of products
    atom ::= "symbol" | [size, divisor] | [size, size, "min"]   a floor division, the lesser of two
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from mlc.support.alignment import ALIGNMENT

CompoundAtom: TypeAlias = "tuple[Size, int] | tuple[Size, Size, str]"
"""A floor division, or the lesser of two sizes; JSON has lists in the place of tuples."""
Atom: TypeAlias = "str | CompoundAtom"
Size: TypeAlias = "int | Sequence[tuple[int, Sequence[Atom]]]"
"""An integer, or an expression as above."""
UNBOUNDED_SIZE = 10**8
"""Upper bounds of symbols from here on stand for an unbounded symbol."""
MAX_BYTES = 1 << 62
"""Limit in bytes of each buffer and of their sum, so that every intermediate result fits 64 bits."""
REMEMBERED_SHAPES = 64
"""Combinations of input shapes whose derived sizes are cached."""


def evaluate(size: Size, values: Mapping[str, int]) -> int:
    """The size for these values of the symbols."""
    if isinstance(size, int):
        return size
    total = 0
    for coefficient, atoms in size:
        for atom in atoms:
            coefficient *= values[atom] if isinstance(atom, str) else _evaluate_atom(atom, values)
        total += coefficient
    return total


def _evaluate_atom(atom: CompoundAtom, values: Mapping[str, int]) -> int:
    first, second = evaluate(atom[0], values), evaluate(atom[1], values)
    return first // second if len(atom) == 2 else min(first, second)


def text(size: Size) -> int | str:
    """The size as people read it: an integer stays one."""
    if isinstance(size, int):
        return size
    parts: list[str] = []
    for coefficient, atoms in size:
        names = [a if isinstance(a, str) else _atom_text(a) for a in atoms]
        names = [f"({n})" if "//" in n and len(size) + len(atoms) + abs(coefficient) > 3 else n for n in names]
        parts.append(" * ".join([*names, *([str(coefficient)] if coefficient != 1 or not names else [])]))
    return " + ".join(parts).replace("+ -", "- ")


def _atom_text(atom: CompoundAtom) -> str:
    if len(atom) == 3:
        return f"min({text(atom[0])}, {text(atom[1])})"
    return f"({text(atom[0])}) // {atom[1]}"


def symbolic_buffer_bytes(rows: Sequence[Sequence[Size]], sizes: Sequence[int], threads: int) -> int:
    """
    The bytes of a kernel's buffers of symbolic sizes.

    A row has the factors of one buffer's size. They refer to the kernel's symbols by number; the number after the last
    symbol stands for the number of threads.
    """
    values = {str(k): n for k, n in enumerate((*sizes, threads))}
    total = 0
    for row in rows:
        size = 1
        for factor in row:
            size *= evaluate(factor, values)
        total += size + 2 * ALIGNMENT * threads  # room to round each thread's part up, and a line between
    return total


class EmptySize(ValueError):
    """A size is 0, but the model was compiled only for larger values of it."""


@dataclass(frozen=True)
class Symbol:
    """A symbol: its values are the multiples of `step` from `low` to `high`."""

    name: str
    low: int
    high: int
    step: int

    def solve(self, where: str, size: int, factor: int, more: int) -> int:
        """
        The value of the symbol for which `factor * symbol + more` equals `size`.

        ValueError if there is none, or if the model was not compiled for it.
        """
        value, rest = divmod(size - more, factor)
        if rest or not self.low <= value <= self.high or value % self.step:
            step = self.step * factor
            of = f" in steps of {step}" if step > 1 else ""
            low, high = self.low * factor + more, self.high * factor + more
            to = f"to {high}" if high < UNBOUNDED_SIZE or size > high else "on"
            hint = f"; symbols={{'{self.name}': (0, ...)}} admits 0 where the operations do"
            expected = f"expected {where} ({self.name}) from {low} {to}{of}, but got {size}"
            raise EmptySize(expected + hint) if size == 0 < low else ValueError(expected)
        return value


@dataclass(frozen=True)
class Bound:
    """The sizes that follow from the shapes of the inputs."""

    symbols: tuple[int, ...]
    outputs: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    """Offsets in bytes of the buffers in the workspace."""
    bytes: int
    """Bytes of the workspace, without the buffers that kernels use inside."""
    values: dict[str, int]
    """The symbols' values by name."""


class Sizes:
    """The symbols of a compiled model."""

    def __init__(self, model: Mapping[str, Any]) -> None:
        self.symbols = [Symbol(*facts) for facts in model["symbols"]]
        self.inputs = [(name, shape) for name, shape, _ in model["inputs"]]
        self.order = binding_order([shape for _, shape in self.inputs], [symbol.name for symbol in self.symbols])
        self.outputs = [shape for _, shape, _ in model["outputs"]]
        self.buffers: Sequence[tuple[Size, Sequence[int]]] = model["buffers"]
        on_the_way = [value["shape"] for value in model.get("values", ())]
        shapes = {repr(shape): shape for shape in (*on_the_way, *self.outputs)}
        self.shapes = [shape for shape in shapes.values() if any(not isinstance(size, int) for size in shape)]
        self._from_0 = set(model.get("from_0", ()))
        self._known: OrderedDict[tuple[tuple[int, ...], ...], Bound] = OrderedDict()

    @property
    def extents(self) -> list[tuple[Size, int]]:
        """The symbolic sizes of all tensors, each with its minimum."""
        sizes = {repr(size): size for shape in self.shapes for size in shape if not isinstance(size, int)}
        return [(size, self.least(size)) for size in sizes.values()]

    def least(self, size: Size) -> int:
        """The minimum of a size: 0 if it depends on a symbol that may be 0, else 1."""
        return 0 if isinstance(size, int) or not self._from_0.isdisjoint(_symbols(size)) else 1

    def bind(self, shapes: Sequence[tuple[int, ...]]) -> Bound:
        """The sizes for inputs of these shapes; ValueError if they do not fit the model or each other."""
        key = tuple(shapes)
        if (known := self._known.get(key)) is None:
            known = self._known[key] = self._bind(key)
            if len(self._known) > REMEMBERED_SHAPES:
                self._known.popitem(last=False)
        return known

    def _bind(self, shapes: Sequence[tuple[int, ...]]) -> Bound:
        values = self._values(shapes)
        for shape in self.shapes:
            found = tuple(evaluate(size, values) for size in shape)
            if any(n < self.least(size) for n, size in zip(found, shape, strict=True)):
                raise self._unfit("larger", shapes, f"a tensor of the model is {found}")
            if 16 * math.prod(found) >= MAX_BYTES:
                raise self._unfit("smaller", shapes, f"a tensor of the model is {found}")
        offsets: list[int] = []
        ends: list[int] = []
        for size, below in self.buffers:
            offsets.append(max((ends[k] for k in below), default=0))
            ends.append(offsets[-1] + evaluate(size, values))
        if max(ends, default=0) >= MAX_BYTES:
            raise self._unfit("smaller", shapes, f"the model needs {max(ends)} bytes")
        outputs = tuple(tuple(evaluate(n, values) for n in shape) for shape in self.outputs)
        symbols = tuple(values[s.name] for s in self.symbols)
        return Bound(symbols, outputs, tuple(offsets), max(ends, default=0), values)

    def _unfit(self, wanted: str, shapes: Sequence[tuple[int, ...]], why: str) -> ValueError:
        given = ", ".join(f"{name} {shape}" for (name, _), shape in zip(self.inputs, shapes, strict=True))
        return ValueError(f"expected {wanted} inputs than {given}, with which {why}")

    def _values(self, shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
        """The symbols' values: each is bound by the first size that determines it, and all other sizes must agree."""
        for (name, declared), shape in zip(self.inputs, shapes, strict=True):
            if len(shape) != len(declared):
                raise ValueError(f"expected input '{name}' of rank {len(declared)}, but got shape {tuple(shape)}")
        values: dict[str, int] = {}
        first: dict[str, str] = {}
        known = {s.name: s for s in self.symbols}
        for symbol, k, axis, factor, rest in self.order:
            where = f"axis {axis} of input '{self.inputs[k][0]}'"
            values[symbol] = known[symbol].solve(where, shapes[k][axis], factor, evaluate(rest, values))
            first[symbol] = where
        for (name, declared), shape in zip(self.inputs, shapes, strict=True):
            for axis, (size, given) in enumerate(zip(declared, shape, strict=True)):
                if (wanted := evaluate(size, values)) == given:
                    continue
                symbol, where = single_symbol(size)[0], f"axis {axis} of input '{name}'"
                if symbol:
                    said = f", as {first[symbol]} says ({symbol})"
                else:
                    said = "" if isinstance(size, int) else f" ({text(size)})"
                raise ValueError(f"expected {where} to be {wanted}{said}, but got {given}")
        return values


def binding_order(shapes: Sequence[Sequence[Size]], names: Sequence[str]) -> list[tuple[str, int, int, int, Size]]:
    """
    The order in which shapes determine the symbols: rows of (symbol, shape, axis, factor, rest).

    The size at that axis is `factor * symbol + rest`, the rest an expression of the symbols in earlier rows.
    """
    found: list[tuple[str, int, int, int, Size]] = []
    known: set[str] = set()

    def look(read: Callable[[Size], tuple[str, int, Size]]) -> bool:
        for k, shape in enumerate(shapes):
            for axis, size in enumerate(shape):
                symbol, factor, rest = read(size)
                if symbol in names and symbol not in known:
                    known.add(symbol)
                    found.append((symbol, k, axis, factor, rest))
        return len(known) < len(names)

    if look(lambda size: (*single_symbol(size), 0)):
        before = -1
        while before < len(known):
            before = len(known)
            look(lambda size: _last(size, known))
    return found


def _last(size: Size, known: Collection[str]) -> tuple[str, int, Size]:
    """The one unknown symbol of a linear size, its factor, and the rest; no name for any other size."""
    if isinstance(size, int):
        return "", 1, 0
    rest = [term for term in size if _symbols([term]) <= set(known)]
    (symbol, factor), others = single_symbol([t for t in size if t not in rest]), rest or 0
    return symbol, factor, others


def _symbols(size: Size) -> set[str]:
    if isinstance(size, int):
        return set()
    atoms = [atom for _, atoms in size for atom in atoms]
    return {a for a in atoms if isinstance(a, str)}.union(
        *(_symbols(p) for a in atoms if not isinstance(a, str) for p in a[:2])
    )


def single_symbol(size: Size) -> tuple[str, int]:
    """The symbol and the factor of a size `factor * symbol`; no name for any other size."""
    if isinstance(size, int) or len(size) != 1:
        return "", 1
    factor, atoms = size[0]
    return (atoms[0], factor) if len(atoms) == 1 and isinstance(atoms[0], str) else ("", 1)
