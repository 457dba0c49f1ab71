"""ATen ops of neural networks: matrix products, convolution, normalisation, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.common.elementwise import add, binary, cast, full, multiply, reduce, select, subtract
from mlc.frontends.common.movement import reshape, transpose
from mlc.frontends.common.ops.conv import TransposedWindow, convolution, transposed_convolution
from mlc.frontends.common.ops.einsum import einsum
from mlc.frontends.common.ops.matmul import matmul
from mlc.frontends.common.ops.normalization import centred_and_variance, group_normalized
from mlc.frontends.common.values import NARROW_FLOATS, Value, dtype_like
from mlc.frontends.common.windows import WindowSpec
from mlc.frontends.torch.call import AtenCall, Convert
from mlc.frontends.torch.ops.shape import side

"""dtypes whose norms and attention are computed in f32."""


def _linear(call: AtenCall) -> Value:
    x, bias = call["input"], call.get("bias")
    rows = reshape(call, x, (1, *x.shape)) if len(x.shape) == 1 else x
    y = _biased(call, call.emit(g.DenseOp, rows, call["weight"]), bias)
    return reshape(call, y, call.shape)


def _biased(call: AtenCall, y: Value, bias: Value | None) -> Value:
    if bias is None:
        return y
    last = len(y.shape) - 1
    return call.emit(g.BiasAddOp, y, bias, axis=last) if bias.shape == y.shape[last:] else add(call, y, bias)


def _product(call: AtenCall, a: Value, b: Value) -> Value:
    """`a @ b` of matrices: a dense layer where b is a constant or the transpose of a value."""
    owner = None if b.ssa is None else b.ssa.owner
    if isinstance(owner, g.TransposeOp) and owner.axes == (1, 0):
        return call.emit(g.DenseOp, a, Value(owner.operands[0], None, b.name))
    if b.array is not None or isinstance(owner, g.ParamOp):
        return call.emit(g.DenseOp, a, transpose(call, b, (1, 0)))
    return call.emit(g.BatchMatmulOp, a, b)


def _mm(call: AtenCall) -> Value:
    return _product(call, call["self"], call["mat2"])


def _bmm(call: AtenCall) -> Value:
    return call.emit(g.BatchMatmulOp, call["self"], call["mat2"])


def _matmul(call: AtenCall) -> Value:
    a, b = call["self"], call["other"]
    if len(b.shape) == 2 and len(a.shape) >= 2:
        return _product(call, a, b)
    return matmul(call, a, b)


def _vector_product(call: AtenCall) -> Value:
    return matmul(call, call["self"], call["vec"] if "vec" in call else call["tensor"])


def _addmm(call: AtenCall) -> Value:
    """beta * self + alpha * (mat1 @ mat2)."""
    y, bias = _product(call, call["mat1"], call["mat2"]), call["self"]
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    y = y if alpha == 1 else multiply(call, y, alpha)
    if beta == 0:
        return y
    return _biased(call, y, bias if beta == 1 else multiply(call, bias, beta))


def _convolution(call: AtenCall) -> Value:
    x, w, bias, groups = call["input"], call["weight"], call.get("bias"), call["groups"]
    rank = len(w.shape) - 2
    if len(x.shape) != rank + 2:
        raise call.fail(f"expected an input of rank {rank + 2}, like the weight, but got rank {len(x.shape)}")
    pads, strides = tuple(call.per_axis("padding", rank, 0)), tuple(call.per_axis("stride", rank))
    dilation = tuple(call.per_axis("dilation", rank))
    if call.get("transposed", False):
        extra = tuple(call.per_axis("output_padding", rank, 0))
        return transposed_convolution(call, x, w, bias, TransposedWindow(strides, dilation, pads * 2, extra), groups)
    return convolution(call, x, w, bias, WindowSpec(tuple(w.shape[2:]), strides, dilation, pads, pads), groups)


def _vector(call: AtenCall, name: str, default: float, size: int, dtype: np.dtype[Any]) -> Value:
    """An affine argument of a normalisation; if it is None, a constant vector of the default."""
    value = call.get(name)
    return call.array(np.full(size, default).astype(dtype)) if value is None else cast(call, value, dtype)


def _batch_norm(call: AtenCall) -> list[Value | None]:
    """Batch norm with running statistics."""
    x = call["input"]
    dtype, channels = dtype_like(x), x.shape[1]
    names = (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1))
    vectors = [_vector(call, name, default, channels, dtype) for name, default in names]
    return [call.emit(g.BatchNormOp, x, *vectors, epsilon=float(call["eps"])), None, None]


def _batch_norm_of_inputs(call: AtenCall) -> list[Value | None]:
    """Batch norm with the statistics of the input, into which torch decomposes an instance norm."""
    x = call["input"]
    if "running_mean" in call:
        raise call.fail("expected a module that is not in training; call eval() on it")
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    y = _normalized(call, x, axes, float(call["eps"]))
    for name, op in (("weight", g.MultiplyOp), ("bias", g.AddOp)):
        if (vector := call.get(name)) is not None:
            y = call.emit(op, y, reshape(call, vector, shape))
    return [y, None, None]


def _normalized(call: AtenCall, x: Value, axes: list[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(var + epsilon)."""
    centred, var = centred_and_variance(call, x, axes)
    return multiply(call, centred, call.emit(g.RsqrtOp, add(call, var, epsilon)))


