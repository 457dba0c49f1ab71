"""Convolutions: 1-D to 3-D, strides, dilations, groups, windows, odd sizes."""

from typing import Any

from .kind import kind
from .net import Net


def _conv2d(name: str, channels: tuple[int, ...], sizes: tuple[int, int], kernel: int, **fixed: Any) -> None:
    """A kind of a 2-D convolution with bias and relu; `groups` 0 is one group a channel."""

    @kind(f"conv2d/{name}")
    def build(net: Net) -> str:
        c = net.pick("c", *channels)
        h = net.span("h", *sizes)
        w = net.span("w", *sizes)
        out = c if "group" in fixed else net.pick("out", *channels)
        attributes = dict(fixed)
        if attributes.get("group") == 0:
            attributes["group"] = c
        return net.op("Relu", net.conv(net.input(1, c, h, w), c, out, kernel, kernel, **attributes))


_conv2d("1x1 large picture", (16, 32, 64), (56, 112), 1)
_conv2d("1x1 deep", (256, 512, 1024), (7, 14), 1)
_conv2d("1x1 stride 2", (64, 128, 256), (28, 56), 1, strides=[2, 2])
_conv2d("2x2 stride 2", (64, 128), (28, 57), 2, strides=[2, 2], pads=[0, 0, 0, 0])
_conv2d("1x1 prime channels", (31, 61, 127, 251), (13, 37), 1)
_conv2d("3x3 shallow", (16, 24, 32), (64, 128), 3)
_conv2d("3x3 middle", (64, 96, 128), (28, 56), 3)
_conv2d("3x3 deep", (256, 384, 512), (7, 14), 3)
_conv2d("3x3 stride 2", (32, 64, 128), (28, 57), 3, strides=[2, 2])
_conv2d("3x3 stride 3", (32, 64), (50, 113), 3, strides=[3, 3])
_conv2d("3x3 prime channels", (29, 61, 67, 113), (13, 41), 3)
_conv2d("3x3 without padding", (32, 64, 128), (15, 58), 3, pads=[0, 0, 0, 0])
_conv2d("3x3 dilation 2", (64, 128), (28, 56), 3, dilations=[2, 2])
_conv2d("3x3 dilation 6", (128, 256), (16, 33), 3, dilations=[6, 6])
_conv2d("3x3 dilation 18", (128, 256), (14, 40), 3, dilations=[18, 18])
_conv2d("3x3 dilation 36", (128, 256), (28, 64), 3, dilations=[36, 36])
_conv2d("5x5", (16, 32, 64), (28, 56), 5)
_conv2d("7x7", (16, 32), (28, 56), 7)
_conv2d("11x11 stride 4", (8, 16), (64, 128), 11, strides=[4, 4])
_conv2d("3x3 depthwise", (32, 96, 144), (28, 112), 3, group=0)
_conv2d("3x3 depthwise stride 2", (96, 144, 192), (28, 112), 3, group=0, strides=[2, 2])
_conv2d("5x5 depthwise", (120, 240, 480), (14, 28), 5, group=0)
_conv2d("7x7 depthwise", (96, 192, 384), (14, 56), 7, group=0)
_conv2d("13x13 depthwise", (64, 96), (28, 48), 13, group=0)
_conv2d("31x31 depthwise", (32, 64), (24, 40), 31, group=0)
_conv2d("3x3 depthwise dilation 4", (64, 128), (28, 56), 3, group=0, dilations=[4, 4])
_conv2d("1x1 of 2 groups", (64, 128, 256), (14, 56), 1, group=2)
_conv2d("1x1 of 4 groups", (64, 128, 256), (14, 56), 1, group=4)
_conv2d("3x3 of 2 groups", (64, 96, 192), (14, 56), 3, group=2)
_conv2d("3x3 of 8 groups", (64, 128, 256), (14, 56), 3, group=8)
_conv2d("3x3 of 32 groups", (128, 256, 512), (14, 56), 3, group=32)


def _groups(name: str, window: int, widths: tuple[int, ...]) -> None:
    @kind(f"conv2d/{name}")
    def build(net: Net) -> str:
        groups, each = net.pick("groups", 3, 4, 5, 8), net.pick("each", *widths)
        size = net.span("size", 14, 56)
        x = net.input(1, groups * each, size, size)
        return net.op("Relu", net.conv(x, groups * each, groups * each, window, window, group=groups))


_groups("1x1 of few channels a group", 1, (6, 8, 12, 20))
_groups("3x3 of few channels a group", 3, (4, 6, 8, 12))


@kind("conv2d/7x7 stride 2 from a picture")
def stem(net: Net) -> str:
    size = net.span("size", 96, 224)
    x = net.conv(net.input(1, 3, size, size), 3, net.pick("out", 32, 64), 7, 7, strides=[2, 2])
    return net.op("Relu", x)


