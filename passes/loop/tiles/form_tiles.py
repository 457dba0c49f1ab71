"""loop-form-tiles: vectorization - nests of vectorized loops become tile ops, every block becomes plain loop ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    MemRefType,
    ModuleOp,
    UnknownLoc,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mlc.dialects import loop
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.index import UNBOUNDED, Div, Index, const, dim, term_dims
from mlc.passes.loop.index_space.domain import blocks_of, body_ops, loops_and_blocks
from mlc.passes.loop.index_space.predicates import always_holds
from mlc.passes.loop.tiles.block_values import BlockValues
from mlc.passes.loop.tiles.constant_selects import holding, pieces
from mlc.passes.loop.tiles.dissolve_block import DissolvedBlock, holds_tiles
from mlc.passes.loop.tiles.form_contract import drop_cast, is_contraction, is_narrow, is_unsigned, narrow_factor

COMBINES = {op: c.name for c in COMBINERS.values() for op in (c.float_op, c.int_op)}


def vectorized_nest(block: loop.BlockOp) -> list[loop.ForOp]:
    """The vectorized loops that are a perfect nest around a block, outermost first."""
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


INDEX_SOURCE_TYPES = (i64, f64)
"""Types from which indices are computed; a load of them that is uniform over the lanes stays a scalar."""


class _Padded(NamedTuple):
    """A load whose lanes outside of the block's predicate are not read."""

    buffer: SSAValue
    exprs: list[Index]
    mask: list[Index]


