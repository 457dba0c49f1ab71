"""ATen ops that reduce, accumulate or normalise along axes, and the order of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.ops.movement import END
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.node import Value
from mlc.frontends.onnx.tools import binary, cast, concat, divide, multiply, reduce, reshape, select, subtract
from mlc.frontends.torch.ops.shape import sliced
from mlc.frontends.torch.step import Convert, Step


def _axes(step: Step, x: Value) -> list[int]:
    """The axes that a call reduces; none given says all of them."""
    rank = len(x.shape)
    given = step.integers("dim") if "dim" in step else None
    return sorted(axis_of(axis, rank) for axis in given) if given else list(range(rank))


def _reduction(op: Any) -> Convert:
    """A reduction in the result's type."""

    def convert(step: Step) -> Value:
        x = cast(step, step["self"], step.dtype)
        return reduce(step, op, x, _axes(step, x), bool(step.get("keepdim", False)))

    return convert


def _extreme(op: Any, arg: Any, both: Any = None) -> Convert:
    """`max` and `min`: of all elements, along an axis with the places, or of two tensors."""

    def convert(step: Step) -> Any:
        x = step["self"]
        if "other" in step:
            return step.emit(both, *step.promoted("self", "other"))
        if x.dtype_name == "bool":
            raise step.fail("expected numbers, but got booleans; use any or all")
        keep = bool(step.get("keepdim", False))
        if "dim" not in step:
            return reduce(step, op, x, range(len(x.shape)))
        axis = step["dim"]
        if not x.shape:
            return [x, step.array(np.array(0, np.int64))]
        return [reduce(step, op, x, [axis], keep), reduce(step, arg, x, [axis], keep)]

    return convert


def _arg(op: Any) -> Convert:
    def convert(step: Step) -> Value:
        x, axis = step["self"], step.get("dim")
        if axis is None:
            flat = reshape(step, x, (math.prod(x.shape),))
            return reshape(step, reduce(step, op, flat, [0]), step.shape)
        return reduce(step, op, x, [axis], bool(step.get("keepdim", False)))

    return convert


def _truth(op: Any) -> Convert:
    """`any` and `all`, as a maximum or a minimum of 0 and 1."""

    def convert(step: Step) -> Value:
        x = step["self"]
        if x.dtype_name != "bool":
            x = step.emit(g.LogicalNotOp, binary(step, g.EqualOp, x, 0))
        y = reduce(step, op, cast(step, x, np.int32), _axes(step, x), bool(step.get("keepdim", False)))
        return cast(step, y, np.bool_)

    return convert


def _moments(step: Step) -> tuple[Value, Value]:
    """(the variance, the mean), both with the axes kept."""
    x = step["self"]
    x = cast(step, x, np.float32) if x.dtype_name in ("float16", "bfloat16") else x
    axes = _axes(step, x)
    if "unbiased" in step:
        correction = 1.0 if step["unbiased"] else 0.0
    else:
        correction = float(step.get("correction", 1))
    mean = reduce(step, g.MeanOp, x, axes, True)
    centred = subtract(step, x, mean)
    var = reduce(step, g.MeanOp, multiply(step, centred, centred), axes, True)
    count = math.prod(x.shape[axis] for axis in axes)
    if correction:
        var = multiply(step, var, _unbiased(step, count, correction))
    return var, mean


def _unbiased(step: Step, count: Any, correction: float) -> Any:
    """What the mean of squares is multiplied by; where the count is open it is computed."""
    if isinstance(count, int):
        return count / (count - correction) if count > correction else math.nan
    size = step.typed(count, step.dtype)
    return divide(step, size, binary(step, g.SubtractOp, size, correction))


def _variance(step: Step) -> Value:
    return reshape(step, _moments(step)[0], step.shape)


def _variance_and_mean(step: Step) -> list[Value]:
    return [reshape(step, x, step.shape) for x in _moments(step)]


def _softmax(op: Any) -> Convert:
    def convert(step: Step) -> Value:
        x = cast(step, step["self"], step.dtype)
        return step.emit(op, x, axis=step["dim"]) if x.shape else reshape(step, _softmax_of_one(step, op, x), ())

    return convert


def _softmax_of_one(step: Step, op: Any, x: Value) -> Value:
    return step.emit(op, reshape(step, x, (1,)), axis=0)


def _safe_softmax(step: Step) -> Value:
    """Softmax that is 0 where all elements are -inf, which only what was masked is."""
    x = cast(step, step["self"], step.dtype)
    y = step.emit(g.SoftmaxOp, x, axis=step["dim"])
    if _is_product(x):
        return y
    none = binary(step, g.EqualOp, reduce(step, g.MaxOp, x, [step["dim"]], True), -math.inf)
    return select(step, none, 0, y)


def _is_product(x: Value) -> bool:
    """Whether a tensor is a matrix product, seen through reshapes."""
    owner = None if x.ssa is None else x.ssa.owner
    while isinstance(owner, g.ReshapeOp | g.BroadcastToOp):
        owner = owner.operands[0].owner
    return isinstance(owner, g.BatchMatmulOp | g.DenseOp)


