"""The order and the kind of loops: reorder, parallel, vectorize, unroll, bind, pragma."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xdsl.dialects.builtin import StringAttr

from mlc.dialects import loop, sched
from mlc.passes.loop.directives import legality
from mlc.passes.loop.directives.kernel import Kernel, body_of, insert_last, name_of


def permute(chain: Sequence[loop.ForOp], order: Sequence[loop.ForOp]) -> None:
    """Nest the loops of a perfect nest in another order; each keeps its index."""
    if list(chain) == list(order):
        return
    content = [op for op in body_of(chain[-1]).ops if not isinstance(op, loop.YieldOp)]
    block = chain[0].parent
    assert block is not None
    after = chain[0].next_op
    for f in chain:
        f.detach()
    for op in content:
        op.detach()
    block.insert_op_before(order[0], after) if after is not None else block.add_op(order[0])
    for outer, inner in pairwise(order):
        insert_last(outer, inner)
    for op in content:
        insert_last(order[-1], op)


def reorder(kernel: Kernel, op: sched.ReorderOp) -> None:
    """Permute loops of one nest; the loops between them keep their places."""
    loops = kernel.loops(op.loops)
    chain, reason = legality.nested_chain(loops)
    kernel.check(reason)
    wanted = iter(loops)
    order = [next(wanted) if f in loops else f for f in chain]
    if order == chain:
        return
    for f in chain:
        kernel.check(legality.transformable(f, serial=False))
    kernel.check(legality.vectorized_inside(order))
    kernel.check(legality.perfectly_nested(chain) or legality.reorderable(kernel, chain))
    permute(chain, order)


def parallel(kernel: Kernel, op: sched.ParallelOp) -> None:
    """Mark a loop whose iterations run on threads."""
    f = kernel.loop(op.loop)
    kernel.check(legality.parallelizable(kernel, f))
    f.properties["kind"] = loop.KINDS["parallel"]


def vectorize(kernel: Kernel, op: sched.VectorizeOp) -> None:
    """Mark a perfect nest that becomes a register tile."""
    loops = kernel.loops(op.loops)
    kernel.check(legality.vectorizable(kernel, loops))
    for f in loops:
        f.properties["kind"] = loop.KINDS["vectorized"]


def unroll(kernel: Kernel, op: sched.UnrollOp) -> None:
    """Mark a loop as unrolled."""
    f = kernel.loop(op.loop)
    kernel.check(legality.transformable(f))
    if f.extent is None:
        kernel.fail(f"expected a static extent of {name_of(f)}, but it is symbolic; use sched.split first")
    f.properties["kind"] = loop.KINDS["unrolled"]


def bind(kernel: Kernel, op: sched.BindOp) -> None:
    """Bind a loop to an axis of a device."""
    f = kernel.loop(op.loop)
    kernel.check(legality.parallelizable(kernel, f))
    f.properties["kind"] = StringAttr(f"bind:{op.axis.data}")


def pragma(kernel: Kernel, op: sched.PragmaOp) -> None:
    """Set an attribute on a loop."""
    kernel.loop(op.loop).attributes[op.key.data] = op.value
