"""The index expressions of an op, read over an index space, replaced, and substituted in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, IndexMapAttr, Term, compact, const
from mlc.passes.loop.index_space.predicates import unproved
from mlc.passes.loop.index_space.space import IndexSpace

# The properties of an op that hold expressions, and how many operands stand in front of those that they number.
EXPRESSIONS: dict[type[Operation], tuple[tuple[str, ...], int]] = {
    loop.BlockOp: (("extents", "bindings", "where"), 0),
    loop.ForOp: (("bounds",), 0),
    loop.LoadOp: (("map", "mask"), 1),
    loop.StoreOp: (("map", "mask"), 2),
    loop.GatherOp: (("map",), 2),
    loop.IndexOp: (("map",), 0),
}


def _operand_range(op: Operation) -> tuple[int, int] | None:
    """The operands of an op that its expressions number: the first one, and one past the last."""
    part = EXPRESSIONS.get(type(op))
    if part is None:
        return None
    end = len(op.operands)
    if isinstance(op, loop.ForOp):
        end -= len(op.results)
    elif isinstance(op, loop.LoadOp) and "mask" in op.properties:
        end -= 1
    return part[1], end


def exprs_of(space: IndexSpace, op: Operation, to: Mapping[SSAValue, Index] | None = None) -> dict[str, list[Index]]:
    """The index expressions of an op by property, over the space and simplified; values in `to` are replaced."""
    names, _ = EXPRESSIONS[type(op)]
    start, end = _operand_range(op) or (0, 0)
    over: dict[int, Index] = {}
    for k, value in enumerate(op.operands[start:end]):
        found = to.get(value) if to is not None else None
        over[k] = space.dim(value) if found is None else found
    result: dict[str, list[Index]] = {}
    for name in names:
        attr = op.properties.get(name)
        if isinstance(attr, IndexMapAttr):
            result[name] = [e.substitute(over, space.ranges) for e in attr.data]
    return result


def replace_terms(e: Index, to: Mapping[Term, Index]) -> Index:
    """An expression with others in the place of some of its terms."""
    total = const(e.const)
    for term, factor in e.terms:
        total = total + (to[term] if term in to else Index(0, ((term, 1),))) * factor
    return total


def set_exprs(space: IndexSpace, op: Operation, exprs: Mapping[str, Sequence[Index]]) -> None:
    """Replace all index expressions of an op, given by property, by expressions over the space."""
    start, end = _operand_range(op) or (0, 0)
    flat = [e for part in exprs.values() for e in part]
    found, values = compact(flat, space.values)
    at = 0
    for name, part in exprs.items():
        if part or name in ("map", "extents", "bindings"):
            op.properties[name] = IndexMapAttr(found[at : at + len(part)])
        else:
            op.properties.pop(name, None)
        at += len(part)
    old = tuple(op.operands)
    op.operands = [*old[:start], *values, *old[end:]]


def set_bindings(space: IndexSpace, block: loop.BlockOp, bindings: Iterable[Index], where: Iterable[Index]) -> None:
    """Give a block new bindings and predicates over the space; its extents stay."""
    extents = space.exprs(block.extents.data, block.args)
    set_exprs(space, block, {"extents": extents, "bindings": [*bindings], "where": [*where]})


def substitute(space: IndexSpace, ops: Iterable[Operation], to: Mapping[SSAValue, Index]) -> None:
    """Replace index values in ops by expressions over the space; a use that is no expression gets a loop.index."""
    for op in ops:
        numbered = _operand_range(op)
        if numbered is not None:
            exprs = exprs_of(space, op, to)
            if "where" in exprs:
                exprs["where"] = unproved(space, exprs["where"])
            set_exprs(space, op, exprs)
        start, end = numbered or (0, 0)
        for k, value in enumerate(tuple(op.operands)):
            if value in to and not start <= k < end:
                (expr,), values = compact([to[value]], space.values)
                index = loop.IndexOp.make(expr, values)
                index.location = op.location
                assert op.parent is not None
                op.parent.insert_op_before(index, op)
                op.operands[k] = index.result


def users(values: Iterable[SSAValue]) -> list[Operation]:
    """The ops that use any of these values, each once."""
    return list(dict.fromkeys(use.operation for value in values for use in value.uses))
