"""Bugs of conversions and rewrites of te: wrong indices, extents, initial values, predicates, symbols."""

from collections.abc import Iterator
from random import Random

from operators import Change, erase, mutation, replace, same_types, swap_operands
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import FloatAttr, StringAttr, TensorType
from xdsl.ir import Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.index import Div, Index, IndexMapAttr, dim

UNARY = ("math.", "arith.negf")


def with_exprs(op: Operation, name: str, exprs: list[Index]) -> Change:
    """Let an op have other index expressions."""
    return lambda: op.properties.__setitem__(name, IndexMapAttr.get(exprs))


def replaced(exprs: tuple[Index, ...], k: int, new: Index) -> list[Index]:
    """Index expressions of which one is another."""
    return [*exprs[:k], new, *exprs[k + 1 :]]


def extents_of(read: te.ReadOp) -> dict[int, int]:
    """By number of an index operand of a read: the static extent of the axis that it is."""
    stage = read.parent_op()
    assert isinstance(stage, te.ComputeOp)
    sizes = dict(zip(stage.axes, stage.static_extents, strict=True))
    return {k: sizes[v] for k, v in enumerate(read.indices) if v in sizes and sizes[v] < 1 << 20}


def size_at(read: te.ReadOp, k: int) -> int:
    """A size of the tensor that is read; 0 if it is open."""
    t = read.tensor.type
    assert isinstance(t, TensorType)
    return max(0, t.get_shape()[k])


@mutation("te")
def wrong_index_offset(op: Operation, random: Random) -> Iterator[Change]:
    """A read is off by one, within the tensor or beyond it."""
    if isinstance(op, te.ReadOp):
        for k, e in enumerate(op.map.data):
            if size_at(op, k) != 1:
                for d in (-1, 1):
                    yield with_exprs(op, "map", replaced(op.map.data, k, e + d))


@mutation("te")
def reversed_index(op: Operation, random: Random) -> Iterator[Change]:
    """An axis is read backwards."""
    if isinstance(op, te.ReadOp):
        for k, e in enumerate(op.map.data):
            if not e.is_const and size_at(op, k) > 1:
                yield with_exprs(op, "map", replaced(op.map.data, k, -e + (size_at(op, k) - 1)))


@mutation("te")
def wrong_index_scale(op: Operation, random: Random) -> Iterator[Change]:
    """A stride or a divisor in an index is another one: it reads within the tensor, but elsewhere."""
    if isinstance(op, te.ReadOp):
        for k, e in enumerate(op.map.data):
            for number, (term, c) in enumerate(e.terms):
                if isinstance(term, Div):
                    by = term.by + 1 if not term.is_mod else max(1, term.by - 1)
                    changed = ((Div(term.expr, by, term.is_mod), c),)
                elif c > 1:
                    changed = ((term, c - 1),)
                else:
                    continue
                terms = (*e.terms[:number], *changed, *e.terms[number + 1 :])
                yield with_exprs(op, "map", replaced(op.map.data, k, Index(e.const, terms)))


@mutation("te")
def swapped_axes(op: Operation, random: Random) -> Iterator[Change]:
    """Two indices of a read are exchanged where the sizes are the same."""
    if isinstance(op, te.ReadOp):
        exprs = op.map.data
        for i in range(len(exprs)):
            for j in range(i):
                if exprs[i] != exprs[j] and size_at(op, i) == size_at(op, j) > 1:
                    yield with_exprs(op, "map", replaced(tuple(replaced(exprs, i, exprs[j])), j, exprs[i]))


@mutation("te")
def swapped_axis_operands(op: Operation, random: Random) -> Iterator[Change]:
    """Two axes of one extent are taken for each other in a read."""
    if isinstance(op, te.ReadOp):
        extents = extents_of(op)
        for i in extents:
            for j in extents:
                if j < i and extents[i] == extents[j] > 1:
                    to = {i: dim(j), j: dim(i)}
                    yield with_exprs(op, "map", [e.substitute(to) for e in op.map.data])


@mutation("te")
def wrong_reduction_extent(op: Operation, random: Random) -> Iterator[Change]:
    """A reduction leaves its last term out."""
    if isinstance(op, te.ComputeOp):
        extents = op.extents.data
        for k in range(op.num_spatial, len(extents)):
            if not extents[k].is_const or extents[k].const > 1:
                yield with_exprs(op, "extents", replaced(extents, k, extents[k] - 1))


