"""The update of a reduction (load the accumulator, combine) and its initial values."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, MemRefType, TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import loop, scalar, te
from mlc.dialects.combiner import COMBINERS, PAIR_COMBINERS
from mlc.dialects.index import IndexMapAttr, dim
from mlc.lowering.te_to_loop.body import convert_ops


def initial(combiner: str, block: Block, stage: te.ComputeOp) -> list[SSAValue]:
    """The combiner's identities; for argmax and argmin, the index that loses to every other."""
    if (reducer := stage.reducer) is not None:
        return [_add(block, _constant(a)) for a in reducer.identity]
    types = [r.type.element_type for r in stage.results if isinstance(r.type, TensorType)]
    if combiner not in PAIR_COMBINERS:
        return [_add(block, scalar.constant(COMBINERS[combiner].identity(types[0]), types[0]))]
    worst = COMBINERS[PAIR_COMBINERS[combiner]].identity(types[0])
    last = COMBINERS["min"].identity(types[1])
    return [_add(block, scalar.constant(v, t)) for v, t in zip((worst, last), types, strict=True)]


def _constant(value: Attribute) -> Operation:
    assert isinstance(value, FloatAttr | IntegerAttr)
    return arith.ConstantOp.create(properties={"value": value}, result_types=[value.type])


def point(rank: int, first_step: int) -> IndexMapAttr:
    """The indices of a stage's result at its own point; in a scan, whose axis counts from its first step."""
    return IndexMapAttr.get(dim(k) + (first_step if k == 0 else 0) for k in range(rank))


def accumulate(
    stage: te.ComputeOp,
    block: Block,
    values: Sequence[SSAValue],
    outs: Sequence[SSAValue],
    at: Sequence[SSAValue],
    first_step: int = 0,
) -> list[SSAValue]:
    """Append loads of the accumulators and their combination with `values`; returns the new values."""
    where = point(len(at), first_step)
    accs: list[SSAValue] = []
    for out in outs:
        assert isinstance(out.type, MemRefType)
        element = out.type.element_type
        accs.append(
            _add(block, loop.LoadOp.create(operands=[out, *at], properties={"map": where}, result_types=[element]))
        )
        accs[-1].name_hint = "acc"
    if (reducer := stage.reducer) is not None:
        source = reducer.region.block
        known: dict[SSAValue, SSAValue] = dict(zip(source.args, [*accs, *values], strict=True))
        return convert_ops(stage, source, block, known, {})
    assert stage.combiner is not None
    combiner = stage.combiner.data
    if combiner in PAIR_COMBINERS:
        return _better(PAIR_COMBINERS[combiner], block, values, accs)
    return [_combine(combiner, block, values[0], accs[0])]


def combine_region(stage: te.ComputeOp) -> Region | None:
    """The stage's own reducer as a region of ops of the loop level; None where it has none."""
    reducer = stage.reducer
    if reducer is None:
        return None
    source = reducer.region.block
    block = Block(arg_types=[a.type for a in source.args])
    for argument, old in zip(block.args, source.args, strict=True):
        argument.name_hint = old.name_hint
    values = convert_ops(stage, source, block, dict(zip(source.args, block.args, strict=True)), {})
    block.add_op(loop.YieldOp.create(operands=values))
    return Region(block)


def _combine(combiner: str, block: Block, value: SSAValue, acc: SSAValue) -> SSAValue:
    if combiner == "sum" and isinstance(value.owner, arith.MulfOp | arith.MuliOp):
        product = value.owner
        fma = loop.FmaOp.make(product.lhs, product.rhs, acc)
        if not value.uses.get_length():
            product.detach()
            product.erase()
        return _add(block, fma)
    return _add(block, scalar.make(COMBINERS[combiner].op(value.type), acc, value))


def _better(kind: str, block: Block, values: Sequence[SSAValue], accs: Sequence[SSAValue]) -> list[SSAValue]:
    """The pair with the better value, of equal ones that with the lower index: independent of the order."""
    is_float = isinstance(values[0].type, AnyFloat)
    better = {"max": ("ogt", "sgt"), "min": ("olt", "slt")}[kind][not is_float]
    wins = _add(block, loop.CompareOp.make(better, values[0], accs[0]))
    equal = _add(block, loop.CompareOp.make("oeq" if is_float else "eq", values[0], accs[0]))
    first = _add(block, loop.CompareOp.make("slt", values[1], accs[1]))
    tie = _add(block, scalar.make(arith.AndIOp, equal, first))
    take = _add(block, scalar.make(arith.OrIOp, wins, tie))
    return [_add(block, loop.SelectOp.make(take, v, a)) for v, a in zip(values, accs, strict=True)]


def _add(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]
