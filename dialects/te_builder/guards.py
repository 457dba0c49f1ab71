"""te.if_then_else: a choice between two values; the value that is not taken reads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import i1, i64
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.index import Index, IndexMapAttr, compact, const, dim
from mlc.dialects.scalar import INDEX
from mlc.dialects.te_builder.indices import Condition, StageBuilder
from mlc.dialects.te_builder.scalars import Number, Scalar, cast, constant, holds, lift, where
from mlc.support.errors import UserError

_DIVISIONS = (arith.DivSIOp, arith.DivUIOp, arith.RemSIOp, arith.RemUIOp)
"""Operations that trap where the divisor is 0."""


def if_then_else(condition: Scalar | Condition, a: Scalar | Number, b: Scalar | Number) -> Scalar:
    """
    `a` where the condition holds, else `b`; unlike te.where, the value that is not taken reads and divides nothing.

    So it guards reads outside of a tensor: `te.if_then_else(i >= 1, x[i - 1], 0.0)`.
    """
    check_condition(condition)
    a, b = lift(a, b)
    a.stage.has_guards = True
    yes = _Branch(condition, True)
    no = _Branch(condition, False)
    return where(condition, yes.guarded(a), no.guarded(b))


def check_condition(condition: object) -> None:
    """UserError unless it is a condition, on indices or on elements."""
    if not isinstance(condition, Condition) and not (isinstance(condition, Scalar) and condition.type == i1):
        got = condition.type if isinstance(condition, Scalar) else repr(condition)
        raise UserError(f"expected a condition as the first argument of te.if_then_else, but got {got}")


class _Branch:
    """One of the values: the ops that compute it are repeated with guarded reads; the old ones become unused."""

    def __init__(self, condition: Scalar | Condition, taken: bool) -> None:
        self.stage: StageBuilder = condition.stage
        self.condition, self.taken = condition, taken
        self.copies: dict[SSAValue, SSAValue] = {}
        self._mask: tuple[Index, ...] | None = None
        self._holds: SSAValue | None = None

    def guarded(self, value: Scalar) -> Scalar:
        """The value, which reads nothing where the branch is not taken."""
        return Scalar(value.stage, self._copy(value.value), value.unsigned)

    def _copy(self, value: SSAValue) -> SSAValue:
        op = value.owner
        if isinstance(op, Block) or op.parent is not self.stage.block:
            return value
        if value not in self.copies:
            self.copies[value] = self._copy_op(op, value)
        return self.copies[value]

    def _copy_op(self, op: Operation, value: SSAValue) -> SSAValue:
        operands = [self._copy(v) for v in op.operands]
        if isinstance(op, te.ReadOp):
            return self._copy_read(op, operands)
        if isinstance(op, _DIVISIONS):
            operands[1] = self._divisor(operands[1])
        if all(new is old for new, old in zip(operands, op.operands, strict=True)):
            return value
        copy = type(op).create(
            operands=operands, properties=op.properties.copy(), result_types=[r.type for r in op.results]
        )
        return self.stage.add(copy)

    def _copy_read(self, op: te.ReadOp, operands: Sequence[SSAValue]) -> SSAValue:
        if self._needs_no_guard(op) or not self.mask():
            return op.result
        tensor, *rest = operands
        otherwise = rest.pop() if op.mask is not None else constant(self.stage, 0, op.result.type)
        first, values = len(self.stage.values), [*self.stage.values, *rest]
        place = {v: k for k, v in reversed(list(enumerate(values)))}

        def moved(exprs: Sequence[Index]) -> list[Index]:
            return [e.substitute(lambda d: dim(place[values[first + d]])) for e in exprs]

        at, own = moved(op.map.data), moved(op.mask.data) if op.mask is not None else []
        exprs, indices = compact([*at, *self.mask(), *own], values)
        properties = {"map": IndexMapAttr(exprs[: len(at)]), "mask": IndexMapAttr(exprs[len(at) :])}
        read = te.ReadOp.create(
            operands=[tensor, *indices, otherwise], properties=dict(properties), result_types=[op.result.type]
        )
        return self.stage.add(read)

    def _needs_no_guard(self, op: te.ReadOp) -> bool:
        """Whether a condition computed from data would guard a read that is known to lie in its tensor."""
        if isinstance(self.condition, Condition) or op.mask is not None or op in self.stage.unguarded:
            return False
        return all(e.is_affine for e in op.map.data) and all(isinstance(v.owner, Block) for v in op.indices)

    def mask(self) -> tuple[Index, ...]:
        """Index expressions that are all >= 0 where the branch is taken."""
        if self._mask is None:
            self._mask = self._find_mask()
        return self._mask

    def _find_mask(self) -> tuple[Index, ...]:
        given = self.condition
        if isinstance(given, Condition):
            if self.taken:
                return given.exprs
            if not given.exprs:
                return (const(-1),)
            if len(given.exprs) == 1:
                return (-given.exprs[0] - 1,)
        number = cast(Scalar(self.stage, self.holds()), i64)
        index = arith.IndexCastOp.create(operands=[number.value], result_types=[INDEX])
        return (dim(self.stage.new_value(self.stage.add(index))) - 1,)

    def holds(self) -> SSAValue:
        """Whether the branch is taken, as an i1."""
        if self._holds is None:
            one = holds(self.condition) if isinstance(self.condition, Condition) else self.condition
            self._holds = one.value if self.taken else (~one).value
        return self._holds

    def _divisor(self, divisor: SSAValue) -> SSAValue:
        """A divisor that is 1 where the branch is not taken."""
        one = constant(self.stage, 1, divisor.type)
        return self.stage.add(arith.SelectOp.create(operands=[self.holds(), divisor, one], result_types=[divisor.type]))
