"""
LLVM IR of the functions by which a C program sizes its buffers for a model of symbolic sizes.

    <prefix>_symbols(shapes, symbols)           the symbols' values, or EINVAL where the shapes do not fit
    <prefix>_output_shapes(symbols, shapes)     the sizes of each output
    <prefix>_workspace_bytes(symbols, threads)  the bytes that a run needs
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mlc.runtime.sizes import MAX_BYTES, CompoundAtom, Size, Sizes, Symbol, binding_order
from mlc.support.abi import MAX_THREADS

EINVAL = 22
"""The status for shapes that do not fit: Linux's error number."""


class SizeFunctionWriter:
    """Writes straight-line LLVM IR on i64 that computes sizes from the values of symbols, each size once."""

    def __init__(self, names: Mapping[str, str] | None = None, lines: list[str] | None = None) -> None:
        self.names = dict(names or {})
        self.lines = [] if lines is None else lines
        self._known: dict[str, str] = {}

    def let(self, text: str) -> str:
        """The value of an instruction."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def load(self, pointer: str, index: int, type_: str = "i64") -> str:
        """Element `index` of an array of pointers or of i64."""
        at = self.let(f"getelementptr i64, ptr {pointer}, i64 {index}")
        return self.let(f"load {type_}, ptr {at}, align 8")

    def store(self, value: str, pointer: str, index: int) -> None:
        """Write an element of an array of i64."""
        at = self.let(f"getelementptr i64, ptr {pointer}, i64 {index}")
        self.lines.append(f"  store i64 {value}, ptr {at}, align 8")

    def size(self, size: Size) -> str:
        """The value of a size."""
        if isinstance(size, int):
            return str(size)
        key = repr(size)
        if key not in self._known:
            total = "0"
            for coefficient, atoms in size:
                part = str(coefficient)
                for atom in atoms:
                    value = self.names[atom] if isinstance(atom, str) else self._atom(atom)
                    part = self.product(part, value)
                total = part if total == "0" else self.let(f"add i64 {total}, {part}")
            self._known[key] = total
        return self._known[key]

    def product(self, x: str, y: str) -> str:
        """`x * y`."""
        return y if x == "1" else x if y == "1" else self.let(f"mul i64 {x}, {y}")

    def _atom(self, atom: CompoundAtom) -> str:
        return self.least(*map(self.size, atom[:2])) if len(atom) == 3 else self._quotient(*atom)

    def least(self, x: str, y: str) -> str:
        """The lesser of two values."""
        less = self.let(f"icmp slt i64 {x}, {y}")
        return self.let(f"select i1 {less}, i64 {x}, i64 {y}")

    def _quotient(self, size: Size, divisor: int) -> str:
        """A floor division: rounded down, below 0 too."""
        value = self.size(size)
        quotient, rest = self.let(f"sdiv i64 {value}, {divisor}"), self.let(f"srem i64 {value}, {divisor}")
        below = self.let(f"ashr i64 {rest}, 63")
        return self.let(f"add i64 {quotient}, {below}")

    def largest(self, values: Sequence[str]) -> str:
        """The largest of some values; 0 of none."""
        result = values[0] if values else "0"
        for value in values[1:]:
            more = self.let(f"icmp sgt i64 {value}, {result}")
            result = self.let(f"select i1 {more}, i64 {value}, i64 {result}")
        return result

    def text(self) -> str:
        """The instructions."""
        return "\n".join(self.lines)


class MagnitudeWriter(SizeFunctionWriter):
    """Writes upper bounds of the magnitudes of sizes as doubles, which cannot overflow as the i64 products may."""

    def size(self, size: Size) -> str:
        """An upper bound of the magnitude of a size."""
        if isinstance(size, int):
            return f"{abs(size):.17e}"
        key = repr(size)
        if key not in self._known:
            total = f"{0:.17e}"
            for coefficient, atoms in size:
                part = f"{abs(coefficient):.17e}"
                for atom in atoms:
                    part = self.product(part, self.names[atom] if isinstance(atom, str) else self._atom(atom))
                total = self.let(f"fadd double {total}, {part}")
            self._known[key] = total
        return self._known[key]

    def product(self, x: str, y: str) -> str:
        """`x * y`."""
        return self.let(f"fmul double {x}, {y}")

    def _atom(self, atom: CompoundAtom) -> str:
        if len(atom) == 3:
            return self.let(f"fadd double {self.size(atom[0])}, {self.size(atom[1])}")
        return self.let(f"fadd double {self.size(atom[0])}, {1:.17e}")  # a quotient may round away from 0

    def bytes(self, model: Mapping[str, Any]) -> str:
        """An upper bound of the bytes of all buffers together, and of each tensor."""
        total = f"{model['kernel_workspace_bytes']:.17e}"
        for size, _ in model["buffers"]:
            total = self.let(f"fadd double {total}, {self.size(size)}")
        for shape in Sizes(model).shapes:
            total = self.let(f"fadd double {total}, {self._product([16, *shape])}")
        for rows, sizes in model["kernel_rooms"]:
            names = {str(k): value for k, value in enumerate([*map(self.size, sizes), f"{MAX_THREADS:.17e}"])}
            own = MagnitudeWriter(names, self.lines)
            for factors in rows:
                total = self.let(f"fadd double {total}, {own._product(factors)}")
        return total

    def _product(self, sizes: Sequence[Size]) -> str:
        product = f"{1:.17e}"
        for size in sizes:
            product = self.product(product, self.size(size))
        return product


def size_functions(model: Mapping[str, Any], prefix: str) -> str:
    """The LLVM IR of the three functions."""
    return "\n".join((_symbols(model, prefix), _output_shapes(model, prefix), _workspace(model, prefix)))


def _symbols(model: Mapping[str, Any], prefix: str) -> str:
    """`_symbols`: each symbol from the first size that determines it, then all sizes are compared."""
    w, good = SizeFunctionWriter(), "true"

    def check(text: str) -> None:
        nonlocal good
        holds = w.let(text)
        good = holds if good == "true" else w.let(f"and i1 {good}, {holds}")

    symbols = [Symbol(*facts) for facts in model["symbols"]]
    shapes = [shape for _, shape, _ in model["inputs"]]
    found: list[tuple[Size, str]] = []
    at: dict[tuple[int, int], str] = {}
    for k, shape in enumerate(shapes):
        sizes = w.load("%shapes", k, "ptr") if shape else ""
        for axis, size in enumerate(shape):
            at[k, axis] = w.load(sizes, axis)
            found.append((size, at[k, axis]))
    for name, k, axis, factor, rest in binding_order(shapes, [symbol.name for symbol in symbols]):
        given = at[k, axis] if rest == 0 else w.let(f"sub i64 {at[k, axis]}, {w.size(rest)}")
        w.names[name] = given if factor == 1 else w.let(f"sdiv i64 {given}, {factor}")
    for k, symbol in enumerate(symbols):
        value = w.names[symbol.name]
        check(f"icmp sge i64 {value}, {symbol.low}")
        check(f"icmp sle i64 {value}, {symbol.high}")
        if symbol.step > 1:
            check(f"icmp eq i64 {w.let(f'srem i64 {value}, {symbol.step}')}, 0")
        w.store(value, "%symbols", k)
    for size, given in found:
        check(f"icmp eq i64 {w.size(size)}, {given}")
    for size, least in Sizes(model).extents:
        check(f"icmp sge i64 {w.size(size)}, {least}")
    wide = MagnitudeWriter({name: w.let(f"sitofp i64 {value} to double") for name, value in w.names.items()}, w.lines)
    check(f"fcmp olt double {wide.bytes(model)}, {MAX_BYTES:.17e}")
    status = w.let(f"select i1 {good}, i32 0, i32 {EINVAL}")
    return f"define i32 @{prefix}_symbols(ptr %shapes, ptr %symbols) {{\n{w.text()}\n  ret i32 {status}\n}}\n"


def _given(model: Mapping[str, Any]) -> SizeFunctionWriter:
    """A writer that has loaded the symbols from the array of their values."""
    w = SizeFunctionWriter()
    w.names = {name: w.load("%symbols", k) for k, (name, *_) in enumerate(model["symbols"])}
    return w


def _output_shapes(model: Mapping[str, Any], prefix: str) -> str:
    w = _given(model)
    for k, (_, shape, _) in enumerate(model["outputs"]):
        sizes = w.load("%shapes", k, "ptr") if shape else ""
        for axis, size in enumerate(shape):
            w.store(w.size(size), sizes, axis)
    return f"define void @{prefix}_output_shapes(ptr %symbols, ptr %shapes) {{\n{w.text()}\n  ret void\n}}\n"


def _workspace(model: Mapping[str, Any], prefix: str) -> str:
    """`_workspace_bytes`: the end of the last buffer, as in runtime/sizes.py, and the most that a kernel needs."""
    w = _given(model)
    threads = w.let("sext i32 %threads to i64")
    ends: list[str] = []
    buffers: Sequence[tuple[Any, Sequence[int]]] = model["buffers"]
    for size, below in buffers:
        offset = w.largest([ends[k] for k in below])
        ends.append(w.let(f"add i64 {offset}, {w.size(size)}"))
    rooms: list[str] = []
    for rows, sizes in model["kernel_rooms"]:
        own = SizeFunctionWriter({str(k): value for k, value in enumerate([*map(w.size, sizes), threads])}, w.lines)
        rooms.append(_room(own, rows, threads))
    total = w.let(f"add i64 {w.largest(ends)}, {w.largest(rooms)}")
    total = w.let(f"add i64 {total}, {max(64, model['kernel_workspace_bytes'])}")
    return f"define i64 @{prefix}_workspace_bytes(ptr %symbols, i32 %threads) {{\n{w.text()}\n  ret i64 {total}\n}}\n"


def _room(w: SizeFunctionWriter, rows: Sequence[Sequence[Size]], threads: str) -> str:
    """The bytes of a kernel's own buffers."""
    total = "0"
    for factors in rows:
        size = "1"
        for factor in factors:
            size = w.product(size, w.size(factor))
        total = w.let(f"add i64 {total}, {size}")
        total = w.let(f"add i64 {total}, {w.product(threads, '128')}")
    return total


__all__ = ["EINVAL", "size_functions"]
