"""Reduction combiners by name: their identity and the `arith` op that combines two values, per element type."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1
from xdsl.ir import Attribute, Operation


@dataclass(frozen=True)
class Combiner:
    """A commutative, associative reduction: `sum`, `prod`, `max`, `min`."""

    name: str
    float_op: type[Operation]
    int_op: type[Operation]
    float_identity: float
    int_identity: int | str

    def op(self, element: Attribute) -> type[Operation]:
        """The op that combines two values of this element type."""
        if element == i1 and self.name in BOOLEAN:
            return BOOLEAN[self.name]
        return self.float_op if isinstance(element, AnyFloat) else self.int_op

    def identity(self, element: Attribute) -> float | int:
        """The neutral element: combined with it, a value is unchanged."""
        if isinstance(element, AnyFloat):
            return self.float_identity
        bits = element.width.data if isinstance(element, IntegerType) else 64
        if self.int_identity == "lowest":
            return -(1 << (bits - 1)) if bits > 1 else 0
        if self.int_identity == "highest":
            return (1 << (bits - 1)) - 1 if bits > 1 else 1
        assert isinstance(self.int_identity, int)
        return self.int_identity


# max of i1 is a disjunction, min a conjunction (as signed numbers, a set bit is -1).
BOOLEAN: dict[str, type[Operation]] = {"max": arith.OrIOp, "min": arith.AndIOp}
INFINITY = float("inf")
COMBINERS = {
    c.name: c
    for c in (
        Combiner("sum", arith.AddfOp, arith.AddiOp, 0.0, 0),
        Combiner("prod", arith.MulfOp, arith.MuliOp, 1.0, 1),
        Combiner("max", arith.MaximumfOp, arith.MaxSIOp, -INFINITY, "lowest"),
        Combiner("min", arith.MinimumfOp, arith.MinSIOp, INFINITY, "highest"),
    )
}
# Reductions over pairs (value, index): the better value wins, of equal ones that with the lower index.
PAIR_COMBINERS = {"argmax": "max", "argmin": "min"}
