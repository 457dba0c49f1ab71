"""Weights that are one value on a band of diagonals and another outside (masks of attention) become `graph.band`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, ModuleOp, i1

from mlc.dialects.graph import BandOp, GraphOp, ParamOp, static_shape
from mlc.dialects.graph.base import BROADCAST
from mlc.passes.graph.shared.constants import is_static

if TYPE_CHECKING:
    from mlc.dialects.graph.types import Array
    from mlc.support.weights import WeightStore

LEAST_SIDE = 16
"""The rows and columns from which computing an element costs less than reading it; not measured apart."""


def compute_bands(module: ModuleOp, store: WeightStore) -> None:
    """Replace the weights that only pointwise ops read and that are bands: no memory is read for them."""
    for op in [o for o in module.walk() if isinstance(o, ParamOp)]:
        readers = [use.operation for use in op.result.uses]
        if readers and all(isinstance(o, GraphOp) and o.kind <= BROADCAST for o in readers):
            band = band_of(op, store)
            if band is not None and op.parent is not None:
                op.parent.insert_op_before(band, op)
                op.result.replace_all_uses_with(band.result)


def band_of(op: ParamOp, store: WeightStore) -> BandOp | None:
    """The `graph.band` of a weight's values; None for other weights."""
    import numpy as np

    shape = op.type.get_shape()
    if op.entry not in store or not is_static(shape) or len(shape) < 2 or min(shape[-2:]) < LEAST_SIDE:
        return None
    if not isinstance(op.type.element_type, AnyFloat) and op.type.element_type != i1:
        return None
    if store.entry(op.entry).is_fill:
        return None
    planes = store.array(op.entry).reshape(-1, *static_shape(op.type)[-2:])
    found = _band(planes[0])
    if found is None or not all(np.array_equal(planes[0], plane) for plane in planes[1:]):
        return None
    lower, upper, inside, outside = found
    return BandOp.make(result=op.type, lower=lower, upper=upper, inside=inside, outside=outside, location=op.location)


def _band(plane: Array) -> tuple[int, int, float, float] | None:
    """(lower, upper, inside, outside) of a matrix; None where it is no band of two values."""
    import numpy as np

    rows, columns = (int(n) for n in plane.shape)
    # The values of the diagonals, from the lower left corner to the upper right one: a band is one run of them.
    diagonals = np.concatenate([plane[:0:-1, 0], plane[0]])
    changes = np.flatnonzero(diagonals[1:] != diagonals[:-1])
    if not 1 <= len(changes) <= 2 or (len(changes) == 2 and diagonals[0] != diagonals[-1]):
        return None
    if np.isnan(diagonals).any() if diagonals.dtype != np.bool_ else False:
        return None
    # A run that begins at the lower left corner is inside, as in a causal mask.
    first, last = (int(changes[0]) + 1, int(changes[1])) if len(changes) == 2 else (0, int(changes[0]))
    lower, upper = first - rows + 1, last - rows + 1
    inside, outside = diagonals[first], diagonals[-1]
    distance = np.subtract.outer(np.arange(rows), np.arange(columns))
    there: Array = (-upper <= distance) & (distance <= -lower)
    found = (plane[there] == inside).all() and (plane[~there] == outside).all()
    return (lower, upper, float(inside), float(outside)) if found else None
