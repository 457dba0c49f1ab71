"""Narrow element types: int8 by QuantizeLinear and DequantizeLinear, f16, bf16."""

import numpy as np
from onnx import TensorProto

from .kind import kind
from .net import SEVEN_BITS, Net


def _rounded(net: Net, x: str, scale: float) -> str:
    """x through bytes and back."""
    step, zero = net.const(scale, np.float32), net.const(0, np.int8)
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, step, zero), step, zero)


_ROUNDING_STEP = 0.05
"""The tolerance of results that are rounded to bytes: one may be a step away, of the 20 or more of the greatest."""
_EIGHT_BITS = 127
"""The greatest magnitude of weights of eight bits."""


def _bytes_weight(net: Net, *shape: int, most: int) -> str:
    """A weight stored as bytes with a scale for each output (the first axis)."""
    w = net.weight(*shape, dtype=np.int8, low=-most, high=most)
    scales, zeros = net.weight(shape[0], low=0.007, high=0.009), net.const([0] * shape[0], np.int8)
    return net.op("DequantizeLinear", w, scales, zeros, axis=0)


def _qdq(
    name: str,
    kernel: int,
    channels: tuple[int, ...],
    sizes: tuple[int, int],
    depthwise: bool = False,
    most: int = _EIGHT_BITS,
) -> None:
    @kind(f"int8/{name}", tolerance=_ROUNDING_STEP)
    def build(net: Net) -> str:
        c, size = net.pick("c", *channels), net.span("size", *sizes)
        each = 1 if depthwise else c
        x = _rounded(net, net.input(1, c, size, size), 1 / 127)
        w = _bytes_weight(net, c, each, kernel, kernel, most=most)
        y = net.op("Conv", x, w, pads=[kernel // 2] * 4, group=c // each)
        return _rounded(net, net.op("Relu", y), 0.02 * float(np.sqrt(each)) * kernel)


_qdq("conv 3x3", 3, (32, 64, 128), (14, 56))
_qdq("conv 1x1", 1, (64, 128, 256), (14, 56))
_qdq("conv 3x3 depthwise", 3, (64, 96, 144), (14, 56), True)
_qdq("conv 3x3 of seven bits", 3, (32, 64, 128), (14, 56), most=SEVEN_BITS)
_qdq("conv 1x1 of seven bits", 1, (64, 128, 256), (14, 56), most=SEVEN_BITS)


@kind("int8/matmul", tolerance=_ROUNDING_STEP)
def qdq_matmul(net: Net) -> str:
    m, n, k = net.span("m", 1, 128), net.pick("n", 384, 768), net.pick("k", 384, 768)
    x = _rounded(net, net.input(m, k), 1 / 127)
    w = net.weight(k, n, dtype=np.int8, low=-SEVEN_BITS, high=SEVEN_BITS)
    scale, zero = net.const(0.008, np.float32), net.const(0, np.int8)
    return _rounded(net, net.op("MatMul", x, net.op("DequantizeLinear", w, scale, zero)), 0.02 * k**0.5)


@kind("int8/dynamic matmul", tolerance=0.02)
def dynamic_matmul(net: Net) -> str:
    m, n, k = net.span("m", 1, 128), net.pick("n", 384, 768), net.pick("k", 384, 768)
    x, scale, zero = net.op("DynamicQuantizeLinear", net.input(m, k), outputs=3)
    w = net.weight(k, n, dtype=np.int8, low=-SEVEN_BITS, high=SEVEN_BITS)
    y = net.op("Cast", net.op("MatMulInteger", x, w, zero), to=TensorProto.FLOAT)
    return net.op("Mul", y, net.op("Mul", scale, net.const(0.008, np.float32)))


def _half(name: str, to: int) -> None:
    """The operators in a 16-bit type, the model's inputs and outputs in f32, so that every peer can be given them."""

    @kind(f"{name}/matmul", tolerance=0.05)
    def matmul(net: Net) -> str:
        m, n, k = net.span("m", 1, 128), net.pick("n", 256, 768), net.pick("k", 256, 768)
        w = net.op("Cast", net.weight(k, n, fan=k), to=to)
        y = net.op("MatMul", net.op("Cast", net.input(m, k), to=to), w)
        return net.op("Cast", y, to=TensorProto.FLOAT)

    @kind(f"{name}/elementwise and softmax", tolerance=0.05)
    def softmax(net: Net) -> str:
        n, d = net.span("n", 64, 512), net.span("d", 64, 512)
        x = net.op("Cast", net.input(n, d), to=to)
        return net.op("Cast", net.op("Softmax", net.op("Mul", x, x), axis=-1), to=TensorProto.FLOAT)


_half("f16", TensorProto.FLOAT16)
_half("bf16", TensorProto.BFLOAT16)


@kind("f16/conv 3x3", tolerance=0.05)
def half_conv(net: Net) -> str:
    c, size = net.pick("c", 32, 64), net.span("size", 14, 56)
    x = net.op("Cast", net.input(1, c, size, size), to=TensorProto.FLOAT16)
    w = net.op("Cast", net.weight(c, c, 3, 3, fan=9 * c), to=TensorProto.FLOAT16)
    return net.op("Cast", net.op("Relu", net.op("Conv", x, w, pads=[1] * 4)), to=TensorProto.FLOAT)
