"""
A kernel's own symbols, s0, s1, .. in order of appearance, so that equal kernels have equal text.

Each symbol of the caller becomes a symbol of the kernel. If symbols of the caller appear in the kernel's operand types
only within one expression or product, this becomes one symbol as a whole; its constant factor is kept, so that `H * 8`
is known to be a multiple of 8 in the kernel, too.

    exp(tensor<?x?xf32, #graph.dims<[H floordiv 4, W * 8]>>)  ->  exp(tensor<?x?xf32, #graph.dims<[s0, s1 * 8]>>)
                                                                  where s0 = H floordiv 4, s1 = W
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd, inf

from xdsl.ir import Attribute, Block, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph import DimExpr, GraphOp, SymbolAttr, infer
from mlc.dialects.graph.dims import Atom, Dim, bounds_between, least_extent
from mlc.dialects.graph.symbols import retype
from mlc.dialects.graph.types import is_dynamic, shape_of, tensor, tensor_type

LARGEST = (1 << 31) - 1


class UnknownSize(Exception):
    """A size that cannot be expressed in the symbols of a kernel."""


@dataclass
class KernelSymbols:
    """The symbols of one kernel, and the expression of the caller that each stands for."""

    values: list[DimExpr] = field(default_factory=list)
    whole: dict[DimExpr, Dim] = field(default_factory=dict)
    """Expressions that became one symbol."""
    products: list[tuple[tuple[Atom, ...], Dim]] = field(default_factory=list)
    """Products of symbols and quotients that did."""

    def add(self, value: DimExpr) -> None:
        """A new symbol."""
        low, high = value.bounds()
        bounded = low >= 0 and (high < inf or least_extent(value) == 0)
        ends = (int(low), int(min(high, LARGEST))) if bounded else ()
        name = DimExpr.symbol(f"s{len(self.values)}", *ends)
        self.values.append(value)
        self.whole[value] = name
        if len(value.terms) == 1:
            self.products.append((value.terms[0][0], name))

    def rewrite(self, size: Dim) -> Dim:
        """A size of the caller over the kernel's symbols; raises UnknownSize if it has others."""
        if isinstance(size, int):
            return size
        factor, core = factored(size)
        if core in self.whole:
            return self.whole[core] * factor
        total: Dim = 0
        for product, coefficient in size.terms:
            part: Dim = coefficient
            for factor in self._factors(product):
                part = part * factor
            total = total + part
        return total

    def _factors(self, product: tuple[Atom, ...]) -> Iterable[Dim]:
        left = list(product)
        for atoms, name in self.products:
            while all(left.count(atom) >= atoms.count(atom) for atom in atoms):
                for atom in atoms:
                    left.remove(atom)
                yield name
        for atom in left:
            if isinstance(atom, str):
                raise UnknownSize(atom)
            yield atom.of(*map(self.rewrite, (part.evaluate({}) for part in atom.parts)))

    def type(self, type_: Attribute) -> Attribute:
        """A tensor type of the caller over the kernel's symbols."""
        if not is_dynamic(type_):
            return type_
        return tensor([self.rewrite(size) for size in shape_of(type_)], tensor_type(type_).element_type)

    def ranges(self, known: Mapping[str, Attribute]) -> dict[str, SymbolAttr]:
        """The ranges of the kernel's symbols, which follow from those of the caller's."""
        spans = {n: s for n, s in known.items() if isinstance(s, SymbolAttr)}
        return {f"s{k}": span_of(value, spans) for k, value in enumerate(self.values)}


