"""
Masked loads whose else value changes nothing: the mask becomes a predicate of the block.

`block { acc += load(x, mask m, else 0) * w }` -> `block where m { acc += load(x) * w }`
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, dim
from mlc.passes.loop.index_space.expressions import set_bindings
from mlc.passes.loop.index_space.space import IndexSpace


def masked_operand(block: loop.BlockOp) -> loop.LoadOp | None:
    """The load of a block's update whose else value changes nothing: 0 of a sum, -inf of a maximum."""
    ops = list(block.body.block.ops)
    stores = [op for op in ops if isinstance(op, loop.StoreOp)]
    loads = [op for op in ops if isinstance(op, loop.LoadOp) and op.mask is not None]
    if block.has_init or len(stores) != 1 or len(loads) != 1 or stores[0].mask is not None:
        return None
    (store,), (load,) = stores, loads
    place = store.buffer, store.map, [*store.indices]
    own = [op for op in ops if isinstance(op, loop.LoadOp) and (op.buffer, op.map, [*op.indices]) == place]
    if len(own) != 1 or not load.result.has_one_use() or any(v not in block.body.block.args for v in load.indices):
        return None
    total = store.value.owner
    if isinstance(total, loop.FmaOp):
        fits = total.operands[2] is own[0].result and load.result in total.operands[:2]
    else:
        fits = isinstance(total, arith.AddfOp | arith.MaximumfOp) and {*total.operands} == {own[0].result, load.result}
    neutral = float("-inf") if isinstance(total, arith.MaximumfOp) else 0.0
    return load if fits and _is(load.otherwise, neutral) else None


def _is(value: SSAValue | None, number: float) -> bool:
    op = None if value is None else value.owner
    return isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr) and op.value.value.data == number


def over_arguments(block: loop.BlockOp, exprs: Iterable[Index], operands: Sequence[SSAValue]) -> list[Index]:
    """Expressions over an op's index operands as expressions over the arguments of the block that they are."""
    arguments: list[SSAValue] = list(block.body.block.args)
    return [e.substitute(lambda d: dim(arguments.index(operands[d]))) for e in exprs]


def remove_mask(load: loop.LoadOp) -> None:
    """`load(s, mask e else 0)`  ->  `load(s)`."""
    bare = loop.LoadOp.make(load.buffer, load.map.data, load.indices)
    bare.location = load.location
    assert load.parent is not None
    load.parent.insert_op_before(bare, load)
    load.result.replace_all_uses_with(bare.result)
    load.detach()
    load.erase()


def add_predicates(block: loop.BlockOp, predicates: Iterable[Index]) -> None:
    """Run a block only where expressions over its arguments are not negative."""
    space = IndexSpace()
    bindings = space.exprs(block.bindings.data, block.args)
    more = [e.substitute(bindings.__getitem__, space.ranges) for e in predicates]
    where = [*space.exprs(block.where_exprs, block.args), *more]
    set_bindings(space, block, bindings, [e for e in where if e.bounds(space.ranges)[0] < 0])