def _instance_norm(call: AtenCall) -> Value:
    x, epsilon = call["input"], float(call["eps"])
    if not call["use_input_stats"]:
        (y, *_) = _batch_norm(call)
        assert y is not None
        return y
    vectors = [
        _vector(call, name, default, x.shape[1], dtype_like(x)) for name, default in (("weight", 1), ("bias", 0))
    ]
    return call.emit(g.InstanceNormOp, x, *vectors, epsilon=epsilon)


def _layer_norm(call: AtenCall) -> Value:
    x, sizes = call["input"], tuple(call["normalized_shape"])
    affine = [call.get(name) for name in ("weight", "bias")]
    parts = [
        call.array(np.full(sizes, default).astype(dtype_like(x))) if value is None else cast(call, value, dtype_like(x))
        for value, default in zip(affine, (1, 0), strict=True)
    ]
    return call.emit(g.LayerNormOp, x, *parts, axis=len(x.shape) - len(sizes), epsilon=float(call["eps"]))


def _group_norm(call: AtenCall) -> Value:
    """An instance norm of the groups, then a scale and a shift per channel."""
    x = call["input"]
    groups = call["num_groups"] if "num_groups" in call else call["group"]
    c, dtype = x.shape[1], dtype_like(x)
    y = group_normalized(call, x, groups, float(call["eps"]))
    for name, op in (("weight", g.MultiplyOp), ("bias", g.AddOp)):
        if (vector := call.get(name)) is not None:
            y = call.emit(op, y, reshape(call, cast(call, vector, dtype), (c, *[1] * (len(x.shape) - 2))))
    return y


def _rms_norm(call: AtenCall) -> Value:
    """x / sqrt(mean(x * x) + epsilon) * weight, in f32."""
    x, sizes = call["input"], call["normalized_shape"]
    wide = cast(call, x, np.float32) if x.dtype_name in NARROW_FLOATS else x
    epsilon = call.get("eps")
    epsilon = float(np.finfo(np.float32).eps) if epsilon is None else float(epsilon)
    axes = list(range(len(x.shape) - len(sizes), len(x.shape)))
    mean = reduce(call, g.MeanOp, multiply(call, wide, wide), axes, True)
    y = multiply(call, wide, call.emit(g.RsqrtOp, add(call, mean, epsilon)))
    weight = call.get("weight")
    return y if weight is None else multiply(call, y, cast(call, weight, dtype_like(y)))


def _first(convert: Any) -> Convert:
    """An op that also returns statistics, which are only for the gradient."""
    return lambda call: [convert(call), None, None]


def _dropout(call: AtenCall) -> list[Value]:
    x = call["input"]
    if call.get("train", False) and call["p"]:
        raise call.fail("expected a module that is not in training, but its dropout is on; call eval() on it")
    return [x, full(call, x.shape, 1, np.bool_)]


def _attention(call: AtenCall) -> Value:
    """softmax(q @ k.T * scale + mask) @ v, in f32; a row that is masked completely gives 0."""
    q, k, v = (call[name] for name in ("query", "key", "value"))
    if call.get("dropout_p", 0.0):
        raise call.fail("expected no dropout; call eval() on the module")
    narrow = q.dtype_name in NARROW_FLOATS
    q, k, v = (cast(call, x, np.float32) for x in (q, k, v)) if narrow else (q, k, v)
    shape = q.shape
    if call.get("enable_gqa", False) and q.shape[-3] != k.shape[-3]:
        q, k, v = _grouped(call, q, k, v)
    scale = call.get("scale")
    scale = 1 / math.sqrt(shape[-1]) if scale is None else float(scale)
    scores = multiply(call, call.emit(g.BatchMatmulOp, q, k, transpose_b=True), scale)
    scores, dead = _masked(call, scores, (*shape[:-1], k.shape[-2]))
    y = call.emit(g.BatchMatmulOp, call.emit(g.SoftmaxOp, scores, axis=-1), v)
    y = reshape(call, y, call.shape)
    return y if dead is None else select(call, dead, 0, y)


