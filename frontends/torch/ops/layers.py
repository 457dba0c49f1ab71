"""ATen ops of neural networks: matrix products, convolution, normalisation, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.types import axis_of
from mlc.frontends.onnx.node import Value, dtype_like
from mlc.frontends.onnx.tools import add, binary, cast, full, multiply, reduce, reshape, select, subtract, transpose
from mlc.frontends.torch.ops.shape import side
from mlc.frontends.torch.step import Convert, Step

NARROW = ("float16", "bfloat16")


def _linear(step: Step) -> Value:
    x, bias = step["input"], step.get("bias")
    rows = reshape(step, x, (1, *x.shape)) if len(x.shape) == 1 else x
    y = _biased(step, step.emit(g.DenseOp, rows, step["weight"]), bias)
    return reshape(step, y, step.shape)


def _biased(step: Step, y: Value, bias: Value | None) -> Value:
    if bias is None:
        return y
    last = len(y.shape) - 1
    return step.emit(g.BiasAddOp, y, bias, axis=last) if bias.shape == y.shape[last:] else add(step, y, bias)


def _product(step: Step, a: Value, b: Value) -> Value:
    """`a @ b` of matrices: a dense layer where b is a weight, or one transposed."""
    owner = None if b.ssa is None else b.ssa.owner
    if isinstance(owner, g.TransposeOp) and owner.axes == (1, 0):
        return step.emit(g.DenseOp, a, Value(owner.operands[0], None, b.name))
    if b.array is not None or isinstance(owner, g.ParamOp):
        return step.emit(g.DenseOp, a, transpose(step, b, (1, 0)))
    return step.emit(g.BatchMatmulOp, a, b)


def _mm(step: Step) -> Value:
    return _product(step, step["self"], step["mat2"])


def _bmm(step: Step) -> Value:
    return step.emit(g.BatchMatmulOp, step["self"], step["mat2"])


def _matmul(step: Step) -> Value:
    a, b = step["self"], step["other"]
    if len(b.shape) == 2 and len(a.shape) >= 2:
        return _product(step, a, b)
    return step.onnx("MatMul", [a, b])[0]


def _vector_product(step: Step) -> Value:
    return step.onnx("MatMul", [step["self"], step["vec"] if "vec" in step else step["tensor"]])[0]


def _addmm(step: Step) -> Value:
    """beta * self + alpha * (mat1 @ mat2)."""
    y, bias = _product(step, step["mat1"], step["mat2"]), step["self"]
    alpha, beta = step.get("alpha", 1), step.get("beta", 1)
    y = y if alpha == 1 else multiply(step, y, alpha)
    if beta == 0:
        return y
    return _biased(step, y, bias if beta == 1 else multiply(step, bias, beta))


def _convolution(step: Step) -> Value:
    x, w = step["input"], step["weight"]
    rank = len(w.shape) - 2
    pads = step.per_axis("padding", rank, 0)
    attrs: dict[str, Any] = {
        "strides": step.per_axis("stride", rank),
        "dilations": step.per_axis("dilation", rank),
        "pads": pads * 2,
        "group": step["groups"],
    }
    op = "Conv"
    if step.get("transposed", False):
        op, attrs["output_padding"] = "ConvTranspose", step.per_axis("output_padding", rank, 0)
    inputs = [x, w] if step.get("bias") is None else [x, w, step["bias"]]
    return step.onnx(op, inputs, **attrs)[0]


def _vector(step: Step, name: str, default: float, size: int, dtype: Any) -> Value:
    """An affine argument of a normalisation; where it is None, ones or zeros."""
    value = step.get(name)
    return step.array(np.full(size, default).astype(dtype)) if value is None else cast(step, value, dtype)


def _batch_norm(step: Step) -> list[Value | None]:
    """With the statistics that training left."""
    x = step["input"]
    dtype, channels = dtype_like(x), x.shape[1]
    names = (("weight", 1), ("bias", 0), ("running_mean", 0), ("running_var", 1))
    vectors = [_vector(step, name, default, channels, dtype) for name, default in names]
    return [step.emit(g.BatchNormOp, x, *vectors, epsilon=float(step["eps"])), None, None]


def _batch_norm_of_inputs(step: Step) -> list[Value | None]:
    """With the statistics of the input: what an instance norm becomes."""
    x = step["input"]
    if "running_mean" in step:
        raise step.fail("expected a module that is not in training; call eval() on it")
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
    y = _normalized(step, x, axes, float(step["eps"]))
    for name, op in (("weight", g.MultiplyOp), ("bias", g.AddOp)):
        if (vector := step.get(name)) is not None:
            y = step.emit(op, y, reshape(step, vector, shape))
    return [y, None, None]


def _normalized(step: Step, x: Value, axes: list[int], epsilon: float) -> Value:
    """(x - mean) / sqrt(var + epsilon)."""
    centred = subtract(step, x, reduce(step, g.MeanOp, x, axes, True))
    var = reduce(step, g.MeanOp, multiply(step, centred, centred), axes, True)
    return multiply(step, centred, step.emit(g.RsqrtOp, add(step, var, epsilon)))


def _instance_norm(step: Step) -> Value:
    x, epsilon = step["input"], float(step["eps"])
    if not step["use_input_stats"]:
        (y, *_) = _batch_norm(step)
        assert y is not None
        return y
    vectors = [
        _vector(step, name, default, x.shape[1], dtype_like(x)) for name, default in (("weight", 1), ("bias", 0))
    ]
    return step.emit(g.InstanceNormOp, x, *vectors, epsilon=epsilon)


def _layer_norm(step: Step) -> Value:
    x, sizes = step["input"], tuple(step["normalized_shape"])
    affine = [step.get(name) for name in ("weight", "bias")]
    parts = [
        step.array(np.full(sizes, default).astype(dtype_like(x))) if value is None else cast(step, value, dtype_like(x))
        for value, default in zip(affine, (1, 0), strict=True)
    ]
    return step.emit(g.LayerNormOp, x, *parts, axis=len(x.shape) - len(sizes), epsilon=float(step["eps"]))


def _group_norm(step: Step) -> Value:
    """An instance norm of the groups, then a scale and a shift a channel."""
    x = step["input"]
    groups = step["num_groups"] if "num_groups" in step else step["group"]
    n, c = x.shape[:2]
    dtype = dtype_like(x)
    ones = [step.array(np.full(groups, value).astype(dtype)) for value in (1, 0)]
    flat = reshape(step, x, (n, groups, math.prod(x.shape[1:]) // groups))
    y = reshape(step, step.emit(g.InstanceNormOp, flat, *ones, epsilon=float(step["eps"])), x.shape)
    for name, op in (("weight", g.MultiplyOp), ("bias", g.AddOp)):
        if (vector := step.get(name)) is not None:
            y = step.emit(op, y, reshape(step, cast(step, vector, dtype), (c, *[1] * (len(x.shape) - 2))))
    return y


def _rms_norm(step: Step) -> Value:
    """x / sqrt(mean(x * x) + epsilon) * weight, in f32."""
    x, sizes = step["input"], step["normalized_shape"]
    wide = cast(step, x, np.float32) if x.dtype_name in NARROW else x
    epsilon = step.get("eps")
    epsilon = float(np.finfo(np.float32).eps) if epsilon is None else float(epsilon)
    axes = list(range(len(x.shape) - len(sizes), len(x.shape)))
    mean = reduce(step, g.MeanOp, multiply(step, wide, wide), axes, True)
    y = multiply(step, wide, step.emit(g.RsqrtOp, add(step, mean, epsilon)))
    weight = step.get("weight")
    return y if weight is None else multiply(step, y, cast(step, weight, dtype_like(y)))


def _first(convert: Any) -> Convert:
    """An op that returns statistics beside its result."""
    return lambda step: [convert(step), None, None]


def _dropout(step: Step) -> list[Value]:
    x = step["input"]
    if step.get("train", False) and step["p"]:
        raise step.fail("expected a module that is not in training, but its dropout is on; call eval() on it")
    return [x, full(step, x.shape, 1, np.bool_)]


def _attention(step: Step) -> Value:
    """softmax(q @ k.T * scale + mask) @ v, in f32; a row of which nothing is left gives 0."""
    q, k, v = (step[name] for name in ("query", "key", "value"))
    if step.get("dropout_p", 0.0):
        raise step.fail("expected no dropout; call eval() on the module")
    narrow = q.dtype_name in NARROW
    q, k, v = (cast(step, x, np.float32) for x in (q, k, v)) if narrow else (q, k, v)
    shape = q.shape
    if step.get("enable_gqa", False) and q.shape[-3] != k.shape[-3]:
        q, k, v = _grouped(step, q, k, v)
    scale = step.get("scale")
    scale = 1 / math.sqrt(shape[-1]) if scale is None else float(scale)
    scores = multiply(step, step.emit(g.BatchMatmulOp, q, k, transpose_b=True), scale)
    scores, dead = _masked(step, scores, (*shape[:-1], k.shape[-2]))
    y = step.emit(g.BatchMatmulOp, step.emit(g.SoftmaxOp, scores, axis=-1), v)
    y = reshape(step, y, step.shape)
    return y if dead is None else select(step, dead, 0, y)


def _grouped(step: Step, q: Value, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Queries by the head of keys that they share."""
    heads = k.shape[-3]
    q = reshape(step, q, (*q.shape[:-3], heads, q.shape[-3] // heads, *q.shape[-2:]))
    k, v = (reshape(step, x, (*x.shape[:-2], 1, *x.shape[-2:])) for x in (k, v))
    return q, k, v


def _masked(step: Step, scores: Value, plain: tuple[Any, ...]) -> tuple[Value, Value | None]:
    """The scores with their mask, and the rows of which it leaves nothing (None if there are none)."""
    mask, lowest = step.get("attn_mask"), float(np.finfo(np.float32).min)
    if step.get("is_causal", False):
        rows, columns = plain[-2:]
        return select(step, side(step, rows, columns, g.LessEqualOp), scores, lowest), None
    if mask is None:
        return scores, None
    grouped = len(scores.shape) > len(plain)
    arranged = reshape(step, mask, _as_heads(mask.shape, scores.shape)) if grouped and len(mask.shape) > 2 else mask
    if mask.dtype_name == "bool":
        dead = step.emit(g.LogicalNotOp, _any(step, mask))
        return select(step, arranged, scores, lowest), _unless_known(dead)
    arranged = cast(step, arranged, dtype_like(scores))
    dead = binary(step, g.EqualOp, reduce(step, g.MaxOp, mask, [axis_of(-1, len(mask.shape))], True), -math.inf)
    return add(step, scores, step.emit(g.MaximumOp, arranged, step.array(lowest, like=arranged))), _unless_known(dead)


def _as_heads(mask: tuple[Any, ...], scores: tuple[Any, ...]) -> tuple[Any, ...]:
    """The shape of a mask whose axis of heads is two in the scores."""
    heads = (1, 1) if mask[-3] == 1 else scores[-4:-2]
    return (*mask[:-3], *heads, *mask[-2:])


def _any(step: Step, mask: Value) -> Value:
    return cast(step, reduce(step, g.MaxOp, cast(step, mask, np.int32), [len(mask.shape) - 1], True), np.bool_)


def _unless_known(dead: Value) -> Value | None:
    """None if it is known at import that no row is dead."""
    return None if dead.array is not None and not dead.array.any() else dead


def _distances(step: Step) -> Value:
    """The p-norm of the difference of each row of one and each of the other."""
    a, b, p = step["x1"], step["x2"], float(step["p"])
    rows = reshape(step, a, (*a.shape[:-1], 1, a.shape[-1]))
    columns = reshape(step, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    size = step.emit(g.AbsOp, subtract(step, rows, columns))
    last = [len(rows.shape) - 1]
    if math.isinf(p):
        return reduce(step, g.MaxOp, size, last)
    power = multiply(step, size, size) if p == 2 else binary(step, g.PowerOp, size, p)
    total = reduce(step, g.SumOp, power, last)
    return step.emit(g.SqrtOp, total) if p == 2 else binary(step, g.PowerOp, total, 1 / p)


def _batches_added(step: Step) -> Value:
    """beta * self + alpha * the sum of batch1 @ batch2 over the batches."""
    y = reduce(step, g.SumOp, step.emit(g.BatchMatmulOp, step["batch1"], step["batch2"]), [0])
    alpha, beta = step.get("alpha", 1), step.get("beta", 1)
    y = y if alpha == 1 else multiply(step, y, alpha)
    return y if beta == 0 else add(step, y, step["self"] if beta == 1 else multiply(step, step["self"], beta))


def _trilinear(step: Step) -> Value:
    """The sum over some axes of the product of three tensors, which are given axes of size 1 before."""
    y: Value | None = None
    for name in ("1", "2", "3"):
        x, new = step[f"i{name}"], step[f"expand{name}"]
        sizes = iter(x.shape)
        x = reshape(step, x, [1 if axis in new else next(sizes) for axis in range(len(x.shape) + len(new))])
        y = x if y is None else multiply(step, y, x)
    assert y is not None
    return reduce(step, g.SumOp, y, step["sumdim"])


def _einsum(step: Step) -> Value:
    return step.onnx("Einsum", step["tensors"], equation=step["equation"])[0]


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
