"""
Index expressions over the lanes of a tile as C: what does not depend on the lane is computed once, before the loop over
the lanes, and the bounds of an access without a mask are checked there, at the first and the last lane of each axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from mlc.codegen.c.lanes import flat
from mlc.dialects.index import Index, Term, term_dims

if TYPE_CHECKING:
    from mlc.codegen.c.printer import CPrinter


@dataclass
class CheckedElement:
    """An element of a buffer at the present lane, and the statements that check its index."""

    element: str
    before: list[str]
    """Checks before the loop over the lanes."""
    check: str
    """Checks of the present lane; empty if there are none."""


@dataclass
class LaneIndex:
    """An index expression in three parts, which add up to it."""

    base: Index
    """What is the same for every lane."""
    steps: dict[int, int]
    """The coefficient of each axis of the tile."""
    rest: Index
    """Divisions of what differs between lanes."""

    @staticmethod
    def of(expr: Index, shape: Sequence[int]) -> LaneIndex:
        """The parts of an expression over the lanes of a tile of this shape."""
        base, rest, steps = dict[Term, int](), dict[Term, int](), dict[int, int]()
        for term, c in expr.terms:
            if isinstance(term, int) and term < 0:
                if shape[-1 - term] > 1:
                    steps[-1 - term] = c
            else:
                (rest if any(n < 0 for n in term_dims(term)) else base)[term] = c
        return LaneIndex(Index(expr.const, tuple(base.items())), steps, Index(0, tuple(rest.items())))

    def limits(self, shape: Sequence[int]) -> tuple[int, int]:
        """The least and the largest value of the steps."""
        ends = [c * (shape[axis] - 1) for axis, c in self.steps.items()]
        return sum(min(0, e) for e in ends), sum(max(0, e) for e in ends)

    def steps_text(self, by: int = 1) -> list[str]:
        """The steps as C terms, times a number."""
        return [f"d{axis}" if c * by == 1 else f"d{axis} * {_number(c * by)}" for axis, c in self.steps.items()]


def index_text(p: CPrinter, expr: Index, operands: Sequence[SSAValue], shape: Sequence[int]) -> str:
    """An index expression at the present lane of a tile."""
    if not shape:
        return p.text(expr, operands, shared=True)
    parts = LaneIndex.of(expr, shape)
    terms = [*parts.steps_text()]
    if parts.rest.terms:
        terms.append(p.text(parts.rest, operands))
    if parts.base.terms or parts.base.const or not terms:
        terms.insert(0, _base(p, parts, operands))
    return " + ".join(terms)


def mask_text(p: CPrinter, exprs: Sequence[Index], operands: Sequence[SSAValue], shape: Sequence[int]) -> str:
    """The condition that all expressions are at least 0; empty if it always holds."""
    tests = [f"{index_text(p, e, operands, shape)} >= 0" for e in exprs if e.terms or e.const < 0]
    return " && ".join(tests)


def access(
    p: CPrinter,
    op: Operation,
    buffer: SSAValue,
    exprs: Sequence[Index],
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    *,
    masked: bool,
    gathered: tuple[int, str] | None = None,
) -> CheckedElement:
    """
    An element of a buffer at the present lane of a tile.

    The lanes that a `masked` access leaves out are not checked. `gathered` is an axis and what is added to its index.
    """
    assert isinstance(buffer.type, MemRefType)
    sizes = p.sizes(buffer)
    index = [index_text(p, e, operands, shape) for e in exprs]
    extra = -1
    if gathered is not None:
        extra, by = gathered
        index[extra] = f"{index[extra]} + {by}"
    before, tests = list[str](), list[str]()
    for k, (e, size) in enumerate(zip(exprs, sizes, strict=True)):
        parts = LaneIndex.of(e, shape)
        if not size or not p.checked or (k != extra and _always_in_range(parts, size, shape)):
            continue
        if masked or not shape or k == extra or parts.rest.terms or not size.isdecimal():
            tests.append(f"(uint64_t)({index[k]}) >= {_limit(size)}")
        else:
            before.append(_corners(p, parts, operands, int(size), shape))
    found = f"{p.name(buffer)}[{_offset(p, exprs, operands, shape, sizes, index, extra)}]"
    return CheckedElement(found, [p.check(op, before)] if before else [], p.check(op, tests) if tests else "")


def _offset(
    p: CPrinter,
    exprs: Sequence[Index],
    operands: Sequence[SSAValue],
    shape: Sequence[int],
    sizes: Sequence[str],
    index: Sequence[str],
    extra: int,
) -> str:
    """The row-major offset of an element; its part that is the same for every lane is computed before the loop."""
    if not shape or not all(n.isdecimal() for n in sizes[1:]):
        return flat(index, sizes)
    bases, terms, stride = list[str](), list[str](), 1
    for k in range(len(exprs) - 1, -1, -1):
        parts = LaneIndex.of(exprs[k], shape)
        whole = k == extra or bool(parts.rest.terms)
        bases.insert(0, "0" if whole else p.text(parts.base, operands, shared=True))
        terms[:0] = [f"({index[k]}) * {stride}"] if whole else parts.steps_text(stride)
        stride *= int(sizes[k]) if k else 1
    base = flat(bases, sizes)
    return " + ".join([*([] if base == "0" and terms else [_hoisted(p, base)]), *terms])


def _corners(p: CPrinter, parts: LaneIndex, operands: Sequence[SSAValue], size: int, shape: Sequence[int]) -> str:
    """The test that an index is out of range at the first or the last lane of an axis."""
    low, high = parts.limits(shape)
    first = p.text(parts.base + low, operands, shared=True)
    return f"(uint64_t)({first}) >= {size - (high - low)}u" if size > high - low else "1"


def _always_in_range(parts: LaneIndex, size: str, shape: Sequence[int]) -> bool:
    if parts.base.terms or parts.rest.terms or not size.isdecimal():
        return False
    low, high = parts.limits(shape)
    return parts.base.const + low >= 0 and parts.base.const + high < int(size)


def _base(p: CPrinter, parts: LaneIndex, operands: Sequence[SSAValue]) -> str:
    return _hoisted(p, p.text(parts.base, operands, shared=True))


def _hoisted(p: CPrinter, text: str) -> str:
    """A text computed before the loop, unless it is a number or a name."""
    return text if text.isidentifier() or text.isdecimal() else p.loops.hoisted(text)


def _limit(size: str) -> str:
    return f"{size}u" if size.isdecimal() else f"(uint64_t)({size})"


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"
