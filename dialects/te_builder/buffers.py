"""te.buffer: how the array of an input or output lies in memory, for `mlc.build(..., binds={A: te.buffer(...)})`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlc.support.errors import UserError

Stride = int | str


@dataclass(frozen=True)
class BufferBind:
    """Strides and offset in elements, alignment in bytes; None where nothing is said."""

    strides: tuple[Stride, ...] | None = None
    offset: int = 0
    align: int | None = None


def buffer(strides: Sequence[Stride] | None = None, offset: int = 0, align: int | None = None) -> BufferBind:
    """
    How an array lies in memory: `te.buffer(strides=("lda", 1))` is a matrix whose rows may lie apart.

    `strides` gives the distance of neighbours along each axis, in elements: a number, or a name, whose value is read
    from the array; without it the array is contiguous. With an `offset` other than 0, the array is a slice that begins
    `offset` elements behind the start of a larger array. Its address is a multiple of `align` bytes.
    """
    steps = None if strides is None else tuple(strides)
    for step in steps or ():
        if not (isinstance(step, str) and step.isidentifier()) and not (type(step) is int and step > 0):
            raise UserError(f"expected strides that are names or numbers of elements from 1 on, but got {step!r}")
    if type(offset) is not int or offset < 0:
        raise UserError(f"expected an offset of a number of elements, 0 or more, but got {offset!r}")
    if align is not None and (type(align) is not int or align < 1 or align & (align - 1)):
        raise UserError(f"expected align to be a power of two, in bytes, but got {align!r}")
    return BufferBind(steps, offset, align)
