"""Moving data: transposes, slices, gathers, resizing, sampling, padding."""

from typing import Any

import numpy as np

from .kind import kind
from .net import Net


def _picture(name: str, to_last: bool, channels: tuple[int, ...], sizes: tuple[int, int]) -> None:
    @kind(f"transpose/{name}")
    def build(net: Net) -> str:
        c, h, w = net.pick("c", *channels), net.span("h", *sizes), net.span("w", *sizes)
        if to_last:
            return net.op("Transpose", net.input(1, c, h, w), perm=[0, 2, 3, 1])
        return net.op("Transpose", net.input(1, h, w, c), perm=[0, 3, 1, 2])


_picture("NCHW to NHWC", True, (32, 64, 128), (56, 160))
_picture("NHWC to NCHW", False, (32, 64, 128), (56, 160))
_picture("NCHW to NHWC, 3 channels", True, (3,), (224, 640))
_picture("NHWC to NCHW, 3 channels", False, (3,), (224, 640))
_picture("NHWC to NCHW, prime channels", False, (31, 61), (56, 112))


@kind("transpose/matrix")
def matrix(net: Net) -> str:
    return net.op("Transpose", net.input(net.span("m", 200, 2000), net.span("n", 200, 2000)), perm=[1, 0])


@kind("transpose/heads")
def heads(net: Net) -> str:
    n, h, d = net.span("n", 64, 512), net.pick("heads", 6, 12), net.pick("d", 32, 64)
    return net.op("Transpose", net.input(1, n, h, d), perm=[0, 2, 1, 3])


@kind("transpose/bytes")
def transposed_bytes(net: Net) -> str:
    h, w = net.span("h", 224, 640), net.span("w", 224, 640)
    x = net.input(1, h, w, 3, dtype=np.uint8, low=0, high=256)
    return net.op("Transpose", x, perm=[0, 3, 1, 2])


@kind("transpose/picture of bytes, scaled")
def preprocess(net: Net) -> str:
    h, w = net.span("h", 224, 640), net.span("w", 224, 640)
    x = net.op("Cast", net.input(1, h, w, 3, dtype=np.uint8, low=0, high=256), to=1)
    x = net.op("Div", net.op("Sub", x, net.weight(3, low=100, high=120)), net.weight(3, low=50, high=60))
    return net.op("Transpose", x, perm=[0, 3, 1, 2])


@kind("move/space to depth")
def space_to_depth(net: Net) -> str:
    c, size = net.pick("c", 3, 16, 32), 2 * net.span("half", 28, 112)
    return net.op("SpaceToDepth", net.input(1, c, size, size), blocksize=2)


@kind("move/depth to space")
def depth_to_space(net: Net) -> str:
    c, size, r = net.pick("c", 3, 16), net.span("size", 28, 112), net.pick("r", 2, 4)
    return net.op("DepthToSpace", net.input(1, c * r * r, size, size), blocksize=r, mode="CRD")


@kind("move/focus: four slices and concat")
def focus(net: Net) -> str:
    size = 2 * net.span("half", 80, 320)
    x = net.input(1, 3, size, size)
    parts = [
        net.op("Slice", x, net.const([i, j]), net.const([size, size]), net.const([2, 3]), net.const([2, 2]))
        for j in (0, 1)
        for i in (0, 1)
    ]
    return net.op("Concat", *parts, axis=1)


