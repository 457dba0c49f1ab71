"""Index arithmetic of one function: loop variables as machine values, pointers built one loop level at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from xdsl.dialects import llvm
from xdsl.dialects.builtin import MemRefType, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import llvm_ext
from mlc.dialects.index import UNKNOWN, Div, Index, Product, Range, Ranges, Term, const, dim, term_dims
from mlc.lowering.loop_to_llvm.builder import Builder, memory_type
from mlc.passes.loop.index_space.domain import LazyRanges
from mlc.passes.loop.index_space.predicates import at_last_iterations
from mlc.support.errors import UserError


@dataclass(eq=False)
class LoopLevel:
    """An insertion point of address arithmetic: the header of a loop, or the function's entry."""

    depth: int
    block: Block
    last: Operation | None = None
    memo: dict[object, SSAValue] = field(default_factory=dict)


OPAQUE_USES = 4
"""
Number of loads at constant offsets from one pointer from which on the pointer is hidden from loop strength reduction.

That pass of LLVM tries ways to compute each address from the loop's index. For tiles and unrolled steps this was half
of the time of code generation, and made a pointer for each address in some loops of few iterations. Pointers that are
stored to are not hidden: with these hidden, too, a Winograd convolution of a preactivated picture took 1.3 times as
long (Zen 3).
"""

Stride = tuple[int, "int | None"]
"""A stride in elements: a number, times a machine variable if there is one."""


def strides_of(t: MemRefType) -> tuple[Stride, ...]:
    """Row-major strides of a buffer whose sizes are static, except perhaps the first."""
    if any(n < 0 for n in t.get_shape()[1:]):
        raise UserError(f"convert-loop-to-llvm: expected a buffer of static inner sizes, but got {t}")
    strides, n = list[Stride](), 1
    for size in reversed(t.get_shape()):
        strides.append((n, None))
        n *= size
    return tuple(reversed(strides))


