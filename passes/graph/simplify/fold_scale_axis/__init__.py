"""
graph-fold-scale-axis: scales along channels move into the weights of the contractions behind or before them.

A backward scale is absorbed by the op that computes its tensor, a forward one by all ops that read the product. The
demand propagates from op to op:

    op                      backward                          forward
    conv2d, dense           absorbs: weight * s along O       absorbs: weight * s along I (depthwise: O)
    multiply by constant    absorbs: constant * s             absorbs: constant * s
    relu, max_pool2d, ..    passes on a positive s            passes on a positive s
    avg_pool2d, neg         passes it on                      passes it on (pools: not along H and W)
    bias_add, add constant  constant * s, passes it on        constant / s, passes it on
    add of two tensors      both operands must absorb it      -
    other ops               refuse                            refuse

The module changes only if no op on the way refuses; so each rewrite removes one product of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    AbsOp,
    AddOp,
    AvgPool2dOp,
    BiasAddOp,
    DivideOp,
    GraphOp,
    LeakyReluOp,
    MaxPool2dOp,
    MultiplyOp,
    NegOp,
    ReluOp,
    ReshapeOp,
    SubtractOp,
    shape_of,
    static_shape,
)
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.types import axis_of, is_float
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import SOURCES, is_constant
from mlc.passes.graph.simplify.fold_scale_axis.scales import (
    Linear,
    Scale,
    can_scale,
    input_axes,
    input_letter,
    known_values,
    letter_axes,
    output_axes,
    output_letter,
    scale_of,
    varying,
    with_scaled_weight,
)
from mlc.passes.rewriting import Rewriter, blocks, replace_op
from mlc.support.weights import WeightStore

HOMOGENEOUS = (ReluOp, LeakyReluOp, AbsOp, MaxPool2dOp)
"""f(s * x) == s * f(x) for s > 0."""
ODD = (NegOp, AvgPool2dOp)
"""f(s * x) == s * f(x) for any s."""
Sum: TypeAlias = AddOp | SubtractOp
Product: TypeAlias = MultiplyOp | DivideOp
DEPTH = 16
"""Ops that a scale may move across."""


@dataclass(frozen=True)
class Demand:
    """A scale that an op is asked to absorb: its axes; whether it is positive, and has no zeros."""

    axes: frozenset[int]
    positive: bool
    nonzero: bool


def demand_of(scale: SSAValue, rank: int, store: WeightStore | None) -> Demand:
    """The demand of a constant operand."""
    import numpy as np

    shape = shape_of(scale.type)
    axes = varying((*(1,) * (rank - len(shape)), *shape))
    values = known_values(scale, store)
    if values is None:
        return Demand(axes, False, False)
    return Demand(axes, bool((values > 0).all()), bool(np.isfinite(values).all() and (values != 0).all()))


def constant_side(op: Sum | Product, like: Attribute) -> int | None:
    """The number of the operand that is a constant scale, if the other operand has the result's type, `like`."""
    for index in (1, 0):
        other = op.operands[1 - index]
        if other.type == op.type == like and can_scale(op.operands[index], like):
            return index
    return None


def commutes(op: Operation | Block, demand: Demand) -> TypeGuard[GraphOp]:
    """Whether f(s * x) == s * f(x) for an op f of one tensor: all elements of a pool's window must have one scale."""
    if isinstance(op, MaxPool2dOp | AvgPool2dOp) and demand.axes & letter_axes(op.parsed_layout, "HW"):
        return False
    return isinstance(op, ODD) or (isinstance(op, HOMOGENEOUS) and demand.positive)


