"""Random control flow for random_graphs.py: an if, a loop or a scan whose regions are random graphs of a few ops."""

import numpy as np
from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import Region
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import graph as g
from mlc.dialects.graph.graph_numpy import result_dtype
from mlc.interp.graph import Interpreter


def control(builder) -> list:
    """Add control flow on values of a builder; its results."""
    op = builder.pick((branch, loop, scan))(builder)
    op.verify()
    operands = [builder.arrays[value] for value in op.operands]
    with np.errstate(all="ignore"):
        results = Interpreter(builder.store)._run_op(op, operands)
    return builder.keep(op, results)


def body(builder, types, finish) -> Region:
    """A region with arguments of these types: a few random ops, then `finish(inner)` gives what is yielded."""
    inner = builder.region([g.tensor(*t) for t in types])
    for _ in range(builder.choose(4)):
        inner.op()
    inner.block.add_op(g.YieldOp(*finish(inner)))
    return Region(inner.block)


def floats(builder, most: int) -> list:
    """Some values of f32 to read or carry, new ones if there are none."""
    found = [v for v in builder.pool if v.type.element_type == f32 and builder.arrays[v].size < 500][-5:]
    if not found:
        found = [builder.argument(t := g.tensor((3, 4), f32), builder.random(t, -2, 2, (0, 3)))]
    return [builder.pick(found) for _ in range(1 + builder.choose(most))]


def types_of(values) -> list:
    """Shape and element type of each."""
    return [(v.type.get_shape(), v.type.element_type) for v in values]


def like(inner, types) -> list:
    """Values of a region of these types, cut or repeated, and kept small: loops would make them grow."""
    found = []
    for shape, element in types:
        candidates = [v for v in inner.pool if v.type.element_type == element and inner.arrays[v].size]
        value = inner.pick(candidates[-3:]) if candidates else inner.leaf(g.tensor(shape, element), -2, 2, (0, 3))
        found += inner.add(g.ClipOp.make(inner.shaped(value, shape), min=-4.0, max=4.0))
    return found


def scalar(builder, array):
    """A scalar as an input or a constant."""
    array = np.asarray(array)
    if builder.chance(60):
        return builder.argument(g.tensor((), i1 if array.dtype.kind == "b" else i64), array)
    (value,) = builder.keep(g.ConstantOp.make(array), [array])
    return value


def branch(builder):
    """`graph.if`; its condition is an input, a constant, or whether a value's sum is large."""
    reads = floats(builder, 3)
    types, results = types_of(reads), types_of(floats(builder, 2))
    if builder.chance(50):
        condition = scalar(builder, np.bool_(builder.choose(2)))
    else:
        value = builder.pick(reads)
        (total,) = builder.add(g.SumOp.make(value, axes=tuple(range(len(value.type.get_shape())))))
        condition = builder.add(g.GreaterOp.make(total, scalar_of(builder, f32, 0.25)))[0]
    regions = [body(builder, types, lambda inner: like(inner, results)) for _ in range(2)]
    return g.IfOp(condition, reads, *regions)


def scalar_of(builder, element, value):
    """A constant scalar."""
    array = np.array(value, result_dtype(g.tensor((), element)))
    return builder.keep(g.ConstantOp.make(array), [array])[0]


def loop(builder):
    """`graph.loop`, by a limit, a condition, or both, with rows that are stacked."""
    carried, reads = floats(builder, 2), floats(builder, 2) if builder.chance(50) else []
    most, rows = 1 + builder.choose(5), types_of(floats(builder, 1)) if builder.chance(50) else []
    limit = scalar(builder, np.int64(builder.choose(7) - 1)) if builder.chance(50) else None
    condition = scalar(builder, np.bool_(builder.choose(5) > 0)) if builder.chance(50) else None
    kept = types_of(carried)

    def finish(inner):
        values = like(inner, [*kept, *rows])
        if condition is None:
            return values
        end = scalar_of(inner, i64, builder.choose(5))
        return [inner.add(g.LessOp.make(inner.block.args[0], end))[0], *values]

    region = body(builder, [((), i64), *kept, *types_of(reads)], finish)
    return g.LoopOp(region, carried, reads, most, limit, condition)


def scan(builder):
    """`graph.scan` over the rows of a value, forwards or backwards."""
    carried, rows = floats(builder, 2), floats(builder, 2)
    rows = [v for v in rows if v.type.get_shape() and v.type.get_shape()[0] == rows[0].type.get_shape()[:1][0]]
    if not rows or not 0 < rows[0].type.get_shape()[0] <= 9:
        raise VerifyException("expected rows to scan")
    reads = floats(builder, 2) if builder.chance(50) else []
    stacked = types_of(floats(builder, 1)) if builder.chance(60) else []
    kept = types_of(carried)
    each = [(shape[1:], element) for shape, element in types_of(rows)]
    region = body(builder, [*kept, *each, *types_of(reads)], lambda inner: like(inner, [*kept, *stacked]))
    backward = [bool(builder.choose(2)) for _ in range(len(rows) + len(stacked))]
    return g.ScanOp(region, carried, rows, reads, backward)
