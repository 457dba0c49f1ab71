"""
The orders of axes in which each value exists while layouts change; missing ones are made by transposes.

A value in order p is the value transposed by p: its axis i is axis p[i] of the value. A value's first order is its
native one, in which its op computes it. Values are identified by the old value.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import ReshapeOp, TransposeOp, shape_of
from mlc.dialects.graph.types import product
from mlc.passes.rewriting import Rewriter

Order = tuple[int, ...]


def identity(rank: int) -> Order:
    """The order of a value's axes in the module before the pass."""
    return tuple(range(rank))


def inverse(order: Order) -> Order:
    """Axis a of the value is axis inverse(order)[a] of the value in this order."""
    return tuple(order.index(axis) for axis in range(len(order)))


class Orders(Rewriter):
    """Old value -> {order: new value}."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[SSAValue, dict[Order, SSAValue]] = {}
        self.carried: set[SSAValue] = set()
        """Values whose order follows that of the operands they are computed from."""

    def known(self, value: SSAValue) -> dict[Order, SSAValue]:
        """The orders in which a value exists, the native one first."""
        return self.of.setdefault(value, {identity(len(shape_of(value.type))): value})

    def native(self, value: SSAValue) -> Order:
        """The order in which a value is computed."""
        return next(iter(self.known(value)))

    def set(self, value: SSAValue, order: Order, new: SSAValue) -> None:
        """Record that an op computes a value in this order."""
        self.of[value] = {order: new}

    def get(self, value: SSAValue, order: Order) -> SSAValue:
        """A value in an order; a missing one is made by a transpose before the op that is being converted."""
        known = self.known(value)
        if order not in known:
            native, source = next(iter(known.items()))
            known[order] = self.make(TransposeOp, source, axes=tuple(native.index(axis) for axis in order))
        return known[order]

    def plain(self, value: SSAValue) -> SSAValue:
        """A value with its axes in their original order."""
        return self.get(value, identity(len(shape_of(value.type))))

    def broadcast(self, value: SSAValue, order: Order) -> SSAValue:
        """A value that broadcasts to a tensor of the order's rank, in a shape that broadcasts to it in this order."""
        shape = shape_of(value.type)
        if product(shape) == 1 and len(shape) <= len(order):
            return self.plain(value)
        if len(shape) == len(order):
            return self.get(value, order)
        full = (*(1,) * (len(order) - len(shape)), *shape)
        whole = self.make(ReshapeOp, self.plain(value), shape=full)
        return self.make(TransposeOp, whole, axes=order)