def _cumulative(op: str) -> Convert:
    def convert(step: Step) -> Value:
        x = cast(step, step["self"], step.dtype)
        axis = axis_of(step["dim"], len(x.shape)) if x.shape else 0
        return step.onnx(op, [x, step.array(np.array(axis, np.int64))])[0] if x.shape else x

    return convert


def _sort(step: Step) -> list[Value]:
    x, axis = step["self"], step.get("dim", -1)
    order = step.emit(g.ArgsortOp, x, axis=axis, descending=bool(step.get("descending", False)))
    return [step.emit(g.GatherElementsOp, x, order, axis=axis), order]


def _argsort(step: Step) -> Value:
    axis, descending = step.get("dim", -1), bool(step.get("descending", False))
    return step.emit(g.ArgsortOp, step["self"], axis=axis, descending=descending)


def _ranked(step: Step) -> Any:
    """The k-th smallest element along an axis, and its place; the median is that of the lower half's end."""
    x = step["self"]
    whole = step.kind == "median" and "dim" not in step
    x = reshape(step, x, (math.prod(x.shape),)) if whole or not x.shape else x
    axis = 0 if whole else axis_of(step.get("dim", -1), len(x.shape))
    rank = step["k"] - 1 if "k" in step else (x.shape[axis] - 1) // 2
    order = sliced(step, step.emit(g.ArgsortOp, x, axis=axis, descending=False), axis, rank, rank + 1)
    found = step.emit(g.GatherElementsOp, x, order, axis=axis)
    return reshape(step, found, step.shape) if whole else [reshape(step, y, step.shape) for y in (found, order)]


def _running(op: Any) -> Convert:
    """The greatest, or least, element so far: in steps of 1, 2, 4, ... each takes in what stands that far before it."""

    def convert(step: Step) -> list[Value | None]:
        x = step["self"]
        if step.used(1):
            raise step.fail("expected no places of running extremes, but the module uses them")
        axis, by = axis_of(step["dim"], len(x.shape)) if x.shape else 0, 1
        if x.shape and not isinstance(x.shape[axis], int):
            raise step.fail(f"expected an axis of a known size, but got {x.shape[axis]}; fix it with shapes=")
        while x.shape and by < x.shape[axis]:
            before = sliced(step, x, axis, 0, x.shape[axis] - by)
            x = concat(
                step, [sliced(step, x, axis, 0, by), step.emit(op, sliced(step, x, axis, by, END), before)], axis
            )
            by *= 2
        return [x, None]

    return convert


def _top_k(step: Step) -> list[Value]:
    x, axis = step["self"], step.get("dim", -1)
    order = step.emit(g.ArgsortOp, x, axis=axis, descending=bool(step.get("largest", True)))
    order = sliced(step, order, axis_of(axis, len(x.shape)), 0, step["k"]) if x.shape else order
    return [step.emit(g.GatherElementsOp, x, order, axis=axis), order]


def _norm(step: Step) -> Value:
    """The vector norm of order `ord`."""
    x = cast(step, step["self"], step.dtype)
    axes, keep, order = _axes(step, x), bool(step.get("keepdim", False)), float(step.get("ord", 2))
    size = step.emit(g.AbsOp, x)
    if order == 0:
        present = step.emit(g.LogicalNotOp, binary(step, g.EqualOp, x, 0))
        return reduce(step, g.SumOp, cast(step, present, step.dtype), axes, keep)
    if math.isinf(order):
        return reduce(step, g.MaxOp if order > 0 else g.MinOp, size, axes, keep)
    if order == 1:
        return reduce(step, g.SumOp, size, axes, keep)
    if order == 2:
        return step.emit(g.SqrtOp, reduce(step, g.SumOp, multiply(step, x, x), axes, keep))
    total = reduce(step, g.SumOp, binary(step, g.PowerOp, size, order), axes, keep)
    return binary(step, g.PowerOp, total, 1 / order)


CONVERTERS: dict[str, Convert] = {
    "sum": _reduction(g.SumOp), "mean": _reduction(g.MeanOp), "prod": _reduction(g.ProdOp),
    "amax": _reduction(g.MaxOp), "amin": _reduction(g.MinOp),
    "max": _extreme(g.MaxOp, g.ArgmaxOp, g.MaximumOp), "min": _extreme(g.MinOp, g.ArgminOp, g.MinimumOp),
    "argmax": _arg(g.ArgmaxOp), "argmin": _arg(g.ArgminOp),
    "any": _truth(g.MaxOp), "all": _truth(g.MinOp),
    "var": _variance, "var_mean": _variance_and_mean, "linalg_vector_norm": _norm,
    "softmax": _softmax(g.SoftmaxOp), "_softmax": _softmax(g.SoftmaxOp), "_safe_softmax": _safe_softmax,
    "log_softmax": _softmax(g.LogSoftmaxOp), "_log_softmax": _softmax(g.LogSoftmaxOp),
    "cumsum": _cumulative("CumSum"), "cumprod": _cumulative("CumProd"),
    "sort": _sort, "argsort": _argsort, "topk": _top_k, "median": _ranked, "kthvalue": _ranked,
    "cummax": _running(g.MaximumOp), "cummin": _running(g.MinimumOp),
}  # fmt: skip
