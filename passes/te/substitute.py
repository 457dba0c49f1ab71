"""A read of a stage replaced by the stage's body: index maps compose, masks distribute onto the inner reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, UnknownLoc, i1, i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects import scalar, te
from mlc.dialects.index import UNKNOWN, Index, IndexMapAttr, Range, axis_range, compact, dim, size_of
from mlc.passes.te.tidy import drop_true

_SGE = IntegerAttr(5, i64)


def ranges_of(stage: te.ComputeOp, operands: Sequence[SSAValue]) -> list[Range]:
    """The range of each index operand of an op in the stage."""
    extents = dict(zip(stage.axes, stage.extents.data, strict=True))
    known = [extents.get(v) for v in operands]
    return [UNKNOWN if e is None else axis_range(size_of(e)) for e in known]


@dataclass
class _Copy:
    """The copy of a body before a read: the copies of its values, and the index operands in use."""

    read: te.ReadOp
    at: dict[SSAValue, Index]
    operands: list[SSAValue]
    ranges: list[Range]
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)

    def add(self, op: Operation) -> SSAValue:
        block = self.read.parent
        assert block is not None
        block.insert_op_before(op, self.read)
        if isinstance(op.location, UnknownLoc):
            op.location = self.read.location
        return op.results[0]

    def expr(self, value: SSAValue) -> Index:
        """An index value of the body as an expression over `operands`."""
        found = self.at.get(value)
        if found is None:
            self.operands.append(self.values.get(value, value))
            self.ranges.append(UNKNOWN)
            found = self.at[value] = dim(len(self.operands) - 1)
        return found

    def value(self, value: SSAValue) -> SSAValue:
        """The copy of a value of the body; an axis becomes an index op."""
        if value in self.values:
            return self.values[value]
        if value in self.at:
            self.values[value] = self.index(self.at[value])
            return self.values[value]
        return value

    def index(self, expr: Index) -> SSAValue:
        """An expression as a value."""
        if len(expr.terms) == 1 and not expr.const and isinstance(expr.terms[0][0], int) and expr.terms[0][1] == 1:
            return self.operands[expr.terms[0][0]]
        exprs, operands = compact([expr], self.operands)
        return self.add(te.IndexOp.make(exprs[0], operands))

    def exprs(self, exprs: Sequence[Index], operands: Sequence[SSAValue]) -> list[Index]:
        """Expressions of the body over `operands`."""
        to = {n: self.expr(v) for n, v in enumerate(operands)}
        return [e.substitute(to, self.ranges) for e in exprs]


def substitute(stage: te.ComputeOp, read: te.ReadOp) -> None:
    """Replace one read of a stage without reduction by the stage's body."""
    consumer = read.parent_op()
    assert isinstance(consumer, te.ComputeOp)
    operands = list(read.indices)
    copy = _Copy(read, dict(zip(stage.axes, read.map.data, strict=True)), operands, ranges_of(consumer, operands))
    outer = read.mask.data if read.mask is not None else ()
    result = stage.yield_op.values[0]
    leaf = _leaf(result) if outer else None
    filled = leaf is not None and isinstance(leaf.owner, te.ReadOp)
    for op in stage.body.block.ops:
        if isinstance(op, te.YieldOp):
            break
        if isinstance(op, te.ReadOp):
            fill = read.otherwise if filled and op.results[0] is leaf else None
            copy.values[op.results[0]] = _copy_read(copy, op, outer, fill)
        elif isinstance(op, te.IndexOp):
            copy.values[op.results[0]] = copy.index(copy.exprs(op.map.data, op.args)[0])
        else:
            copy.values[op.results[0]] = _copy_op(copy, op)
    value = copy.value(result)
    if outer and not filled and not _same_constant(leaf, read.otherwise):
        value = _select(copy, outer, value)
    read.results[0].replace_all_uses_with(value)
    read.detach()
    read.erase()


def _copy_op(copy: _Copy, op: Operation) -> SSAValue:
    new = type(op).create(
        operands=[copy.value(v) for v in op.operands],
        properties=op.properties.copy(),
        attributes=op.attributes.copy(),
        result_types=[r.type for r in op.results],
        location=op.location,
    )
    return copy.add(new)


def _copy_read(copy: _Copy, op: te.ReadOp, outer: Sequence[Index], fill: SSAValue | None) -> SSAValue:
    """The inner read with the outer mask added; `fill` is its value where a mask does not hold."""
    at = copy.exprs(op.map.data, op.indices)
    mask = [*outer, *(copy.exprs(op.mask.data, op.indices) if op.mask is not None else ())]
    mask = drop_true(mask, copy.ranges)
    exprs, operands = compact([*at, *mask], copy.operands)
    properties: dict[str, IndexMapAttr] = {"map": IndexMapAttr(exprs[: len(at)])}
    if mask:
        properties["mask"] = IndexMapAttr(exprs[len(at) :])
        if fill is None:
            fill = copy.value(op.otherwise) if op.otherwise is not None else _zero(copy, op)
        operands.append(fill)
    return copy.add(
        te.ReadOp.create(
            operands=[op.tensor, *operands],
            properties=dict(properties),
            result_types=[op.results[0].type],
            location=op.location,
        )
    )


def _zero(copy: _Copy, op: te.ReadOp) -> SSAValue:
    return copy.add(scalar.constant(0, op.results[0].type))


def _leaf(value: SSAValue) -> SSAValue | None:
    """The value of a chain of masked reads where no mask holds: a read without a mask, or a constant; else None."""
    while isinstance(value.owner, te.ReadOp):
        otherwise = value.owner.otherwise
        if otherwise is None:
            return value
        value = otherwise
    return value if isinstance(value.owner, arith.ConstantOp) else None


def _same_constant(a: SSAValue | None, b: SSAValue | None) -> bool:
    if a is None or b is None:
        return False
    x, y = a.owner, b.owner
    return isinstance(x, arith.ConstantOp) and isinstance(y, arith.ConstantOp) and x.value == y.value


def _select(copy: _Copy, mask: Sequence[Index], value: SSAValue) -> SSAValue:
    """The value where the mask holds, else the read's else-value."""
    otherwise = copy.read.otherwise
    assert otherwise is not None
    zero = copy.add(scalar.constant(0, IndexType()))
    properties = scalar.default_properties(arith.CmpiOp) | {"predicate": _SGE}
    holds: SSAValue | None = None
    for expr in mask:
        compare = arith.CmpiOp.create(operands=[copy.index(expr), zero], properties=dict(properties), result_types=[i1])
        one = copy.add(compare)
        holds = one if holds is None else copy.add(scalar.make(arith.AndIOp, holds, one))
    assert holds is not None
    select = arith.SelectOp.create(operands=[holds, value, otherwise], result_types=[value.type])
    return copy.add(select)
