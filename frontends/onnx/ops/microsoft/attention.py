"""
The attention ops of com.microsoft: packed heads, masks of several forms, caches of keys and values.

    Attention                one projection to queries, keys and values, then attention
    QAttention               the same with a quantised projection
    MultiHeadAttention       queries, keys and values given, packed or as heads
    GroupQueryAttention      fewer heads of keys and values than of queries, rotary positions
    RotaryEmbedding          the rotary positions alone
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import Dim
from mlc.frontends.common.elementwise import add, binary, cast, divide, full, iota, multiply, select, subtract
from mlc.frontends.common.movement import broadcast_to, concat, index_axis, reshape, slice_axis, stack, transpose
from mlc.frontends.common.values import Value, dtype_like
from mlc.frontends.onnx.node import Converter, Node
from mlc.frontends.onnx.ops.quantized import product
from mlc.frontends.onnx.windows import is_output_used


def optional(node: Node, index: int) -> Value | None:
    """An input that may be absent."""
    return node.input(index) if node.has(index) else None


@dataclass
class Scores:
    """How the product of queries and keys, B x heads x queries x keys, becomes attention scores."""

    scale: float
    bias: Value | None = None
    """Added to the scores."""
    kept: Value | None = None
    """The mask of keys that count; `off` is added to the scores of the others."""
    off: float = -10000.0
    seen: Value | None = None
    """The mask of keys that a query may see; the scores of the others are the lowest number."""
    softcap: float = 0.0
    sink: Value | None = None
    """The attention sink: for each head, the score of a further key whose value is 0."""


_LOWEST = {"float16": -65504.0}


def attend(node: Node, q: Value, k: Value, v: Value, how: Scores) -> Value:
    """Attention of B x heads x rows x size: the packed result, B x queries x (heads * size)."""
    batch, heads, length, _ = q.shape
    scores = multiply(node, node.emit(g.BatchMatmulOp, q, k, transpose_b=True), how.scale)
    if how.softcap:
        scores = multiply(node, node.emit(g.TanhOp, divide(node, scores, how.softcap)), how.softcap)
    if how.bias is not None:
        scores = add(node, scores, how.bias)
    if how.kept is not None:
        scores = select(node, how.kept, scores, add(node, scores, how.off))
    if how.seen is not None:
        scores = select(node, how.seen, scores, _LOWEST.get(scores.dtype_name, -3e38))
    y = node.emit(g.BatchMatmulOp, _shares(node, scores, how.sink), v)
    return reshape(node, transpose(node, y, (0, 2, 1, 3)), (batch, length, heads * v.shape[3]))


def _shares(node: Node, scores: Value, sink: Value | None) -> Value:
    """The softmax of the scores; a sink takes part in it and is dropped from the result."""
    if sink is None:
        return node.emit(g.SoftmaxOp, scores, axis=-1)
    batch, heads, length, keys = scores.shape
    sink = broadcast_to(node, reshape(node, sink, (1, math.prod(sink.shape), 1, 1)), (batch, heads, length, 1))
    shares = node.emit(g.SoftmaxOp, concat(node, [scores, cast(node, sink, dtype_like(scores))], 3), axis=-1)
    return slice_axis(node, shares, 3, 0, keys)


def as_heads(node: Node, x: Value, heads: int) -> Value:
    """B x rows x (heads * size) as B x heads x rows x size."""
    batch, length, width = x.shape
    return transpose(node, reshape(node, x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def earlier(node: Node, length: Any, keys: Dim, kept: Any) -> Value:
    """
    The causal mask, 1 x 1 x length x keys, of queries the first of which follows `kept` keys.

    As in onnxruntime the last query sees all keys, even if there are more than kept + length.
    """
    shape = (1, 1, length, keys)
    query = iota(node, shape, 2)
    seen = node.emit(g.LessEqualOp, iota(node, shape, 3), add(node, query, node.array(kept)))
    if kept + length == keys:
        return seen
    return node.emit(g.LogicalOrOp, seen, node.emit(g.GreaterEqualOp, query, node.array(length - 1)))


def kept_keys(node: Node, mask: Value, batch: Any, length: Any, keys: Dim) -> Value:
    """The mask of keys that count, given as ones per key (and query), or as lengths (or ends and begins) per row."""
    if mask.shape in ((batch, keys), (batch, length, keys)):
        rows = 1 if len(mask.shape) == 2 else length
        return reshape(node, binary(node, g.GreaterOp, mask, 0), (batch, 1, rows, keys))
    places = iota(node, (batch, 1, 1, keys), 3, dtype_like(mask))
    if mask.shape == (batch,):
        return node.emit(g.LessOp, places, reshape(node, mask, (batch, 1, 1, 1)))
    if mask.shape == (2 * batch,):  # the ends, then the beginnings
        end, begin = (reshape(node, slice_axis(node, mask, 0, n, n + batch), (batch, 1, 1, 1)) for n in (0, batch))
        inside = node.emit(g.GreaterEqualOp, places, begin)
        return node.emit(g.LogicalAndOp, inside, node.emit(g.LessOp, places, end))
    raise node.fail(
        f"expected a mask of {batch} x {keys}, of {batch} x {length} x {keys}, or of {batch} lengths, "
        f"but got {list(mask.shape)}"
    )


def _with_past(node: Node, past: Value | None, k: Value, v: Value) -> tuple[Value, Value, Value]:
    """Keys and values appended to the cache (2 x B x heads x rows x size), and the new cache."""
    if past is not None:
        k, v = (concat(node, [index_axis(node, past, 0, n), new], 2) for n, new in enumerate((k, v)))
    return k, v, stack(node, [k, v], 0) if is_output_used(node, 1) else k


def _attended(node: Node, flat: Value, sizes: Sequence[int], inputs: Sequence[Value | None]) -> list[Value]:
    """Attention on packed queries, keys and values: (the result, the new cache)."""
    mask, past, bias = inputs
    heads = node.attr("num_heads")
    starts = np.cumsum([0, *sizes]).tolist()
    q, k, v = (as_heads(node, slice_axis(node, flat, 2, a, b), heads) for a, b in itertools.pairwise(starts))
    k, v, kept = _with_past(node, past, k, v)
    batch, _, length, size = q.shape
    keys = k.shape[2]
    how = Scores(float(node.attr("scale", 0.0)) or 1 / math.sqrt(size), bias, off=_off(node))
    how.kept = None if mask is None else kept_keys(node, mask, batch, length, keys)
    how.seen = earlier(node, length, keys, keys - length) if node.attr("unidirectional", 0) else None
    return [attend(node, q, k, v, how), kept]


def _off(node: Node) -> float:
    return float(node.attr("mask_filter_value", -10000.0))


def _attention(node: Node) -> list[Value]:
    """One projection to packed queries, keys and values, then attention."""
    if node.attr("do_rotary", 0):
        raise node.fail("expected do_rotary = 0, but got 1")
    weights = node.input(1)
    sizes = node.attr("qkv_hidden_sizes", [weights.shape[1] // 3] * 3)
    flat = node.emit(g.DenseOp, node.input(0), transpose(node, weights, (1, 0)))
    flat = add(node, flat, node.input(2)) if node.has(2) else flat
    return _attended(node, flat, sizes, [optional(node, k) for k in (3, 4, 5)])


def _quantised_attention(node: Node) -> list[Value]:
    """The projection in integers without their zero points, scaled; then as Attention."""
    if node.attr("do_rotary", 0):
        raise node.fail("expected do_rotary = 0, but got 1")
    x, w = (cast(node, node.input(k), np.int32) for k in (0, 1))
    x, w = (subtract(node, a, cast(node, node.input(k), np.int32)) if node.has(k) else a for a, k in ((x, 6), (w, 7)))
    scale = multiply(node, node.input(3), node.input(4))
    flat = add(node, multiply(node, cast(node, product(node, x, w), np.float32), scale), node.input(2))
    mask, past = optional(node, 5), optional(node, 8)
    return _attended(node, flat, [w.shape[1] // 3] * 3, [mask, past, None])


def _biased(node: Node, parts: Sequence[Value], heads: int, given: Sequence[bool]) -> list[Value]:
    """Queries, keys and values as heads; the packed ones have their slice of the common bias added."""
    found: list[Value] = []
    start = 0
    for x, flat in zip(parts, given, strict=True):
        if not flat:
            found.append(x)
            start += heads * x.shape[3]
            continue
        if node.has(3):
            x = add(node, x, slice_axis(node, node.input(3), 0, start, start + x.shape[2]))
        start += x.shape[2]
        found.append(as_heads(node, x, heads))
    return found


def _taken_apart(node: Node, x: Value, heads: int) -> list[Value]:
    """B x rows x heads x parts x size, split into parts of B x rows x (heads * size)."""
    batch, length, _, count, size = x.shape
    return [reshape(node, index_axis(node, x, 3, k), (batch, length, heads * size)) for k in range(count)]


def _multi_head(node: Node) -> list[Value]:
    """Attention of given queries, keys and values."""
    heads, first = node.attr("num_heads"), node.input(0)
    if node.has(8) or node.has(9):
        raise node.fail("expected no past_sequence_length and no cache_indirection, but got them")
    if len(first.shape) == 5:
        parts = _taken_apart(node, first, heads)
    elif len(node.input(1).shape) == 5:
        parts = [first, *_taken_apart(node, node.input(1), heads)]
    else:
        parts = [node.input(k) for k in range(3)]
    q, k, v = _biased(node, parts, heads, [len(x.shape) == 3 for x in parts])
    new = k.shape[2]
    k, v = (concat(node, [node.input(i), x], 2) if node.has(i) else x for i, x in ((6, k), (7, v)))
    batch, _, length, size = q.shape
    keys = k.shape[2]
    how = Scores(float(node.attr("scale", 0.0)) or 1 / math.sqrt(size), optional(node, 5), off=_off(node))
    how.kept = kept_keys(node, node.input(4), batch, length, keys) if node.has(4) else None
    if node.attr("unidirectional", 0):
        how.seen = earlier(node, length, keys, keys - new)
    return [attend(node, q, k, v, how), k, v]


def rotated(node: Node, x: Value, tables: tuple[Value, Value], places: Value, interleaved: bool) -> Value:
    """B x heads x rows x size with the first columns rotated by the angles of the rows' positions (B x rows)."""
    batch, _, length, size = x.shape
    half = tables[0].shape[1]
    rest = slice_axis(node, x, 3, 2 * half, size)
    if interleaved:
        a, b = (slice_axis(node, x, 3, k, 2 * half, 2) for k in (0, 1))
    else:
        a, b = slice_axis(node, x, 3, 0, half), slice_axis(node, x, 3, half, 2 * half)
    cos, sin = (reshape(node, node.emit(g.TakeOp, table, places, axis=0), (batch, 1, length, half)) for table in tables)
    first = subtract(node, multiply(node, a, cos), multiply(node, b, sin))
    second = add(node, multiply(node, b, cos), multiply(node, a, sin))
    turned = concat(node, [first, second], 3)
    if interleaved:
        turned = reshape(node, stack(node, [first, second], 4), (*x.shape[:3], 2 * half))
    return turned if 2 * half == size else concat(node, [turned, rest], 3)


