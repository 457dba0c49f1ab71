"""Convolutions on planes of pixels: when they are chosen, and the values of compiled code."""

import pytest
from graph_passes import optimize
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.dialects.graph import Conv2dOp, LayoutTransformOp
from mlc.dialects.graph.layout import layout

ALTER = "graph-alter-op-layout,graph-canonicalize,graph-fold-constant,graph-canonicalize"


def conv(c, o, groups, size=12, k=1, strides=1, source="%x"):
    """A model of one convolution."""
    x, pad = f"tensor<1x{c}x{size}x{size}xf32>", k // 2
    w = f"tensor<{o}x{c // groups}x{k}x{k}xf32>"
    y = f"tensor<1x{o}x{(size - 1) // strides + 1}x{(size - 1) // strides + 1}xf32>"
    attrs = f"strides = [{strides}, {strides}], padding = [{pad}, {pad}, {pad}, {pad}], groups = {groups}"
    return f"""func.func @main(%x: {x}) -> {y} {{
      %w = graph.param "w" : {w}
      %0 = graph.conv2d %x, %w {{{attrs}}} : ({x}, {w}) -> {y}
      %1 = graph.relu %0 : {y}
      return %1 : {y}
    }}"""


def layouts(text, passes=ALTER):
    """The layouts of the convolutions, and how many transforms there are; the values stay."""
    ops = list(optimize(text, passes).walk())
    found = [(op.data_layout, op.kernel_layout) for op in ops if isinstance(op, Conv2dOp)]
    return found, sum(isinstance(op, LayoutTransformOp) for op in ops)


@pytest.mark.parametrize(
    ("c", "o", "groups", "attrs", "expected"),
    [
        (68, 34, 2, {}, ("NC34cHW", "OIHW17o")),  # blocks of 17 channels: one lane
        (24, 60, 3, {}, ("NC8cHW", "OIHW20o")),
        (28, 28, 14, {"k": 3}, ("NC2cHW", "OIHW2o")),
        (30, 6, 6, {"k": 3, "strides": 2}, ("NC5cHW", "OIHW")),
        (128, 128, 8, {"size": 28, "k": 3}, ("NCHW16c", "OIHW16i16o")),  # groups of whole blocks
        (512, 512, 4, {"size": 7, "k": 3}, ("NCHW16c", "OIHW16i16o")),  # 7 of 16 lanes, many channels
        (30, 30, 30, {"k": 3}, ("NCHW", "OIHW")),  # between plain pictures
        (30, 30, 30, {"size": 7, "k": 3}, ("NCHW", "OIHW")),  # half a vector
        (30, 30, 30, {"size": 2, "k": 3}, ("NCHW16c", "OIHW16o")),  # 2 of 16 lanes
        (30, 30, 30, {"k": 5}, ("NCHW16c", "OIHW16o")),  # many taps to a transform
        (24, 40, 1, {}, ("NC24cHW", "OIHW40o")),  # a result that is read plain
        (512, 512, 1, {}, ("NCHW16c", "OIHW16i16o")),  # moving it costs less than the planes do
        (24, 40, 1, {"strides": 2}, ("NCHW8c", "OIHW8i8o")),
        (1, 40, 1, {"k": 3}, ("NC9cHW", "OIHW40o")),  # patches of 9 elements
        (3, 40, 1, {"k": 5}, ("NCHW3c", "OIHW3i8o")),  # and of 75, too many
    ],
)
def test_the_faster_of_planes_and_blocks(c, o, groups, attrs, expected):
    found, transforms = layouts(conv(c, o, groups, **attrs))
    assert found == [expected]
    assert transforms == (0 if expected[0].endswith("HW") else 2)


@pytest.mark.parametrize(
    ("size", "attrs", "planes"),
    [
        (41, {"k": 3}, True),
        (42, {"k": 3, "strides": 2}, True),
        (9, {"k": 3, "strides": 2}, False),  # rows of 5 pixels
        (28, {"k": 5}, False),
    ],
)
def test_ragged_planes_of_short_vectors(size, attrs, planes):
    """With vectors of 8 lanes, windows of 3 x 3 whose last vectors are nearly full stay on planes."""
    found, _ = layouts(conv(24, 24, 24, size, **attrs), ALTER.replace("layout,", "layout{block=8},", 1))
    assert [data == "NCHW" for data, _ in found] == [planes]


