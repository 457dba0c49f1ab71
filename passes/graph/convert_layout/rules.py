"""
How each op computes on operands whose axes stand in another order: one rule a family, in a table by op class.

A rule returns, for each result of the op, its order and the value in that order; None where the op stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    OPS,
    AvgPool2dOp,
    BatchNormOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    FlipOp,
    LogSoftmaxOp,
    MaxPool2dOp,
    PadOp,
    PreluOp,
    ReduceOp,
    Resize2dOp,
    SliceOp,
    SoftmaxOp,
    SplitOp,
    UnaryOp,
    WhereOp,
    shape_of,
)
from mlc.dialects.graph.types import axis_of, product
from mlc.passes.graph.convert_layout.orders import Order, Orders
from mlc.passes.graph.shared.constants import is_constant

Results = list[tuple[Order, SSAValue]] | None
OrderRule = Callable[[Any, Orders], Results]
LAYOUTS = {Conv2dOp: "data_layout", MaxPool2dOp: "layout", AvgPool2dOp: "layout", Resize2dOp: "layout"}
"""The ops that have a layout, and the name of the attribute."""


def again(op: Any, o: Orders, order: Order, *operands: SSAValue, **changed: Any) -> list[tuple[Order, SSAValue]]:
    """The op on operands in an order, with some attributes changed; all results have that order."""
    o.again(op, *operands, **changed)
    return [(order, result) for result in o.made[-1].results]


def named(name: str, order: Order) -> str:
    """The layout of a picture in an order: `NCHW, (0, 2, 3, 1) -> NHWC`."""
    return "".join(name[axis] for axis in order)


def order_to(name: str, wanted: str) -> Order:
    """The order of a picture of one layout that has another: `NCHW, NHWC -> (0, 2, 3, 1)`."""
    return tuple(name.index(letter) for letter in wanted)


def unary(op: Any, o: Orders) -> Results:
    """`relu(transpose x) -> transpose(relu x)`."""
    (x,) = op.operands
    order = o.native(x)
    changed = {"dtype": op.type.element_type} if isinstance(op, CastOp) else {}
    return again(op, o, order, o.get(x, order), **changed)


def pointwise(op: Any, o: Orders) -> Results:
    """`add(transpose x, y) -> transpose(add(x, transpose y))` in the order that moves the least."""
    result = shape_of(op.type)
    full = [operand for operand in op.operands if shape_of(operand.type) == result]
    if not full:
        return None
    order = cheapest(full, o)
    return again(op, o, order, *(o.broadcast(operand, order) for operand in op.operands))


def cheapest(values: Sequence[SSAValue], o: Orders) -> Order:
    """The order of some of these values, all of one shape or nearly, in which the fewest elements must be moved."""
    moved = [value for value in values if not is_constant(value)] or list(values)

    def cost(order: Order) -> float:
        sizes = [product(shape_of(value.type)) for value in moved if order not in o.known(value)]
        return sum(size if isinstance(size, int) else 1 << 40 for size in sizes)

    natives = dict.fromkeys(o.native(value) for value in moved)
    return min(natives, key=cost)


def along(name: str) -> OrderRule:
    """The rule of an op whose attribute of this name is an axis of the first operand."""

    def rule(op: Any, o: Orders) -> Results:
        """`softmax(transpose x) {axis = 3} -> transpose(softmax x {axis = 1})`."""
        x, *vectors = op.operands
        order = o.native(x)
        axis = order.index(axis_of(getattr(op, name), len(order)))
        return again(op, o, order, o.get(x, order), *(o.plain(v) for v in vectors), **{name: axis})

    return rule


def concatenation(op: Any, o: Orders) -> Results:
    """`concatenate(transpose x, transpose y) {axis = 3} -> transpose(concatenate(x, y) {axis = 1})`."""
    order = cheapest(op.operands, o)
    axis = order.index(axis_of(op.axis, len(order)))
    return again(op, o, order, *(o.get(operand, order) for operand in op.operands), axis=axis)


def reduction(op: Any, o: Orders) -> Results:
    """`mean(transpose x) {axes = [1, 2]} -> mean x {axes = [2, 3]}`, transposed where axes are left to move."""
    (x,) = op.operands
    order, reduced = o.native(x), op.reduced_axes
    axes = tuple(sorted(order.index(axis) for axis in reduced))
    results = again(op, o, order, o.get(x, order), axes=axes)
    if op.keepdims:
        return results
    left = [axis for axis in range(len(order)) if axis not in reduced]
    return [(tuple(left.index(axis) for axis in order if axis in left), results[0][1])]


def window(op: Any, o: Orders) -> Results:
    """`slice(transpose x) -> transpose(slice x)`, `pad(transpose x) -> transpose(pad x)`, bounds moved along."""
    (x,) = op.operands
    order = o.native(x)
    if isinstance(op, PadOp):
        pairs = [op.pad_width[2 * axis : 2 * axis + 2] for axis in order]
        changed: dict[str, Any] = {"pad_width": tuple(width for pair in pairs for width in pair)}
    elif isinstance(op, FlipOp):
        changed = {"axes": tuple(order.index(axis_of(axis, len(order))) for axis in op.axes)}
    else:
        changed = {name: tuple(getattr(op, name)[a] for a in order) for name in ("begin", "end", "strides")}
    return again(op, o, order, o.get(x, order), **changed)


def picture(op: Any, o: Orders) -> Results:
    """`max_pool2d(transpose x) -> transpose(max_pool2d x {layout = "NHWC"})`."""
    return in_order(op, o, o.native(op.operands[0]))


def in_order(op: Any, o: Orders, order: Order, weight: SSAValue | None = None, **changed: Any) -> Results:
    """An op that has a layout, on a picture in an order, perhaps with another weight; None of blocks."""
    attribute = LAYOUTS[type(op)]
    name = getattr(op, attribute)
    if len(name) != 4:
        return None
    x, *others = op.operands
    others = [o.plain(v) for v in others] if weight is None else [weight]
    return again(op, o, order, o.get(x, order), *others, **changed, **{attribute: named(name, order)})


RULES: dict[type[Any], OrderRule] = {
    **{cls: unary for cls in OPS.values() if issubclass(cls, UnaryOp | CastOp)},
    **{cls: pointwise for cls in OPS.values() if issubclass(cls, BinaryOp | WhereOp | PreluOp)},
    **{cls: reduction for cls in OPS.values() if issubclass(cls, ReduceOp)},
    **dict.fromkeys((SoftmaxOp, LogSoftmaxOp, BiasAddOp, BatchNormOp, SplitOp), along("axis")),
    **dict.fromkeys((MaxPool2dOp, AvgPool2dOp, Resize2dOp), picture),
    **dict.fromkeys((SliceOp, PadOp, FlipOp), window),
    ConcatenateOp: concatenation,
}
