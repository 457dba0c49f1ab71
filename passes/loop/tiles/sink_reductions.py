"""
Reductions of a tile in each iteration of a loop become one behind it (loop-promote-tiles).

    %r = loop.for %k iter_args(%a = %first) { %s = loop.reduce sum %x  %n = add %a, %s  loop.yield %n }
    -> %w = loop.for %k iter_args(%a = 0) { %n = add %a, %x  loop.yield %n }  %s = loop.reduce sum %w  add %first, %s

Loops in a loop carry one tile: an inner one begins with that of the outer one instead of a neutral element.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import loop, scalar
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.constants import numbers
from mlc.passes.loop.tiles.form_tiles import COMBINES


def constant_of(v: SSAValue) -> float | int | None:
    """The number in a constant, or in all elements of a tile of one; None for other values."""
    while isinstance(v.owner, loop.BroadcastOp):
        v = v.owner.value
    if not isinstance(v.owner, arith.ConstantOp):
        return None
    value = v.owner.value
    if isinstance(value, DenseIntOrFPElementsAttr):
        return numbers(value)[0] if value.is_splat() else None
    return value.value.data if isinstance(value, IntegerAttr | FloatAttr) else None


def sink_reduction(op: loop.ForOp, k: int) -> None:
    """
    acc (+) reduce(x) carried by a loop -> x is accumulated lane by lane, and reduced once behind the loop.

    `%n = add %acc, (loop.reduce sum %x)` carried as vector<1x1> -> `%n = add %wide, %x` carried as x's type.
    """
    acc, y = op.carried[k], op.yield_op.values[k]
    combine = y.owner
    if not isinstance(combine, Operation) or (name := COMBINES.get(type(combine))) is None:
        return
    others = [v for v in combine.operands if v is not acc]
    if len(others) != 1 or len(list(acc.uses)) != 1 or len(list(y.uses)) != 1:
        return
    reduce = others[0].owner
    if not isinstance(reduce, loop.ReduceOp) or reduce.combiner.data != name or len(list(reduce.result.uses)) != 1:
        return
    if reduce.result.type != acc.type or reduce.parent is not op.body.block:
        return
    _widen_accumulator(op, k, reduce, combine, name)


def _widen_accumulator(op: loop.ForOp, k: int, reduce: loop.ReduceOp, combine: Operation, name: str) -> None:
    """Let a loop carry the tile that it reduces in each iteration, and reduce the tile once, behind the loop."""
    block = op.parent
    assert block is not None
    wide_type, initial = reduce.value.type, op.iter_args[k]
    axes, properties, reduce_location = list(reduce.axes.get_values()), dict(combine.properties), reduce.location
    element = loop.element_of(wide_type)
    constant = scalar.constant(COMBINERS[name].identity(element), element)
    wide = loop.BroadcastOp.make(constant.results[0], wide_type)
    _carry_wide(op, k, reduce, combine, name)
    operands = list(op.operands)
    operands[op.bounds.arity + k] = wide.result
    replacement = loop.ForOp.create(
        operands=operands,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        result_types=[wide_type if i == k else r.type for i, r in enumerate(op.results)],
        regions=[op.detach_region(0)],
        location=op.location,
    )
    total = loop.ReduceOp.make(name, replacement.results[k], axes)
    final = type(combine).create(
        operands=[initial, total.result], properties=properties, result_types=[op.results[k].type]
    )
    for made in (constant, wide, total, final):
        made.location = reduce_location
    block.insert_ops_before([constant, wide, replacement, total, final], op)
    for i, old in enumerate(op.results):
        old.replace_all_uses_with(final.results[0] if i == k else replacement.results[i])
    op.detach()
    op.erase(safe_erase=False)


def _carry_wide(op: loop.ForOp, k: int, reduce: loop.ReduceOp, combine: Operation, name: str) -> None:
    """In the loop's body: carried value k becomes a tile, to which x is added lane by lane instead of reduced."""
    body, old, x = op.body.block, op.carried[k], reduce.value
    acc = body.insert_arg(x.type, 1 + k)
    values = list(op.yield_op.values)
    if (first := _neutral_start(x, name)) is not None:
        inner, place = first
        inner.operands[inner.bounds.arity + place], values[k] = acc, x
    else:
        fused = _accumulate(x, acc, combine)
        fused.location = combine.location
        body.insert_op_before(fused, combine)
        values[k] = fused.results[0]
    op.yield_op.operands = values
    for dead in (combine, reduce):
        dead.detach()
        dead.erase()
    _drop_dead(x)
    old.replace_all_uses_with(acc)
    assert isinstance(old, BlockArgument)
    body.erase_arg(old)


def _neutral_start(x: SSAValue, name: str) -> tuple[loop.ForOp, int] | None:
    """The loop whose result x is, and its place there, if that combines terms with a neutral element first."""
    op = x.owner
    if not isinstance(op, loop.ForOp) or not x.has_one_use():
        return None
    k = op.results.index(x)
    neutral = COMBINERS[name].identity(loop.element_of(x.type))
    starts = constant_of(op.iter_args[k]) == neutral
    return (op, k) if starts and _combines_onto(op.yield_op.values[k], op.carried[k], name) else None


def _combines_onto(v: SSAValue, start: SSAValue, name: str) -> bool:
    """Whether a value is `start`, used once, and one term after another combined with it, in the loops inside, too."""
    if not start.has_one_use():
        return False
    op = v.owner
    if isinstance(op, loop.ForOp):
        k = op.results.index(v)
        return op.iter_args[k] is start and _combines_onto(op.yield_op.values[k], op.carried[k], name)
    if isinstance(op, loop.FmaOp):
        return name == "sum" and op.c is start
    return isinstance(op, Operation) and COMBINES.get(type(op)) == name and start in op.operands


def _accumulate(x: SSAValue, acc: SSAValue, combine: Operation) -> Operation:
    """acc (+) x, as one fma where x is a product used only here."""
    product = x.owner
    if isinstance(combine, arith.AddfOp) and isinstance(product, arith.MulfOp) and len(list(x.uses)) == 1:
        return loop.FmaOp.make(product.lhs, product.rhs, acc)
    return type(combine).create(operands=[acc, x], properties=dict(combine.properties), result_types=[x.type])


def _drop_dead(v: SSAValue) -> None:
    owner = v.owner
    if isinstance(owner, Operation) and not any(True for _ in v.uses) and isinstance(owner, arith.MulfOp):
        owner.detach()
        owner.erase()
