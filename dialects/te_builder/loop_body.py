"""The builder with which extern kernels, and the bodies of te.extern, are written: scalar loops on buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyFloat,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.external import Callee
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.index import Index, dim, tile
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder.indices import index_of
from mlc.support.errors import UserError

_BINARY = (arith.SignlessIntegerBinaryOperation, arith.FloatingPointLikeBinaryOperation)
Number = SSAValue | int | DimExpr
Outputs = Sequence[SSAValue | None]
"""The buffers of an op's results; None for a result without uses."""


class Fill:
    """An operand whose elements all have one value; it has no buffer."""

    def __init__(self, value: float, element: Attribute) -> None:
        self.value, self.element = value, element


Buffer = SSAValue | Fill
"""An operand of an extern op."""
Body = (
    Callable[[SSAValue], None] | Callable[[SSAValue, SSAValue], Sequence[SSAValue]] | Callable[..., Sequence[SSAValue]]
)
"""The body of a loop over i: `body(i)`, or with carried values `body(i, *carried)`, which returns the next ones."""


class LoopBodyBuilder:
    """
    Appends ops to a block of a loop.func; numbers are i64, conditions i1.

    `symbols` are the kernel's size arguments, `shapes` the shapes of its buffers of open sizes.
    """

    def __init__(
        self,
        block: Block,
        symbols: Mapping[DimExpr, SSAValue],
        shapes: Mapping[SSAValue, Sequence[Dim]] | None = None,
    ) -> None:
        self.root = self.block = block
        self.symbols = dict(symbols)
        self.shapes = dict(shapes or {})

    def add(self, op: Operation) -> Any:
        """Append an op and return its first result."""
        self.block.add_op(op)
        return op.results[0] if op.results else None

    def constant(self, value: float, element: Attribute = i64) -> SSAValue:
        """A constant of this element type."""
        if isinstance(element, IntegerType):
            return self.add(arith.ConstantOp(IntegerAttr(int(value), element)))
        assert isinstance(element, AnyFloat)
        return self.add(arith.ConstantOp(FloatAttr(float(value), element)))

    def number(self, value: Number, like: SSAValue | None = None) -> SSAValue:
        """A number as a value: integers become constants of the type of `like` (default i64), sizes are computed."""
        if isinstance(value, SSAValue):
            return value
        if isinstance(value, DimExpr):
            exprs, operands = self._exprs([value])
            return self.add(arith.IndexCastOp(self.add(loop.IndexOp.make(exprs[0], operands)), i64))
        return self.constant(value, i64 if like is None else like.type)

    def binary(self, cls: type[Operation], a: Number, b: Number) -> SSAValue:
        """`cls` on two numbers of one type."""
        a = self.number(a, b if isinstance(b, SSAValue) else None)
        b = self.number(b, a)
        return self.add(cls.create(operands=[a, b], result_types=[a.type], properties=_flags(cls)))

    def arith(self, name: str, a: Number, b: Number) -> SSAValue:
        """The operation `arith.NAME` on two numbers of one type: "addf", "mulf", "maximumf", "addi", ..."""
        cls = next((op for op in arith.Arith.operations if op.name == f"arith.{name}"), None)
        if cls is None or not issubclass(cls, _BINARY):
            raise UserError(f"expected a binary operation of arith such as 'addf', but got '{name}'")
        return self.binary(cls, a, b)

    def call(self, callee: Callee, inputs: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> None:
        """Call a function that is not mlc's on whole buffers."""
        shapes = [self.shapes.get(v, ()) for v in (*inputs, *outputs)]
        sizes, symbols = self._exprs([n for shape in shapes for n in shape if isinstance(n, DimExpr)])
        self.add(loop.ExternCallOp.make(callee, inputs, outputs, sizes, symbols))

    def plus(self, a: Number, b: Number) -> SSAValue:
        """`a + b` of integers."""
        return self.binary(arith.AddiOp, a, b)

    def minus(self, a: Number, b: Number) -> SSAValue:
        """`a - b` of integers."""
        return self.binary(arith.SubiOp, a, b)

    def both(self, *truths: SSAValue) -> SSAValue:
        """The conjunction of conditions."""
        result = truths[0]
        for other in truths[1:]:
            result = self.binary(arith.AndIOp, result, other)
        return result

    def compare(self, predicate: str, a: Number, b: Number, unsigned: bool = False) -> SSAValue:
        """lt, le, gt, ge, eq or ne of two numbers of one type; integers are signed unless `unsigned`."""
        a = self.number(a, b if isinstance(b, SSAValue) else None)
        b = self.number(b, a)
        if isinstance(a.type, AnyFloat):
            name = "une" if predicate == "ne" else "o" + predicate
        elif predicate in ("eq", "ne"):
            name = predicate
        else:
            name = ("u" if unsigned or a.type == i1 else "s") + predicate
        return self.add(loop.CompareOp.make(name, a, b))

    def select(self, condition: SSAValue, a: Number, b: Number) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        a = self.number(a, b if isinstance(b, SSAValue) else None)
        return self.add(loop.SelectOp.make(condition, a, self.number(b, a)))

    def as_number(self, truth: SSAValue) -> SSAValue:
        """A condition as an i64: 1 if it holds, else 0."""
        return self.select(truth, 1, 0)

    def cast(self, kind: str, value: SSAValue, element: Attribute) -> SSAValue:
        """A scalar or tile converted to another element type."""
        return self.add(loop.CastOp.make(kind, value, element))

    def spread(self, value: SSAValue, like: Attribute) -> SSAValue:
        """A scalar broadcast to the shape of the tile type `like`."""
        assert isinstance(like, VectorType)
        return self.add(loop.BroadcastOp.make(value, VectorType(value.type, like.get_shape())))

    def reduce(self, combiner: str, value: SSAValue) -> SSAValue:
        """The lanes of a one-dimensional tile, combined; the result has one lane."""
        return self.add(loop.ReduceOp.make(combiner, value, [0]))

    def places(self, first: SSAValue, lanes: int) -> SSAValue:
        """A tile of the numbers from `first` on."""
        (expr,), operands = self._exprs([first])
        return self.cast("index_cast", self.add(loop.IndexOp.make(expr + tile(0), operands, [lanes])), i64)

    def load_tile(self, buffer: SSAValue, indices: Sequence[Number], axis: int, lanes: int) -> SSAValue:
        """A tile of `lanes` elements along `axis`, which begins at these indices."""
        exprs, operands = self._exprs(indices)
        exprs[axis] = exprs[axis] + tile(0)
        return self.add(loop.LoadOp.make(buffer, exprs, operands, tile=[lanes]))

    def store_tile(
        self,
        value: SSAValue,
        buffer: SSAValue,
        indices: Sequence[Number] = (0,),
        axis: int = 0,
        where: SSAValue | None = None,
    ) -> None:
        """Write a one-dimensional tile along `axis`, beginning at these indices, if the condition `where` holds."""
        exprs, operands = self._exprs(indices)
        exprs[axis] = exprs[axis] + tile(0)
        sizes, mask = list(loop.shape_of(value.type)), self._mask(where, operands)
        self.add(loop.StoreOp.make(value, buffer, exprs, operands, tile=sizes, mask=mask))

    def _mask(self, where: SSAValue | None, operands: list[SSAValue]) -> list[Index]:
        """The mask of an access that is made if a condition holds, which becomes one of its operands."""
        if where is None:
            return []
        index = self.index(self.as_number(where))
        assert isinstance(index, SSAValue)
        operands.append(index)
        return [dim(len(operands) - 1) + (-1)]

    def index(self, value: Number) -> Number:
        """A number as an operand of index expressions: values are cast to index."""
        if not isinstance(value, SSAValue) or isinstance(value.type, IndexType):
            return value
        return self.add(arith.IndexCastOp(value, INDEX))

    def _exprs(self, indices: Sequence[Number]) -> tuple[list[Index], list[SSAValue]]:
        operands: list[SSAValue] = []
        exprs: list[Index] = []
        for value in map(self.index, indices):
            if not isinstance(value, SSAValue):
                exprs.append(index_of(value, lambda symbol: self._symbol(symbol, operands)))
            else:
                exprs.append(dim(len(operands)))
                operands.append(value)
        return exprs, operands

    def _symbol(self, symbol: DimExpr, operands: list[SSAValue]) -> Index:
        """A symbol of the kernel as a dimension of an access, appended to its operands if missing."""
        value = self.symbols.get(symbol) or self._product(symbol)
        if value not in operands:
            operands.append(value)
        return dim(operands.index(value))

    def _product(self, symbol: DimExpr) -> SSAValue:
        """A product of symbols, computed at the start of the kernel."""
        ((atoms, _),) = symbol.terms
        value, *others = (self.symbols[DimExpr({(atom,): 1})] for atom in atoms)
        first = self.root.first_op
        for other in others:
            op = arith.MuliOp(value, other)
            if first is None:
                self.root.add_op(op)
            else:
                self.root.insert_op_before(op, first)
            value = op.result
        self.symbols[symbol] = value
        return value

    def buffer(self, size: Dim | Sequence[Dim], scope: str = "shared", element: Attribute = i64) -> SSAValue:
        """A temporary buffer of this size or shape, shared by all threads, or with scope "local" one per thread."""
        shape = [size] if isinstance(size, int | DimExpr) else list(size)
        open_sizes, operands = self._exprs([n for n in shape if isinstance(n, DimExpr)])
        type_ = MemRefType(element, [n if isinstance(n, int) else DYNAMIC_INDEX for n in shape])
        made = self.add(loop.AllocOp.make(type_, scope, sizes=open_sizes, operands=operands))
        self.shapes[made] = shape
        return made

    def load(self, buffer: SSAValue | Fill, *indices: Number) -> SSAValue:
        """Load one element."""
        if isinstance(buffer, Fill):
            return self.constant(buffer.value, buffer.element)
        exprs, operands = self._exprs(indices)
        return self.add(loop.LoadOp.make(buffer, exprs, operands))

    def store(self, value: Number, buffer: SSAValue | None, *indices: Number, where: SSAValue | None = None) -> None:
        """Store one element, if the condition `where` holds; `buffer` is None for a result without uses."""
        if buffer is None:
            return
        value = self.number(value)
        exprs, operands = self._exprs(indices)
        self.add(loop.StoreOp.make(value, buffer, exprs, operands, mask=self._mask(where, operands)))

    def loop(
        self,
        lower: Number,
        upper: Number,
        carried: Sequence[Number],
        body: Body,
        kind: str = "serial",
    ) -> list[SSAValue]:
        """A loop from lower to upper over `body(i, *carried)`, which returns the next carried values."""
        exprs, operands = self._exprs([lower, upper])
        start = [self.number(v) for v in carried]
        op = loop.ForOp.make(exprs[1], lower=exprs[0], operands=operands, iter_args=start, kind=kind)
        outer, self.block = self.block, op.body.block
        number = self.add(arith.IndexCastOp(op.iv, i64))
        results = body(number, *op.carried)
        self.add(loop.YieldOp.create(operands=list(results or ())))
        self.block = outer
        self.block.add_op(op)
        return list(op.results)


def _flags(cls: type[Operation]) -> dict[str, Attribute]:
    if cls in (arith.AddiOp, arith.SubiOp, arith.MuliOp):
        return {"overflowFlags": arith.IntegerOverflowAttr("none")}
    return {"fastmath": arith.FastMathFlagsAttr("none")} if cls.__name__.endswith("fOp") else {}
