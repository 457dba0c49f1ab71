"""The values of a block while `loop-form-tiles` translates it: scalars of the block, and the tiles that they become."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mlc.dialects import loop, scalar
from mlc.dialects.index import Index, tile
from mlc.passes.loop.index_space.space import IndexSpace
from mlc.passes.loop.tiles.constant_selects import Pieces


class BlockValues:
    """Emits tile ops in front of a nest of vectorized loops, and remembers which value became which."""

    def __init__(self, block: loop.BlockOp, nest: Sequence[loop.ForOp]) -> None:
        self.block = block
        self.sizes = tuple(f.extent or 0 for f in nest)
        self.anchor: Operation = nest[0] if nest else block
        self.location = block.location
        """The location of further tile ops."""
        self.values: dict[SSAValue, SSAValue] = {}
        self.positions: dict[SSAValue, Index] = {}
        """The index values of the block; an op computes one where it is used by more than known comparisons."""
        self.known: dict[SSAValue, tuple[int, tuple[bool, ...]]] = {}
        """Comparisons that are known along a tile axis: the axis, and at which positions they hold."""
        self.selected: dict[SSAValue, Pieces] = {}
        """Selects by known comparisons."""
        self.stretched: dict[tuple[SSAValue, tuple[int, ...]], SSAValue] = {}
        self.space = IndexSpace(self.sizes)
        self.operands = self.space.values
        """The index operands of the translated expressions."""
        self.axes: dict[SSAValue, Index] = {}
        """The axes of the region that is translated."""
        axes = {f.iv: tile(k) + f.lower.const for k, f in enumerate(nest)}
        axis_of = [axes[v] if v in axes else self.space.dim(v) for v in block.args]
        ranges = self.space.ranges
        self.bindings = tuple(e.substitute(lambda d: axis_of[d], ranges) for e in block.bindings.data)
        self.where = tuple(e.substitute(lambda d: axis_of[d], ranges) for e in block.where_exprs)

    def emit(self, op: Operation) -> SSAValue | None:
        """Put a translated op in front of the nest."""
        block = self.anchor.parent
        assert block is not None
        op.location = self.location
        block.insert_op_before(op, self.anchor)
        return op.results[0] if op.results else None

    def value(self, op: Operation) -> SSAValue:
        """Put an op with one result in front of the nest."""
        v = self.emit(op)
        assert v is not None
        return v

    def get(self, v: SSAValue) -> SSAValue:
        """The translation of a value; a value from outside of the block stays itself."""
        known = self.values.get(v)
        if known is None:
            if (e := self.axes.get(v, self.positions.get(v))) is not None:
                known = self.values[v] = self.index_value(e)
            elif v in self.selected:
                known = self.values[v] = self._concatenated(self.selected[v])
            elif v in self.known:
                known = self.values[v] = self._compared(v)
        return v if known is None else known

    def _compared(self, v: SSAValue) -> SSAValue:
        """A comparison lane by lane."""
        assert isinstance(v.owner, loop.CompareOp)
        operands = [self.get(x) for x in v.owner.operands]
        shape = self.common_shape(operands)
        return self.value(loop.CompareOp.make(v.owner.predicate.data, *(self.stretch(x, shape) for x in operands)))

    def _concatenated(self, found: Pieces) -> SSAValue:
        """The values of all positions as one tile."""
        shape = self.common_shape(found.values) or (1,) * len(self.sizes)
        return self.value(loop.ConcatOp.make([self.stretch(v, shape) for v in found.values], found.axis))

    def index_value(self, e: Index) -> SSAValue:
        """An index expression as a tile, or as a scalar where it uses no tile axis."""
        tiled = any(d < 0 for d in e.dims())
        return self.value(loop.IndexOp.make(e, self.operands, self.sizes if tiled else ()))

    def exprs(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> list[Index]:
        """Index expressions over the block's axes as ones over the loops outside and the tile axes."""

        def one(d: int) -> Index:
            v = operands[d]
            known = self.axes.get(v)
            if known is not None:
                return known
            return self.space.dim(self.get(v))

        return [e.substitute(one, self.space.ranges) for e in exprs]

    def affine(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> list[Index]:
        """Index expressions without values that differ by lane, which only loads (as gathers) may have."""
        found = self.exprs(exprs, operands)
        if any(loop.shape_of(self.operands[d].type) for e in found for d in e.dims() if d >= 0):
            raise PassFailedException(
                f"expected block '{self.block.name_}' to use index values read from memory only as indices of loads; "
                f"do not vectorize its loops"
            )
        return found

    def stretch(self, v: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A value broadcast to a tile shape."""
        if not shape or loop.shape_of(v.type) == tuple(shape):
            return v
        key = v, tuple(shape)
        if key not in self.stretched:
            t = loop.tile_type(loop.element_of(v.type), key[1])
            self.stretched[key] = self.value(loop.BroadcastOp.make(v, t))
        return self.stretched[key]

    def common_shape(self, values: Sequence[SSAValue]) -> tuple[int, ...]:
        """The shape to which all values stretch; () of scalars."""
        shapes = [s for v in values if (s := loop.shape_of(v.type))]
        return tuple(max(ns) for ns in zip(*shapes, strict=True)) if shapes else ()

    def holds(self, mask: Sequence[Index], shape: Sequence[int]) -> SSAValue:
        """Whether all expressions are >= 0, lane by lane."""
        total: SSAValue | None = None
        for e in mask:
            index = self.index_value(e)
            zero = self.stretch(self.scalar_constant(0, IndexType()), loop.shape_of(index.type))
            one = self.stretch(self.value(loop.CompareOp.make("sge", index, zero)), shape)
            total = one if total is None else self.value(arith.AndIOp(total, one))
        assert total is not None
        return total

    def scalar_constant(self, number: float | int, element: Attribute) -> SSAValue:
        """A scalar constant."""
        return self.value(scalar.constant(number, element))
