"""Privatization: the buffers that each thread of a parallel loop has as its own copy."""

from xdsl.ir import SSAValue

from mlc.dialects.loop.access import AllocOp
from mlc.dialects.loop.structure import ForOp


def private_buffers(op: ForOp) -> list[SSAValue]:
    """The local buffers, allocated outside of a parallel loop, that its body uses: each thread has its own copy."""
    found: dict[SSAValue, None] = {}
    for inner in op.walk():
        for v in inner.operands:
            owner = v.owner
            if isinstance(owner, AllocOp) and owner.scope.data == "local" and not op.is_ancestor(owner):
                found[v] = None
    return list(found)
