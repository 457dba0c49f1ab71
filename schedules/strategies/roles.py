"""The roles of a contraction's axes and operands: which axis gives the lanes, and which operand is read in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument

from mlc.dialects.index import Div, dim
from mlc.schedules.analysis import Read, Stage
from mlc.targets.cost.thresholds import (
    DEEP_DOT,
    LEAST_DEEP_DOT_DEPTH,
    LEAST_DOT_DEPTH,
    LEAST_LANES,
    STRIDED_LANES,
    TRANSPOSED_ROWS,
)


@dataclass
class Roles:
    """The roles of a contraction's axes and operands; axes are numbered as in the stage."""

    scalar: Read
    vector: Read
    lanes: int
    rows: int | None
    columns: int | None
    dot: bool = False  # both operands are contiguous along the last reduction axis, and neither along the lanes
    stride: int = 1
    """Elements of V between neighbouring lanes: more than 1 in a strided window along the lanes."""
    column_blocks: int | None = None
    """How many neighbouring columns read the same scalars of S, as the blocks of a convolution's group do; a tile has a
    part of these columns."""
    across: int | None = None
    """The dimension of V along the lanes, if neighbouring lanes lie far apart: V is then read through a copy that has
    this dimension last."""


def roles_of(stage: Stage) -> Roles | None:
    """
    The roles of a contraction's axes; None where no operand can be read in vectors along a usable axis.

    The lanes are the last spatial axis. In order of preference, V is contiguous along it, is transposed (where each
    element of the copy is read often), is summed over lanes, or has a small step along it, as in a strided window.
    """
    factors = stage.factors
    if factors is None or not stage.num_spatial:
        return None
    lanes, last = _lanes_axis(stage), stage.reduce[-1]
    steps = [r.step(lanes) for r in factors]
    if 1 in steps:
        vector, scalar = (factors[1], factors[0]) if steps[1] == 1 else (factors[0], factors[1])
        return _with_axes(stage, Roles(scalar, vector, lanes, None, None))
    if (strided := _strided(factors, steps, lanes)) is not None:
        return _with_axes(stage, strided)
    if len(stage.reduce) > 1 and (transposed := _transposed(stage, factors, lanes)) is not None:
        return _with_axes(stage, transposed)
    least = LEAST_DEEP_DOT_DEPTH if stage.depth >= DEEP_DOT else LEAST_DOT_DEPTH
    if [r.step(last) for r in factors] == [1, 1] and stage.extents[last] >= least:
        return _with_axes(stage, Roles(factors[0], factors[1], lanes, None, None, dot=True))
    return None


def _orders(factors: tuple[Read, Read]) -> list[tuple[Read, Read]]:
    """Both ways to take the operands as (vector, scalar)."""
    return [(factors[0], factors[1]), (factors[1], factors[0])]


def _strided(factors: tuple[Read, Read], steps: Sequence[int | None], lanes: int) -> Roles | None:
    """`sum over r of x[i, 2 * j + r] * w[r]`: x is loaded in vectors, which are permuted; w does not move."""
    for (vector, scalar), step in zip(_orders(factors), steps, strict=True):
        if step is not None and 1 < step <= STRIDED_LANES and not scalar.uses(lanes) and vector.unit == 1:
            return Roles(scalar, vector, lanes, None, None, stride=step)
    return None


def _transposed(stage: Stage, factors: tuple[Read, Read], lanes: int) -> Roles | None:
    """`sum over r, c of x[i + r, c] * w[f, c, r]`: w is an input whose elements are read for many rows."""
    if lanes in stage.symbolic or stage.extents[lanes] < LEAST_LANES:
        return None
    for vector, scalar in _orders(factors):
        found = [n for n, e in enumerate(vector.exprs) if e.uses(lanes)]
        t = vector.tensor.type
        plain = isinstance(vector.tensor, BlockArgument) and isinstance(t, TensorType) and t.has_static_shape()
        if not plain or len(found) != 1 or vector.mask or scalar.uses(lanes) or scalar.tensor is vector.tensor:
            continue
        if vector.unit > 1 or scalar.unit > 1 or not all(e.is_affine for e in vector.exprs):
            continue
        reads = stage.points * vector.element_bytes
        if vector.exprs[found[0]].coefficient(lanes) == 1 and reads >= TRANSPOSED_ROWS * vector.bytes:
            return Roles(scalar, vector, lanes, None, None, across=found[0])
    return None


def _lanes_axis(stage: Stage) -> int:
    """The last spatial axis that is longer than one."""
    for k in reversed(stage.spatial):
        if stage.extents[k] > 1:
            return k
    return stage.num_spatial - 1


def _column_blocks(scalar: Read, axis: int) -> int:
    """How many neighbours along an axis read the same scalars of S: n if S is indexed by `axis floordiv n`, else 1."""
    found = {
        t.by if isinstance(t, Div) and not t.is_mod and t.expr == dim(axis) else 1
        for e in scalar.exprs
        for t, _ in e.terms
        if (t.expr.uses(axis) if isinstance(t, Div) else t == axis)
    }
    return min(found, default=1)


def _with_axes(stage: Stage, roles: Roles) -> Roles:
    """The given roles, completed by the axes of rows and columns."""
    others = [k for k in stage.long_axes if k != roles.lanes]
    only_scalar = [k for k in others if roles.scalar.uses(k) and not roles.vector.uses(k)]
    only_vector = [k for k in others if roles.vector.uses(k) and not roles.scalar.uses(k)]
    roles.rows = only_scalar[-1] if only_scalar else None
    roles.columns = only_vector[-1] if only_vector else None
    if roles.columns is None:
        blocks = {k: count for k in others if roles.vector.uses(k) and (count := _column_blocks(roles.scalar, k)) > 1}
        roles.columns, roles.column_blocks = next(reversed(blocks.items()), (None, None))
    if roles.rows is None and roles.vector.uses(roles.lanes) and roles.scalar.uses(roles.lanes):
        shared = [k for k in others if k != roles.columns]
        roles.rows = shared[-1] if shared else None
    return roles
