"""Index expressions as Python objects, and the builder of the stage to which they belong."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Union

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.graph.dims import Dim, DimExpr, FloorDiv
from mlc.dialects.index import UNBOUNDED, UNKNOWN, Index, Range, axis_range, compact, const, dim
from mlc.dialects.scalar import INDEX
from mlc.dialects.value_names import value_name
from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.dialects.te_builder.scalars import Scalar

IndexLike = Union["IndexExpr", "ReduceAxis", int, DimExpr]
"""The forms of an index in index arithmetic."""
ElementIndex = Union[IndexLike, "Scalar"]
"""The forms of an index of a read: an integer element makes the read a gather."""


class StageBuilder:
    """The body of a stage under construction: numbered index values with their ranges, and the block."""

    def __init__(
        self,
        extents: Sequence[Dim],
        names: Sequence[str],
        reduce: Sequence[ReduceAxis] = (),
        symbols: Mapping[DimExpr, SSAValue] | None = None,
    ) -> None:
        self.extents = tuple(extents)
        self.unguarded: dict[te.ReadOp, str] = {}
        """
        Reads that go beyond their tensor, and how to say so: refused unless a condition comes to guard them. The text
        is empty where the tensor may be the state of a scan, which has fewer steps to read from.
        """
        self.has_guards = False
        """Whether te.if_then_else repeated ops of the body, which leaves unused ones."""
        self.block = Block(arg_types=[INDEX] * len(extents))
        self.values: list[SSAValue] = list(self.block.args)
        self.ranges: list[Range] = [_range(e) for e in extents]
        self.symbols = symbols
        """The size arguments of the kernel, by symbol; None where te.func makes the kernel later."""
        self.open_sizes: dict[DimExpr, int] = {}
        """The numbers of the index values that are sizes, or products of sizes."""
        self.constants: dict[Any, SSAValue] = {}
        self.reduce: dict[ReduceAxis, int] = {}
        self._indices: dict[Index, SSAValue] = {}
        for arg, name in zip(self.block.args, names, strict=True):
            arg.name_hint = value_name(name)
        self.axes = [IndexExpr(self, dim(k)) for k in range(len(extents))]
        for axis in reduce:
            self.number(axis)

    def add(self, op: Operation) -> SSAValue:
        """Append an op and return its result."""
        self.block.add_op(op)
        return op.results[0]

    def number(self, axis: ReduceAxis) -> int:
        """The number of a reduction axis, which is added to the stage at its first use."""
        found = self.reduce.get(axis)
        if found is None:
            arg = self.block.insert_arg(INDEX, len(self.block.args))
            arg.name_hint = value_name(axis.name)
            found = self.reduce[axis] = self.new_value(arg, _range(axis.extent))
        return found

    def new_value(self, value: SSAValue, range: Range = UNKNOWN) -> int:
        """Number an index value."""
        self.values.append(value)
        self.ranges.append(range)
        return len(self.values) - 1

    def index(self, value: ElementIndex) -> Index:
        """An index expression over this stage's values, from any form of index that a user may write."""
        if isinstance(value, int):
            return const(value)
        if isinstance(value, DimExpr):
            return index_of(value, self._symbol)
        if isinstance(value, IndexExpr):
            if value.stage is not self:
                raise UserError("expected an index of this stage, but got one of another te.compute")
            return value.index
        if isinstance(value, ReduceAxis):
            return dim(self.number(value))
        raw = getattr(value, "value", None)
        if isinstance(raw, SSAValue):  # an integer element: a gather
            cast = arith.IndexCastOp.create(operands=[raw], result_types=[INDEX])
            return dim(self.new_value(self.add(cast)))
        raise UserError(f"expected an index expression, but got {value!r}")

    def _symbol(self, size: DimExpr) -> Index:
        """A symbol, or a product of symbols, that is a size argument of the kernel."""
        if size not in self.open_sizes:
            if self.symbols is None:
                value = symbol_value(size)
            elif size not in self.symbols:
                raise UserError(
                    f"expected sizes over {', '.join(map(str, self.symbols)) or 'no symbol'}, but got {size}"
                )
            else:
                value = self.symbols[size]
            self.open_sizes[size] = self.new_value(value, (0, UNBOUNDED))
        return dim(self.open_sizes[size])

    def index_value(self, expr: Index) -> SSAValue:
        """An expression as an index value of the body."""
        found = self._indices.get(expr)
        if found is None:
            if len(expr.terms) == 1 and not expr.const and isinstance(expr.terms[0][0], int) and expr.terms[0][1] == 1:
                found = self.values[expr.terms[0][0]]
            else:
                exprs, operands = compact([expr], self.values)
                found = self.add(te.IndexOp.make(exprs[0], operands))
            self._indices[expr] = found
        return found