@mutation("te")
def wrong_combiner(op: Operation, random: Random) -> Iterator[Change]:
    """A reduction of another kind, with the initial value of that kind."""
    other = {"sum": "max", "max": "sum", "min": "max", "prod": "sum", "argmax": "argmin", "argmin": "argmax"}
    if isinstance(op, te.ComputeOp) and op.combiner is not None and op.combiner.data in other:
        name = other[op.combiner.data]
        yield lambda: op.properties.__setitem__("combiner", StringAttr(name))


@mutation("te")
def wrong_predicate(op: Operation, random: Random) -> Iterator[Change]:
    """A predicate of a masked read is off by one."""
    if isinstance(op, te.ReadOp) and op.mask is not None:
        for k, e in enumerate(op.mask.data):
            for d in (-1, 1):
                yield with_exprs(op, "mask", replaced(op.mask.data, k, e + d))


@mutation("te")
def wrong_padding_value(op: Operation, random: Random) -> Iterator[Change]:
    """A masked read gives another value where it reads nothing."""
    if isinstance(op, te.ReadOp) and op.mask is not None and op.otherwise is not None:
        source = op.otherwise.owner
        if isinstance(source, arith.ConstantOp) and isinstance(source.value, FloatAttr):
            value = source.value
            yield lambda: source.properties.__setitem__("value", FloatAttr(1.0 + abs(value.value.data), value.type))


@mutation("te")
def broken_symbol_arithmetic(op: Operation, random: Random) -> Iterator[Change]:
    """A size that is computed from symbols is off, or reads another symbol."""
    if isinstance(op, te.ComputeOp):
        for k, e in enumerate(op.extents.data):
            if not e.is_const and k >= op.num_spatial:
                yield with_exprs(op, "extents", replaced(op.extents.data, k, Index(0, ((Div(e, 2, False), 1),))))
        for i in range(len(op.symbols)):
            for j in range(i):
                if same_types(op, i, j):
                    yield lambda i=i, j=j: swap_operands(op, i, j)
    elif isinstance(op, te.ReadOp):
        stage = op.parent_op()
        own = set(stage.axes) if isinstance(stage, te.ComputeOp) else set()
        symbols = {v for v in op.indices if v not in own and not isinstance(v.owner, Operation)}
        for k, e in enumerate(op.map.data):
            if any(op.indices[d] in symbols for d in e.dims() if d >= 0):
                yield with_exprs(op, "map", replaced(op.map.data, k, e + 1))


@mutation("te")
def wrong_te_constant(op: Operation, random: Random) -> Iterator[Change]:
    """A number in a kernel is another one."""
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, FloatAttr):
        value = op.value
        number = value.value.data
        yield lambda: op.properties.__setitem__("value", FloatAttr(number * 1.1 if number else 0.5, value.type))


@mutation("te")
def swapped_scalar_operands(op: Operation, random: Random) -> Iterator[Change]:
    """The operands of a difference or a quotient are exchanged."""
    if isinstance(op, arith.SubfOp | arith.DivfOp | math.PowFOp) and op.operands[0] is not op.operands[1]:
        yield lambda: swap_operands(op)


@mutation("te")
def dropped_scalar_op(op: Operation, random: Random) -> Iterator[Change]:
    """A scalar op is left out."""
    if len(op.results) == 1 and op.operands and op.operands[0].type == op.results[0].type:
        if op.name.startswith(UNARY) or isinstance(
            op, arith.AddfOp | arith.MulfOp | arith.MaximumfOp | arith.MinimumfOp | arith.SubfOp | arith.DivfOp
        ):
            yield lambda: replace(op, op.operands[0])


@mutation("te")
def wrong_stage_read(op: Operation, random: Random) -> Iterator[Change]:
    """A stage reads another stage, or another operand, of the same type."""
    if isinstance(op, te.ReadOp):
        stage = op.parent_op()
        func = stage.parent_op() if stage is not None else None
        if not isinstance(func, te.FuncOp):
            return
        others: list[SSAValue] = [a for a in func.args if a is not op.tensor and a.type == op.tensor.type]
        for earlier in func.stages:
            if earlier is stage:
                break
            others += [r for r in earlier.results if r is not op.tensor and r.type == op.tensor.type]
        for other in others:
            yield lambda other=other: op.operands.__setitem__(0, other)


@mutation("te", "scaled")
def lost_maximum(op: Operation, random: Random) -> Iterator[Change]:
    """A softmax whose maximum is not subtracted."""
    if isinstance(op, te.ReadOp):
        source = op.tensor.owner
        if isinstance(source, te.ComputeOp) and source.combiner is not None and source.combiner.data == "max":
            users = [use.operation for use in op.results[0].uses]
            if users and all(isinstance(user, arith.SubfOp) for user in users):

                def change() -> None:
                    for user in users:
                        replace(user, user.operands[0])
                    erase(op)

                yield change
