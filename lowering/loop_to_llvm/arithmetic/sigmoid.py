"""`1 / (exp(-x) + 1)` as one function of the math prelude, which knows that no exponential of it can overflow."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop

_USERS: dict[type[Operation], type[Operation]] = {
    arith.NegfOp: math.ExpOp,
    math.ExpOp: arith.AddfOp,
    arith.AddfOp: arith.DivfOp,
}
"""The op that uses the result of each part."""


def sigmoid_argument(op: Operation) -> SSAValue | None:
    """x, where an op is the division of `1 / (exp(-x) + 1)` on f32 and the ops in it have no other use."""
    if not isinstance(op, arith.DivfOp) or not isinstance(loop.element_of(op.result.type), Float32Type):
        return None
    parts = list(_parts(op))
    return parts[-1].operands[0] if len(parts) == 3 and _is_one(op.lhs) else None


def is_part_of_sigmoid(op: Operation) -> bool:
    """Whether an op is the sum, the exponential or the negation in `1 / (exp(-x) + 1)`."""
    found: Operation | None = op
    while (kind := _USERS.get(type(found))) is not None:
        found = _only_user(found.results[0])
        if not isinstance(found, kind):
            return False
    return found is not op and sigmoid_argument(found) is not None


def _parts(division: Operation) -> Iterator[Operation]:
    """The sum, the exponential and the negation, as far as they are there and have one use."""
    value: SSAValue | None = division.operands[1]
    for kind in (arith.AddfOp, math.ExpOp, arith.NegfOp):
        owner = value.owner if value is not None else None
        if not isinstance(owner, kind) or _only_user(owner.results[0]) is None:
            return
        yield owner
        value = owner.operands[0]
        if isinstance(owner, arith.AddfOp):
            value = next((a for a, b in (owner.operands, owner.operands[::-1]) if _is_one(b)), None)


def _only_user(value: SSAValue) -> Operation | None:
    users = [use.operation for use in value.uses]
    return users[0] if len(users) == 1 else None


def _is_one(value: SSAValue) -> bool:
    """Whether a value is 1 in every element."""
    owner = value.owner
    if isinstance(owner, loop.BroadcastOp):
        owner = owner.value.owner
    return isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr) and owner.value.value.data == 1.0
