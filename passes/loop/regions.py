"""
Which elements do loops touch? Index values numbered in one space, and the spans of accesses, in integer coefficients.

A `Space` gives each index value of a kernel (loop indices above all) one number and its range, so that expressions of
different ops can be compared. A `Span` is what one dimension of an access covers while some loops are fixed and the
others run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import UNBOUNDED, ZERO, Div, Index, IndexMapAttr, Range, Term, compact, dim, size_of
from mlc.passes.loop.nest import at_worst, is_symbol, linear

UNKNOWN: Range = (-UNBOUNDED, UNBOUNDED)
SIZE: Range = (0, UNBOUNDED)
"""Of a symbol: a kernel's argument that is a size."""


class _Ranges(dict[int, Range]):
    def __missing__(self, key: int) -> Range:
        return UNKNOWN


class Space:
    """The index values of one kernel: `number[value]`, `values[number]`, `ranges[number]`."""

    def __init__(self) -> None:
        self.numbers: dict[SSAValue, int] = {}
        self.values: list[SSAValue] = []
        self.ranges = _Ranges()

    def number(self, value: SSAValue) -> int:
        """The number of an index value."""
        if (n := self.numbers.get(value)) is None:
            n = self.numbers[value] = len(self.values)
            self.values.append(value)
            self.ranges[n] = range_of(value)
        return n

    def dim(self, value: SSAValue) -> Index:
        """The expression that is one index value."""
        return dim(self.number(value))

    def numbers_of(self, loops: Iterable[loop.ForOp]) -> set[int]:
        """The numbers of the indices of these loops."""
        return {self.number(f.iv) for f in loops}


def range_of(value: SSAValue) -> Range:
    """The smallest and largest value of an index, as far as the op that defines it says."""
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        if isinstance(parent, loop.ForOp) and parent.iv is value and parent.lower.is_const:
            extent = parent.extent
            if extent is not None:
                return parent.lower.const, parent.lower.const + max(extent, 1) - 1
            ranges = [range_of(v) for v in parent.indices]
            return parent.lower.const, max(parent.upper.bounds(ranges)[1] - 1, parent.lower.const)
        if isinstance(parent, loop.BlockOp):
            axis = owner.args.index(value)
            if axis < len(parent.extents.data):
                return 0, max(size_of(parent.extents.data[axis]), 1) - 1
        if isinstance(parent, loop.FuncOp):
            return SIZE
    return UNKNOWN


# --- the expressions of an op ------------------------------------------------------------------------------------

# Which properties hold expressions, and at which operand the values that they number begin.
_PARTS: dict[type[Operation], tuple[tuple[str, ...], int]] = {
    loop.BlockOp: (("extents", "bindings", "where"), 0),
    loop.ForOp: (("bounds",), 0),
    loop.LoadOp: (("map", "mask"), 1),
    loop.StoreOp: (("map", "mask"), 2),
    loop.GatherOp: (("map",), 2),
    loop.IndexOp: (("map",), 0),
}


def _operand_range(op: Operation) -> tuple[int, int] | None:
    part = _PARTS.get(type(op))
    if part is None:
        return None
    end = len(op._operands)
    if isinstance(op, loop.ForOp):
        end -= len(op.results)
    elif isinstance(op, loop.LoadOp) and "mask" in op.properties:
        end -= 1
    return part[1], end


def set_exprs(space: Space, op: Operation, exprs: Mapping[str, Sequence[Index]]) -> None:
    """Give an op new index expressions over the space; those of its properties that are left out must not exist."""
    start, end = _operand_range(op) or (0, 0)
    flat = [e for part in exprs.values() for e in part]
    found, values = compact(flat, space.values)
    at = 0
    for name, part in exprs.items():
        if part or name in ("map", "extents", "bindings"):
            op.properties[name] = IndexMapAttr(found[at : at + len(part)])
        else:
            op.properties.pop(name, None)
        at += len(part)
    old = op._operands
    op.operands = [*old[:start], *values, *old[end:]]


def exprs_of(space: Space, op: Operation, to: Mapping[SSAValue, Index] | None = None) -> dict[str, list[Index]]:
    """The index expressions of an op by property, over the space; values in `to` are replaced."""
    names, _ = _PARTS[type(op)]
    start, end = _operand_range(op) or (0, 0)
    over: dict[int, Index] = {}
    for k, value in enumerate(op._operands[start:end]):
        found = to.get(value) if to is not None else None
        over[k] = space.dim(value) if found is None else found
    result: dict[str, list[Index]] = {}
    for name in names:
        attr = op.properties.get(name)
        if isinstance(attr, IndexMapAttr):
            result[name] = [e.substitute(over, space.ranges) for e in attr.data]
    return result