def factored(size: DimExpr) -> tuple[int, DimExpr]:
    """The size as an integer factor times an expression without one."""
    factor = gcd(*(c for _, c in size.terms))
    return factor, DimExpr({product: c // factor for product, c in size.terms})


def symbols_for(sizes: Iterable[Dim]) -> KernelSymbols:
    """KernelSymbols for these sizes: the fewest, each for the largest expression possible."""
    cores = list(dict.fromkeys(factored(size)[1] for size in sizes if isinstance(size, DimExpr)))
    names = [set(core.symbols()) for core in cores]
    found = KernelSymbols()
    alone = [all(own.isdisjoint(n) for k, n in enumerate(names) if k != j) for j, own in enumerate(names)]
    units = _units([core for core, single in zip(cores, alone, strict=True) if not single])
    for core, single in zip(cores, alone, strict=True):
        for unit in [core] if single else _used(core, units):
            if unit not in found.whole:
                found.add(unit)
    found.products.sort(key=lambda entry: -len(entry[0]))
    return found


def _units(cores: Iterable[DimExpr]) -> dict[str, Atom]:
    """For each symbol, the quotient that contains all of its occurrences; else the symbol itself."""
    places: dict[str, set[Atom]] = {}
    for core in cores:
        for product, _ in core.terms:
            for atom in product:
                for name in DimExpr({(atom,): 1}).symbols():
                    places.setdefault(name, set()).add(atom)
    units: dict[str, Atom] = {}
    for name, atoms in places.items():
        (atom, *others) = atoms
        alone = not others and not isinstance(atom, str) and atom.bounds()[0] >= 1
        shared = alone and all(places[n] == atoms for n in DimExpr({(atom,): 1}).symbols())
        units[name] = atom if shared else name
    return units


def _used(core: DimExpr, units: Mapping[str, Atom]) -> list[DimExpr]:
    """The units that occur in an expression, in order."""
    return [DimExpr({(units[name],): 1}) for name in core.symbols()]


def span_of(value: DimExpr, spans: Mapping[str, SymbolAttr]) -> SymbolAttr:
    """The range, step and typical value of an expression."""
    plain = SymbolAttr(1, LARGEST)
    names = set(value.symbols())
    given = {name: spans.get(name, plain) for name in names}
    if len(value.terms) == 1 and value.terms[0] == ((next(iter(names)),), 1):
        return given[next(iter(names))]
    ends = {name: (span.low.data, span.high.data) for name, span in given.items()}
    low, high = map(int, bounds_between(value, ends))
    step = 0
    for product, coefficient in value.terms:
        for atom in product:
            coefficient *= given[atom].step.data if isinstance(atom, str) else 1
        step = gcd(step, coefficient)
    usual = value.evaluate({name: span.typical for name, span in given.items()})
    assert isinstance(usual, int)
    low, high = max(0, -(-low // step) * step), min(high, LARGEST) // step * step
    return SymbolAttr(low, max(low, high), step, min(max(usual, low, 1), max(low, high)))


def own_symbols(block: Block) -> KernelSymbols | None:
    """Give a region's values types over symbols of its own; returns these symbols, or None for static regions."""
    values = [*block.args, *(result for op in block.ops for result in op.results)]
    if not any(is_dynamic(v.type) for v in values):
        return None
    before = [(v, v.type) for v in values]
    symbols = symbols_for(_sizes(block.args))
    if not _inferred(block, symbols):
        for value, type_ in before:
            retype(value, type_)
        symbols = symbols_for(_sizes(values))
        for value, type_ in before:
            retype(value, symbols.type(type_))
    return symbols


def _sizes(values: Iterable[SSAValue]) -> list[Dim]:
    return [size for v in values if is_dynamic(v.type) for size in shape_of(v.type)]


def _inferred(block: Block, symbols: KernelSymbols) -> bool:
    """Infer the types of a region's values from those of its arguments; False if they differ from the caller's."""
    given = {f"s{k}": value.evaluate({}) for k, value in enumerate(symbols.values)}
    try:
        for argument in block.args:
            retype(argument, symbols.type(argument.type))
        for op in block.ops:
            old = list(op.result_types)
            if isinstance(op, GraphOp):
                if op.result_given:
                    retype(op.results[0], symbols.type(op.results[0].type))
                for result, type_ in zip(op.results, infer(op), strict=True):
                    retype(result, type_)
            for result, type_ in zip(op.results, old, strict=True):
                if _in_caller(result, given) != shape_of(type_) or not _names(result) <= given.keys():
                    return False
    except (VerifyException, UnknownSize):
        return False
    return True


def _in_caller(value: SSAValue, given: Mapping[str, Dim]) -> tuple[Dim, ...]:
    return tuple(n.evaluate(given) if isinstance(n, DimExpr) else n for n in shape_of(value.type))


def _names(value: SSAValue) -> set[str]:
    return {name for n in shape_of(value.type) if isinstance(n, DimExpr) for name in n.symbols()}


__all__ = ["KernelSymbols", "factored", "own_symbols", "span_of", "symbols_for"]
