"""
The functions by which a C program sizes its buffers for a model of symbolic sizes, as LLVM IR or as C99.

    <prefix>_symbols(shapes, symbols)           the symbols' values, or EINVAL where the shapes do not fit
    <prefix>_output_shapes(symbols, shapes)     the sizes of each output
    <prefix>_workspace_bytes(symbols, threads)  the bytes that a run needs
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mlc.codegen.c.program.tidy import tidied
from mlc.driver.export.size_languages import C99, EINVAL, LLVM, SizeLanguage
from mlc.runtime.sizes import MAX_BYTES, CompoundAtom, Size, Sizes, Symbol, binding_order
from mlc.support.abi import MAX_THREADS


class SizeFunctionWriter:
    """Writes straight-line code on 64-bit integers that computes sizes from the values of symbols, each size once."""

    def __init__(
        self,
        names: Mapping[str, str] | None = None,
        lines: list[str] | None = None,
        language: SizeLanguage = LLVM,
    ) -> None:
        self.names = dict(names or {})
        self.lines = [] if lines is None else lines
        self.language = language
        self._known: dict[str, str] = {}

    def let(self, operation: str, *operands: str) -> str:
        """The value of an operation of the language's table."""
        return self._declare(
            self.language.operations[operation].format(*operands), self.language.types.get(operation, "const int64_t")
        )

    def _declare(self, value: str, type_: str = "") -> str:
        name = self.language.variable.format(len(self.lines))
        self.lines.append(self.language.declaration.format(name, value, type_))
        return name

    def _place(self, pointer: str, index: int) -> str:
        """The address of an element where the language loads and stores by it, else the array."""
        element = self.language.element
        return pointer if element is None else self._declare(element.format(pointer, index))

    def load(self, pointer: str, index: int, operation: str = "load") -> str:
        """Element `index` of an array of i64, or of pointers by another operation."""
        return self.let(operation, self._place(pointer, index), str(index))

    def store(self, value: str, pointer: str, index: int) -> None:
        """Write an element of an array of i64."""
        self.lines.append(self.language.store.format(value, self._place(pointer, index), index))

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
                total = part if total == "0" else self.let("add", total, part)
            self._known[key] = total
        return self._known[key]

    def product(self, x: str, y: str) -> str:
        """`x * y`."""
        return y if x == "1" else x if y == "1" else self.let("mul", x, y)

    def _atom(self, atom: CompoundAtom) -> str:
        return self.least(*map(self.size, atom[:2])) if len(atom) == 3 else self._quotient(*atom)

    def least(self, x: str, y: str) -> str:
        """The lesser of two values."""
        return self.let("select", self.let("lt", x, y), x, y)

    def _quotient(self, size: Size, divisor: int) -> str:
        """A floor division: rounded down, below 0 too."""
        value = self.size(size)
        quotient, rest = self.let("div", value, str(divisor)), self.let("rem", value, str(divisor))
        return self.let("add", quotient, self.let("sign", rest))

    def largest(self, values: Sequence[str]) -> str:
        """The largest of some values; 0 of none."""
        result = values[0] if values else "0"
        for value in values[1:]:
            result = self.let("select", self.let("gt", value, result), value, result)
        return result

    def function(self, what: str, prefix: str, result: str = "") -> str:
        """A whole function of the language with these lines."""
        return self.language.functions[what].format(prefix, "\n".join(self.lines), result)


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
                total = self.let("add_double", total, part)
            self._known[key] = total
        return self._known[key]

    def product(self, x: str, y: str) -> str:
        """`x * y`."""
        return self.let("mul_double", x, y)

    def _atom(self, atom: CompoundAtom) -> str:
        if len(atom) == 3:
            return self.let("add_double", self.size(atom[0]), self.size(atom[1]))
        return self.let("add_double", self.size(atom[0]), f"{1:.17e}")  # a quotient may round away from 0

    def bytes(self, model: Mapping[str, Any]) -> str:
        """An upper bound of the bytes of all buffers together, and of each tensor."""
        total = f"{model['kernel_workspace_bytes']:.17e}"
        for size, _ in model["buffers"]:
            total = self.let("add_double", total, self.size(size))
        for shape in Sizes(model).shapes:
            total = self.let("add_double", total, self._product([16, *shape]))
        for rows, sizes in model["kernel_rooms"]:
            names = {str(k): value for k, value in enumerate([*map(self.size, sizes), f"{MAX_THREADS:.17e}"])}
            own = MagnitudeWriter(names, self.lines, self.language)
            for factors in rows:
                total = self.let("add_double", total, own._product(factors))
        return total

    def _product(self, sizes: Sequence[Size]) -> str:
        product = f"{1:.17e}"
        for size in sizes:
            product = self.product(product, self.size(size))
        return product


