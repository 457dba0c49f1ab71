"""The run-time library of translated kernels: bounds-checked tile accesses, poison values, errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation

from mlc.dialects import loop
from mlc.interp import values as V
from mlc.interp.errors import InterpreterError

Array = np.ndarray[Any, Any]
Lanes = Array | int | float | bool
"""A value of all lanes: an array, or one number."""


def _out_of_bounds(op: Operation, index: Sequence[Any], shape: Sequence[int]) -> None:
    buffer = op.operands[1 if isinstance(op, loop.StoreOp) else 0]
    does = "writes" if isinstance(op, loop.StoreOp) else "reads"
    at = ", ".join(str(int(i)) for i in index)
    raise InterpreterError(
        f"'{op.name}' {does} %{buffer.name_hint or 'buffer'}[{at}], out of bounds of {buffer.type}"
        + (f" (shape {'x'.join(map(str, shape))})" if is_dynamic(buffer.type) else ""),
        op,
    )


def buffer_shape(t: Attribute) -> tuple[int, ...]:
    """The shape of a buffer; -1 for a dynamic size."""
    assert isinstance(t, MemRefType)
    return tuple(t.get_shape())


def is_dynamic(t: Attribute) -> bool:
    """Whether a buffer has a dynamic size."""
    return any(n < 0 for n in buffer_shape(t))


def _lanes(
    op: Operation, index: Sequence[Any], shape: Sequence[int], size: Sequence[int], mask: Array | None
) -> list[Array]:
    """The lanes' indices as arrays of the tile's shape, bounds-checked; masked-off lanes read element 0."""
    arrays = [np.broadcast_to(np.asarray(i), shape) for i in index]
    if mask is not None:
        arrays = [np.where(mask, i, 0) for i in arrays]
    for i, n in zip(arrays, size, strict=True):
        bad = (i < 0) | (i >= n)
        if bad.any() and (mask is None or mask.any()):
            lane = tuple(np.argwhere(bad)[0])
            _out_of_bounds(op, [j[lane] for j in arrays], size)
    return arrays


def _load(
    op: Operation,
    buffer: Array,
    index: Sequence[Lanes],
    shape: Sequence[int],
    mask: Lanes | None = None,
    fill: Lanes = 0,
) -> Array:
    if mask is None:
        lanes = buffer[tuple(_lanes(op, index, shape, buffer.shape, None))]
        return lanes if index else np.broadcast_to(lanes, shape)
    mask = np.broadcast_to(mask, shape)
    if not mask.any():
        return np.broadcast_to(fill, shape)
    return np.where(mask, buffer[tuple(_lanes(op, index, shape, buffer.shape, mask))], fill)


def _store(
    op: Operation, value: Array, buffer: Array, index: Sequence[Lanes], shape: Sequence[int], mask: Lanes | None = None
) -> None:
    if mask is None:
        buffer[tuple(_lanes(op, index, shape, buffer.shape, None))] = value if index else value.reshape(())
        return
    sizes = np.shape(mask) or shape  # a mask that uses no tile axis is one bit
    spread = tuple(k for k, (m, n) in enumerate(zip(sizes, shape, strict=True)) if n == 1 != m)
    mask = np.broadcast_to(np.any(mask, axis=spread, keepdims=True) if spread else mask, shape)
    lanes = _lanes(op, index, shape, buffer.shape, mask)
    buffer[tuple(i[mask] for i in lanes)] = np.broadcast_to(value, shape)[mask]


def _extent(op: loop.BlockOp, axis: int, value: int) -> None:
    raise InterpreterError(
        f'block "{op.name_}" runs with axis %{op.body.block.args[axis].name_hint or axis} = {value}, '
        f"outside of its extent {op.extents.data[axis]}",
        op,
    )


def _poison(buffer: Array) -> None:
    buffer[...] = V.poison(buffer.dtype)


HELPERS: dict[str, Any] = {
    "np": np,
    "_fma": V.fma,
    "_fma32": V.fma32_scalar,
    "_contract": V.contract,
    "_reduce": V.reduce,
    "_load": _load,
    "_store": _store,
    "_oob": _out_of_bounds,
    "_extent": _extent,
    "_poison": _poison,
}
