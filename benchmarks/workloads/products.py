"""Products of matrices: by weights, of activations, batched, skinny, tiny, odd."""

import numpy as np

from .kind import kind
from .net import Net


def _weight(name: str, rows: tuple[int, int], widths: tuple[int, ...], step: int = 1) -> None:
    @kind(f"matmul/{name}")
    def build(net: Net) -> str:
        m, n, k = net.span("m", *rows, step), net.pick("n", *widths), net.pick("k", *widths)
        return net.matmul(net.input(m, k), k, n)


_weight("one row", (1, 1), (256, 768, 1024, 3072))
_weight("one row, odd", (1, 1), (251, 509, 1031))
_weight("2 to 8 rows", (2, 8), (384, 768, 1536))
_weight("16 to 64 rows", (16, 64), (384, 768, 1536))
_weight("128 rows", (112, 144), (384, 768, 1536))
_weight("square", (256, 768), (256, 512, 768), 64)
_weight("prime sizes", (61, 257), (61, 127, 251, 509))
_weight("many rows, narrow", (2000, 8000), (8, 16, 32))
_weight("tiny", (4, 32), (8, 16, 24, 32))


def _activations(name: str, sizes: tuple[int, ...], batches: tuple[int, ...], transposed: bool = False) -> None:
    @kind(f"matmul of activations/{name}")
    def build(net: Net) -> str:
        b, m = net.pick("batch", *batches), net.pick("m", *sizes)
        n, k = net.pick("n", *sizes), net.pick("k", *sizes)
        a = net.input(b, m, k)
        if not transposed:
            return net.op("MatMul", a, net.input(b, k, n))
        return net.op("MatMul", a, net.op("Transpose", net.input(b, n, k), perm=[0, 2, 1]))


_activations("square", (128, 256, 512), (1,))
_activations("transposed", (128, 256, 512), (1,), True)
_activations("batched", (64, 96, 128), (8, 12))
_activations("many tiny", (8, 12, 16), (64, 256))
_activations("odd", (61, 97, 131), (3, 5))
_activations("cube of 64", (64,), (1,))


@kind("matmul of activations/doubles", tolerance=1e-10)  # OpenVINO computes it in f32
def doubles(net: Net) -> str:
    m, n, k = (net.span(name, 60, 400) for name in "mnk")
    return net.op("MatMul", net.input(m, k, dtype=np.float64), net.input(k, n, dtype=np.float64))


@kind("matmul of activations/one row")
def row(net: Net) -> str:
    k, n = net.pick("k", 300, 512, 2048), net.pick("n", 512, 1000, 2048)
    return net.op("MatMul", net.input(1, k), net.input(k, n))


@kind("matmul of activations/short and wide")
def wide(net: Net) -> str:
    m, k, n = net.span("m", 24, 128), net.pick("k", 16, 32, 64), net.pick("n", 1000, 2048, 4096)
    return net.op("MatMul", net.input(m, k), net.input(k, n))


@kind("matmul/gemm, relu, gemm")
def perceptron(net: Net) -> str:
    m, d = net.span("m", 1, 64), net.pick("d", 128, 256, 512)
    y = net.op("Gemm", net.input(m, d), net.weight(4 * d, d, fan=d), net.weight(4 * d), transB=1)
    return net.op("Gemm", net.op("Relu", y), net.weight(d, 4 * d, fan=4 * d), net.weight(d), transB=1)


@kind("matmul/gelu between")
def feed_forward(net: Net) -> str:
    m, d = net.span("m", 32, 200), net.pick("d", 192, 384, 768)
    return net.matmul(net.op("Gelu", net.matmul(net.input(1, m, d), d, 4 * d)), 4 * d, d)


@kind("matmul/gated feed forward")
def gated(net: Net) -> str:
    m, d = net.span("m", 1, 64), net.pick("d", 256, 512)
    x = net.input(1, m, d)
    gate = net.matmul(x, d, 3 * d, bias=False)
    y = net.op("Mul", net.op("Mul", gate, net.op("Sigmoid", gate)), net.matmul(x, d, 3 * d, bias=False))
    return net.matmul(y, 3 * d, d, bias=False)


@kind("einsum/bhqd,bkhd->bhqk")
def einsum(net: Net) -> str:
    h, q, d = net.pick("heads", 4, 8), net.span("q", 32, 128), net.pick("d", 32, 64)
    return net.op("Einsum", net.input(1, h, q, d), net.input(1, q, h, d), equation="bhqd,bkhd->bhqk")


def _dequantised(name: str, per_channel: bool, dtype: type) -> None:
    @kind(f"weights in bytes/{name}")
    def build(net: Net) -> str:
        m, n, k = net.span("m", 1, 64), net.pick("n", 384, 1536), net.pick("k", 384, 768)
        w = net.weight(k, n, dtype=dtype, low=-100, high=100)
        scale = net.weight(*((n,) if per_channel else ()), low=0.001, high=0.002)
        if per_channel:
            w = net.op("DequantizeLinear", w, scale, axis=1)
        else:
            w = net.op("Mul", net.op("Cast", w, to=1), scale)
        return net.op("MatMul", net.input(m, k), w)


_dequantised("DequantizeLinear by channel, MatMul", True, np.int8)
_dequantised("Cast, Mul, MatMul", False, np.int8)


@kind("weights in bytes/MatMulNBits")
def four_bits(net: Net) -> str:
    m, n, k = net.pick("m", 1, 4, 32), net.pick("n", 512, 1024), net.pick("k", 512, 1024)
    b = net.weight(n, k // 32, 16, dtype=np.uint8, low=0, high=256)
    scales = net.weight(n * k // 32, low=0.01, high=0.02)
    return net.op("MatMulNBits", net.input(m, k), b, scales, domain="com.microsoft", K=k, N=n, bits=4, block_size=32)