def size_functions(model: Mapping[str, Any], prefix: str, language: SizeLanguage = LLVM) -> str:
    """The text of the three functions."""
    texts = [function(model, prefix, language) for function in (_symbols, _output_shapes, _workspace)]
    return "\n".join(map(tidied, texts) if language is C99 else texts)


def _symbols(model: Mapping[str, Any], prefix: str, language: SizeLanguage) -> str:
    """`_symbols`: each symbol from the first size that determines it, then all sizes are compared."""
    w, good = SizeFunctionWriter(language=language), language.true
    given_shapes = language.parameter.format("shapes")

    def check(comparison: str, x: str, y: str | int) -> None:
        nonlocal good
        holds = w.let(comparison, x, str(y))
        good = holds if good == language.true else w.let("and", good, holds)

    symbols = [Symbol(*facts) for facts in model["symbols"]]
    shapes = [shape for _, shape, _ in model["inputs"]]
    found: list[tuple[Size, str]] = []
    at: dict[tuple[int, int], str] = {}
    for k, shape in enumerate(shapes):
        sizes = w.load(given_shapes, k, "load_row") if shape else ""
        for axis, size in enumerate(shape):
            at[k, axis] = w.load(sizes, axis)
            found.append((size, at[k, axis]))
    for name, k, axis, factor, rest in binding_order(shapes, [symbol.name for symbol in symbols]):
        given = at[k, axis] if rest == 0 else w.let("sub", at[k, axis], w.size(rest))
        w.names[name] = given if factor == 1 else w.let("div", given, str(factor))
    for k, symbol in enumerate(symbols):
        value = w.names[symbol.name]
        check("ge", value, symbol.low)
        check("le", value, symbol.high)
        if symbol.step > 1:
            check("eq", w.let("rem", value, str(symbol.step)), 0)
        w.store(value, language.parameter.format("symbols"), k)
    for size, given in found:
        if (value := w.size(size)) != given:
            check("eq", value, given)
    for size, least in Sizes(model).extents:
        check("ge", w.size(size), least)
    wide = MagnitudeWriter({name: w.let("double", value) for name, value in w.names.items()}, w.lines, language)
    check("lt_double", wide.bytes(model), f"{MAX_BYTES:.17e}")
    return w.function("symbols", prefix, w.let("status", good))


def _given(model: Mapping[str, Any], language: SizeLanguage) -> SizeFunctionWriter:
    """A writer that has loaded the symbols from the array of their values."""
    w = SizeFunctionWriter(language=language)
    values = language.parameter.format("symbols")
    w.names = {name: w.load(values, k) for k, (name, *_) in enumerate(model["symbols"])}
    return w


def _output_shapes(model: Mapping[str, Any], prefix: str, language: SizeLanguage) -> str:
    w = _given(model, language)
    for k, (_, shape, _) in enumerate(model["outputs"]):
        sizes = w.load(language.parameter.format("shapes"), k, "load_own_row") if shape else ""
        for axis, size in enumerate(shape):
            w.store(w.size(size), sizes, axis)
    return w.function("output_shapes", prefix)


def _workspace(model: Mapping[str, Any], prefix: str, language: SizeLanguage) -> str:
    """`_workspace_bytes`: the end of the last buffer, as in runtime/sizes.py, and the most that a kernel needs."""
    w = _given(model, language)
    threads = w.let("extend", language.parameter.format("threads"))
    ends: list[str] = []
    buffers: Sequence[tuple[Any, Sequence[int]]] = model["buffers"]
    for size, below in buffers:
        offset = w.largest([ends[k] for k in below])
        ends.append(w.let("add", offset, w.size(size)))
    rooms: list[str] = []
    for rows, sizes in model["kernel_rooms"]:
        names = {str(k): value for k, value in enumerate([*map(w.size, sizes), threads])}
        own = SizeFunctionWriter(names, w.lines, language)
        rooms.append(_room(own, rows, threads))
    total = w.let("add", w.largest(ends), w.largest(rooms))
    total = w.let("add", total, str(max(64, model["kernel_workspace_bytes"])))
    return w.function("workspace", prefix, total)


def _room(w: SizeFunctionWriter, rows: Sequence[Sequence[Size]], threads: str) -> str:
    """The bytes of a kernel's own buffers."""
    total = "0"
    for factors in rows:
        size = "1"
        for factor in factors:
            size = w.product(size, w.size(factor))
        total = w.let("add", total, size)
        total = w.let("add", total, w.product(threads, "128"))
    return total


__all__ = ["C99", "EINVAL", "LLVM", "SizeFunctionWriter", "size_functions"]