@kind("move/concat and slice")
def concat_slice(net: Net) -> str:
    c, size = net.span("c", 10, 100), net.span("size", 20, 60)
    y = net.op("Concat", net.input(1, c, size, size), net.input(1, c, size, size), axis=1)
    return net.op("Slice", y, net.const([c // 2]), net.const([c + c // 2]), net.const([1]))


@kind("move/pad")
def pad(net: Net) -> str:
    c, size, mode = net.pick("c", 3, 64), net.span("size", 56, 128), net.pick("mode", "constant", "reflect", "edge")
    return net.op("Pad", net.input(1, c, size, size), net.const([0, 0, 3, 3, 0, 0, 3, 3]), mode=mode)


@kind("move/expand and tile")
def tile(net: Net) -> str:
    c, size = net.pick("c", 64, 128), net.span("size", 14, 28)
    x = net.op("Expand", net.input(1, c, 1, 1), net.const([1, c, size, size]))
    return net.op("Tile", x, net.const([1, 1, 2, 2]))


@kind("move/triangle")
def triangle(net: Net) -> str:
    batch, n, d = net.pick("batch", 1, 8), net.span("n", 64, 400), net.span("d", 64, 400)
    return net.op("Trilu", net.input(batch, n, d), upper=net.pick("upper", 0, 1))


@kind("gather/rows of a table")
def gather(net: Net) -> str:
    n, d = net.span("n", 16, 1000), net.pick("d", 64, 256, 1024)
    return net.op("Gather", net.weight(10000, d), net.input(n, dtype=np.int64, low=0, high=10000))


@kind("gather/elements")
def gather_elements(net: Net) -> str:
    n, d = net.span("n", 64, 512), net.span("d", 64, 512)
    return net.op("GatherElements", net.input(n, d), net.input(n, d, dtype=np.int64, low=0, high=d), axis=1)


@kind("gather/scatter of rows")
def scatter(net: Net) -> str:
    n, d, count = net.span("n", 100, 1000), net.pick("d", 64, 256), net.span("count", 10, 100)
    at = net.const(np.random.default_rng(n).permutation(n)[:count, None].astype(np.int64))
    return net.op("ScatterND", net.input(n, d), at, net.input(count, d))


@kind("gather/rows added at places")
def scatter_add(net: Net) -> str:
    n, d, count = net.span("n", 100, 1000), net.pick("d", 16, 64, 256), net.span("count", 500, 2000)
    at = net.const(np.random.default_rng(n).integers(0, n, (count, 1)))
    return net.op("ScatterND", net.input(n, d), at, net.input(count, d), reduction="add")


def _resize(name: str, mode: str, how: str, scale: tuple[float, ...]) -> None:
    @kind(f"resize/{name}", tolerance=1e-3)
    def build(net: Net) -> str:
        c, size, by = net.pick("c", 3, 32, 64), net.span("size", 28, 64), net.pick("by", *scale)
        sizes = net.const([1, c, int(size * by), int(size * by)])
        extra: dict[str, Any] = {"nearest_mode": "floor"} if mode == "nearest" else {}
        x = net.input(1, c, size, size)
        return net.op("Resize", x, "", "", sizes, mode=mode, coordinate_transformation_mode=how, **extra)


_resize("nearest", "nearest", "asymmetric", (2.0, 4.0))
_resize("linear", "linear", "half_pixel", (2.0, 4.0, 1.5))
_resize("linear, corners", "linear", "align_corners", (2.0, 0.6))
_resize("cubic", "cubic", "half_pixel", (1.5, 2.0))


@kind("resize/linear, of logits", tolerance=1e-3)
def logits(net: Net) -> str:
    inputs, classes, size = net.pick("c", 32, 64), net.pick("classes", 21, 32), net.span("size", 28, 48)
    end = net.pick("end", "none", "index of the maximum", "softmax")
    out = int(size * net.pick("by", 2.0, 4.0, 7.8))
    y = net.conv(net.input(1, inputs, size, size), inputs, classes, 1, 1)
    sizes = net.const([1, classes, out, out])
    y = net.op("Resize", y, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
    if end == "softmax":
        return net.op("Softmax", y, axis=1)
    return y if end == "none" else net.op("ArgMax", y, axis=1)


@kind("resize/smoothed, to less", tolerance=1e-3)
def smoothed(net: Net) -> str:
    mode, height, width = net.pick("mode", "linear", "cubic"), net.span("height", 256, 640), net.span("width", 256, 640)
    out = net.pick("out", 96, 160, 224)
    sizes = net.const([1, 3, out, out])
    return net.op("Resize", net.input(1, 3, height, width), "", "", sizes, mode=mode, antialias=1)


def _sample(name: str, mode: str) -> None:
    @kind(f"grid sample/{name}", tolerance=1e-3)
    def build(net: Net) -> str:
        c, size, out = net.pick("c", 3, 32, 64), net.span("size", 28, 96), net.span("out", 28, 96)
        x, grid = net.input(1, c, size, size), net.input(1, out, out, 2, low=-1.1, high=1.1)
        return net.op("GridSample", x, grid, mode=mode, align_corners=0, padding_mode="zeros")


_sample("linear", "linear")
_sample("nearest", "nearest")


@kind("gather/roi align")
def roi_align(net: Net) -> str:
    c, size, count = net.pick("c", 32, 256), net.span("size", 28, 56), net.span("rois", 4, 64)
    corners = np.random.default_rng(count).uniform(0, size / 2, (count, 2, 2)).cumsum(1).reshape(count, 4)
    rois, batch = net.const(corners, np.float32), net.const(np.zeros(count, np.int64))
    return net.op("RoiAlign", net.input(1, c, size, size), rois, batch, output_height=7, output_width=7,
                  sampling_ratio=2, spatial_scale=1.0)  # fmt: skip