@pytest.mark.parametrize(
    ("outputs", "window", "strides", "behind", "planes"),
    [
        (3, 3, 1, False, True),
        (1, 3, 1, False, True),
        (4, 5, 1, False, True),
        (5, 5, 1, False, False),  # most of 8 lanes are full
        (3, 3, 2, False, False),
        (3, 1, 1, False, True),  # a product on planes
        (3, 5, 1, True, True),
        (3, 3, 1, True, False),  # Winograd's transforms
        (1, 5, 1, True, False),  # sums over lanes
    ],
)
def test_few_outputs(outputs, window, strides, behind, planes):
    """Half of a block of 8 channels or less is on planes, unless blocks that are there already have a faster form."""
    text = conv(64, outputs, 1, 40, window, strides)
    if behind:
        w = "tensor<64x64x3x3xf32>"
        x = "tensor<1x64x40x40xf32>"
        front = f"""%v = graph.param "v" : {w}
      %y = graph.conv2d %x, %v {{padding = [1, 1, 1, 1]}} : ({x}, {w}) -> {x}
      %0 = graph.conv2d %y,"""
        text = text.replace("%0 = graph.conv2d %x,", front)
    found, _ = layouts(text, ALTER.replace("layout,", "layout{block=8},", 1))
    assert found[-1][0].endswith("cHW") == planes


@pytest.mark.parametrize(
    ("c", "size", "attrs", "target", "threads", "planes"),
    [
        (1, 61, {"k": 5}, "x86-64-v4", 1, True),
        (3, 61, {"k": 3}, "x86-64-v4", 1, True),
        (1, 30, {"k": 5}, "x86-64-v4", 1, False),  # rows of two vectors
        (1, 30, {"k": 5}, "x86-64-v4", 2, True),
        (1, 61, {"k": 5}, "x86-64-v3", 1, False),  # rows that end inside of a vector, and no masks
        (1, 64, {"k": 5}, "x86-64-v3", 1, True),
        (1, 61, {"k": 5}, "x86-64-v3", 2, True),
        (8, 61, {"k": 5}, "x86-64-v4", 1, False),
        (3, 61, {"k": 11}, "x86-64-v4", 1, False),  # moving the result is a small part
        (1, 61, {"k": 5, "strides": 2}, "x86-64-v4", 2, False),
    ],
)
def test_windows_of_few_channels(c, size, attrs, target, threads, planes):
    """Windows of stride 1 multiply a picture of few channels where it is, if a plain result is asked for."""
    options = f"layout{{block={16 if target == 'x86-64-v4' else 8} target={target} threads={threads}}},"
    found, transforms = layouts(conv(c, 32, 1, size, **attrs), ALTER.replace("layout,", options, 1))
    assert (found, transforms) == ([(f"NC{c}cHW", "OIHW32o")], 0) if planes else transforms > 0


