"""
loop-start-sums: an integer that is added to a finished sum is the sum's initial value instead.

    %s = loop.for ... iter_args(%a = 0) { %c = loop.contract %x, %w, %a  loop.yield %c }   %t = arith.addi %s, %bias
    -> %t = loop.for ... iter_args(%a = %bias) { ... }

The bias of a quantised convolution then costs no addition. Additions of integers may be reordered; those of floats
may not, and stay as they are.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects import loop
from mlc.dialects.walk import walk
from mlc.passes.loop.tiles.promote_tiles import PURE
from mlc.passes.loop.tiles.sink_reductions import constant_of


def start_sums(func: loop.FuncOp) -> None:
    """Make each integer that a kernel adds to a finished sum the initial value of that sum."""
    for add in [op for op in walk(func) if isinstance(op, arith.AddiOp)]:
        for total, addend in ((add.lhs, add.rhs), (add.rhs, add.lhs)):
            if _starts_at(add, total, addend):
                add.result.replace_all_uses_with(total)
                add.detach()
                add.erase()
                break


def _starts_at(add: arith.AddiOp, total: SSAValue, addend: SSAValue) -> bool:
    """Let the sum that `add` increases start at the addend; False where it cannot."""
    op = total.owner
    if not isinstance(op, loop.ForOp) or op.parent is not add.parent or not total.has_one_use():
        return False
    k = op.results.index(total)
    if constant_of(op.iter_args[k]) != 0 or not _adds_onto(op.yield_op.values[k], op.carried[k]):
        return False
    moved = _between(op, addend)
    if moved is None:
        return False
    block = op.parent
    assert block is not None
    for one in moved:
        one.detach()
        block.insert_op_before(one, op)
    op.operands[op.bounds.arity + k] = addend
    return True


def _adds_onto(v: SSAValue, start: SSAValue) -> bool:
    """Whether a value is `start` and terms that do not depend on it: `start` enters one chain of additions."""
    while v is not start:
        op = v.owner
        if isinstance(op, loop.ContractOp):
            v = op.c
        elif isinstance(op, loop.ForOp):
            k = op.results.index(v)
            if not _adds_onto(op.yield_op.values[k], op.carried[k]):
                return False
            v = op.iter_args[k]
        else:
            return False
        if not v.has_one_use():
            return False
    return True


def _between(op: loop.ForOp, v: SSAValue) -> list[Operation] | None:
    """The ops behind a loop that compute a value, if all of them may stand in front of the loop; else None."""
    behind = {o: k for k, o in enumerate(_behind(op))}
    written = {x.buffer for o in (op, *behind) for x in walk(o) if isinstance(x, loop.StoreOp)}
    calls = any(isinstance(x, loop.ExternCallOp) for o in (op, *behind) for x in walk(o))
    found: dict[Operation, int] = {}
    pending = [v]
    while pending:
        owner = pending.pop().owner
        if owner is op:
            return None
        if isinstance(owner, Block) or owner not in behind or owner in found:
            continue
        reads = isinstance(owner, loop.LoadOp) and owner.buffer not in written and not calls
        if not reads and not isinstance(owner, PURE):
            return None
        found[owner] = behind[owner]
        pending += owner.operands
    return sorted(found, key=lambda o: found[o])


def _behind(op: Operation) -> list[Operation]:
    """The ops behind an op in its block."""
    found: list[Operation] = []
    following = op.next_op
    while following is not None:
        found.append(following)
        following = following.next_op
    return found


class StartSumsPass(ModulePass):
    """
    An integer that is added to a finished sum is the sum's initial value instead.

    `%s = loop.for ... iter_args(%a = 0) {..}  arith.addi %s, %b` -> `loop.for ... iter_args(%a = %b) {..}`
    """

    name = "loop-start-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for func in [f for f in walk(op) if isinstance(f, loop.FuncOp)]:
            start_sums(func)
