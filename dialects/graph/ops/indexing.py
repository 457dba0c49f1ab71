"""Gathers, scatters, sorting and cumulative ops."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from xdsl.dialects.builtin import IntegerType, i1, i64
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import INJECTIVE, OPAQUE, GraphOp, Sample
from mlc.dialects.graph.op_attributes import Bool, Int, Str
from mlc.dialects.graph.types import Array, Tensor, axis_of, known_size, shape_of, shape_text, tensor, unequal

REDUCTIONS = ("none", "add", "mul", "max", "min")
"""How a scatter combines an update with the element; with `none` the last update replaces it."""


def clamped(np: ModuleType, indices: Array, size: int) -> Array:
    """Indices wrapped (negative ones count from the end) and clamped to the axis, as gathers use them."""
    places = indices.astype(np.int64)
    return np.clip(np.where(places < 0, places + size, places), 0, size - 1)


def _check_indices(type: Tensor) -> None:
    if not isinstance(type.element_type, IntegerType) or type.element_type == i1:
        raise VerifyException(f"expected indices of integers, but got {type}")


class GatherElementsOp(GraphOp):
    """
    `y[.., i, ..] = x[.., indices[.., i, ..], ..]` along `axis`.

    Negative indices count from the end; indices out of range are clamped.

    `graph.gather_elements %x, %i {axis = 1} : (tensor<2x4xf32>, tensor<2x3xi64>) -> tensor<2x3xf32>`
    """

    name = "graph.gather_elements"
    kind = INJECTIVE
    arity = (2, 2)
    axis = Int(0)

    def infer_types(self) -> list[Tensor]:
        x, indices = self.input_types
        _check_indices(indices)
        shape, places = shape_of(x), shape_of(indices)
        axis = axis_of(self.axis, len(shape))
        fits = len(shape) == len(places) and all(
            a == axis or not (isinstance(p, int) and isinstance(n, int)) or p <= n
            for a, (p, n) in enumerate(zip(places, shape, strict=True))
        )
        if not fits:
            raise VerifyException(
                f"expected indices no larger than {shape_text(shape)} but for axis {axis}, but got {indices}"
            )
        return [tensor(places, x.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, indices = arrays
        x = x[tuple(slice(None) if a == self.axis % x.ndim else slice(0, n) for a, n in enumerate(indices.shape))]
        return (np.take_along_axis(x, clamped(np, indices, x.shape[self.axis]), axis=self.axis),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 4)), tensor((2, 3), "int64")), {"axis": 1}, integers=(-4, 4)),
            Sample((tensor((3, 4)), tensor((5, 2), "int32"))),
        ]


class GatherRowsOp(GraphOp):
    """
    `y[b.., k.., t..] = x[b.., indices[b.., k..], t..]`, the first `batch_dims` axes shared.

    `graph.gather_rows %x, %i {batch_dims = 1} : (tensor<3x4x5xf32>, tensor<3x2xi64>) -> tensor<3x2x5xf32>`
    """

    name = "graph.gather_rows"
    kind = INJECTIVE
    arity = (2, 2)
    batch_dims = Int(0)

    def infer_types(self) -> list[Tensor]:
        x, indices = self.input_types
        _check_indices(indices)
        shape, places, batch = shape_of(x), shape_of(indices), self.batch_dims
        if not 0 <= batch < len(shape) or shape[:batch] != places[:batch]:
            raise VerifyException(f"expected indices that share the first {batch} axes of {x}, but got {indices}")
        return [tensor((*places, *shape[batch + 1 :]), x.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, indices = arrays
        own = np.indices(indices.shape)[: self.batch_dims]
        return (x[(*own, clamped(np, indices, x.shape[self.batch_dims]))],)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((4, 5)), tensor((7, 2), "int64")), integers=(-4, 4)),
            Sample((tensor((2, 4, 3)), tensor((2, 5), "int32")), {"batch_dims": 1}),
        ]


class ScatterElementsOp(GraphOp):
    """
    `y = x`, then `y[.., indices[.., i, ..], ..] = updates[.., i, ..]` along `axis`, in the order of i.

    Negative indices count from the end; updates with indices out of range are dropped.

    `graph.scatter_elements %x, %i, %u {axis = 1, reduction = "add"} :
    (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>`
    """

    name = "graph.scatter_elements"
    kind = OPAQUE
    arity = (3, 3)
    tolerance = 2.0
    axis = Int(0)
    reduction = Str("none")

    def infer_types(self) -> list[Tensor]:
        x, indices, updates = self.input_types
        _check_indices(indices)
        _check_updates(self.reduction, updates, tensor(shape_of(indices), x.element_type))
        shape = shape_of(x)
        axis = axis_of(self.axis, len(shape))
        fits = len(shape) == len(shape_of(indices)) and all(
            a == axis or not isinstance(n, int) or not isinstance(p, int) or p <= n
            for a, (p, n) in enumerate(zip(shape_of(indices), shape, strict=True))
        )
        if not fits:
            raise VerifyException(f"expected indices that fit into {x} but for axis {axis}, but got {indices}")
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, indices, updates = arrays
        places = list(np.indices(indices.shape))
        axis = self.axis % x.ndim
        places[axis], valid = _places(np, indices, x.shape[axis])
        return (_scattered(np, x, tuple(p[valid] for p in places), updates[valid], self.reduction),)

    def reduction_length(self) -> int:
        return known_size(shape_of(self.input_types[1])[self.axis])

    @classmethod
    def samples(cls) -> list[Sample]:
        types = (tensor((2, 4)), tensor((2, 3), "int64"), tensor((2, 3)))
        return [
            *(Sample(types, {"axis": 1, "reduction": reduction}, integers=(-4, 4)) for reduction in REDUCTIONS),
            Sample((tensor((3, 4)), tensor((5, 2), "int32"), tensor((5, 2)))),
        ]


class ScatterNdOp(GraphOp):
    """
    `y = x`, then `y[indices[m, :].., t..] = updates[m, t..]` in the order of m; indices as `graph.scatter_elements`.

    `graph.scatter_nd %x, %i, %u {reduction = "none"} :
    (tensor<4x5xf32>, tensor<3x1xi64>, tensor<3x5xf32>) -> tensor<4x5xf32>`
    """

    name = "graph.scatter_nd"
    kind = OPAQUE
    arity = (3, 3)
    tolerance = 2.0
    reduction = Str("none")

    def infer_types(self) -> list[Tensor]:
        x, indices, updates = self.input_types
        _check_indices(indices)
        shape, places = shape_of(x), shape_of(indices)
        if len(places) != 2 or not isinstance(places[1], int) or not 0 < places[1] <= len(shape):
            raise VerifyException(f"expected indices of rank 2 whose last axis names axes of {x}, but got {indices}")
        _check_updates(self.reduction, updates, tensor((places[0], *shape[places[1] :]), x.element_type))
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x, indices, updates = arrays
        places, valid = zip(*(_places(np, indices[:, d], x.shape[d]) for d in range(indices.shape[1])), strict=True)
        kept = np.logical_and.reduce(valid)
        return (_scattered(np, x, tuple(p[kept] for p in places), updates[kept], self.reduction),)

    def reduction_length(self) -> int:
        return known_size(shape_of(self.input_types[1])[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        types = (tensor((4, 5)), tensor((3, 1), "int64"), tensor((3, 5)))
        return [
            *(Sample(types, {"reduction": reduction}, integers=(-4, 4)) for reduction in REDUCTIONS),
            Sample((tensor((2, 3)), tensor((4, 2), "int32"), tensor((4,))), integers=(0, 2)),
        ]


def _places(np: ModuleType, indices: Array, size: int) -> tuple[Array, Array]:
    """Wrapped indices, and a mask of those in range."""
    places = indices.astype(np.int64)
    places = np.where(places < 0, places + size, places)
    return places, (places >= 0) & (places < size)


def _check_updates(reduction: str, updates: Tensor, wanted: Tensor) -> None:
    if reduction not in REDUCTIONS:
        raise VerifyException(f"expected reduction to be one of {', '.join(REDUCTIONS)}, but got '{reduction}'")
    if updates != wanted:
        raise unequal(f"expected updates of type {wanted}, but got {updates}", (updates, wanted))


def _scattered(np: ModuleType, x: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    y = x.copy()
    if reduction == "none":
        y[places] = updates
    else:
        combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
        combine.at(y, places, updates)
    return y


class ArgsortOp(GraphOp):
    """
    The indices that sort the elements along `axis`; the sort is stable.

    `graph.argsort %x {axis = 1, descending = true, count = 3} : (tensor<2x4xf32>) -> tensor<2x3xi64>`

    `count` is the number of indices returned (0: all).
    """

    name = "graph.argsort"
    kind = OPAQUE
    axis = Int(-1)
    descending = Bool(False)
    count = Int(0)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        shape = list(shape_of(x))
        axis = axis_of(self.axis, len(shape))
        size = shape[axis]
        if self.count < 0 or (isinstance(size, int) and self.count > size):
            raise VerifyException(f"expected a count in 0..{size}, but got {self.count}")
        shape[axis] = self.count or size
        return [tensor(shape, i64)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        (x,) = arrays
        size = x.shape[self.axis]
        if self.descending:
            backward = np.argsort(np.flip(x, self.axis), axis=self.axis, kind="stable")
            order = size - 1 - np.flip(backward, self.axis)
        else:
            order = np.argsort(x, axis=self.axis, kind="stable")
        return (np.take(order, np.arange(self.count or size), axis=self.axis),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 5)),)),
            Sample((tensor((4, 3), "int64"),), {"axis": 0, "descending": True}),
            Sample((tensor((6,)),), {"descending": True}),
            Sample((tensor((3, 6)),), {"descending": True, "count": 2}),
        ]


class CumulativeOp(GraphOp):
    """
    The running sum or product along `axis`, of all elements up to each one; with `exclusive`, without that one.

    `graph.cumulative %x {axis = 1, combine = "add", backward = true} : tensor<2x4xf32>`

    `combine` is "add" or "mul"; `backward` starts at the end of the axis.
    """

    name = "graph.cumulative"
    kind = OPAQUE
    axis = Int(0)
    combine = Str("add")
    exclusive = Bool(False)
    backward = Bool(False)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        axis_of(self.axis, len(shape_of(x)))
        if self.combine not in ("add", "mul"):
            raise VerifyException(f"expected combine to be add or mul, but got '{self.combine}'")
        return [x]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        x = np.flip(arrays[0], self.axis) if self.backward else arrays[0]
        along, neutral = (np.cumsum, 0) if self.combine == "add" else (np.cumprod, 1)
        if self.exclusive:
            first = np.full_like(np.take(x, [0], axis=self.axis), neutral)
            x = np.concatenate([first, np.delete(x, -1, axis=self.axis)], axis=self.axis)
        y = along(x, axis=self.axis, dtype=x.dtype)
        return (np.flip(y, self.axis) if self.backward else y,)

    def reduction_length(self) -> int:
        return known_size(shape_of(self.operands[0].type)[self.axis])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((2, 5)),), {"axis": 1}),
            Sample((tensor((4, 3)),), {"combine": "mul", "exclusive": True}),
            Sample((tensor((6,), "int64"),), {"backward": True, "exclusive": True}, integers=(-4, 4)),
        ]


OPS: list[type[GraphOp]] = [GatherElementsOp, GatherRowsOp, ScatterElementsOp, ScatterNdOp, ArgsortOp, CumulativeOp]
