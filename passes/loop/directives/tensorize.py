"""
The directive tensorize: a loop that matches an intrinsic is replaced by it.

An intrinsic is a function of a loop and the block in it that gives the ops that replace their work, or the reason why
it does not match. `INTRINSICS` lists them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop, sched
from mlc.dialects.index import ZERO, dim
from mlc.dialects.index import tile as lane
from mlc.passes.loop.directives import legality
from mlc.passes.loop.directives.intrinsics import DECLARED, emitted, matched
from mlc.passes.loop.directives.kernel import Kernel, children, insert_before, name_of
from mlc.support.errors import did_you_mean


@dataclass(frozen=True)
class Match:
    """A loop and the block in it: `axis` is the block's axis that the loop steps by one."""

    f: loop.ForOp
    block: loop.BlockOp
    axis: int


Intrinsic = Callable[[Match], list[Operation] | str]


def _product(store: loop.StoreOp) -> tuple[SSAValue, SSAValue, loop.LoadOp] | None:
    """(a, b, acc) where the store writes a * b + acc to where acc was loaded from."""
    op = store.value.owner
    if isinstance(op, loop.FmaOp):
        pairs = [(op.a, op.b, op.c)]
    elif isinstance(op, arith.AddfOp):
        pairs = [
            (m.owner.lhs, m.owner.rhs, acc)
            for m, acc in ((op.lhs, op.rhs), (op.rhs, op.lhs))
            if isinstance(m.owner, arith.MulfOp)
        ]
    else:
        pairs = []
    for a, b, acc in pairs:
        load = acc.owner
        if isinstance(load, loop.LoadOp) and load.buffer is store.buffer and load.map == store.map:
            return a, b, load
    return None


def dot_accumulate(match: Match) -> list[Operation] | str:
    """`c += a[k] * b[k]` over the loop -> one product of vectors, summed by loop.reduce."""
    ops = [op for op in match.block.body.block.ops if not isinstance(op, loop.YieldOp)]
    stores = [op for op in ops if isinstance(op, loop.StoreOp)]
    found = _product(stores[0]) if len(stores) == 1 else None
    if found is None or not all(isinstance(v.owner, loop.LoadOp) for v in found[:2]):
        return "expected a block that adds a product of two loads to what it stores"
    a, b, acc = found
    n, k = match.f.extent or 1, match.block.body.block.args[match.axis]
    full = VectorType(acc.result.type, [n])
    new: list[Operation] = []

    def load(old: loop.LoadOp) -> SSAValue:
        values = list(old.indices)
        exprs = [e.substitute(lambda d: dim(d) + lane(0) if values[d] is k else dim(d)) for e in old.map.data]
        new.append(loop.LoadOp.make(old.buffer, exprs, values, tile=[n]))
        return new[-1].results[0]

    def stretched(v: SSAValue) -> SSAValue:
        if v.type != full:
            new.append(loop.BroadcastOp.make(v, full))
            return new[-1].results[0]
        return v

    factors = [stretched(load(v.owner)) for v in (a, b) if isinstance(v.owner, loop.LoadOp)]
    old = load(acc)
    if old.type == full:
        return f"expected {name_of(match.f)} not to move the result"
    product = arith.MulfOp(factors[0], factors[1])
    total = loop.ReduceOp.make("sum", product.result, [0])
    added = arith.AddfOp(old, total.result)
    store = loop.StoreOp.make(added.result, acc.buffer, list(acc.map.data), list(acc.indices), tile=[n])
    return [*new, product, total, added, store]


INTRINSICS: dict[str, Intrinsic] = {"dot_accumulate": dot_accumulate}


def match_of(kernel: Kernel, f: loop.ForOp) -> Match | str:
    """The block directly inside a loop, if the loop steps one of its axes by one and nothing else."""
    if (reason := legality.transformable(f)) is not None:
        return reason
    inside = children(f)
    if len(inside) != 1 or not isinstance(block := inside[0], loop.BlockOp):
        return f"expected one block directly inside {name_of(f)}, but got {', '.join(map(name_of, inside))}"
    if block.has_init:
        return f"expected {name_of(block)} without its init region; use sched.decompose_reduction first"
    n = kernel.space.number(f.iv)
    if any(p.uses(n) for p in kernel.where(block)):
        return f"expected {name_of(block)} to run in each iteration of {name_of(f)}, but it has a predicate"
    axes = [k for k, b in enumerate(kernel.bindings(block)) if b.uses(n)]
    if len(axes) != 1 or kernel.bindings(block)[axes[0]].coefficient(n) != 1:
        return f"expected {name_of(f)} to step one axis of {name_of(block)} by one"
    return Match(f, block, axes[0])


def tensorize(kernel: Kernel, op: sched.TensorizeOp) -> None:
    """Replace a loop, and those inside it, by an intrinsic inside its block."""
    f, name = kernel.loop(op.loop), op.intrin.data
    if (declared := kernel.intrinsics.get(name) or DECLARED.get(name)) is not None:
        found = matched(kernel, f, declared)
        if isinstance(found, str):
            kernel.fail(f"{name_of(f)} does not have the form of '{name}': {found}")
        _put(kernel, found.here.block, found.here.loops, emitted(found, declared))
        return
    if name not in INTRINSICS:
        known = [*INTRINSICS, *kernel.intrinsics, *DECLARED]
        kernel.fail(f"expected an intrinsic of {', '.join(known)}, but got '{name}'{did_you_mean(name, known)}")
    match = match_of(kernel, f)
    if isinstance(match, str):
        kernel.fail(match)
    ops = INTRINSICS[name](match)
    if isinstance(ops, str):
        kernel.fail(f"{name_of(f)} does not have the form of '{name}': {ops}")
    _put(kernel, match.block, [f], ops)


def _put(kernel: Kernel, block: loop.BlockOp, loops: Sequence[loop.ForOp], ops: list[Operation]) -> None:
    """Let a block do the work of all iterations of the loops inside which it stands, which are dropped."""
    for new in ops:
        new.location = block.location
    replace_body(block.body.block, ops)
    to = {kernel.space.number(f.iv): ZERO for f in loops}
    kernel.rebind(block, [b.substitute(to) for b in kernel.bindings(block)], kernel.where(block))
    kernel.partial.add(block)
    block.detach()
    insert_before(block, loops[0])
    for f in loops:
        kernel.retire(f)
    loops[0].detach()
    loops[0].erase()


def replace_body(body: Block, ops: list[Operation]) -> None:
    """Replace the ops of a block of ops."""
    last = body.last_op
    for op in reversed([o for o in body.ops if o is not last]):
        op.detach()
        op.drop_all_references()
    assert last is not None
    for op in ops:
        body.insert_op_before(op, last)
