"""
Movements between convolutions sink below pointwise ops and 1x1 convolutions.

A transposed convolution is computed as one convolution for each sub-pixel (alter_op_layout/subpixel.py) and a shuffle,
a reshape and a transpose, of their results. Below the layers that follow, the shuffle moves only the channels of the
last layer, and activations can fuse with their convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

from xdsl.ir import SSAValue

from mlc.dialects.graph import (
    BiasAddOp,
    BinaryOp,
    BroadcastToOp,
    CastOp,
    Conv2dOp,
    GraphOp,
    LookupOp,
    ReshapeOp,
    TransposeOp,
    UnaryOp,
    op_classes,
    shape_of,
)
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.pointwise import is_own_pointwise, is_own_unary
from mlc.dialects.graph.types import element_of, product, sizes_at
from mlc.dialects.scalar import byte_size
from mlc.passes.graph.shared.constants import is_constant, is_static
from mlc.passes.graph.shared.views import divides, reshape_groups
from mlc.passes.rewriting import Replacement, Rewriter, Rules, defining_op

SHUFFLES = Rules()
Movement: TypeAlias = ReshapeOp | TransposeOp
POINTWISE = (UnaryOp, BinaryOp, BiasAddOp, CastOp, LookupOp)
SUBPIXELS = (0, 3, 4, 1, 5, 2)
"""The transpose (n, r, c, o, q, p) -> (n, o, q, r, p, c); a block of inner channels stays the last axis."""
MAX_POINTWISE = 32
"""Pointwise ops, at most, between a convolution and the movements of its result: as many as a few quantised layers."""
MOST_REPEATED = 4096
"""The most elements of a constant of channels that is repeated for each sub-pixel of a moved picture."""


def movements(value: SSAValue) -> tuple[SSAValue, list[Movement]]:
    """
    The source of a chain of reshapes and transposes that ends in `value`, and the chain; [] if it does not sink.

    It sinks if the source is a convolution, perhaps with pointwise ops behind it, and no value of the chain has another
    reader.
    """
    chain: list[Movement] = []
    while isinstance(value.owner, ReshapeOp | TransposeOp) and value.has_one_use():
        chain.append(value.owner)
        value = value.owner.operands[0]
    moved = chain and value.has_one_use() and is_convolved(value)
    return value, chain[::-1] if moved else []


def is_convolved(value: SSAValue) -> bool:
    """Whether a value is the result of a convolution, perhaps behind pointwise ops."""
    for _ in range(MAX_POINTWISE):
        if isinstance(value.owner, Conv2dOp):
            return True
        owner = value.owner
        if not isinstance(owner, GraphOp) or not owner.operands:
            return False
        if not isinstance(owner, POINTWISE) and not is_own_pointwise(owner):
            return False
        value = next((v for v in owner.operands if not is_constant(v)), owner.operands[0])
    return False


def replay(rw: Rewriter, value: SSAValue, chain: Sequence[Movement]) -> SSAValue:
    """The same movements of another value of that shape."""
    for op in chain:
        if isinstance(op, TransposeOp):
            value = rw.make(TransposeOp, value, axes=op.axes)
        else:
            value = rw.make(ReshapeOp, value, shape=shape_of(op.results[0].type))
    return value


@SHUFFLES.on(*op_classes(UnaryOp))
def unary_of_movements(op: UnaryOp, rw: Rewriter) -> Replacement:
    """`relu(reshape(transpose(conv2d))) -> reshape(transpose(relu(conv2d)))`."""
    source, chain = movements(op.operands[0])
    return replay(rw, rw.clone(op, source), chain) if chain else None


@SHUFFLES.on(CastOp)
def cast_of_movements(op: CastOp, rw: Rewriter) -> Replacement:
    """`cast(transpose(conv2d)) -> transpose(cast(conv2d))` to a type that is no wider: no more bytes are moved."""
    if byte_size(op.type.element_type) > byte_size(element_of(op.operands[0])):
        return None
    source, chain = movements(op.operands[0])
    return replay(rw, rw.make(CastOp, source, dtype=op.type.element_type), chain) if chain else None


@SHUFFLES.on(LookupOp)
def lookup_of_movements(op: LookupOp, rw: Rewriter) -> Replacement:
    """`lookup(transpose(conv2d), table) -> transpose(lookup(conv2d, table))`: bytes become bytes."""
    source, chain = movements(op.operands[0])
    return replay(rw, rw.make(LookupOp, source, op.operands[1]), chain) if chain else None


@SHUFFLES.on_own("elementwise")
def own_of_movements(op: GraphOp, rw: Rewriter) -> Replacement:
    """`my.act(reshape(transpose(conv2d))) -> reshape(transpose(my.act(conv2d)))`."""
    if not is_own_unary(op):
        return None
    source, chain = movements(op.operands[0])
    new = rw.try_clone(op, source, shape=shape_of(source.type)) if chain else None
    return None if new is None else replay(rw, new, chain)


@SHUFFLES.on(*op_classes(BinaryOp))
def binary_of_movements(op: BinaryOp, rw: Rewriter) -> Replacement:
    """`add(transpose(conv2d), c) -> transpose(add(conv2d, c'))` of a constant c, which may be repeated: a channel's."""
    for index, (x, constant) in enumerate((op.operands, op.operands[::-1])):
        if not is_constant(constant) or shape_of(x.type) != shape_of(op.type):
            continue
        source, chain = movements(x)
        if not chain:
            continue
        sizes = _moved_back(shape_of(constant.type), chain)
        moved = rw.make(ReshapeOp, constant, shape=sizes) if sizes is not None else _repeated(rw, constant, chain)
        if moved is not None:
            return replay(rw, rw.clone(op, *(source, moved)[:: -1 if index else 1]), chain)
    return None


