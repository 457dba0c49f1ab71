"""Kernels of scatters: one pass over the operand, and one over the updates."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, VectorType, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import graph, loop
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of, shape_of
from mlc.dialects.te_builder.loop_body import Buffer, LoopBodyBuilder, Outputs
from mlc.lowering.graph_to_te.extern.tiles import combiner, loaded, stored, visit, visit_tiles


def _place(b: LoopBodyBuilder, index: SSAValue, given: Attribute, size: Dim) -> tuple[SSAValue, SSAValue]:
    """An index with negative values wrapped, and whether it is in bounds."""
    assert isinstance(index.type, IntegerType)
    unsigned = str(given).startswith("ui")
    if index.type != i64:
        index = b.cast("extui" if unsigned else "extsi", index, i64)
    if not unsigned:
        index = b.select(b.compare("lt", index, 0), b.plus(index, size), index)
    inside = b.both(b.compare("ge", index, 0), b.compare("lt", index, size))
    return b.select(inside, index, 0), inside


def _write(
    b: LoopBodyBuilder,
    op: graph.ScatterElementsOp | graph.ScatterNdOp,
    y: SSAValue,
    at: Sequence[SSAValue],
    value: SSAValue,
    where: SSAValue,
) -> None:
    """Store an update, or a tile of updates along the last axis; a reduction combines it with the element there."""
    tiles, last = isinstance(value.type, VectorType), len(at) - 1
    if op.reduction != "none":
        combine = combiner(op.reduction, op.input_types[0].element_type, element_of(y))
        value = b.binary(combine, loaded(b, y, at, loop.shape_of(value.type)[0] if tiles else 1), value)
    if tiles:
        b.store_tile(value, y, at, last, where)
    else:
        b.store(value, y, *at, where=where)


def _copied(b: LoopBodyBuilder, x: Buffer, y: SSAValue, shape: Sequence[Dim]) -> None:
    def copy(at: list[SSAValue], lanes: int) -> None:
        stored(b, loaded(b, x, at, lanes), y, at, lanes)

    visit_tiles(b, shape, copy, (x, y), "parallel")


def scatter_elements(
    b: LoopBodyBuilder, op: graph.ScatterElementsOp, inputs: Sequence[Buffer], outputs: Outputs
) -> None:
    """Copy the operand, then apply the updates in order."""
    (x, indices, updates), (y,) = inputs, outputs
    assert y is not None
    shape, places = (shape_of(v.type) for v in op.operands[:2])
    axis = op.axis % len(shape)
    given = op.input_types[1].element_type
    _copied(b, x, y, shape)

    def update(at: list[SSAValue]) -> None:
        place, inside = _place(b, b.load(indices, *at), given, shape[axis])
        _write(b, op, y, [*at[:axis], place, *at[axis + 1 :]], b.load(updates, *at), inside)

    visit(b, places, update)


def scatter_nd(b: LoopBodyBuilder, op: graph.ScatterNdOp, inputs: Sequence[Buffer], outputs: Outputs) -> None:
    """Copy the operand, then apply the slices of the updates in order."""
    (x, indices, updates), (y,) = inputs, outputs
    assert y is not None
    shape, (count, depth) = (shape_of(v.type) for v in op.operands[:2])
    given = op.input_types[1].element_type
    _copied(b, x, y, shape)

    def update(m: SSAValue) -> None:
        found = [_place(b, b.load(indices, m, d), given, shape[d]) for d in range(int(depth))]
        first, inside = [place for place, _ in found], b.both(*(holds for _, holds in found))

        def write(at: Sequence[SSAValue], lanes: int) -> None:
            _write(b, op, y, [*first, *at], loaded(b, updates, [m, *at], lanes), inside)

        visit_tiles(b, shape[len(first) :], write, (updates, y))

    b.loop(0, count, [], update)