def _grouped(call: AtenCall, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Queries grouped by the head of keys that they share (grouped-query attention)."""
    heads = k.shape[-3]
    q = reshape(call, q, (*q.shape[:-3], heads, q.shape[-3] // heads, *q.shape[-2:]))
    k, v = (reshape(call, x, (*x.shape[:-2], 1, *x.shape[-2:])) for x in (k, v))
    return q, k, v


def _masked(call: AtenCall, scores: Value, plain: tuple[Any, ...]) -> tuple[Value, Value | None]:
    """The masked scores, and which rows are masked completely (None if no row is)."""
    mask, lowest = call.get("attn_mask"), float(np.finfo(np.float32).min)
    if call.get("is_causal", False):
        rows, columns = plain[-2:]
        return select(call, side(call, rows, columns, g.LessEqualOp), scores, lowest), None
    if mask is None:
        return scores, None
    grouped = len(scores.shape) > len(plain)
    arranged = reshape(call, mask, _as_heads(mask.shape, scores.shape)) if grouped and len(mask.shape) > 2 else mask
    if mask.dtype_name == "bool":
        dead = call.emit(g.LogicalNotOp, _any(call, mask))
        return select(call, arranged, scores, lowest), _unless_known(dead)
    arranged = cast(call, arranged, dtype_like(scores))
    dead = binary(call, g.EqualOp, reduce(call, g.MaxOp, mask, [axis_of(-1, len(mask.shape))], True), -math.inf)
    return add(call, scores, call.emit(g.MaximumOp, arranged, call.array(lowest, like=arranged))), _unless_known(dead)


def _as_heads(mask: tuple[Any, ...], scores: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape of a mask for scores whose axis of heads is split in two."""
    heads = (1, 1) if mask[-3] == 1 else scores[-4:-2]
    return (*mask[:-3], *heads, *mask[-2:])


def _any(call: AtenCall, mask: Value) -> Value:
    return cast(call, reduce(call, g.MaxOp, cast(call, mask, np.int32), [len(mask.shape) - 1], True), np.bool_)


def _unless_known(dead: Value) -> Value | None:
    """None if it is known at import that no row is masked completely."""
    return None if dead.array is not None and not dead.array.any() else dead


def _distances(call: AtenCall) -> Value:
    """The p-norm of the difference of each row of one and each of the other."""
    a, b, p = call["x1"], call["x2"], float(call["p"])
    rows = reshape(call, a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = reshape(call, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    size = call.emit(g.AbsOp, subtract(call, rows, columns))
    last = [len(rows.shape) - 1]
    if math.isinf(p):
        return reduce(call, g.MaxOp, size, last)
    power = multiply(call, size, size) if p == 2 else binary(call, g.PowerOp, size, p)
    total = reduce(call, g.SumOp, power, last)
    return call.emit(g.SqrtOp, total) if p == 2 else binary(call, g.PowerOp, total, 1 / p)


def _batches_added(call: AtenCall) -> Value:
    """beta * self + alpha * the sum of batch1 @ batch2 over the batches."""
    y = reduce(call, g.SumOp, call.emit(g.BatchMatmulOp, call["batch1"], call["batch2"]), [0])
    alpha, beta = call.get("alpha", 1), call.get("beta", 1)
    y = y if alpha == 1 else multiply(call, y, alpha)
    return y if beta == 0 else add(call, y, call["self"] if beta == 1 else multiply(call, call["self"], beta))


def _trilinear(call: AtenCall) -> Value:
    """The sum over some axes of the product of three tensors, after inserting axes of size 1."""
    y: Value | None = None
    for name in ("1", "2", "3"):
        x, new = call[f"i{name}"], call[f"expand{name}"]
        sizes = iter(x.shape)
        x = reshape(call, x, [1 if axis in new else next(sizes) for axis in range(len(x.shape) + len(new))])
        y = x if y is None else multiply(call, y, x)
    assert y is not None
    return reduce(call, g.SumOp, y, call["sumdim"])


def _einsum(call: AtenCall) -> Value:
    return einsum(call, call["equation"], call["tensors"])


CONVERTERS: dict[str, Convert] = {
    "linear": _linear, "mm": _mm, "bmm": _bmm, "matmul": _matmul, "mv": _vector_product, "dot": _vector_product,
    "addmm": _addmm, "convolution": _convolution, "_convolution": _convolution, "einsum": _einsum,
    "_cdist_forward": _distances, "addbmm": _batches_added, "_trilinear": _trilinear,
    "_native_batch_norm_legit_no_training": _batch_norm, "_native_batch_norm_legit": _batch_norm_of_inputs,
    "_native_batch_norm_legit_functional": _batch_norm_of_inputs,
    "instance_norm": _instance_norm, "layer_norm": _layer_norm, "native_layer_norm": _first(_layer_norm),
    "group_norm": _group_norm, "native_group_norm": _first(_group_norm), "rms_norm": _rms_norm,
    "native_dropout": _dropout, "scaled_dot_product_attention": _attention,
}  # fmt: skip