def _repeated(rw: Rewriter, constant: SSAValue, chain: Sequence[Movement]) -> SSAValue | None:
    """
    The constant that broadcasts before movements as this one does behind them, repeated where axes become one.

    `1 x 24 x 1 x 1` for sub-pixels that a shuffle moves out of the channels -> `1 x 96 x 1 x 1`; None if it is large.
    """
    shapes = [(shape_of(op.operands[0].type), shape_of(op.results[0].type)) for op in reversed(chain)]
    steps: list[tuple[tuple[Dim, ...], tuple[Dim, ...]]] = []
    known = (*(1,) * (len(shapes[0][1]) - len(shape_of(constant.type))), *shape_of(constant.type))
    for op, (before, after) in zip(reversed(chain), shapes, strict=True):
        full, known = _full(op, before, after, known)
        if not is_static(full) or math.prod(full) > MOST_REPEATED:
            return None
        steps.append((full, known))
    for op, (full, sizes) in zip(reversed(chain), steps, strict=True):
        constant = rw.make(BroadcastToOp, constant, shape=full)
        if isinstance(op, TransposeOp):
            constant = rw.make(TransposeOp, constant, axes=_inverse(op.axes))
        else:
            constant = rw.make(ReshapeOp, constant, shape=sizes)
    return constant


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    """The axes of the transpose that undoes one."""
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _full(
    op: Movement, before: Sequence[Dim], after: Sequence[Dim], known: Sequence[Dim]
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """The sizes to which a constant is repeated behind a movement, and those that it has in front of it."""
    if isinstance(op, TransposeOp):
        return tuple(known), tuple(known[k] for k in _inverse(op.axes))
    full, moved = list[Dim](known), list[Dim]([1] * len(before))
    for source, target in reshape_groups(before, after):
        if any(known[axis] != 1 for axis in target):
            for axis in target:
                full[axis] = after[axis]
            for axis in source:
                moved[axis] = before[axis]
    return tuple(full), tuple(moved)


def _moved_back(sizes: Sequence[Dim], chain: Sequence[Movement]) -> tuple[Dim, ...] | None:
    """The shape that broadcasts before movements as `sizes` does behind them; None if a reshape is not enough."""
    rank = len(shape_of(chain[-1].results[0].type))
    known: list[Dim] = [*(1,) * (rank - len(sizes)), *sizes]
    for op in reversed(chain):
        before, after = shape_of(op.operands[0].type), shape_of(op.results[0].type)
        moved: list[Dim] = [1] * len(before)
        if isinstance(op, TransposeOp):
            places = [place for place, size in zip(op.axes, known, strict=True) if size != 1]
            if places != sorted(places):
                return None
            for place, size in zip(op.axes, known, strict=True):
                moved[place] = size
        else:
            for source, target in reshape_groups(before, after):
                if all(known[axis] == after[axis] for axis in target):
                    for axis in source:
                        moved[axis] = before[axis]
                elif any(known[axis] != 1 for axis in target):
                    return None
        known = moved
    return tuple(known)


@SHUFFLES.on(Conv2dOp)
def convolution_of_subpixels(op: Conv2dOp, rw: Rewriter) -> Replacement:
    """`conv2d(shuffle(x)) -> shuffle(conv2d(x))` with a 1x1 kernel, if that moves fewer elements."""
    order, kernel = layout(op.data_layout), layout(op.kernel_layout)
    reshape = defining_op(op.operands[0], ReshapeOp)
    transpose = None if reshape is None else defining_op(reshape.operands[0], TransposeOp)
    if reshape is None or transpose is None or order.axes != "NCHW" or op.groups != 1:
        return None
    sizes = kernel.sizes(shape_of(op.operands[1].type))
    if (sizes["H"], sizes["W"], *op.strides, *op.padding) != (1, 1, 1, 1, 0, 0, 0, 0):
        return None
    if tuple(transpose.axes) != (*SUBPIXELS, *range(6, len(order.parts) + 2)) or not reshape.result.has_one_use():
        return None
    n, sh, sw, channels, *rest = shape_of(transpose.operands[0].type)
    picture, result = shape_of(reshape.type), shape_of(op.type)
    depths = [[size for axis, size in enumerate(sizes) if axis not in (0, 2, 3)] for sizes in (picture, result)]
    if not all(is_static(depth) for depth in depths) or math.prod(depths[1]) > math.prod(depths[0]):
        return None
    if picture[:4] != (n, channels, rest[0] * sh, rest[1] * sw):
        return None
    batch = rw.make(ReshapeOp, transpose.operands[0], shape=(n * sh * sw, channels, *rest))
    new = rw.clone(op, batch, op.operands[1])
    _, outputs, _, _, *inner = shape_of(new.type)
    value = rw.make(ReshapeOp, new, shape=(n, sh, sw, outputs, *rest[:2], *inner))
    axes = (*SUBPIXELS, *range(6, 6 + len(inner)))
    return rw.insert(ReshapeOp.make(rw.make(TransposeOp, value, axes=axes), result=op.type))


@SHUFFLES.on(TransposeOp)
def transpose_of_transpose(op: TransposeOp, rw: Rewriter) -> Replacement:
    """`transpose(reshape(transpose(x))) -> reshape(transpose(reshape(x)))`: elements move once."""
    reshape = defining_op(op.operands[0], ReshapeOp)
    inner = None if reshape is None else defining_op(reshape.operands[0], TransposeOp)
    if reshape is None or inner is None or not (inner.result.has_one_use() and reshape.result.has_one_use()):
        return None
    middle, after = shape_of(inner.type), shape_of(reshape.type)
    if 0 in middle:
        return None
    # The axes on both sides of the reshape consist of common factors, numbered in order.
    pieces = _pieces(middle, after)
    if pieces is None:
        return None
    first, second, sizes = pieces
    source = [piece for axis in sorted(range(len(middle)), key=inner.axes.__getitem__) for piece in first[axis]]
    target = [piece for axis in op.axes for piece in second[axis]]
    runs = _runs(source, target)
    shape = [math.prod(sizes[piece] for piece in run) for run in runs]
    heads = [run[0] for run in runs]
    flat = rw.make(ReshapeOp, inner.operands[0], shape=tuple(shape))
    axes = tuple(heads.index(piece) for piece in target if piece in heads)
    return rw.insert(ReshapeOp.make(rw.make(TransposeOp, flat, axes=axes), result=op.type))


Pieces = tuple[list[list[int]], list[list[int]], list[Dim]]


def _pieces(before: Sequence[Dim], after: Sequence[Dim]) -> Pieces | None:
    """The common factors of the axes before and after a reshape, by number, and their sizes; None if none exist."""
    first: list[list[int]] = [[] for _ in before]
    second: list[list[int]] = [[] for _ in after]
    sizes: list[Dim] = []
    for source, target in reshape_groups(before, after):
        marks = sorted({*_marks(before, source), *_marks(after, target)} - {1}, key=_when_large)
        if not all(divides(low, high) for low, high in pairwise(marks)):
            return None
        places: dict[Dim, int] = {1: 0} | {mark: k + 1 for k, mark in enumerate(marks)}
        for axes, shape, found in ((source, before, first), (target, after, second)):
            ends = [0, *(places[mark] for mark in _marks(shape, axes))]
            for axis, low, high in zip(axes, ends, ends[1:], strict=False):
                found[axis] = [len(sizes) + k for k in range(low, high)]
        sizes += [high // low for low, high in zip([1, *marks], marks, strict=False)]
    return first, second, sizes


def _marks(shape: Sequence[Dim], axes: Sequence[int]) -> list[Dim]:
    """The products of the sizes up to each of some axes."""
    return [product([shape[axis] for axis in axes[: k + 1]]) for k in range(len(axes))]


def _when_large(size: Dim) -> int:
    """A size at large values of all symbols: a divisor is smaller than its multiples."""
    return sizes_at([size], dict.fromkeys(size.symbols(), 1 << 20))[0] if isinstance(size, DimExpr) else size


def _runs(source: Sequence[int], target: Sequence[int]) -> list[list[int]]:
    """The factors in the order of the source; those that stay adjacent in the target form one run."""
    behind = dict(pairwise(target))
    runs: list[list[int]] = []
    for piece in source:
        if runs and behind.get(runs[-1][-1]) == piece:
            runs[-1].append(piece)
        else:
            runs.append([piece])
    return runs
