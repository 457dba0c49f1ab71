"""Attention, normalisation of rows, softmax."""

import numpy as np

from .kind import kind
from .net import Net


def _attention(name: str, queries: tuple[int, int], keys: tuple[int, int] | None, causal: bool = False) -> None:
    @kind(f"attention/{name}")
    def build(net: Net) -> str:
        heads, d = net.pick("heads", 1, 4, 8), net.pick("d", 32, 64)
        q = net.span("queries", *queries)
        k = net.span("keys", *keys) if keys else q
        scores = net.op("MatMul", net.input(1, heads, q, d), net.input(1, heads, d, k))
        scores = net.op("Mul", scores, net.const(d**-0.5, np.float32))
        if causal:
            mask = np.triu(np.full((q, k), -1e9, np.float32), k - q + 1)
            scores = net.op("Add", scores, net.const(mask))
        return net.op("MatMul", net.op("Softmax", scores, axis=-1), net.input(1, heads, k, d))


_attention("50 to 200 keys", (50, 200), None)
_attention("256 to 512 keys", (256, 512), None)
_attention("1100 to 1500 keys", (1100, 1500), None)
_attention("one query, 500 to 2000 keys", (1, 1), (500, 2000))
_attention("64 queries, 8192 keys", (64, 64), (8192, 8192))
_attention("causal, 128 keys", (128, 128), None, True)
_attention("causal, 700 to 1200 keys", (700, 1200), None, True)


@kind("attention/self-attention with its projections")
def self_attention(net: Net) -> str:
    heads, d, n = net.pick("heads", 3, 6), 64, net.span("n", 64, 200)
    width = heads * d
    x = net.input(1, n, width)

    def project(perm: list[int]) -> str:
        y = net.op("Reshape", net.matmul(x, width, width), net.const([1, n, heads, d]))
        return net.op("Transpose", y, perm=perm)

    scores = net.op("MatMul", project([0, 2, 1, 3]), project([0, 2, 3, 1]))
    weights = net.op("Softmax", net.op("Mul", scores, net.const(0.125, np.float32)), axis=-1)
    y = net.op("Transpose", net.op("MatMul", weights, project([0, 2, 1, 3])), perm=[0, 2, 1, 3])
    return net.matmul(net.op("Reshape", y, net.const([1, n, width])), width, width)


@kind("attention/windows of 7x7")
def windows(net: Net) -> str:
    count, heads, d = net.pick("windows", 4, 16, 64), net.pick("heads", 3, 6), 32
    a, b = net.input(count, heads, 49, d), net.input(count, heads, d, 49)
    scores = net.op("Add", net.op("MatMul", a, b), net.weight(1, heads, 49, 49))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), net.input(count, heads, 49, d))


@kind("attention/a bias for each head")
def biases(net: Net) -> str:
    heads, d, n = net.pick("heads", 4, 12), net.pick("d", 32, 64), net.span("n", 196, 1024)
    scores = net.op("MatMul", net.input(1, heads, n, d), net.input(1, heads, d, n))
    scores = net.op("Mul", scores, net.const(d**-0.5, np.float32))
    scores = net.op("Add", scores, net.weight(heads, n, n))
    return net.op("MatMul", net.op("Softmax", scores, axis=-1), net.input(1, heads, n, d))


@kind("norm/layer norm")
def layer_norm(net: Net) -> str:
    n, d = net.span("n", 50, 500), net.pick("d", 192, 384, 768, 1024)
    return net.op("LayerNormalization", net.input(1, n, d), net.weight(d), net.weight(d), axis=-1)


@kind("norm/layer norm, matmul, gelu")
def layer_norm_gelu(net: Net) -> str:
    n, d = net.span("n", 50, 200), net.pick("d", 192, 384)
    y = net.op("LayerNormalization", net.input(1, n, d), net.weight(d), net.weight(d), axis=-1)
    return net.op("Gelu", net.matmul(y, d, 4 * d))


