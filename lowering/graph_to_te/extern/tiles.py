"""Loops of extern kernels over elements or tiles of them, and the ops that combine elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, i1
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.types import element_of
from mlc.dialects.te_builder.loop_body import Buffer, LoopBodyBuilder, Number

COMBINE: dict[str, tuple[type[Operation], type[Operation], type[Operation]]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
}
"""The ops that combine two floats, signed integers, unsigned integers."""

COPIED_LANES = 32
"""Elements of a row that are copied or combined as one tile: some vectors, for the few operations of a loop."""


def combiner(how: str, given: Attribute, element: Attribute) -> type[Operation]:
    """The op class that combines elements of a type."""
    return COMBINE[how][0 if isinstance(element, AnyFloat) else 2 if str(given).startswith("ui") else 1]


def visit(
    b: LoopBodyBuilder, sizes: Sequence[Dim], body: Callable[[list[SSAValue]], None], kind: str = "serial"
) -> None:
    """A loop nest over these sizes with `body(indices)` innermost; `kind` is that of the outermost loop."""

    def inner(rest: Sequence[Dim], at: list[SSAValue]) -> None:
        if not rest:
            return body(at)
        b.loop(0, rest[0], [], lambda i: inner(rest[1:], [*at, i]), "serial" if at else kind)
        return None

    inner(list(sizes), [])


def visit_tiles(
    b: LoopBodyBuilder,
    sizes: Sequence[Dim],
    body: Callable[[list[SSAValue], int], None],
    buffers: Sequence[Buffer],
    kind: str = "serial",
) -> None:
    """
    A loop nest over `body(indices, lanes)` for tiles of the buffers along the last axis.

    Tiles have one lane where the size of that axis is open or less than 2, where an operand has no buffer, and of bits.
    """
    tiled = all(isinstance(one, SSAValue) and element_of(one) != i1 for one in buffers)
    if not tiled or not sizes or not isinstance(sizes[-1], int) or sizes[-1] < 2:
        visit(b, sizes, lambda at: body(at, 1), kind)
        return
    *outer, last = sizes
    assert isinstance(last, int)
    lanes = min(last, COPIED_LANES)

    def row(at: list[SSAValue]) -> None:
        def tile(n: SSAValue) -> None:
            body([*at, b.binary(arith.MuliOp, n, lanes)], lanes)

        b.loop(0, last // lanes, [], tile, "serial" if outer else kind)
        if rest := last % lanes:
            body([*at, b.number(last - rest)], rest)

    visit(b, outer, row, kind)


def loaded(b: LoopBodyBuilder, x: Buffer, at: Sequence[Number], lanes: int) -> SSAValue:
    """An element, or a tile of `lanes` of them along the last axis."""
    return b.load_tile(x, at, len(at) - 1, lanes) if lanes > 1 and isinstance(x, SSAValue) else b.load(x, *at)


def stored(b: LoopBodyBuilder, value: SSAValue, y: SSAValue, at: Sequence[Number], lanes: int) -> None:
    """Store an element, or a tile of `lanes` of them along the last axis."""
    if lanes > 1:
        b.store_tile(value, y, at, len(at) - 1)
    else:
        b.store(value, y, *at)