class Backward:
    """Moves a scale to the ops that compute its tensor; each value on the way must have one reader."""

    def __init__(self, store: WeightStore | None) -> None:
        self.store = store

    def absorbs(self, value: SSAValue, demand: Demand, depth: int = DEPTH) -> bool:
        """Whether the op that defines the value absorbs the scale, or passes it on to ops that do."""
        op = value.owner
        if not depth or not value.has_one_use():
            return False
        if isinstance(op, Linear):
            return output_letter(op) is not None and demand.axes <= output_axes(op)
        if commutes(op, demand):
            return self.absorbs(op.operands[0], demand, depth - 1)
        if isinstance(op, BiasAddOp):
            along = demand.axes <= {axis_of(op.axis, len(shape_of(op.type)))} and is_constant(op.operands[1])
            return along and self.absorbs(op.operands[0], demand, depth - 1)
        if isinstance(op, Product):
            side = constant_side(op, value.type)
            return side is not None and (side == 1 or isinstance(op, MultiplyOp))
        if not isinstance(op, Sum):
            return False
        side = constant_side(op, value.type)
        if side is not None:
            return self.absorbs(op.operands[1 - side], demand, depth - 1)
        a, b = op.operands
        both = a is not b and a.type == b.type == op.type
        return both and self.absorbs(a, demand, depth - 1) and self.absorbs(b, demand, depth - 1)

    def scaled(self, rw: Rewriter, value: SSAValue, scale: Scale) -> SSAValue:
        """The value times the scale, computed anew without the product."""
        op = value.owner
        if isinstance(op, Linear):
            letter = output_letter(op)
            assert letter is not None
            return with_scaled_weight(rw, op, op.operands[0], scale, letter, op.type)
        if isinstance(op, BiasAddOp):
            operands = [self.scaled(rw, op.operands[0], scale), rw.make(MultiplyOp, op.operands[1], flat(rw, scale))]
        elif isinstance(op, Product):
            side = constant_side(op, value.type)
            assert side is not None
            factor = scale.value
            if isinstance(op, DivideOp):
                return rw.make(MultiplyOp, op.operands[0], rw.make(DivideOp, factor, op.operands[1]))
            operands = [rw.make(MultiplyOp, v, factor) if i == side else v for i, v in enumerate(op.operands)]
        elif isinstance(op, Sum) and (side := constant_side(op, value.type)) is not None:
            operands = [
                rw.make(MultiplyOp, v, scale.value) if i == side else self.scaled(rw, v, scale)
                for i, v in enumerate(op.operands)
            ]
        else:
            assert isinstance(op, GraphOp)
            operands = [self.scaled(rw, v, scale) for v in op.operands]
        return rw.clone(op, *operands)


class Forward:
    """Moves a scale to all readers of its product."""

    def __init__(self, store: WeightStore | None) -> None:
        self.store = store

    def absorbs(self, value: SSAValue, demand: Demand, depth: int = DEPTH) -> bool:
        """Whether every reader of a value absorbs the scale, or passes it on to ops that do."""
        uses = list(value.uses)
        return bool(uses) and depth > 0 and all(self._absorbs(u.operation, u.index, value, demand, depth) for u in uses)

    def _absorbs(self, op: Operation, index: int, value: SSAValue, demand: Demand, depth: int) -> bool:
        if isinstance(op, Linear):
            return index == 0 and input_letter(op) is not None and demand.axes <= input_axes(op)
        if commutes(op, demand):
            return self.absorbs(op.results[0], demand, depth - 1)
        if isinstance(op, BiasAddOp):
            along = demand.axes <= {axis_of(op.axis, len(shape_of(op.type)))}
            fits = index == 0 and along and demand.nonzero and is_constant(op.operands[1])
            return fits and self.absorbs(op.results[0], demand, depth - 1)
        if not isinstance(op, Sum | Product) or (side := constant_side(op, value.type)) in (None, index):
            return False
        if isinstance(op, Product):
            return side == 1 or isinstance(op, MultiplyOp)
        return demand.nonzero and self.absorbs(op.results[0], demand, depth - 1)

    def push(self, rw: Rewriter, value: SSAValue, unscaled: SSAValue, scale: Scale) -> None:
        """Make every reader of `value` read the unscaled one, and absorb the scale."""
        for use in list(value.uses):
            op = use.operation
            assert isinstance(op, GraphOp)
            rw.at = op
            if isinstance(op, Linear):
                letter = input_letter(op)
                assert letter is not None
                new = with_scaled_weight(rw, op, unscaled, scale, letter, op.operands[0].type)
                replace_op(op, [new])
                continue
            new = self._without(rw, op, use.index, unscaled, scale)
            if isinstance(op, Product):
                replace_op(op, [new])
            else:
                self.push(rw, op.results[0], new, scale)

    def _without(self, rw: Rewriter, op: GraphOp, index: int, unscaled: SSAValue, scale: Scale) -> SSAValue:
        """The op on the unscaled value; its constant is divided or, in a product, multiplied by the scale."""
        if isinstance(op, DivideOp):
            return rw.make(MultiplyOp, unscaled, rw.make(DivideOp, scale.value, op.operands[1]))
        operands = list(op.operands)
        operands[index] = unscaled
        if isinstance(op, BiasAddOp):
            operands[1] = rw.make(DivideOp, operands[1], flat(rw, scale))
        elif isinstance(op, Sum | MultiplyOp):
            cls = MultiplyOp if isinstance(op, MultiplyOp) else DivideOp
            operands[1 - index] = rw.make(cls, operands[1 - index], scale.value)
        return rw.clone(op, *operands)