@kind("norm/layer norm in parts")
def layer_norm_parts(net: Net) -> str:
    n, d = net.span("n", 50, 500), net.pick("d", 192, 384, 768)
    x = net.input(1, n, d)
    y = net.op("Sub", x, net.op("ReduceMean", x, net.const([-1]), keepdims=1))
    variance = net.op("ReduceMean", net.op("Mul", y, y), net.const([-1]), keepdims=1)
    y = net.op("Div", y, net.op("Sqrt", net.op("Add", variance, net.const(1e-5, np.float32))))
    return net.op("Add", net.op("Mul", y, net.weight(d)), net.weight(d))


@kind("norm/rms norm and residual")
def rms_norm(net: Net) -> str:
    n, d = net.span("n", 1, 300), net.pick("d", 512, 768, 2048)
    x = net.op("Add", net.input(1, n, d), net.input(1, n, d))
    square = net.op("ReduceMean", net.op("Mul", x, x), net.const([-1]), keepdims=1)
    root = net.op("Sqrt", net.op("Add", square, net.const(1e-5, np.float32)))
    return net.op("Mul", net.op("Mul", x, net.op("Reciprocal", root)), net.weight(d))


@kind("norm/group norm")
def group_norm(net: Net) -> str:
    c, size, groups = net.pick("c", 64, 128, 320), net.span("size", 16, 64), net.pick("groups", 8, 32)
    x = net.op("Reshape", net.input(1, c, size, size), net.const([0, groups, -1]))
    y = net.op("InstanceNormalization", x, net.weight(groups), net.weight(groups))
    y = net.op("Reshape", y, net.const([1, c, size, size]))
    return net.op("Add", net.op("Mul", y, net.weight(c, 1, 1)), net.weight(c, 1, 1))


@kind("norm/of columns")
def column_norm(net: Net) -> str:
    n, d = net.span("n", 64, 500), net.pick("d", 256, 768)
    x = net.input(1, n, d)
    return net.op("Div", x, net.op("ReduceL2", x, net.const([1]), keepdims=1))


def _softmax(name: str, rows: tuple[int, int], width: tuple[int, int], axis: int = -1) -> None:
    @kind(f"softmax/{name}")
    def build(net: Net) -> str:
        shape = net.span("rows", *rows), net.span("width", *width)
        return net.op("Softmax", net.input(*shape, low=-4, high=4), axis=axis)


_softmax("rows of 100 to 500", (100, 1000), (100, 500))
_softmax("rows of 32,000", (1, 16), (32000, 32000))
_softmax("one row of 1000", (1, 1), (1000, 1000))
_softmax("many rows of 10", (1000, 5000), (10, 10))
_softmax("along the first axis", (20, 200), (500, 3000), 0)


@kind("softmax/logarithm of")
def log_softmax(net: Net) -> str:
    return net.op("LogSoftmax", net.input(net.span("rows", 16, 256), net.span("width", 500, 4000)), axis=-1)


@kind("transformer/embedding and norm")
def embedding(net: Net) -> str:
    n, d = net.span("n", 32, 512), net.pick("d", 256, 384, 768)
    tokens = net.input(1, n, dtype=np.int64, low=0, high=8000)
    x = net.op("Gather", net.weight(8000, d), tokens)
    return net.op("LayerNormalization", net.op("Add", x, net.weight(n, d)), net.weight(d), net.weight(d), axis=-1)


@kind("transformer/rotary embedding")
def rotary(net: Net) -> str:
    heads, n, d = net.pick("heads", 8, 12), net.span("n", 16, 256), net.pick("d", 64, 128)
    x = net.input(1, heads, n, d)
    left, right = net.op("Split", x, outputs=2, axis=-1, num_outputs=2)
    turned = net.op("Concat", net.op("Neg", right), left, axis=-1)
    return net.op("Add", net.op("Mul", x, net.weight(n, d)), net.op("Mul", turned, net.weight(n, d)))