def test_neighbours_and_shuffles_stay_in_planes():
    x, m = "tensor<1x48x14x14xf32>", "tensor<1x12x14x14xf32>"
    text = f"""func.func @main(%x: {x}) -> {x} {{
      %u = graph.param "u" : tensor<12x16x1x1xf32>
      %d = graph.param "d" : tensor<12x1x3x3xf32>
      %v = graph.param "v" : tensor<48x4x1x1xf32>
      %b = graph.param "b" : tensor<48xf32>
      %m = graph.param "m" : tensor<1x1x14x14xf32>
      %0 = graph.conv2d %x, %u {{groups = 3}} : ({x}, tensor<12x16x1x1xf32>) -> {m}
      %1 = graph.reshape %0 : ({m}) -> tensor<1x3x4x14x14xf32>
      %2 = graph.transpose %1 {{axes = [0, 2, 1, 3, 4]}} : (tensor<1x3x4x14x14xf32>) -> tensor<1x4x3x14x14xf32>
      %3 = graph.reshape %2 : (tensor<1x4x3x14x14xf32>) -> {m}
      %4 = graph.conv2d %3, %d {{padding = [1, 1, 1, 1], groups = 12}} : ({m}, tensor<12x1x3x3xf32>) -> {m}
      %5 = graph.conv2d %4, %v {{groups = 3}} : ({m}, tensor<48x4x1x1xf32>) -> {x}
      %6 = graph.bias_add %5, %b : {x}
      %7 = graph.multiply %6, %m : ({x}, tensor<1x1x14x14xf32>) -> {x}
      %8 = graph.add %7, %x : {x}
      %9 = graph.relu %8 : {x}
      return %9 : {x}
    }}"""
    found, transforms = layouts(text)
    assert [data for data, _ in found] == ["NC16cHW", "NCHW", "NC4cHW"]
    assert transforms == 0


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_of_compiled_code(target, threads):
    small = Small()
    for c, o, groups, size, k, stride, dilation in [
        (51, 34, 17, (9, 14), 1, 1, 1),
        (34, 51, 17, (5, 23), 3, 1, 1),
        (58, 116, 2, (7, 7), 1, 1, 1),
        (40, 24, 8, (11, 19), 3, 2, 1),
        (30, 20, 5, (13, 33), 3, 1, 2),
        (9, 6, 3, (1, 40), 1, 1, 1),
        (28, 28, 4, (6, 5), 5, 1, 1),
    ]:
        x = small.x(2, c, *size)
        w, b = small.w(o, c // groups, k, k), small.w(o)
        pad = [(k - 1) * dilation // 2] * 4
        y = small.op("Conv", x, w, b, group=groups, strides=[stride] * 2, dilations=[dilation] * 2, pads=pad)
        small.out(small.op("Relu", y))
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_of_products_on_planes(target, threads):
    small = Small()
    for n, c, o, size, window, strides, dilation, pads in [
        (2, 1, 40, (1, 333), (1, 10), (1, 5), (1, 1), (0, 0, 0, 0)),
        (1, 1, 33, (17, 23), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
        (1, 3, 64, (14, 19), (3, 3), (2, 2), (1, 1), (0, 1, 2, 0)),
        (2, 2, 50, (12, 31), (3, 2), (3, 1), (2, 3), (2, 0, 1, 3)),
        (1, 20, 36, (9, 13), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
        (2, 60, 3, (8, 17), (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
        (2, 1, 32, (33, 64), (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
        (1, 3, 20, (31, 64), (3, 5), (1, 1), (2, 1), (2, 2, 2, 2)),
    ]:
        x, w, b = small.x(n, c, *size), small.w(o, c, *window), small.w(o)
        y = small.op("Conv", x, w, b, strides=strides, dilations=dilation, pads=pads)
        small.out(small.op("Relu", y))
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    assert not [kernel for kernel in exe.graph_json["nodes"] if "layout_transform" in kernel["kernel"]]
    assert mismatches(small, exe, onnxruntime_results(small)) == []


def test_results_that_convolutions_read_stay_in_blocks():
    """Behind pointwise ops, too, and where one of several readers wants planes."""
    x, y, w = "tensor<1x24x12x12xf32>", "tensor<1x32x12x12xf32>", "tensor<32x24x1x1xf32>"
    text = f"""func.func @main(%x: {x}) -> ({y}, {y}) {{
      %w = graph.param "w" : {w}
      %u = graph.param "u" : tensor<32x32x3x3xf32>
      %0 = graph.conv2d %x, %w : ({x}, {w}) -> {y}
      %1 = graph.relu %0 : {y}
      %2 = graph.conv2d %1, %u {{padding = [1, 1, 1, 1]}} : ({y}, tensor<32x32x3x3xf32>) -> {y}
      return %1, %2 : {y}, {y}
    }}"""
    found, _ = layouts(text)
    assert [data for data, _ in found] == ["NCHW8c", "NCHW16c"]


def test_a_factor_is_replaced_where_it_stands():
    assert layout("NC4cHW").with_factor("C", 8) == "NC8cHW"
    assert layout("NCHW16c").with_factor("C", 32) == "NCHW32c"
    assert layout("NCHW16c").with_factor("C", 1) == "NCHW"