def flat(rw: Rewriter, scale: Scale) -> SSAValue:
    """A scale that varies along one axis, as a vector."""
    size = max(static_shape(scale.value.type), default=1) if scale.axes else 1
    return rw.insert(ReshapeOp.make(scale.value, shape=(size,)))


def fold_block(block: Block, store: WeightStore | None, forward: bool) -> int:
    """Move the scales of a block in one direction; the number of scales moved."""
    way = Forward(store) if forward else Backward(store)
    count = 0
    constants: set[SSAValue] = set()
    for op in list(block.ops):
        if isinstance(op, GraphOp) and constants.issuperset(op.operands) and (op.operands or isinstance(op, SOURCES)):
            constants.update(op.results)  # a product of constants, which graph-fold-constant computes
            continue
        if not isinstance(op, Product) or op.parent is not block or not is_float(op.type):
            continue
        side = constant_side(op, op.type)
        if side is None or (side == 0 and isinstance(op, DivideOp)):
            continue
        value, rank = op.operands[1 - side], len(shape_of(op.type))
        demand = demand_of(op.operands[side], rank, store)
        if isinstance(op, DivideOp) and not demand.nonzero:
            continue
        if not way.absorbs(op.results[0] if forward else value, demand):
            continue
        rw = Rewriter()
        rw.at = op
        scale = scale_of(rw, op.operands[side], rank, isinstance(op, DivideOp))
        if isinstance(way, Forward):
            way.push(rw, op.results[0], value, scale)
        else:
            replace_op(op, [way.scaled(rw, value, scale)])
        count += 1
    return count


@dataclass(frozen=True)
class FoldScaleAxisPass(ModulePass):
    """
    Move products by constants per channel into the weights before them (backward), else behind them (forward).

    `graph.multiply (graph.relu (graph.conv2d %x, %w)), %s` -> `graph.relu (graph.conv2d %x, (graph.multiply %w, %s))`
    `graph.conv2d (graph.multiply %x, %s), %w` -> `graph.conv2d %x, (graph.multiply %w, %s)`

    Moving a scale across a relu needs positive values, and forward across a sum values other than 0, which the pass
    reads from the weights; without weights it does not move them. Scales do not move forward into grouped convolutions
    that are not depthwise.
    """

    name = "graph-fold-scale-axis"

    direction: Literal["both", "backward", "forward"] = "both"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        store, moved = store_of(op), False
        for block in list(blocks(op)):
            # A scale that another product absorbed may move on with it; each round leaves fewer products.
            while any([fold_block(block, store, way == "forward") for way in self.ways()]):
                moved = True
        if moved:
            eliminate_dead_code(op)

    def ways(self) -> tuple[str, ...]:
        """The directions, backward first: it needs no division."""
        return ("backward", "forward") if self.direction == "both" else (self.direction,)