class BlockToTiles(BlockValues):
    """Translates the body of one block: each scalar value becomes a tile, or stays a scalar where no axis occurs."""

    def __init__(self, block: loop.BlockOp, nest: Sequence[loop.ForOp]) -> None:
        super().__init__(block, nest)
        self.reduce_axes = self._reduce_axes()
        self.wide_axes = [k for k in sorted(self.reduce_axes) if self.sizes[k] > 1]
        self.contracts = is_contraction(block, self.sizes, self.wide_axes, self.where)
        self.accumulators: set[SSAValue] = set()
        self.padded: dict[SSAValue, _Padded] = {}
        """Loads in which lanes outside of the block's predicate are zero, but may be anything."""

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
        ops = body_ops(body)
        self.stored = {
            (op.buffer, *self.exprs(op.map.data, op.indices))
            for op in (ops if self.wide_axes else ())
            if isinstance(op, loop.StoreOp)
        }
        for op in ops:
            handler = HANDLERS.get(type(op), BlockToTiles.elementwise)
            self.location = self.block.location if isinstance(op.location, UnknownLoc) else op.location
            handler(self, op)

    def predicate(self, exprs: Sequence[Index]) -> list[Index]:
        """
        The block's predicate for an access at `exprs`: projected on the axes of the access.

        It holds where the block's predicate holds for any lane of the other axes: reduction axes, whose terms
        `_masked_term` masks, and axes along which a value is broadcast.
        """
        projected = [(e, self._any_lane(e, exprs)) for e in self.mask]
        return [one for e, one in projected if one is e or not always_holds(self.space, one)]

    def _any_lane(self, e: Index, exprs: Sequence[Index]) -> Index:
        axes = [d for d in e.dims() if d < 0 and not any(x.uses(d) for x in exprs)]
        if not axes:
            return e
        if any(not _is_monotone(e, d) for d in axes):
            raise PassFailedException(
                f"expected the predicate of block '{self.block.name_}' to use each vectorized reduction loop once, and "
                f"not in a mod; do not vectorize that loop"
            )
        return _extreme(e, {d: self.sizes[-1 - d] - 1 for d in axes}, True)

    # --- ops ---

    def elementwise(self, op: Operation) -> None:
        """arith, math, compare, select, cast: on values of one shape."""
        if op.regions or len(op.results) != 1:
            raise PassFailedException(
                f"expected block '{self.block.name_}' to hold loads, stores and arithmetic, but got '{op.name}'"
            )
        operands = [self.get(v) for v in op.operands]
        if (name := COMBINES.get(type(op))) is not None and self._combine_reduced(op, name, operands):
            return
        shape = self.common_shape(operands)
        operands = [self.stretch(v, shape) for v in operands]
        types = [loop.tile_type(r.type, shape) if shape else r.type for r in op.results]
        if isinstance(op, arith.IndexCastOp) and shape:
            new: Operation = loop.CastOp.make("index_cast", operands[0], op.result.type)
        else:
            new = type(op).create(
                operands=operands,
                properties=dict(op.properties),
                attributes=dict(op.attributes),
                result_types=types,
            )
        self.values[op.results[0]] = self.value(new)

    def _combine_reduced(self, op: Operation, name: str, operands: Sequence[SSAValue]) -> bool:
        """acc (+) x where the block reduces along vectorized axes: reduce x over them first."""
        for acc, term in (operands, operands[::-1]):
            if acc in self.accumulators and term not in self.accumulators:
                self.values[op.results[0]] = self._reduced(name, acc, term)
                return True
        return False

    def _reduced(self, name: str, acc: SSAValue, term: SSAValue) -> SSAValue:
        given = loop.shape_of(term.type) or (1,) * len(self.sizes)
        shape = [self.sizes[k] if k in self.wide_axes else m for k, m in enumerate(given)]
        term = self.stretch(term, shape)
        partial = self.value(loop.ReduceOp.make(name, self._masked_term(name, term), self.wide_axes))
        shape = self.common_shape([acc, partial])
        a, p = self.stretch(acc, shape), self.stretch(partial, shape)
        cls = COMBINERS[name].op(loop.element_of(a.type))
        total = self.value(cls.create(operands=[a, p], properties=_flags(cls), result_types=[a.type]))
        self.accumulators.add(total)
        return total

    def _masked_term(self, name: str, term: SSAValue) -> SSAValue:
        """The term with the combiner's identity in all lanes outside of the block's predicate."""
        mask = [e for e in self.mask if any(e.uses(-1 - k) for k in self.wide_axes)]
        if not mask:
            return term
        used = loop.tile_shape(mask, self.sizes)
        shape = [max(ns) for ns in zip(used, loop.shape_of(term.type), strict=True)]
        element = loop.element_of(term.type)
        fill = self.stretch(self.scalar_constant(COMBINERS[name].identity(element), element), shape)
        if (load := self.padded.get(term)) is not None and set(mask) <= set(load.mask) and not term.uses.get_length():
            return self._padded_with(term, load, fill, shape)
        return self.value(loop.SelectOp.make(self.holds(mask, shape), self.stretch(term, shape), fill))

    def _padded_with(self, term: SSAValue, load: _Padded, fill: SSAValue, shape: Sequence[int]) -> SSAValue:
        """The load again, with the combiner's identity in lanes that it does not read."""
        new = self.value(loop.LoadOp.make(load.buffer, load.exprs, self.operands, tuple(shape), load.mask, fill))
        self.values |= {source: new for source, value in self.values.items() if value is term}
        assert isinstance(term.owner, Operation)
        term.owner.detach()
        term.owner.erase()
        return new

    def fma(self, op: loop.FmaOp) -> None:
        """a * b + c; where a * b has reduction axes that c lacks, multiply and reduce first."""
        a, b, c = (self.get(v) for v in op.operands)
        if self.contracts and (contracted := self._contract(a, b, c)) is not None:
            self.values[op.result] = contracted
            return
        if c in self.accumulators:
            product = self.common_shape([a, b])
            mul = arith.MulfOp if isinstance(loop.element_of(c.type), AnyFloat) else arith.MuliOp
            x, y = self.stretch(a, product), self.stretch(b, product)
            term = self.value(mul.create(operands=[x, y], properties=_flags(mul), result_types=[x.type]))
            self.values[op.result] = self._reduced("sum", c, term)
            return
        c = self.stretch(c, self.common_shape([a, b, c]))
        self.values[op.result] = self.value(loop.FmaOp.make(a, b, c))

    def _contract(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue | None:
        """A sum of products within words: `loop.contract` of the narrow factors; None where they are not narrow."""
        x, y = (narrow_factor(v, len(self.sizes)) for v in (a, b))
        if x is None or y is None:
            return None
        shape = [max(ns) for ns in zip(loop.shape_of(x.type), loop.shape_of(y.type), strict=True)]
        kept = len(self.sizes) - len(self.wide_axes)
        x, y, c = self.stretch_summed(x), self.stretch_summed(y), self.stretch(c, shape[:kept])
        unsigned, narrow = (is_unsigned(a), is_unsigned(b)), (is_narrow(a), is_narrow(b))
        new = loop.ContractOp.make(x, y, c, unsigned, narrow)
        result = self.value(new)
        drop_cast(a)
        drop_cast(b)
        return result

    def stretch_summed(self, v: SSAValue) -> SSAValue:
        """A tile broadcast along the axes that a contraction sums alone."""
        kept = len(self.sizes) - len(self.wide_axes)
        return self.stretch(v, (*loop.shape_of(v.type)[:kept], *self.sizes[kept:]))

    def constant(self, op: arith.ConstantOp) -> None:
        """Constants stay scalars."""
        self.values[op.result] = self.value(op.clone())

    def load(self, op: loop.LoadOp) -> None:
        """A load of an element becomes one of a tile, or a gather where an index is a tile itself."""
        exprs = self.exprs(op.map.data, op.indices)
        own = self.affine(op.mask_exprs, op.indices)
        by = [(k, d) for k, e in enumerate(exprs) for d in e.dims() if d >= 0 and loop.shape_of(self.operands[d].type)]
        if by:
            self._gather(op, exprs, own, by)
            return
        sizes = self._tile_sizes(op.buffer, exprs)
        if (
            not own
            and op.result.type in INDEX_SOURCE_TYPES
            and self._shared(exprs)
            and (op.buffer, *exprs) not in self.stored
        ):
            # uniform over the lanes, and the first lane is in bounds: a scalar, which may be an index of a load
            self.values[op.result] = self.value(loop.LoadOp.make(op.buffer, exprs, self.operands))
            return
        mask = [*own, *self.predicate([*exprs, *own])]
        small = loop.tile_shape([*exprs, *mask], sizes)
        otherwise = None
        if mask:
            given = self.get(op.otherwise) if own and op.otherwise is not None else None
            if given is not None and (wide := self._wider(small, given)) is not None:
                self._load_then_select(op, exprs, mask, given, wide)
                return
            if given is None:
                given = self.scalar_constant(0, op.result.type)
            otherwise = self.stretch(given, small)
        new = loop.LoadOp.make(op.buffer, exprs, self.operands, sizes, mask, otherwise)
        self.values[op.result] = self.value(new)
        if mask and not own:
            self.padded[new.result] = _Padded(op.buffer, exprs, mask)
        if (op.buffer, *exprs) in self.stored:
            self.accumulators.add(new.result)

    def _shared(self, exprs: Sequence[Index]) -> bool:
        """Whether an access is uniform over the lanes: it uses no tile axis."""
        return not any(e.uses(-1 - axis) for e in exprs for axis in range(len(self.sizes)))

    def _tile_sizes(self, buffer: SSAValue, exprs: Sequence[Index]) -> tuple[int, ...]:
        """The tile of an access; that of a contraction's accumulator lacks the last axes, which are summed."""
        kept = len(self.sizes) - len(self.wide_axes)
        return self.sizes[:kept] if self.contracts and (buffer, *exprs) in self.stored else self.sizes

    @staticmethod
    def _wider(shape: Sequence[int], v: SSAValue) -> tuple[int, ...] | None:
        """The shape broadcast with that of a value; None where that is the shape itself."""
        wide = tuple(max(ns) for ns in zip(shape, loop.shape_of(v.type) or shape, strict=True))
        return wide if wide != tuple(shape) else None

    def _load_then_select(
        self, op: loop.LoadOp, exprs: list[Index], mask: list[Index], otherwise: SSAValue, shape: Sequence[int]
    ) -> None:
        """Load with zeros outside of the mask, then select: where the else value has axes that the access lacks."""
        zero = self.stretch(self.scalar_constant(0, op.result.type), loop.tile_shape([*exprs, *mask], self.sizes))
        v = self.value(loop.LoadOp.make(op.buffer, exprs, self.operands, self.sizes, mask, zero))
        chosen = loop.SelectOp.make(self.holds(mask, shape), self.stretch(v, shape), self.stretch(otherwise, shape))
        self.values[op.result] = self.value(chosen)

    def _gather(self, op: loop.LoadOp, exprs: list[Index], own: list[Index], by: list[tuple[int, int]]) -> None:
        """A gather; masked-off lanes gather at index 0, and then select the else value."""
        at, number = by[0]
        factor = exprs[at].coefficient(number)
        if len(by) != 1 or not factor:
            raise PassFailedException(
                f"expected block '{self.block.name_}' to gather by one index value, times a constant; "
                f"do not vectorize its loops"
            )
        exprs[at] = exprs[at] - dim(number) * factor
        index = self.operands[number]
        if factor != 1:
            factors = self.stretch(self.scalar_constant(factor, IndexType()), loop.shape_of(index.type))
            index = self.value(arith.MuliOp(index, factors))
        mask = [*own, *self.predicate([*exprs, *own])]
        if not mask:
            new = loop.GatherOp.make(op.buffer, index, at, exprs, self.operands, self.sizes)
            self.values[op.result] = self.value(new)
            return
        self._check_unmasked(op, exprs, at, own)
        shape = tuple(max(ns) for ns in zip(loop.tile_shape(mask, self.sizes), loop.shape_of(index.type), strict=True))
        holds, zeros = self.holds(mask, shape), self.stretch(self.scalar_constant(0, IndexType()), shape)
        index = self.value(loop.SelectOp.make(holds, self.stretch(index, shape), zeros))
        v = self.value(loop.GatherOp.make(op.buffer, index, at, exprs, self.operands, self.sizes))
        if op.otherwise is not None:
            shape = self.common_shape([v, other := self.get(op.otherwise)])
            v = loop.SelectOp.make(self.stretch(holds, shape), self.stretch(v, shape), self.stretch(other, shape))
            v = self.value(v)
        self.values[op.result] = v

    def _check_unmasked(self, op: loop.LoadOp, exprs: Sequence[Index], at: int, own: Sequence[Index]) -> None:
        """
        A gather has no mask: where the predicate fails, its other indices must still be inside of the buffer.

        Where only the tile is ragged, or the load's `own` mask is about other loops, an index that all lanes share is
        inside: the load reads there in the first lane, or for other values of those loops.
        """
        t = op.buffer.type
        assert isinstance(t, MemRefType)
        for k, (e, n) in enumerate(zip(exprs, t.get_shape(), strict=True)):
            lo, hi = e.bounds(self.space.ranges)
            shared = n < 0 and self._shared([e]) and self._holds_for_each(e, own)
            if k != at and not shared and not 0 <= lo <= hi < n:
                raise PassFailedException(
                    f"expected block '{self.block.name_}' to gather inside of its buffer where its predicate fails, "
                    f"but index {k} of {t} reaches from {lo} to {hi}; do not vectorize its loops"
                )

    def _holds_for_each(self, e: Index, mask: Sequence[Index]) -> bool:
        """
        Whether a mask holds somewhere for each value of an index.

        The index and the expressions of the mask, each of which can hold, share no loop, and the mask has no open size.
        """
        ranges = self.space.ranges
        dims = [d for m in mask for d in m.dims()]
        closed = all(ranges[d][1] < UNBOUNDED >> 10 for d in dims)
        apart = len(dims) == len({*dims}) and not {*dims} & e.dims()
        return closed and apart and all(m.bounds(ranges)[1] >= 0 for m in mask)

    def store(self, op: loop.StoreOp) -> None:
        """A store of an element becomes one of a tile."""
        exprs = self.affine(op.map.data, op.indices)
        sizes = self._tile_sizes(op.buffer, exprs)
        shape = loop.tile_shape(exprs, sizes) if sizes else ()
        own = [self._any_lane(e, exprs) for e in self.affine(op.mask_exprs, op.indices)]
        value = self.get(op.value)
        if any(n < m for n, m in zip(shape, loop.shape_of(value.type), strict=False)):
            raise PassFailedException(
                f"expected block '{self.block.name_}' to combine its accumulator by sum, prod, max or min, once, where "
                f"a reduction loop is vectorized, but it stores a value of type {value.type} in a tile of shape "
                f"{'x'.join(map(str, shape))}; vectorize its spatial loops only"
            )
        mask = [*own, *self.predicate(exprs)]
        self.emit(loop.StoreOp.make(self.stretch(value, shape), op.buffer, exprs, self.operands, sizes, mask))

    def index(self, op: loop.IndexOp) -> None:
        """An index expression as a value."""
        (self.positions[op.result],) = self.affine(op.map.data, op.args)

    def compare(self, op: loop.CompareOp) -> None:
        """A comparison, which is not computed as long as only selects use what is known of it."""
        e = self.positions.get(op.a)
        known = None if e is None else holding(op, e, self.sizes)
        if known is None:
            self.elementwise(op)
        else:
            self.known[op.result] = known

    def select(self, op: loop.SelectOp) -> None:
        """A select; by a known comparison, it is a choice of values by position."""
        known = self.known.get(op.condition)
        sides = [self.selected.get(v) or self.get(v) for v in (op.a, op.b)] if known else ()
        found = pieces(known, *sides) if known and len(sides) == 2 else None
        if found is None:
            self.elementwise(op)
        else:
            self.selected[op.result] = found


def _is_monotone(e: Index, d: int) -> bool:
    """Whether an expression is monotonic in a dimension: it uses it at most once, and not inside of a mod."""
    uses = [t for t, _ in e.terms if d in term_dims(t)]
    if len(uses) != 1:
        return not uses
    (term,) = uses
    return isinstance(term, int) or (isinstance(term, Div) and not term.is_mod and _is_monotone(term.expr, d))


def _extreme(e: Index, last: dict[int, int], largest: bool) -> Index:
    """The largest (or smallest) value of an expression over tile axes d, each in [0, last[d]]."""
    total = const(e.const)
    for t, c in e.terms:
        upper = largest == (c > 0)
        if isinstance(t, int):
            part = const(last[t] if upper else 0) if t in last else dim(t)
        elif not any(t.expr.uses(d) for d in last):
            part = Index(0, ((t, 1),))
        else:
            assert isinstance(t, Div)
            part = _extreme(t.expr, last, upper).floordiv(t.by)
        total = total + part * c
    return total


def _flags(cls: type[Operation]) -> dict[str, Attribute]:
    if issubclass(cls, IRDLOperation) and "fastmath" in cls.get_irdl_definition().properties:
        return {"fastmath": arith.FastMathFlagsAttr("none")}
    return {}


# Each handler takes an op of the class that it is listed under, hence `Any`.
HANDLERS: dict[type[Operation], Callable[[BlockToTiles, Any], None]] = {
    arith.ConstantOp: BlockToTiles.constant,
    loop.FmaOp: BlockToTiles.fma,
    loop.LoadOp: BlockToTiles.load,
    loop.StoreOp: BlockToTiles.store,
    loop.IndexOp: BlockToTiles.index,
    loop.CompareOp: BlockToTiles.compare,
    loop.SelectOp: BlockToTiles.select,
}


def form_tiles(func: loop.FuncOp) -> None:
    """Rewrite every block of a kernel."""
    for block in blocks_of(func):
        rewrite = DissolvedBlock(block) if holds_tiles(block) else BlockToTiles(block, vectorized_nest(block))
        rewrite.run()
        rewrite.anchor.detach()
        rewrite.anchor.erase(safe_erase=False)
    for op in loops_and_blocks(func):
        if isinstance(op, loop.ForOp) and op.kind.data == "vectorized":
            raise PassFailedException(
                f"expected vectorized loops to stand perfectly round one block, but the loop over "
                f"%{op.iv.name_hint or 'i'} of '{func.sym_name.data}' holds other loops; reorder it inside them"
            )


class FormTilesPass(ModulePass):
    """
    Vectorized loops around a block become the axes of tiles: loads, arithmetic and stores of n-D vectors.

    `loop.for %i = 0 to 4 vectorized { loop.for %j = 0 to 16 vectorized { loop.block "b" (%u = %i, %v = %j) { ... } } }`
    -> `%x = loop.load %A[d0, d1] tile (d0 : 4, d1 : 16) : vector<4x16xf32>` ...
    Blocks without vectorized loops become scalar ops; predicates become masks.
    """

    name = "loop-form-tiles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for func in op.body.block.ops:
            if isinstance(func, loop.FuncOp):
                form_tiles(func)