def _rotary_embedding(node: Node) -> Value:
    """Rows rotated by the angles of their positions; one position per row, or that of the first row."""
    x, places, tables = node.input(0), cast(node, node.input(1), np.int64), (node.input(2), node.input(3))
    if node.attr("is_packed_batching", 0):
        raise node.fail("expected is_packed_batching = 0, but got 1")
    flat = len(x.shape) == 3
    heads = node.attr("num_heads", 0) or (x.shape[2] // (2 * tables[0].shape[1]) if flat else 0)
    wide = as_heads(node, x, heads) if flat else x
    batch, _, length, _ = wide.shape
    if places.shape in ((), (1,)):
        places = add(node, iota(node, (batch, length), 1), reshape(node, places, ()))
    y = rotated(node, wide, tables, places, bool(node.attr("interleaved", 0)))
    return reshape(node, transpose(node, y, (0, 2, 1, 3)), x.shape) if flat else y


def _kept_rows(node: Node, past: Value | None, new: Value, before: Value, total: Dim) -> Value:
    """A cache (B x heads x rows x size) of `total` rows: `before` (B) rows of the old one, the new ones, then zeros."""
    batch, heads, length, size = new.shape
    shape = (batch, heads, total, size)
    at = subtract(node, iota(node, (batch, 1, total, 1), 2), reshape(node, before, (batch, 1, 1, 1)))
    index = node.emit(g.MinimumOp, node.emit(g.MaximumOp, at, node.array(0)), node.array(length - 1))
    moved = node.emit(g.GatherElementsOp, new, broadcast_to(node, index, shape), axis=2)
    zero = full(node, (1, 1, 1, 1), 0, dtype_like(new))
    moved = select(node, node.emit(g.LessOp, at, node.array(length)), moved, zero)
    rest = past if past is not None and past.shape[2] else zero
    if rest is not zero and rest.shape[2] != total:
        filler = full(node, (batch, heads, total - rest.shape[2], size), 0, dtype_like(new))
        rest = concat(node, [rest, filler], 2)
    return select(node, binary(node, g.GreaterEqualOp, at, 0), moved, rest)


def _repeated_heads(node: Node, x: Value, count: int) -> Value:
    """Each head `count` times."""
    batch, heads, length, size = x.shape
    wide = reshape(node, x, (batch, heads, 1, length, size))
    wide = broadcast_to(node, wide, (batch, heads, count, length, size))
    return reshape(node, wide, (batch, heads * count, length, size))


_ONLY_DEFAULTS = {"k_quant_type": "NONE", "v_quant_type": "NONE", "qk_output": 0}


def _group_query(node: Node) -> list[Value]:
    """
    Attention with a cache of keys and values; each batch has its own length in it.

    Where all rows are new (the prompt), the rows in the cache are ignored.
    """
    for name, plain in _ONLY_DEFAULTS.items():
        if (got := node.attr(name, plain)) not in (plain, -1):
            raise node.fail(f"expected {name} = {plain}, but got {got}")
    heads, groups = node.attr("num_heads"), node.attr("kv_num_heads")
    q, k, v = _group_parts(node, heads, groups)
    batch, _, length, size = q.shape
    past = [optional(node, n) for n in (3, 4)]
    total = node.constant(6).reshape(()).item()
    if not all(isinstance(n, int) for n in (total, length, *(x.shape[2] for x in past if x is not None))):
        raise node.fail(f"expected numbers of rows that are known, but got {total}; give them with shapes=")
    keys = max(total, past[0].shape[2] if past[0] is not None else 0)
    before = subtract(node, cast(node, reshape(node, node.input(5), (batch,)), np.int64), node.array(length - 1))
    if total == length:
        before, past = full(node, (batch,), 0, np.int64), [None, None]
    if node.attr("do_rotary", 0):
        places = add(node, iota(node, (batch, length), 1), reshape(node, before, (batch, 1)))
        places = places if not node.has(9) else cast(node, node.input(9), np.int64)
        places = node.emit(g.MaximumOp, places, node.array(0))
        tables, woven = (node.input(7), node.input(8)), bool(node.attr("rotary_interleaved", 0))
        q, k = (rotated(node, x, tables, places, woven) for x in (q, k))
    k, v = (_kept_rows(node, old, x, before, keys) for old, x in zip(past, (k, v), strict=True))
    how = Scores(float(node.attr("scale", 0.0)) or 1 / math.sqrt(size), softcap=float(node.attr("softcap", 0.0)))
    how.seen = _group_seen(node, (batch, 1, length, keys), before)
    how.bias = _group_bias(node, keys)
    if node.has(11):
        how.sink = node.input(11)
    elif node.attr("smooth_softmax", 0) == 1:
        how.sink = node.array(0.0, like=q)
    wide_k, wide_v = (_repeated_heads(node, x, heads // groups) for x in (k, v))
    return [attend(node, q, wide_k, wide_v, how), k, v]


def _group_parts(node: Node, heads: int, groups: int) -> list[Value]:
    """Queries, keys and values as heads; packed in the first input if the others are absent."""
    q = node.input(0)
    if node.has(1):
        parts = [q, node.input(1), node.input(2)]
    else:
        size = q.shape[2] // (heads + 2 * groups)
        ends = [0, heads * size, (heads + groups) * size, q.shape[2]]
        parts = [slice_axis(node, q, 2, a, b) for a, b in itertools.pairwise(ends)]
    return [as_heads(node, x, n) for x, n in zip(parts, (heads, groups, groups), strict=True)]


def _group_seen(node: Node, shape: Sequence[Any], before: Value) -> Value:
    """The mask of keys that a query sees: up to its own position, within the local window."""
    own = add(node, iota(node, (shape[0], 1, shape[2], 1), 2), reshape(node, before, (shape[0], 1, 1, 1)))
    back = subtract(node, own, iota(node, (1, 1, 1, shape[3]), 3))
    seen = binary(node, g.GreaterEqualOp, back, 0)
    window = node.attr("local_window_size", -1)
    return seen if window < 0 else node.emit(g.LogicalAndOp, seen, binary(node, g.LessOp, back, window))


def _group_bias(node: Node, keys: Dim) -> Value | None:
    """The attention bias, cut or padded with zeros to the number of keys."""
    if not node.has(10):
        return None
    bias = node.input(10)
    *shape, given = bias.shape
    if given < keys:
        return concat(node, [bias, full(node, (*shape, keys - given), 0, dtype_like(bias))], 3)
    return slice_axis(node, bias, 3, 0, keys)


DOMAIN = "com.microsoft"

CONVERTERS: dict[str, Converter] = {
    "Attention": _attention,
    "QAttention": _quantised_attention,
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _group_query,
    "RotaryEmbedding": _rotary_embedding,
}
