"""Resizing, one axis after the other: index arithmetic alone, no tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.resize import Place, Resize2dOp
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.movement import read_along
from mlc.lowering.graph_to_te.table import lowering, stage_name


@lowering(Resize2dOp)
def resize2d(op: Resize2dOp, x: Tensor) -> Tensor:
    """The stages "rows" and "resize2d"; with nearest elements, inlining makes them one."""
    linear = op.mode == "linear"
    for axis, letter in enumerate("HW"):
        where = op.parsed_layout.position(letter)
        last = axis == 1
        attrs = te.NO_INLINE if linear and not last else None
        out = op.out(axis, x.shape[where])
        shape = (*x.shape[:where], out, *x.shape[where + 1 :])
        body = _body(x, where, op.place(axis), out, linear)
        x = te.compute(shape, body, stage_name(op) if last else "rows", attrs=attrs)
    return x


def _body(x: Tensor, where: int, place: Place, out: Dim, linear: bool) -> Callable[..., Scalar]:
    """Element o of an axis is read at (a * o + b) / c: rounded down, or interpolated between two elements."""
    a, b, c = place

    def body(*i: te.IndexExpr) -> Scalar:
        at = i[where] * a + b
        low = _clamped(x, i, where, at // c, (b // c, ((out - 1) * a + b) // c))
        if not linear or (a % c == 0 and b % c == 0):
            return low
        high = _clamped(x, i, where, at // c + 1, (b // c + 1, ((out - 1) * a + b) // c + 1))
        part = te.cast(at % c, x.element) * (1.0 / c)
        return low + (high - low) * part

    return body


def _may_exceed(most: Dim, last: Dim) -> bool:
    """Whether the largest index may exceed the last one, for some values of the symbols."""
    try:
        return most > last
    except VerifyException:
        return True


def _clamped(x: Tensor, i: Sequence[te.IndexExpr], where: int, j: te.IndexExpr, span: tuple[Dim, Dim]) -> Scalar:
    """Element j of an axis, clamped to the first and the last; j lies in `span`."""
    last, read = x.shape[where] - 1, partial(read_along, x, i, where)
    value: Scalar | int = 0
    if span[0] < 0:
        value = read(0, [-1 - j], value)
    beyond = _may_exceed(span[1], last)
    if beyond:
        value = read(last, [j - last - 1], value)
    inside = ([j] if span[0] < 0 else []) + ([last - j] if beyond else [])
    return read(j, inside, value)