class Addresses:
    """Maps index values of the loop level to expressions over machine variables (numbered from 0), and to pointers."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.levels: list[LoopLevel] = [LoopLevel(0, b.entry)]
        self.variables: list[tuple[SSAValue, LoopLevel]] = []
        self.index: dict[SSAValue, Index] = {}
        self.ranges: list[Range] = []
        self.last: dict[int, Index] = {}
        """Machine variable of a loop of symbolic extent -> the loop's last index."""
        self.strides: dict[SSAValue, tuple[Stride, ...]] = {}
        """The strides of buffers of symbolic sizes."""
        self._factors: dict[tuple[Index, ...], int] = {}

    def bind_constant(self, value: SSAValue, number: int) -> None:
        """Bind an index of the loop level to a constant."""
        self.index[value] = const(number)

    def bind(self, value: SSAValue, machine: SSAValue, span: Range = UNKNOWN) -> None:
        """Bind an index of the loop level to a machine value of the current loop; `span` bounds it (inclusive)."""
        self.index[value] = dim(len(self.variables))
        self.variables.append((machine, self.levels[-1]))
        self.ranges.append(span)

    def bind_data(self, value: SSAValue, machine: SSAValue) -> None:
        """Bind an index computed from data, which is available from the current position on."""
        level = self.levels[-1]
        self.levels[-1] = LoopLevel(level.depth, self.b.block, self.b.block.last_op)
        self.bind(value, machine)

    def enter(self, block: Block) -> None:
        """Begin a loop whose header is `block`."""
        self.levels.append(LoopLevel(len(self.levels), block))

    def leave(self) -> None:
        """End the innermost loop; its pointers that much is loaded around are opaque to LLVM's strength reduction."""
        for key, value in self.levels.pop().memo.items():
            if isinstance(key, tuple) and len(tuple(value.uses)) >= OPAQUE_USES and not _is_stored_at(value):
                self.b.make_opaque(value)

    def resolve(self, expr: Index, operands: Sequence[SSAValue]) -> Index:
        """An expression over an op's operands as one over machine variables; tile axes are kept."""
        if not expr.terms:
            return expr
        return expr.substitute(lambda d: self.index[operands[d]] if d >= 0 else dim(d), self.spans())

    def spans(self, lanes: Mapping[int, Range] | None = None) -> LazyRanges:
        """The ranges of machine variables, and of the given tile axes."""
        return LazyRanges(self.ranges.__getitem__, lanes)

    def holds(self, e: Index, spans: Ranges) -> bool:
        """Whether `e >= 0` is proved: by ranges, or with loops of symbolic extents at their last index."""
        if e.bounds(spans)[0] >= 0:
            return True
        last = at_last_iterations(e, lambda d: self.last.get(d) if e.coefficient(d) else None)
        return last is not e and remainders(last).bounds(spans)[0] >= 0

    def linear(self, exprs: Sequence[Index], operands: Sequence[SSAValue], buffer: SSAValue) -> Index:
        """The element offset of an access."""
        total, t = const(0), buffer.type
        assert isinstance(t, MemRefType)
        for e, (stride, factor) in zip(exprs, self.strides.get(buffer) or strides_of(t), strict=True):
            at = self.resolve(e, operands) * stride
            total = total + (at if factor is None else at.scaled(factor))
        return total

    def shape(self, buffer: SSAValue, sizes: Sequence[Index], symbols: Sequence[SSAValue]) -> None:
        """Declare the sizes of a buffer over the kernel's symbols, and compute its strides at the entry."""
        strides: list[Stride] = []
        number, unknown = 1, tuple[Index, ...]()
        for size in reversed([self.resolve(e, symbols) for e in sizes]):
            strides.append((number, self._factor(unknown) if unknown else None))
            if size.is_const:
                number *= size.const
            else:
                unknown = (*unknown, size)
        self.strides[buffer] = tuple(reversed(strides))

    def stride(self, buffer: SSAValue, strides: Sequence[Index], symbols: Sequence[SSAValue]) -> None:
        """Declare the strides of a buffer, in elements, over the kernel's symbols."""
        found = [self.resolve(e, symbols) for e in strides]
        self.strides[buffer] = tuple((e.const, None) if e.is_const else (1, self._factor((e,))) for e in found)

    def has_rows(self, buffer: SSAValue) -> bool:
        """Whether the elements along the last axis of a buffer are neighbours in memory."""
        return buffer not in self.strides or self.strides[buffer][-1] == (1, None)

    def _factor(self, sizes: tuple[Index, ...]) -> int:
        """The machine variable that holds the product of sizes."""
        if (known := self._factors.get(sizes)) is None:
            total = self.value(sizes[0])
            for size in sizes[1:]:
                total = self.b.mul(total, self.value(size))
            known = self._factors[sizes] = self.anonymous(total)
        return known

    def anonymous(self, machine: SSAValue) -> int:
        """A new machine variable, available from the entry on, that stands for no index of the loop level."""
        self.variables.append((machine, self.levels[0]))
        self.ranges.append((0, UNKNOWN[1]))
        return len(self.variables) - 1

    def _level_of(self, expr_dims: set[int]) -> LoopLevel:
        depth = max((self.variables[d][1].depth for d in expr_dims if d >= 0), default=0)
        return self.levels[min(depth, len(self.levels) - 1)]

    def outside_loops(self) -> AbstractContextManager[None]:
        """Further ops go to the function's level, where all loops see their results."""
        return self._at(self.levels[0])

    def inside_of(self, variable: int) -> AbstractContextManager[None]:
        """Further ops go to the start of each iteration of the loop with that machine variable."""
        return self._at(self.levels[self.variables[variable][1].depth])

    def _at(self, level: LoopLevel) -> _Insertion:
        return _Insertion(self.b, level, at_end=level is self.levels[-1])

    def value(self, expr: Index) -> SSAValue:
        """The value of an expression without tile axes, computed at the outermost level where its variables exist."""
        if not expr.terms:
            return self.b.int(expr.const)
        level = self._level_of(expr.dims())
        if (known := level.memo.get(expr)) is not None:
            return known
        total: SSAValue | None = None
        for t, c in expr.terms:
            v = self._term(t)
            with self._at(level):
                if c != 1:
                    v = self.b.mul(v, self.b.int(c))
                total = v if total is None else self.b.add(total, v)
        assert total is not None
        if expr.const:
            with self._at(level):
                total = self.b.add(total, self.b.int(expr.const))
        level.memo[expr] = total
        return total

    def _term(self, term: Term) -> SSAValue:
        if isinstance(term, int):
            return self.variables[term][0]
        return self._product(term) if isinstance(term, Product) else self._quotient(term)

    def _product(self, term: Product) -> SSAValue:
        level = self._level_of(term.expr.dims())
        if (known := level.memo.get(term)) is None:
            inner = self.value(term.expr)
            with self._at(level):
                known = level.memo[term] = self.b.mul(inner, self.variables[term.factor][0])
        return known

    def _quotient(self, term: Div) -> SSAValue:
        level = self._level_of(term.expr.dims())
        if (known := level.memo.get(term)) is not None:
            return known
        inner = self.value(term.expr)
        negative = term.expr.bounds(self.spans())[0] < 0
        with self._at(level):
            v = self._divide(inner, term, negative)
        level.memo[term] = v
        return v

    def _divide(self, inner: SSAValue, term: Div, negative: bool) -> SSAValue:
        b, by = self.b, self.b.int(term.by)
        if not negative:
            return b.op(llvm.URemOp if term.is_mod else llvm.UDivOp, [inner, by], i64)
        q = b.op(llvm.SDivOp, [inner, by], i64)
        r = b.op(llvm.SRemOp, [inner, by], i64)
        below = b.icmp("slt", r, b.int(0))
        if term.is_mod:
            return b.select(below, b.add(r, by), r)
        return b.select(below, b.add(q, b.int(-1)), q)

    def pointer(self, base: SSAValue, offset: Index, element: Attribute) -> SSAValue:
        """`base + offset`; each variable is added at its own loop's level, so that inner loops only add their index."""
        at = memory_type(element)
        by_depth: dict[int, list[tuple[Term, int]]] = {}
        for t, c in offset.terms:
            by_depth.setdefault(self._level_of(term_dims(t)).depth, []).append((t, c))
        p = base
        for depth in sorted(by_depth):
            level = self.levels[depth]
            part = Index(0, tuple(by_depth[depth]))
            key = (p, part, at)  # buffers that share memory may differ in their elements
            if (known := level.memo.get(key)) is None:
                v = self.value(part)
                with self._at(level):
                    known = self.b.gep(p, v, at)
                level.memo[key] = known
            p = known
        return self.b.gep(p, offset.const, at)