def substitute(space: Space, ops: Iterable[Operation], to: Mapping[SSAValue, Index]) -> None:
    """Replace index values in ops by expressions over the space; a use that is no expression gets a loop.index."""
    for op in ops:
        span = _operand_range(op)
        if span is not None:
            exprs = exprs_of(space, op, to)
            if "where" in exprs:
                exprs["where"] = needed(space, exprs["where"])
            set_exprs(space, op, exprs)
        start, end = span or (0, 0)
        for k, value in enumerate(op._operands):
            if value in to and not start <= k < end:
                (expr,), values = compact([to[value]], space.values)
                index = loop.IndexOp.make(expr, values)
                index.location = op.location
                assert op.parent is not None
                op.parent.insert_op_before(index, op)
                op.operands[k] = index.result


def users(values: Iterable[SSAValue]) -> list[Operation]:
    """The ops that use any of these values, each once."""
    return list(dict.fromkeys(use.operation for value in values for use in value.uses))


def needed(space: Space, where: Iterable[Index]) -> list[Index]:
    """The predicates that are not always true, each once; over symbols, none that another one implies."""
    found = [p for p in dict.fromkeys(where) if p.bounds(space.ranges)[0] < 0]
    if not any(is_symbol(space.values[d]) for p in found for d in p.dims()):
        return found
    found = list(dict.fromkeys(linear(p, space.values) for p in found))
    found = [p for p in found if at_worst(p, space.values, space.number).bounds(space.ranges)[0] < 0]
    return [p for p in found if not any(q is not p and implies(q, p, space.ranges) for q in found)]