@kind("conv2d/3x3 stride 2 from a picture")
def small_stem(net: Net) -> str:
    size = net.span("size", 96, 256)
    return net.op("Relu", net.conv(net.input(1, 3, size, size), 3, net.pick("out", 16, 24, 32), 3, 3, strides=[2, 2]))


@kind("conv2d/5x5 from a gray picture")
def gray_stem(net: Net) -> str:
    size = net.span("size", 64, 160)
    return net.op("Relu", net.conv(net.input(1, 1, size, size), 1, net.pick("out", 32, 64), 5, 5))


@kind("conv2d/1x1 of sizes that are powers of 2")
def powers_of_2(net: Net) -> str:
    size, c, out = net.pick("size", 32, 64, 128), net.pick("c", 16, 32, 64, 96), net.pick("out", 20, 32, 64)
    return net.op("Relu", net.conv(net.input(1, c, size, size), c, out, 1, 1))


@kind("conv2d/patches of 16")
def patches(net: Net) -> str:
    size = 16 * net.span("patches", 6, 14)
    return net.conv(net.input(1, 3, size, size), 3, net.pick("out", 192, 384), 16, 16, strides=[16, 16], pads=[0] * 4)


@kind("conv2d/1xk and kx1")
def separable(net: Net) -> str:
    c, size, k = net.pick("c", 64, 128), net.span("size", 12, 35), net.pick("k", 3, 7)
    return net.conv(net.conv(net.input(1, c, size, size), c, c, 1, k), c, c, k, 1)


@kind("conv2d/few outputs")
def head(net: Net) -> str:
    c, size = net.pick("c", 64, 256), net.span("size", 40, 112)
    return net.op("Sigmoid", net.conv(net.input(1, c, size, size), c, net.pick("out", 1, 3, 4), 3, 3))


@kind("conv2d/batch of 8")
def batch(net: Net) -> str:
    c, size = net.pick("c", 32, 64), net.span("size", 14, 28)
    return net.op("Relu", net.conv(net.input(8, c, size, size), c, c, 3, 3))


def _transposed(name: str, kernel: int, stride: int, **fixed: Any) -> None:
    @kind(f"conv transpose/{name}")
    def build(net: Net) -> str:
        c, out, size = net.pick("c", 32, 64), net.pick("out", 16, 32), net.span("size", 14, 40)
        w = net.weight(c, out, kernel, kernel, fan=c * kernel)
        return net.op(
            "ConvTranspose", net.input(1, c, size, size), w, net.weight(out), strides=[stride, stride], **fixed
        )


_transposed("2x2 stride 2", 2, 2)
_transposed("4x4 stride 2", 4, 2, pads=[1, 1, 1, 1])
_transposed("3x3 stride 2", 3, 2, pads=[1, 1, 1, 1], output_padding=[1, 1])


def _conv1d(name: str, channels: tuple[int, ...], lengths: tuple[int, int], kernel: int, **fixed: Any) -> None:
    @kind(f"conv1d/{name}")
    def build(net: Net) -> str:
        c, length = net.pick("c", *channels), net.span("length", *lengths)
        attributes = dict(fixed)
        if attributes.get("group") == 0:
            attributes["group"] = c
        return net.op("Relu", net.conv(net.input(1, c, length), c, c, kernel, **attributes))


_conv1d("k=3", (64, 128, 256), (100, 800), 3)
_conv1d("k=1", (128, 256, 512), (100, 800), 1)
_conv1d("dilation 2", (64, 128), (200, 2000), 3, dilations=[2])
_conv1d("dilation 16", (64, 128), (200, 2000), 3, dilations=[16])
_conv1d("dilation 128", (64, 128), (500, 2000), 3, dilations=[128])
_conv1d("depthwise k=31", (144, 256, 512), (100, 400), 31, group=0)
_conv1d("stride 2", (64, 256), (400, 1500), 3, strides=[2])


@kind("conv1d/from a waveform")
def waveform(net: Net) -> str:
    length = net.span("length", 8000, 32000)
    return net.op("Relu", net.conv(net.input(1, 1, length), 1, net.pick("out", 64, 128), 10, strides=[5], pads=[0, 0]))


def _conv3d(name: str, channels: tuple[int, ...], kernel: tuple[int, int, int], **fixed: Any) -> None:
    @kind(f"conv3d/{name}")
    def build(net: Net) -> str:
        c, frames, size = net.pick("c", *channels), net.span("frames", 4, 12), net.span("size", 14, 32)
        return net.op("Relu", net.conv(net.input(1, c, frames, size, size), c, c, *kernel, **fixed))


_conv3d("3x3x3", (16, 32, 64), (3, 3, 3))
_conv3d("1x3x3", (32, 64), (1, 3, 3))
_conv3d("3x1x1", (32, 64), (3, 1, 1))
_conv3d("3x3x3 stride 2", (16, 32), (3, 3, 3), strides=[2, 2, 2])
