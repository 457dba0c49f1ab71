"""ATen ops that reduce, accumulate, normalise or sort along axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph import GraphOp
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import binary, cast, divide, multiply, reduce, select, subtract
from mlc.frontends.common.movement import concat, reshape
from mlc.frontends.common.ops.cumulative import Combine, cumulative
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.torch.call import AtenCall, Convert
from mlc.frontends.torch.ops.shape import sliced


def _axes(call: AtenCall, x: Value) -> list[int]:
    """The axes that a call reduces; all of them if none are given."""
    rank = len(x.shape)
    given = call.integers("dim") if "dim" in call else None
    return sorted(axis_of(axis, rank) for axis in given) if given else list(range(rank))


def _reduction(op: type[GraphOp]) -> Convert:
    """A reduction in the result's type."""

    def convert(call: AtenCall) -> Value:
        x = cast(call, call["self"], call.dtype)
        return reduce(call, op, x, _axes(call, x), bool(call.get("keepdim", False)))

    return convert


def _extreme(op: type[GraphOp], arg: type[GraphOp], both: type[GraphOp] | None = None) -> Convert:
    """`max` and `min`: of all elements, along an axis with the indices, or of two tensors."""

    def convert(call: AtenCall) -> Any:
        x = call["self"]
        if "other" in call:
            assert both is not None
            return call.emit(both, *call.promoted("self", "other"))
        if x.dtype_name == "bool":
            raise call.fail("expected numbers, but got booleans; use any or all")
        keep = bool(call.get("keepdim", False))
        if "dim" not in call:
            return reduce(call, op, x, range(len(x.shape)))
        axis = call["dim"]
        if not x.shape:
            return [x, call.array(np.array(0, np.int64))]
        return [reduce(call, op, x, [axis], keep), reduce(call, arg, x, [axis], keep)]

    return convert


def _arg(op: type[GraphOp]) -> Convert:
    def convert(call: AtenCall) -> Value:
        x, axis = call["self"], call.get("dim")
        if axis is None:
            flat = reshape(call, x, (math.prod(x.shape),))
            return reshape(call, reduce(call, op, flat, [0]), call.shape)
        return reduce(call, op, x, [axis], bool(call.get("keepdim", False)))

    return convert


def _truth(op: type[GraphOp]) -> Convert:
    """`any` and `all`, as a maximum or a minimum of 0 and 1."""

    def convert(call: AtenCall) -> Value:
        x = call["self"]
        if x.dtype_name != "bool":
            x = call.emit(g.LogicalNotOp, binary(call, g.EqualOp, x, 0))
        y = reduce(call, op, cast(call, x, np.int32), _axes(call, x), bool(call.get("keepdim", False)))
        return cast(call, y, np.bool_)

    return convert


def _moments(call: AtenCall) -> tuple[Value, Value]:
    """(the variance, the mean), both with the axes kept."""
    x = call["self"]
    x = cast(call, x, np.float32) if x.dtype_name in ("float16", "bfloat16") else x
    axes = _axes(call, x)
    if "unbiased" in call:
        correction = 1.0 if call["unbiased"] else 0.0
    else:
        correction = float(call.get("correction", 1))
    mean = reduce(call, g.MeanOp, x, axes, True)
    centred = subtract(call, x, mean)
    var = reduce(call, g.MeanOp, multiply(call, centred, centred), axes, True)
    count = math.prod(x.shape[axis] for axis in axes)
    if correction:
        var = multiply(call, var, _unbiased(call, count, correction))
    return var, mean


def _unbiased(call: AtenCall, count: Dim, correction: float) -> Any:
    """The factor from the mean of squares to the variance; computed at run time if the count is symbolic."""
    if isinstance(count, int):
        return count / (count - correction) if count > correction else math.nan
    size = call.typed(count, call.dtype)
    return divide(call, size, binary(call, g.SubtractOp, size, correction))


def _variance(call: AtenCall) -> Value:
    return reshape(call, _moments(call)[0], call.shape)


def _variance_and_mean(call: AtenCall) -> list[Value]:
    return [reshape(call, x, call.shape) for x in _moments(call)]


def _softmax(op: type[GraphOp]) -> Convert:
    def convert(call: AtenCall) -> Value:
        x = cast(call, call["self"], call.dtype)
        return call.emit(op, x, axis=call["dim"]) if x.shape else reshape(call, _softmax_of_one(call, op, x), ())

    return convert


def _softmax_of_one(call: AtenCall, op: type[GraphOp], x: Value) -> Value:
    return call.emit(op, reshape(call, x, (1,)), axis=0)


def _safe_softmax(call: AtenCall) -> Value:
    """Softmax that is 0 where all elements are -inf, as in rows that are masked completely."""
    x = cast(call, call["self"], call.dtype)
    y = call.emit(g.SoftmaxOp, x, axis=call["dim"])
    if _is_product(x):
        return y
    none = binary(call, g.EqualOp, reduce(call, g.MaxOp, x, [call["dim"]], True), -math.inf)
    return select(call, none, 0, y)


def _is_product(x: Value) -> bool:
    """Whether a tensor is a matrix product (seen through reshapes), and so without rows of -inf."""
    owner = None if x.ssa is None else x.ssa.owner
    while isinstance(owner, g.ReshapeOp | g.BroadcastToOp):
        owner = owner.operands[0].owner
    return isinstance(owner, g.BatchMatmulOp | g.DenseOp)


def _cumulative(combine: Combine) -> Convert:
    def convert(call: AtenCall) -> Value:
        x = cast(call, call["self"], call.dtype)
        return cumulative(call, x, call["dim"], combine) if x.shape else x

    return convert


