"""loop-form-tiles: vectorized nests become tile ops; every block becomes plain loop ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mlc.dialects import loop
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.index import Index, dim, tile
from mlc.passes.loop.nest import body_ops

COMBINES = {op: c.name for c in COMBINERS.values() for op in (c.float_op, c.int_op)}
SUMS = (arith.AddfOp, arith.AddiOp)


def vectorized_nest(block: loop.BlockOp) -> list[loop.ForOp]:
    """The vectorized loops that stand perfectly round a block, outermost first."""
    nest: list[loop.ForOp] = []
    inner: Operation = block
    while isinstance(parent := inner.parent_op(), loop.ForOp) and parent.kind.data == "vectorized":
        if len(body_ops(parent.body.block)) != 1:
            raise PassFailedException(
                f"expected vectorized loops to stand perfectly round one block, but beside block "
                f"'{block.name_}' the loop holds {len(body_ops(parent.body.block)) - 1} other ops"
            )
        if parent.extent is None or not parent.lower.is_const:
            raise PassFailedException(f"expected a vectorized loop round '{block.name_}' to have a static extent")
        nest.insert(0, parent)
        inner = parent
    return nest


class BlockToTiles:
    """Translates the body of one block, each scalar value to a tile (or, where no axis occurs, to a scalar)."""

    def __init__(self, block: loop.BlockOp, nest: Sequence[loop.ForOp]) -> None:
        self.block = block
        self.sizes = tuple(f.extent or 0 for f in nest)
        self.anchor: Operation = nest[0] if nest else block
        self.values: dict[SSAValue, SSAValue] = {}
        self.operands: list[SSAValue] = []
        self.numbers: dict[SSAValue, int] = {}
        axes = {f.iv: tile(k) + f.lower.const for k, f in enumerate(nest)}
        self.axis_of = [axes[v] if v in axes else dim(self.number(v)) for v in block.args]
        bindings = tuple(e.substitute(lambda d: self.axis_of[d]) for e in block.bindings.data)
        self.where = tuple(e.substitute(lambda d: self.axis_of[d]) for e in block.where_exprs)
        self.bindings = bindings
        self.reduce_axes = self._reduce_axes()

    def number(self, value: SSAValue) -> int:
        """The number of an index operand in the translated expressions."""
        n = self.numbers.get(value)
        if n is None:
            n = self.numbers[value] = len(self.operands)
            self.operands.append(value)
        return n

    def _reduce_axes(self) -> set[int]:
        """The tile axes on which reduction axes of the block depend."""
        reducing = self.bindings[self.block.num_spatial :]
        return {-1 - d for e in reducing for d in e.dims() if d < 0}

    def run(self) -> None:
        """Replace the nest by tile ops."""
        if self.block.has_init:
            first = [-e for e in self.bindings[self.block.num_spatial :]]
            self._translate(self.block.init.block, first)
        self._translate(self.block.body.block, [])

    def _translate(self, body: Block, conditions: list[Index]) -> None:
        self.axes = dict(zip(body.args, self.bindings, strict=True))
        self.mask = (*self.where, *conditions)
        for op in body_ops(body):
            handler = HANDLERS.get(type(op), BlockToTiles.elementwise)
            handler(self, op)

    # --- helpers ---

    def emit(self, op: Operation) -> SSAValue | None:
        """Put a translated op in front of the nest."""
        block = self.anchor.parent
        assert block is not None
        block.insert_op_before(op, self.anchor)
        return op.results[0] if op.results else None

    def value(self, op: Operation) -> SSAValue:
        """Put an op with one result in front of the nest."""
        v = self.emit(op)
        assert v is not None
        return v

    def get(self, v: SSAValue) -> SSAValue:
        """The translation of a value (itself, where it comes from outside of the block)."""
        return self.values.get(v, v)

    def exprs(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> list[Index]:
        """Index expressions over the block's axes as ones over the loops outside and the tile axes."""

        def one(d: int) -> Index:
            v = operands[d]
            known = self.axes.get(v)
            return known if known is not None else dim(self.number(self.get(v)))

        return [e.substitute(one) for e in exprs]

    def stretch(self, v: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A value broadcast to a tile shape."""
        if not shape or loop.shape_of(v.type) == tuple(shape):
            return v
        return self.value(loop.BroadcastOp.make(v, VectorType(loop.element_of(v.type), list(shape))))

    def common_shape(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        """The shape to which all values stretch; () of scalars."""
        shapes = [s for v in values if (s := loop.shape_of(v.type))]
        return tuple(max(ns) for ns in zip(*shapes, strict=True)) if shapes else ()

    # --- ops ---

    def elementwise(self, op: Operation) -> None:
        """arith, math, compare, select, cast: on values of one shape."""
        operands = [self.get(v) for v in op.operands]
        shape = self.common_shape(operands)
        if op.results and self._combine_reduced(op, operands, shape):
            return
        operands = [self.stretch(v, shape) for v in operands]
        types = [VectorType(r.type, list(shape)) if shape else r.type for r in op.results]
        if isinstance(op, arith.IndexCastOp) and shape:
            new: Operation = loop.CastOp.make("index_cast", operands[0], op.result.type)
        else:
            new = type(op).create(operands=operands, properties=dict(op.properties), result_types=types)
        self.value(new)
        self.values[op.results[0]] = new.results[0]

    def _combine_reduced(self, op: Operation, operands: list[SSAValue], shape: tuple[int, ...]) -> bool:
        """acc (+) x where x has reduction axes that acc lacks: reduce x over them first."""
        name = COMBINES.get(type(op))
        if name is None or not shape or not self.reduce_axes:
            return False
        a, x = (loop.shape_of(v.type) for v in operands)
        if not a or not x:
            return False
        axes = [k for k in sorted(self.reduce_axes) if shape[k] > 1]
        if not axes or all(a[k] > 1 for k in axes) == all(x[k] > 1 for k in axes):
            return False
        acc, term = (operands[0], operands[1]) if all(a[k] == 1 for k in axes) else (operands[1], operands[0])
        self.values[op.results[0]] = self._reduced(name, acc, term, axes)
        return True

    def _reduced(self, name: str, acc: SSAValue, term: SSAValue, axes: Sequence[int]) -> SSAValue:
        term = self._masked_term(name, term)
        partial = self.value(loop.ReduceOp.make(name, term, axes))
        shape = self.common_shape([acc, partial])
        a, p = self.stretch(acc, shape), self.stretch(partial, shape)
        cls = COMBINERS[name].op(loop.element_of(a.type))
        return self.value(cls.create(operands=[a, p], properties=_flags(cls), result_types=[a.type]))

    def _masked_term(self, name: str, term: SSAValue) -> SSAValue:
        """Lanes off the block's predicate must not count: they become the identity."""
        mask = [e for e in self.mask if any(e.uses(-1 - k) for k in self.reduce_axes)]
        if not mask:
            return term
        t = term.type
        assert isinstance(t, VectorType)
        identity = COMBINERS[name].identity(t.element_type)
        fill = self.value(loop.BroadcastOp.make(self.scalar_constant(identity, t.element_type), t))
        for e in mask:
            index = self.value(loop.IndexOp.make(e, self.operands, self.sizes))
            zero = self.value(arith.ConstantOp(IntegerAttr(0, IndexType())))
            zeros = self.value(loop.BroadcastOp.make(zero, index.type))
            holds = self.value(loop.CompareOp.make("sge", index, zeros))
            term = self.value(loop.SelectOp.make(self.stretch(holds, t.get_shape()), term, fill))
        return term

    def fma(self, op: loop.FmaOp) -> None:
        """a * b + c; where a * b has reduction axes that c lacks, multiply and reduce first."""
        a, b, c = (self.get(v) for v in op.operands)
        shape = self.common_shape([a, b, c])
        cs = loop.shape_of(c.type)
        axes = [k for k in sorted(self.reduce_axes) if shape and shape[k] > 1 and (not cs or cs[k] == 1)]
        if axes:
            product = self.common_shape([a, b])
            mul = arith.MulfOp if isinstance(loop.element_of(c.type), AnyFloat) else arith.MuliOp
            x, y = self.stretch(a, product), self.stretch(b, product)
            term = self.value(mul.create(operands=[x, y], properties=_flags(mul), result_types=[x.type]))
            self.values[op.result] = self._reduced("sum", c, term, axes)
            return
        c = self.stretch(c, shape)
        self.values[op.result] = self.value(loop.FmaOp.make(a, b, c))

    def constant(self, op: arith.ConstantOp) -> None:
        """Constants stay scalars."""
        self.values[op.result] = self.value(op.clone())

    def scalar_constant(self, number: float | int, element: Attribute) -> SSAValue:
        """A scalar constant."""
        if isinstance(element, AnyFloat):
            return self.value(arith.ConstantOp(FloatAttr(number, element)))
        assert isinstance(element, IntegerType)
        return self.value(arith.ConstantOp(IntegerAttr(int(number), element)))

    def load(self, op: loop.LoadOp) -> None:
        """A load of an element becomes one of a tile, or a gather where an index is a tile itself."""
        exprs = self.exprs(op.map.data, op.indices)
        mask = [*self.exprs(op.mask_exprs, op.indices), *self.mask]
        by = [(k, d) for k, e in enumerate(exprs) for d in e.dims() if d >= 0 and loop.shape_of(self.operands[d].type)]
        if by:
            self._gather(op, exprs, by)
            return
        otherwise = None
        if mask:
            element = op.result.type
            given = self.get(op.otherwise) if op.otherwise is not None else self.scalar_constant(0, element)
            shape = loop.tile_shape([*exprs, *mask], self.sizes)
            if given_shape := loop.shape_of(given.type):
                shape = tuple(max(a, b) for a, b in zip(shape, given_shape, strict=True))
            otherwise = self.stretch(given, shape) if self.sizes else given
            if self.sizes and shape != loop.tile_shape([*exprs, *mask], self.sizes):
                self._load_then_select(op, exprs, mask, otherwise, shape)
                return
        new = loop.LoadOp.make(op.buffer, exprs, self.operands, self.sizes, mask, otherwise)
        self.values[op.result] = self.value(new)

    def _load_then_select(
        self, op: loop.LoadOp, exprs: list[Index], mask: list[Index], otherwise: SSAValue, shape: Sequence[int]
    ) -> None:
        """The else value has axes that the access lacks: load with zeros, then choose."""
        small = loop.tile_shape([*exprs, *mask], self.sizes)
        zero = self.stretch(self.scalar_constant(0, op.result.type), small)
        v = self.value(loop.LoadOp.make(op.buffer, exprs, self.operands, self.sizes, mask, zero))
        holds: SSAValue | None = None
        for e in mask:
            index = self.value(loop.IndexOp.make(e, self.operands, self.sizes))
            c = self.value(arith.ConstantOp(IntegerAttr(0, IndexType())))
            one = self.value(loop.CompareOp.make("sge", index, self.stretch(c, loop.shape_of(index.type))))
            one = self.stretch(one, shape)
            holds = one if holds is None else self.value(_and(holds, one))
        assert holds is not None
        self.values[op.result] = self.value(loop.SelectOp.make(holds, self.stretch(v, shape), otherwise))

    def _gather(self, op: loop.LoadOp, exprs: list[Index], by: list[tuple[int, int]]) -> None:
        if len(by) != 1 or exprs[by[0][0]].coefficient(by[0][1]) != 1 or op.mask is not None:
            raise PassFailedException(
                f"expected block '{self.block.name_}' to gather by one plain index value, without a mask"
            )
        at, number = by[0]
        exprs[at] = exprs[at] - dim(number)
        new = loop.GatherOp.make(op.buffer, self.operands[number], at, exprs, self.operands, self.sizes)
        self.values[op.result] = self.value(new)

    def store(self, op: loop.StoreOp) -> None:
        """A store of an element becomes one of a tile."""
        exprs = self.exprs(op.map.data, op.indices)
        mask = [*self.exprs(op.mask_exprs, op.indices), *self.mask]
        shape = loop.tile_shape(exprs, self.sizes) if self.sizes else ()
        mask = [e for e in mask if not self.sizes or _within(e, shape)]
        self.emit(
            loop.StoreOp.make(
                self.stretch(self.get(op.value), shape), op.buffer, exprs, self.operands, self.sizes, mask
            )
        )

    def index(self, op: loop.IndexOp) -> None:
        """An index expression as a value."""
        (expr,) = self.exprs(op.map.data, op.args)
        uses_tile = any(d < 0 for d in expr.dims())
        new = loop.IndexOp.make(expr, self.operands, self.sizes if uses_tile else ())
        self.values[op.result] = self.value(new)


def _within(e: Index, shape: Sequence[int]) -> bool:
    """A predicate on reduction axes only masks terms, not the store of their sum."""
    return all(d >= 0 or shape[-1 - d] > 1 for d in e.dims())


def _and(a: SSAValue, b: SSAValue) -> Operation:
    return arith.AndIOp.create(operands=[a, b], result_types=[a.type])


def _flags(cls: type[Operation]) -> dict[str, Any]:
    if "fastmath" in cls.get_irdl_definition().properties:  # type: ignore[attr-defined]
        return {"fastmath": arith.FastMathFlagsAttr("none")}
    return {}


HANDLERS: dict[type[Operation], Callable[[BlockToTiles, Any], None]] = {
    arith.ConstantOp: BlockToTiles.constant,
    loop.FmaOp: BlockToTiles.fma,
    loop.LoadOp: BlockToTiles.load,
    loop.StoreOp: BlockToTiles.store,
    loop.IndexOp: BlockToTiles.index,
}


def form_tiles(func: loop.FuncOp) -> None:
    """Rewrite every block of a kernel."""
    for block in [op for op in func.walk() if isinstance(op, loop.BlockOp)]:
        nest = vectorized_nest(block)
        rewrite = BlockToTiles(block, nest)
        rewrite.run()
        rewrite.anchor.detach()
        rewrite.anchor.erase(safe_erase=False)
    for op in func.walk():
        if isinstance(op, loop.ForOp) and op.kind.data == "vectorized":
            raise PassFailedException(
                f"expected vectorized loops to stand perfectly round one block, but the loop over "
                f"%{op.iv.name_hint or 'i'} of '{func.sym_name.data}' holds other loops; reorder it inside them"
            )


@dataclass(frozen=True)
class FormTilesPass(ModulePass):
    """
    Vectorized loops round a block become the axes of tiles: loads, arithmetic and stores of n-D vectors.

    `loop.for %i = 0 to 4 vectorized { loop.for %j = 0 to 16 vectorized { loop.block "b" (%u = %i, %v = %j) { ... } } }`
    -> `%x = loop.load %A[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>` ...
    Blocks without vectorized loops become scalar ops; predicates become masks.
    """

    name = "loop-form-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                form_tiles(func)
