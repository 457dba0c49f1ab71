"""How many native vectors a loop keeps in registers: the tiles that it carries, and the operands of one step."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import ceil, prod

from xdsl.dialects.builtin import VectorType, i32
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import loop
from mlc.targets.target import dtype_bits


def native_vectors(t: Attribute, lanes: int) -> int:
    """
    The number of native vectors of a tile; scalars and columns of scalars count 0.

    A native vector has `lanes` elements of 32 bits, or of fewer, and half as many of 64.
    """
    if not isinstance(t, VectorType) or t.get_shape()[-1] == 1:
        return 0
    words = 2 if dtype_bits(t.element_type) > 32 else 1
    return prod(t.get_shape()[:-1]) * ceil(words * t.get_shape()[-1] / lanes)


def registers_needed(f: loop.ForOp, lanes: int, elsewhere: Collection[SSAValue] = ()) -> int:
    """
    The registers of what a loop carries and of the operands of a step; 0 where it carries no vectors.

    `elsewhere` are carried values that the matrix unit holds, in registers of its own.
    """
    carried = sum(native_vectors(v.type, lanes) for v in f.carried if v not in elsewhere)
    return carried + sum(_operand(op, lanes) for op in steps_of(f) if isinstance(op, loop.LoadOp)) if carried else 0


def steps_of(f: loop.ForOp) -> Iterator[Operation]:
    """The ops of a loop's body. An unrolled loop in it gives the ops of one of its iterations."""
    for op in f.body.block.ops:
        if isinstance(op, loop.ForOp) and op.kind.data == "unrolled":
            yield from steps_of(op)
        else:
            yield op


def _operand(op: loop.LoadOp, lanes: int) -> int:
    """The number of native vectors of a loaded operand that are live at once: the vectors of one row."""
    shape = op.tile_sizes
    if not shape:
        return 0
    t = op.result.type
    assert isinstance(t, VectorType)
    users = [use.operation for use in op.result.uses]
    if all(isinstance(user, loop.ContractOp) for user in users):  # the last axis is packed in words
        summed = 1 if all(user.steps is None for user in users if isinstance(user, loop.ContractOp)) else 2
        t, shape = VectorType(i32, t.get_shape()[:-summed]), shape[:-summed]
    if prod(t.get_shape()) == prod(shape):
        return 1
    return max(native_vectors(t, lanes) // t.get_shape()[0], 1)