def _is_stored_at(pointer: SSAValue) -> bool:
    """Whether there is a store at a pointer, or at a distance from it."""
    near = [op.results[0] for use in pointer.uses if isinstance(op := use.operation, llvm.GEPOp)]
    users = {type(use.operation) for at in (pointer, *near) for use in at.uses}
    return bool(users & {llvm.StoreOp, llvm_ext.MaskedStoreOp})


def remainders(e: Index) -> Index:
    """
    An expression with multiples of quotients rewritten as remainders.

    Law: c * n * (x floordiv n) == c * (x - x mod n).
    """
    total = const(e.const)
    for t, c in e.terms:
        if isinstance(t, Div) and not t.is_mod and c % t.by == 0:
            total = total + (t.expr - Index(0, ((Div(t.expr, t.by, True), 1),))) * (c // t.by)
        else:
            total = total + Index(0, ((t, c),))
    return total


class _Insertion:
    """Context manager: new ops go behind a level's address arithmetic; then the builder returns to where it was."""

    def __init__(self, b: Builder, level: LoopLevel, at_end: bool) -> None:
        self.b, self.level, self.at_end = b, level, at_end

    def __enter__(self) -> None:
        self.saved = self.b.block
        if not self.at_end or self.b.block is not self.level.block:
            self.scratch = Block()
            self.b.block = self.scratch
        else:
            self.scratch = None

    def __exit__(self, *_: object) -> None:
        block = self.level.block
        if self.scratch is not None:
            for op in list(self.scratch.ops):
                op.detach()
                if self.level.last is not None:
                    block.insert_op_after(op, self.level.last)
                elif block.first_op is not None:
                    block.insert_op_before(op, block.first_op)
                else:
                    block.add_op(op)
                self.level.last = op
            self.b.block = self.saved
        elif block.last_op is not None:
            self.level.last = block.last_op