def _sort(call: AtenCall) -> list[Value]:
    x, axis = call["self"], call.get("dim", -1)
    order = call.emit(g.ArgsortOp, x, axis=axis, descending=bool(call.get("descending", False)))
    return [call.emit(g.GatherElementsOp, x, order, axis=axis), order]


def _argsort(call: AtenCall) -> Value:
    axis, descending = call.get("dim", -1), bool(call.get("descending", False))
    return call.emit(g.ArgsortOp, call["self"], axis=axis, descending=descending)


def _ranked(call: AtenCall) -> Any:
    """
    The k-th smallest element along an axis, and its index; the median is the lower one of the middle.

    The median of elements with a NaN is the first NaN, while the k-th smallest takes it for the largest.
    """
    x = call["self"]
    whole = call.kind == "median" and "dim" not in call
    x = reshape(call, x, (math.prod(x.shape),)) if whole or not x.shape else x
    axis = 0 if whole else axis_of(call.get("dim", -1), len(x.shape))
    rank = call["k"] - 1 if "k" in call else (x.shape[axis] - 1) // 2
    order = sliced(call, call.emit(g.ArgsortOp, x, axis=axis, descending=False), axis, rank, rank + 1)
    if call.kind == "median" and np.dtype(dtype_like(x)).kind not in "biu":
        other = cast(call, call.emit(g.LogicalNotOp, binary(call, g.EqualOp, x, x)), np.int32)
        some = binary(call, g.GreaterOp, reduce(call, g.MaxOp, other, [axis], keepdims=True), 0)
        first = call.emit(g.ArgmaxOp, other, axes=(axis,), keepdims=True)
        order = select(call, some, first, order)
    found = call.emit(g.GatherElementsOp, x, order, axis=axis)
    return reshape(call, found, call.shape) if whole else [reshape(call, y, call.shape) for y in (found, order)]


def _running(op: type[GraphOp]) -> Convert:
    """Running maxima or minima, in steps of 1, 2, 4, ...: each element is combined with the one that far before it."""

    def convert(call: AtenCall) -> list[Value | None]:
        x = call["self"]
        if call.used(1):
            raise call.fail("expected no places of running extremes, but the module uses them")
        axis, by = axis_of(call["dim"], len(x.shape)) if x.shape else 0, 1
        if x.shape and not isinstance(x.shape[axis], int):
            raise call.fail(f"expected an axis of a known size, but got {x.shape[axis]}; fix it with shapes=")
        while x.shape and by < x.shape[axis]:
            before = sliced(call, x, axis, 0, x.shape[axis] - by)
            x = concat(
                call, [sliced(call, x, axis, 0, by), call.emit(op, sliced(call, x, axis, by, END), before)], axis
            )
            by *= 2
        return [x, None]

    return convert


def _top_k(call: AtenCall) -> list[Value]:
    x, axis = call["self"], call.get("dim", -1)
    order = call.emit(g.ArgsortOp, x, axis=axis, descending=bool(call.get("largest", True)))
    order = sliced(call, order, axis_of(axis, len(x.shape)), 0, call["k"]) if x.shape else order
    return [call.emit(g.GatherElementsOp, x, order, axis=axis), order]


def _norm(call: AtenCall) -> Value:
    """The vector norm of order `ord`."""
    x = cast(call, call["self"], call.dtype)
    axes, keep, order = _axes(call, x), bool(call.get("keepdim", False)), float(call.get("ord", 2))
    size = call.emit(g.AbsOp, x)
    if order == 0:
        present = call.emit(g.LogicalNotOp, binary(call, g.EqualOp, x, 0))
        return reduce(call, g.SumOp, cast(call, present, call.dtype), axes, keep)
    if math.isinf(order):
        return reduce(call, g.MaxOp if order > 0 else g.MinOp, size, axes, keep)
    if order == 1:
        return reduce(call, g.SumOp, size, axes, keep)
    if order == 2:
        return call.emit(g.SqrtOp, reduce(call, g.SumOp, multiply(call, x, x), axes, keep))
    total = reduce(call, g.SumOp, binary(call, g.PowerOp, size, order), axes, keep)
    return binary(call, g.PowerOp, total, 1 / order)


CONVERTERS: dict[str, Convert] = {
    "sum": _reduction(g.SumOp), "mean": _reduction(g.MeanOp), "prod": _reduction(g.ProdOp),
    "amax": _reduction(g.MaxOp), "amin": _reduction(g.MinOp),
    "max": _extreme(g.MaxOp, g.ArgmaxOp, g.MaximumOp), "min": _extreme(g.MinOp, g.ArgminOp, g.MinimumOp),
    "argmax": _arg(g.ArgmaxOp), "argmin": _arg(g.ArgminOp),
    "any": _truth(g.MaxOp), "all": _truth(g.MinOp),
    "var": _variance, "var_mean": _variance_and_mean, "linalg_vector_norm": _norm,
    "softmax": _softmax(g.SoftmaxOp), "_softmax": _softmax(g.SoftmaxOp), "_safe_softmax": _safe_softmax,
    "log_softmax": _softmax(g.LogSoftmaxOp), "_log_softmax": _softmax(g.LogSoftmaxOp),
    "cumsum": _cumulative("add"), "cumprod": _cumulative("mul"),
    "sort": _sort, "argsort": _argsort, "topk": _top_k, "median": _ranked, "kthvalue": _ranked,
    "cummax": _running(g.MaximumOp), "cummin": _running(g.MinimumOp),
}  # fmt: skip