def implies(known: Index, e: Index, ranges: Mapping[int, Range]) -> bool:
    """Whether `e >= 0` follows from `known >= 0`, as `2 * n - 7 * i - 1` does from `4 * n - 14 * i - 1`."""
    own = dict(e.terms)
    # known <= k * e + k - 1  ->  e > -1
    times = {c // own[t] for t, c in known.terms if t in own and c % own[t] == 0 and c // own[t] > 0} | {1}
    return any((e * k + (k - 1) - known).bounds(ranges)[0] >= 0 for k in times)


# --- accesses of blocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store in a block: its indices as expressions of the loops around the block."""

    block: loop.BlockOp
    op: Operation
    buffer: SSAValue
    exprs: tuple[Index, ...]
    is_store: bool


def axis_values(block: loop.BlockOp) -> Sequence[Sequence[SSAValue]]:
    """The arguments that stand for the axes, in the body and in the init region."""
    return [block.body.block.args] + ([block.init.block.args] if block.has_init else [])


def binding_map(space: Space, block: loop.BlockOp) -> dict[SSAValue, Index]:
    """Each axis argument of a block -> its binding over the space."""
    bindings = exprs_of(space, block)["bindings"]
    return {a: b for args in axis_values(block) for a, b in zip(args, bindings, strict=True)}


def accesses(space: Space, block: loop.BlockOp) -> list[Access]:
    """All loads, gathers and stores of a block, the init region's included."""
    to = binding_map(space, block)
    found: list[Access] = []
    for op in block.walk():
        if isinstance(op, loop.LoadOp | loop.StoreOp | loop.GatherOp):
            exprs = exprs_of(space, op, to)["map"]
            if isinstance(op, loop.GatherOp):
                exprs[op.at.value.data] = exprs[op.at.value.data] + space.dim(op.by)
            found.append(Access(block, op, op.buffer, tuple(exprs), isinstance(op, loop.StoreOp)))
    return found


def in_axes(space: Space, access: Access) -> list[Index]:
    """The indices of an access over the block's axes: axis k is dimension k; other values are numbered above them."""
    block = access.block
    n = len(block.extents.data)
    axes = {a: dim(k) for args in axis_values(block) for k, a in enumerate(args)}
    first = 2 if access.is_store else 1
    over = [axes.get(v) or dim(n + space.number(v)) for v in access.op.operands[first:]]
    attr = access.op.properties["map"]
    assert isinstance(attr, IndexMapAttr)
    return [e.substitute(lambda d: over[d] if d >= 0 else dim(d)) for e in attr.data]


def block_of(op: Operation) -> loop.BlockOp | None:
    """The block that an op stands in."""
    while (parent := op.parent_op()) is not None:
        if isinstance(parent, loop.BlockOp):
            return parent
        op = parent
    return None


def touching(buffer: SSAValue, *, stores: bool) -> list[loop.BlockOp]:
    """The blocks that store to a buffer, or else the blocks that load from it; each once."""
    found: dict[loop.BlockOp, None] = {}
    for use in buffer.uses:
        op = use.operation
        if isinstance(op, loop.StoreOp) is stores and (block := block_of(op)) is not None:
            found[block] = None
    return list(found)


# --- spans -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """`base`, `base + 1`, ... `extent` points along a dimension; `exact` where every one of them is touched."""

    base: Index
    extent: int
    exact: bool = True

    def within(self, other: Span, size: int) -> bool:
        """Whether the span lies in another one, or the other is the whole dimension of this size."""
        if other.extent >= size:  # in bounds, so it starts at 0
            return True
        gap = self.base - other.base
        return gap.is_const and gap.const >= 0 and gap.const + self.extent <= other.extent

    def join(self, other: Span) -> Span | None:
        """The smallest span round both, or None where their places cannot be compared."""
        gap = other.base - self.base
        if not gap.is_const:
            return None
        low = min(0, gap.const)
        high = max(self.extent, gap.const + other.extent)
        return Span(self.base + low, high - low, False)

    def shift(self, by: int) -> Span:
        """The span moved by a constant."""
        return Span(self.base + by, self.extent, self.exact)


def whole(size: int) -> Span:
    """A whole dimension."""
    return Span(ZERO, size)


def span_of(expr: Index, fixed: Collection[int], ranges: Mapping[int, Range]) -> Span:
    """What an expression covers while the `fixed` values stand still and all others run through their ranges."""
    base: Index = Index(expr.const, ())
    low, high, steps, exact = 0, 0, [], True
    for term, c in expr.terms:
        used = {term} if isinstance(term, int) else term.expr.dims()
        if all(d in fixed for d in used):
            base = base + Index(0, ((term, c),))
            continue
        if isinstance(term, int):
            a, b = ranges[term]
        elif not any(d in fixed for d in used):
            a, b = Index(0, ((term, 1),)).bounds(ranges)
            exact = False
        else:
            assert isinstance(term, Div)
            start, b = _mixed(term, fixed, ranges)
            base, a, exact = base + start * c, 0, False
        steps.append((abs(c), b - a + 1))
        low, high = (low + a * c, high + b * c) if c > 0 else (low + b * c, high + a * c)
    return Span(base + low, high - low + 1, exact and _dense(steps))


def _mixed(term: Div, fixed: Collection[int], ranges: Mapping[int, Range]) -> tuple[Index, int]:
    """A division of fixed and running parts: where it begins, and how far beyond that it reaches."""
    inner = span_of(term.expr, fixed, ranges)
    if term.is_mod:
        return ZERO, term.by - 1
    start = inner.base.floordiv(term.by, ranges)
    low = inner.base.const % term.by if _divides(inner.base, term.by) else term.by - 1
    return start, (low + inner.extent - 1) // term.by


def _divides(expr: Index, by: int) -> bool:
    return all(c % by == 0 for _, c in expr.terms)


def _dense(steps: list[tuple[int, int]]) -> bool:
    """Whether sums of multiples (coefficient, how many) leave no gaps."""
    reach = 1
    for c, n in sorted(steps):
        if n > 1 and c > reach:
            return False
        reach += c * (n - 1)
    return True


def clips(space: Space, block: loop.BlockOp) -> set[Index]:
    """The predicates that only keep a block's axes within their extents."""
    exprs = exprs_of(space, block)
    found = {p for b, e in zip(exprs["bindings"], exprs["extents"], strict=True) for p in (b, e - b - 1)}
    return found if all(e.is_const for e in exprs["extents"]) else found | {linear(p, space.values) for p in found}


def written_spans(space: Space, access: Access, fixed: set[int], sizes: Sequence[int]) -> list[Span]:
    """
    What a store covers while the `fixed` values stand still, dimension by dimension, clipped to the buffer.

    Relies on the block writing its whole domain when all its loops run: dimensions that hang together with no fixed
    value are whole.
    """
    where = [p for p in exprs_of(space, access.block).get("where", ()) if p not in clips(space, access.block)]
    spans: list[Span] = []
    for expr, size, group in zip(access.exprs, sizes, _groups(access.exprs, fixed), strict=True):
        if not any(d in fixed for e in group for d in e.dims()):
            spans.append(whole(size))
            continue
        span = span_of(expr, fixed, space.ranges)
        if len(group) > 1:
            span = Span(span.base, span.extent, _fills_box(group, fixed, space.ranges))
        spans.append(span)
    if where:
        spans = _tighten(access.exprs, spans, where, fixed)
    return spans


def _groups(exprs: Sequence[Index], fixed: set[int]) -> list[list[Index]]:
    """For each expression, those that share running values with it, itself included."""
    running = [e.dims() - fixed for e in exprs]
    groups: list[list[Index]] = []
    for own in running:
        reach, size = set(own), -1
        while size != len(reach):
            size = len(reach)
            for other in running:
                if other & reach:
                    reach |= other
        groups.append([e for e, r in zip(exprs, running, strict=True) if r & reach or r is own])
    return groups


def _fills_box(group: Sequence[Index], fixed: set[int], ranges: Mapping[int, Range]) -> bool:
    """
    Whether expressions of the same running values take all their values with each other: `i floordiv 2, i mod 2`.

    They do where they tell these values, and have as many places together as there are values.
    """
    parts = [Index(0, tuple((t, c) for t, c in e.terms if not _dims(t) <= fixed)) for e in group]
    running = sorted({d for e in parts for d in e.dims()})
    if fixed & set(running):
        return False
    points = prod(ranges[d][1] - ranges[d][0] + 1 for d in running)
    places = prod(high - low + 1 for low, high in (e.bounds(ranges) for e in parts))
    known = parts_of(parts, ranges)
    return points == places and all(recoverable(dim(d), known, ranges) for d in running)


def _tighten(exprs: Sequence[Index], spans: list[Span], where: list[Index], fixed: set[int]) -> list[Span]:
    """Use predicates `K - running part >= 0`; one of another form makes what it touches inexact."""
    found = list(spans)
    for p in where:
        for k, (expr, span) in enumerate(zip(exprs, spans, strict=True)):
            inner = Index(0, tuple((t, c) for t, c in expr.terms if not (_dims(t) <= fixed)))
            if (p + inner).is_const and span.extent > p.const + 1:
                found[k] = Span(span.base, p.const + 1, span.exact)
            elif not (p + inner).is_const and p.dims() & (expr.dims() - fixed):
                found[k] = Span(span.base, span.extent, False)
    return found


def _dims(term: Term) -> set[int]:
    return {term} if isinstance(term, int) else term.expr.dims()


def read_spans(space: Space, access: Access, fixed: set[int], sizes: Sequence[int]) -> list[Span]:
    """A box round what an access covers while the `fixed` values stand still."""
    spans = [span_of(e, fixed, space.ranges) for e in access.exprs]
    return [whole(n) if s.extent >= n else s for s, n in zip(spans, sizes, strict=True)]


# --- recovering an index from what was computed from it ----------------------------------------------------------


def recoverable(expr: Index, known: Collection[Index], ranges: Mapping[int, Range], depth: int = 6) -> bool:
    """Whether the values of the `known` expressions determine that of `expr`."""
    if expr.is_const or expr in known:
        return True
    if depth == 0:
        return False
    divisors = {by for e in known for by in _divisors(e)}
    for by in sorted(divisors, reverse=True):
        q, r = expr.floordiv(by, ranges), expr.mod(by, ranges)
        if expr not in (q, r) and recoverable(q, known, ranges, depth - 1) and recoverable(r, known, ranges, depth - 1):
            return True
    return False


def parts_of(exprs: Iterable[Index], ranges: Mapping[int, Range]) -> set[Index]:
    """Expressions, and what dividing them by their coefficients gives: all that is known where they are."""
    known = set(exprs)
    for e in list(known):
        for _, c in e.terms:
            if c > 1:
                known |= {e.floordiv(c, ranges), e.mod(c, ranges)}
    return known


def _divisors(expr: Index) -> set[int]:
    found: set[int] = set()
    for t, _ in expr.terms:
        if isinstance(t, Div):
            found |= {t.by} | _divisors(t.expr)
    return found


def separating(space: Space, a: Access, b: Access, apart: set[int], inner: set[int]) -> set[Index]:
    """
    Expressions of the values `apart` that must be equal in two runs of a and b which touch the same element.

    Between the runs, the values `apart` may differ and the values `inner` do; all others are the same.
    """
    found: set[Index] = set()
    for e, f in zip(a.exprs, b.exprs, strict=True):
        (s, same_s, lo_s, hi_s), (t, same_t, lo_t, hi_t) = (_sort(space, x, apart, inner) for x in (e, f))
        if s != t or same_s != same_t or not s:
            continue
        terms = sorted(s, key=lambda item: -abs(item[1]))
        reach = max(abs(hi_t - lo_s), abs(hi_s - lo_t)) + sum(abs(c) * _width(space, u) for u, c in terms)
        for u, c in terms:
            reach -= abs(c) * _width(space, u)
            if reach >= abs(c):
                break
            found.add(Index(0, ((u, 1),)))
    return found


Terms = list[tuple[Term, int]]


def _sort(space: Space, e: Index, apart: set[int], inner: set[int]) -> tuple[Terms, Terms, int, int]:
    """The terms of values apart, those that stay the same, and the bounds of what else there is."""
    ours: Terms = []
    same: Terms = []
    rest: Terms = []
    for t, c in e.terms:
        used = _dims(t)
        (rest if used & inner else ours if used & apart else same).append((t, c))
    low, high = Index(e.const, tuple(rest)).bounds(space.ranges)
    return ours, same, low, high


def _width(space: Space, term: Term) -> int:
    low, high = Index(0, ((term, 1),)).bounds(space.ranges)
    return high - low
