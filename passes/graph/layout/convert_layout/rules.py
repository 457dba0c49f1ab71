"""
How each op computes on operands with permuted axes: one rule for each family of ops, in a table by op class.

A rule returns, for each result of the op, its order and the value in that order; None where the op stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    AvgPool2dOp,
    BatchNormOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    FlipOp,
    GraphOp,
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
    op_classes,
    shape_of,
)
from mlc.dialects.graph.base import AttrValue
from mlc.dialects.graph.types import axis_of, product
from mlc.passes.graph.layout.convert_layout.orders import Order, Orders
from mlc.passes.graph.shared.constants import is_constant
from mlc.passes.rewriting import RuleTable

Ordered: TypeAlias = list[tuple[Order, SSAValue]]
Results: TypeAlias = Ordered | None
RULES = RuleTable[[Orders], Ordered]()
Along: TypeAlias = SoftmaxOp | LogSoftmaxOp | BiasAddOp | BatchNormOp | SplitOp
"""Ops whose attribute `axis` is an axis of the first operand."""
Pictured: TypeAlias = Conv2dOp | MaxPool2dOp | AvgPool2dOp | Resize2dOp
"""Ops that have a layout attribute."""
LAYOUTS: dict[type[Pictured], str] = {
    Conv2dOp: "data_layout", MaxPool2dOp: "layout", AvgPool2dOp: "layout", Resize2dOp: "layout",
}  # fmt: skip
"""The classes of these ops, and the names of their layout attributes."""


def in_order(op: GraphOp, o: Orders, order: Order, *operands: SSAValue, **changed: AttrValue) -> Ordered:
    """The op on operands in an order, with some attributes changed; all results have that order."""
    o.clone(op, *operands, result=None, **changed)
    return [(order, result) for result in o.made[-1].results]


def named(name: str, order: Order) -> str:
    """The layout of a picture in an order: `NCHW, (0, 2, 3, 1) -> NHWC`."""
    return "".join(name[axis] for axis in order)


def order_to(name: str, wanted: str) -> Order:
    """The order of a picture of one layout that has another: `NCHW, NHWC -> (0, 2, 3, 1)`."""
    return tuple(name.index(letter) for letter in wanted)


@RULES.on(*op_classes(UnaryOp), CastOp)
def unary(op: UnaryOp | CastOp, o: Orders) -> Results:
    """`relu(transpose x) -> transpose(relu x)`."""
    (x,) = op.operands
    order = o.native(x)
    changed: dict[str, AttrValue] = {"dtype": op.type.element_type} if isinstance(op, CastOp) else {}
    return in_order(op, o, order, o.get(x, order), **changed)


@RULES.on(*op_classes(BinaryOp), WhereOp, PreluOp)
def pointwise(op: BinaryOp | WhereOp | PreluOp, o: Orders) -> Results:
    """`add(transpose x, y) -> transpose(add(x, transpose y))` in the order that moves the fewest elements."""
    result = shape_of(op.type)
    full = [operand for operand in op.operands if shape_of(operand.type) == result]
    if not full:
        return None
    order = cheapest(full, o)
    return in_order(op, o, order, *(o.broadcast(operand, order) for operand in op.operands))


@RULES.on_own("elementwise", "broadcast")
def own_pointwise(op: GraphOp, o: Orders) -> Results:
    """`my.act(transpose x) -> transpose(my.act x)`, as for ops of the graph dialect."""
    result = shape_of(op.type)
    full = [operand for operand in op.operands if shape_of(operand.type) == result]
    if not full or len(op.results) != 1:
        return None
    order = cheapest(full, o)
    operands = [o.broadcast(operand, order) for operand in op.operands]
    new = o.try_clone(op, *operands, shape=[result[axis] for axis in order])
    return None if new is None else [(order, new)]


def cheapest(values: Sequence[SSAValue], o: Orders) -> Order:
    """The native order of one of these values, of about one shape, in which the fewest elements must be moved."""
    moved = [value for value in values if not is_constant(value)] or list(values)

    def cost(order: Order) -> float:
        sizes = [product(shape_of(value.type)) for value in moved if order not in o.known(value)]
        return sum(size if isinstance(size, int) else 1 << 40 for size in sizes)

    natives = dict.fromkeys(o.native(value) for value in moved)
    return min(natives, key=cost)


@RULES.on(SoftmaxOp, LogSoftmaxOp, BiasAddOp, BatchNormOp, SplitOp)
def along(op: Along, o: Orders) -> Results:
    """`softmax(transpose x) {axis = 3} -> transpose(softmax x {axis = 1})`."""
    x, *vectors = op.operands
    order = o.native(x)
    axis = order.index(axis_of(op.axis, len(order)))
    return in_order(op, o, order, o.get(x, order), *(o.plain(v) for v in vectors), axis=axis)


@RULES.on(ConcatenateOp)
def concatenation(op: ConcatenateOp, o: Orders) -> Results:
    """`concatenate(transpose x, transpose y) {axis = 3} -> transpose(concatenate(x, y) {axis = 1})`."""
    order = cheapest(op.operands, o)
    axis = order.index(axis_of(op.axis, len(order)))
    return in_order(op, o, order, *(o.get(operand, order) for operand in op.operands), axis=axis)


@RULES.on(*op_classes(ReduceOp))
def reduction(op: ReduceOp, o: Orders) -> Results:
    """`mean(transpose x) {axes = [1, 2]} -> mean x {axes = [2, 3]}`, the order of the axes that are left follows."""
    (x,) = op.operands
    order, reduced = o.native(x), op.reduced_axes
    axes = tuple(sorted(order.index(axis) for axis in reduced))
    results = in_order(op, o, order, o.get(x, order), axes=axes)
    if op.keepdims:
        return results
    left = [axis for axis in range(len(order)) if axis not in reduced]
    return [(tuple(left.index(axis) for axis in order if axis in left), results[0][1])]


@RULES.on(SliceOp, PadOp, FlipOp)
def window(op: SliceOp | PadOp | FlipOp, o: Orders) -> Results:
    """`slice(transpose x) -> transpose(slice x)`, `pad(transpose x) -> transpose(pad x)`, bounds moved along."""
    (x,) = op.operands
    order = o.native(x)
    if isinstance(op, PadOp):
        pairs = [op.pad_width[2 * axis : 2 * axis + 2] for axis in order]
        changed: dict[str, AttrValue] = {"pad_width": tuple(width for pair in pairs for width in pair)}
    elif isinstance(op, FlipOp):
        changed = {"axes": tuple(order.index(axis_of(axis, len(order))) for axis in op.axes)}
    else:
        changed = {name: tuple(getattr(op, name)[a] for a in order) for name in ("begin", "end", "strides")}
    return in_order(op, o, order, o.get(x, order), **changed)


@RULES.on(MaxPool2dOp, AvgPool2dOp, Resize2dOp)
def picture(op: MaxPool2dOp | AvgPool2dOp | Resize2dOp, o: Orders) -> Results:
    """`max_pool2d(transpose x) -> transpose(max_pool2d x {layout = "NHWC"})`."""
    return picture_in_order(op, o, o.native(op.operands[0]))


def picture_in_order(
    op: Pictured, o: Orders, order: Order, weight: SSAValue | None = None, **changed: AttrValue
) -> Results:
    """An op with a layout attribute, on a picture in an order, perhaps with another weight; None if it is blocked."""
    attribute = LAYOUTS[type(op)]
    name = getattr(op, attribute)
    if len(name) != 4:
        return None
    x, *others = op.operands
    others = [o.plain(v) for v in others] if weight is None else [weight]
    return in_order(op, o, order, o.get(x, order), *others, **changed, **{attribute: named(name, order)})
