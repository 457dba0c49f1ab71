"""
The orders of each value's axes while layouts change: one value, several orders, transposes made where one is missing.

An order p of a value is the value transposed by p: axis i of it is axis p[i] of the value. A value's first order is
its native one, in which its op computes it. The values named are the old ones.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import ReshapeOp, TransposeOp, shape_of
from mlc.dialects.graph.types import product
from mlc.passes.rewriting import Rewriter

Order = tuple[int, ...]


def identity(rank: int) -> Order:
    """The order in which a value stands in the text."""
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
        """Values that are computed in another order if what they are computed from is."""

    def known(self, value: SSAValue) -> dict[Order, SSAValue]:
        """The orders in which a value is there, the native one first."""
        return self.of.setdefault(value, {identity(len(shape_of(value.type))): value})

    def native(self, value: SSAValue) -> Order:
        """The order in which a value is computed."""
        return next(iter(self.known(value)))

    def set(self, value: SSAValue, order: Order, new: SSAValue) -> None:
        """Note that an op computes a value in this order."""
        self.of[value] = {order: new}

    def get(self, value: SSAValue, order: Order) -> SSAValue:
        """A value in an order, transposed before the op that is being converted if need be."""
        known = self.known(value)
        if order not in known:
            native, source = next(iter(known.items()))
            known[order] = self.make(TransposeOp, source, axes=tuple(native.index(axis) for axis in order))
        return known[order]

    def plain(self, value: SSAValue) -> SSAValue:
        """A value as it stands in the text."""
        return self.get(value, identity(len(shape_of(value.type))))

    def broadcast(self, value: SSAValue, order: Order) -> SSAValue:
        """A value that broadcasts to one of this many axes, as it broadcasts to that one in this order."""
        shape = shape_of(value.type)
        if product(shape) == 1 and len(shape) <= len(order):
            return self.plain(value)
        if len(shape) == len(order):
            return self.get(value, order)
        full = (*(1,) * (len(order) - len(shape)), *shape)
        whole = self.make(ReshapeOp, self.plain(value), shape=full)
        return self.make(TransposeOp, whole, axes=order)