def _range(extent: Dim) -> Range:
    """The values of an axis of this extent."""
    return axis_range(UNBOUNDED if isinstance(extent, DimExpr) else extent)


def check_name(name: object) -> None:
    """UserError unless a name that a program gives is a text."""
    if not isinstance(name, str):
        raise UserError(f"expected a name, but got {name!r:.40}")


def index_of(size: Dim, symbol: Callable[[DimExpr], Index]) -> Index:
    """A size as an index expression; `symbol` gives the expression of each member of its basis."""
    if isinstance(size, int):
        return const(size)
    total = const(0)
    for product, c in size.terms:
        if not product:
            total = total + c
        elif len(product) == 1 and isinstance(product[0], FloorDiv):
            total = total + index_of(product[0].value, symbol).floordiv(product[0].divisor) * c
        else:
            total = total + symbol(DimExpr({product: 1})) * c
    return total


def symbol_value(size: DimExpr) -> SSAValue:
    """The index value that stands for a symbol (or a product of symbols) until te.func makes it an argument."""
    value = SYMBOL_VALUES.get(size)
    if value is None:
        value = SYMBOL_VALUES[size] = Block(arg_types=[INDEX]).args[0]
        value.name_hint = value_name(re.sub(r"\W+", "_", str(size)))
    return value


SYMBOL_VALUES: dict[DimExpr, SSAValue] = {}
"""The index values of the symbols that stages outside of a te.func use."""
_STAGE: ContextVar[StageBuilder | None] = ContextVar("stage", default=None)


@contextmanager
def writing(stage: StageBuilder) -> Generator[StageBuilder, None, None]:
    """Context in which the body of a stage is written."""
    token = _STAGE.set(stage)
    try:
        yield stage
    finally:
        _STAGE.reset(token)


def current_stage() -> StageBuilder:
    """The stage whose body is being written."""
    stage = _STAGE.get()
    if stage is None:
        raise UserError("expected this inside the function given to te.compute, but no stage is being written")
    return stage


class IndexExpr:
    """An index expression of a stage: `i * 2 + k`, `i // 4`, `i % 4`; a comparison gives a `Condition`."""

    __slots__ = ("index", "stage")

    def __init__(self, stage: StageBuilder, index: Index) -> None:
        self.stage, self.index = stage, index

    @property
    def expr(self) -> IndexExpr:
        """The expression itself, as of a reduction axis."""
        return self

    @property
    def extent(self) -> int:
        """One more than the largest value."""
        return self.index.bounds(self.stage.ranges)[1] + 1

    def __add__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.stage, self.index + self.stage.index(other))

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.stage, self.index - self.stage.index(other))

    def __rsub__(self, other: IndexLike) -> IndexExpr:
        return IndexExpr(self.stage, self.stage.index(other) - self.index)

    def __neg__(self) -> IndexExpr:
        return IndexExpr(self.stage, -self.index)

    def __mul__(self, by: Dim) -> IndexExpr:
        if not isinstance(by, int):
            raise UserError(f"expected an integer factor of an index, but got {by!r}")
        return IndexExpr(self.stage, self.index * by)

    __rmul__ = __mul__

    def __floordiv__(self, by: Dim) -> IndexExpr:
        return IndexExpr(self.stage, self.index.floordiv(_positive(by), self.stage.ranges))

    def __mod__(self, by: Dim) -> IndexExpr:
        return IndexExpr(self.stage, self.index.mod(_positive(by), self.stage.ranges))

    def __ge__(self, other: IndexLike) -> Condition:
        return condition([self - other])

    def __gt__(self, other: IndexLike) -> Condition:
        return condition([self - other - 1])

    def __le__(self, other: IndexLike) -> Condition:
        return condition([other - self])

    def __lt__(self, other: IndexLike) -> Condition:
        return condition([other - self - 1])


def _positive(by: Dim) -> int:
    if not isinstance(by, int) or by <= 0:
        raise UserError(f"expected a positive integer to divide an index by, but got {by!r}")
    return by


@dataclass(frozen=True)
class Condition:
    """Index expressions that must all be >= 0; combine conditions with `&`."""

    stage: StageBuilder
    exprs: tuple[Index, ...]

    def __and__(self, other: Condition) -> Condition:
        return Condition(self.stage, tuple(dict.fromkeys((*self.exprs, *other.exprs))))

    def __bool__(self) -> bool:
        raise UserError("expected a Python condition, but got one on indices; use te.where or a mask")


def condition(parts: Iterable[IndexExpr | Condition]) -> Condition:
    """The conjunction of these; an expression e means `e >= 0`. Parts that always hold are dropped."""
    stage: StageBuilder | None = None
    exprs: dict[Index, None] = {}
    for part in parts:
        stage = part.stage
        for expr in part.exprs if isinstance(part, Condition) else (part.index,):
            if expr.bounds(stage.ranges)[0] < 0:
                exprs[expr] = None
    return Condition(stage or current_stage(), tuple(exprs))


@dataclass(frozen=True, eq=False)
class ReduceAxis:
    """An axis that a reduction runs over; use it like an index inside of te.compute."""

    extent: Dim
    name: str = "k"

    @property
    def expr(self) -> IndexExpr:
        """The axis as an index of the current stage."""
        stage = current_stage()
        return IndexExpr(stage, dim(stage.number(self)))

    def __add__(self, other: IndexLike) -> IndexExpr:
        return self.expr + other

    __radd__ = __add__

    def __sub__(self, other: IndexLike) -> IndexExpr:
        return self.expr - other

    def __rsub__(self, other: IndexLike) -> IndexExpr:
        return other - self.expr

    def __mul__(self, by: Dim) -> IndexExpr:
        return self.expr * by

    __rmul__ = __mul__

    def __floordiv__(self, by: Dim) -> IndexExpr:
        return self.expr // by

    def __mod__(self, by: Dim) -> IndexExpr:
        return self.expr % by

    def __ge__(self, other: IndexLike) -> Condition:
        return self.expr >= other

    def __gt__(self, other: IndexLike) -> Condition:
        return self.expr > other

    def __le__(self, other: IndexLike) -> Condition:
        return self.expr <= other

    def __lt__(self, other: IndexLike) -> Condition:
        return self.expr < other


__all__ = [
    "Condition",
    "ElementIndex",
    "IndexExpr",
    "IndexLike",
    "ReduceAxis",
    "StageBuilder",
    "condition",
    "current_stage",
    "writing",
]


def check_body(fn: object, rank: int) -> None:
    """UserError unless `fn` is a function of as many indices as the stage has axes."""
    if not callable(fn):
        raise UserError(f"expected the body of a stage, a function of its {rank} indices, but got {fn!r}")
    code = getattr(fn, "__code__", None)
    if code is not None and code.co_argcount == rank:
        return
    try:
        inspect.signature(fn).bind(*range(rank))
    except TypeError as error:
        raise UserError(f"expected a body of {rank} indices, one for each axis of the shape; {error}") from error
    except ValueError:  # a function of C has no signature
        return
