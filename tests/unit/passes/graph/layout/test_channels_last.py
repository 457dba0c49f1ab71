"""Depthwise convolutions between transposes: when all channels are one block, and the values of compiled code."""

import pytest
from graph_passes import names, optimize
from hypothesis import given
from hypothesis import strategies as st
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc.dialects.graph import Conv2dOp, LayoutTransformOp, TransposeOp

ALTER = "graph-canonicalize,graph-alter-op-layout{target=x86-64-v4},graph-canonicalize"


def window(c, size, k, before="[0, 3, 1, 2]", after="[0, 2, 3, 1]", act="relu", step=1, extra=""):
    """A depthwise window between transposes; its result behind the second one."""
    out = (size - 1) // step + 1
    x, p = f"tensor<1x{size}x{size}x{c}xf32>", f"tensor<1x{c}x{size}x{size}xf32>"
    q, y, w = f"tensor<1x{c}x{out}x{out}xf32>", f"tensor<1x{out}x{out}x{c}xf32>", f"tensor<{c}x1x{k}x{k}xf32>"
    if before != "[0, 3, 1, 2]":
        x = f"tensor<{size}x{size}x{c}x1xf32>"
    pads = ", ".join([str(k // 2)] * 4)
    return f"""func.func @main(%x: {x}, %z: {q}) -> {y} {{
      %w = graph.param "w" : {w}
      %0 = graph.transpose %x {{axes = {before}}} : ({x}) -> {p}
      %1 = graph.conv2d %0, %w {{strides = [{step}, {step}], padding = [{pads}], groups = {c}}} : ({p}, {w}) -> {q}
      %2 = graph.{act} %1{extra} : {q}
      %3 = graph.transpose %2 {{axes = {after}}} : ({q}) -> {y}
      return %3 : {y}
    }}"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (window(96, 12, 3), "NCHW96c"),
        (window(24, 12, 7, step=2), "NCHW24c"),
        (window(256, 12, 3), "NCHW256c"),
        (window(1024, 12, 3), "NCHW1024c"),  # the 7 pixels of a tile's row fit in L1
        (window(1024, 12, 7), "NCHW16c"),  # 11 do not
        (window(16, 12, 3), "NCHW16c"),  # one vector
        (window(96, 12, 3, before="[3, 2, 0, 1]"), "NCHW16c"),  # channels do not come last
        (window(96, 12, 3, act="add", extra=", %z"), "NCHW16c"),  # a plain picture is added
    ],
)
def test_channels_that_come_last_are_one_block(text, expected):
    module = optimize(text, ALTER)
    (conv,) = [op for op in module.walk() if isinstance(op, Conv2dOp)]
    assert conv.data_layout == expected
    if expected != "NCHW16c":
        (weight,) = [op for op in module.walk() if isinstance(op, LayoutTransformOp)]
        assert weight.src == "OIHW"
        assert "transpose" not in names(module)


def test_a_picture_that_ends_in_blocks_is_not_channels_last():
    """A pointwise convolution reads the result."""
    p, w, v = "tensor<1x96x8x8xf32>", "tensor<96x1x3x3xf32>", "tensor<96x96x1x1xf32>"
    text = f"""func.func @main(%x: tensor<1x8x8x96xf32>) -> {p} {{
      %w = graph.param "w" : {w}
      %v = graph.param "v" : {v}
      %0 = graph.transpose %x {{axes = [0, 3, 1, 2]}} : (tensor<1x8x8x96xf32>) -> {p}
      %1 = graph.conv2d %0, %w {{padding = [1, 1, 1, 1], groups = 96}} : ({p}, {w}) -> {p}
      %2 = graph.conv2d %1, %v : ({p}, {v}) -> {p}
      return %2 : {p}
    }}"""
    found = [op.data_layout for op in optimize(text, ALTER).walk() if isinstance(op, Conv2dOp)]
    assert found == ["NCHW16c", "NCHW16c"]


TOKENS = st.tuples(st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(1, 20))


@given(TOKENS)
def test_tokens_are_transposed_next_to_the_convolution(sizes):
    """And compute what they did, sizes of 1 included."""
    n, h, w, c = sizes
    x, t = f"tensor<{n}x{h * w}x{c}xf32>", f"tensor<{n}x{c}x{h * w}xf32>"
    p, k = f"tensor<{n}x{c}x{h}x{w}xf32>", f"tensor<{c}x1x3x3xf32>"
    text = f"""func.func @main(%x: {x}) -> {x} {{
      %k = graph.param "k" : {k}
      %0 = graph.transpose %x {{axes = [0, 2, 1]}} : ({x}) -> {t}
      %1 = graph.reshape %0 : ({t}) -> {p}
      %2 = graph.conv2d %1, %k {{padding = [1, 1, 1, 1], groups = {c}}} : ({p}, {k}) -> {p}
      %3 = graph.reshape %2 : ({p}) -> {t}
      %4 = graph.transpose %3 {{axes = [0, 2, 1]}} : ({t}) -> {x}
      return %4 : {x}
    }}"""
    module = optimize(text, "graph-canonicalize")
    if min(h, w, c) > 1:
        axes = [tuple(op.axes) for op in module.walk() if isinstance(op, TransposeOp)]
        assert axes == [(0, 3, 1, 2), (0, 2, 3, 1)]


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("threads", [1, 2])
def test_values_of_compiled_code(target, threads):
    small = Small()
    for n, c, size, k, stride, dilation in [
        (1, 96, (14, 14), 3, 1, 1),
        (2, 40, (9, 23), 3, 1, 1),
        (1, 24, (28, 11), 5, 2, 1),
        (1, 512, (5, 13), 3, 1, 2),
        (1, 1024, (7, 7), 3, 2, 1),
        (1, 48, (13, 12), 7, 1, 1),
        (1, 17, (4, 30), 3, 1, 1),
        (1, 64, (9, 9), 13, 1, 1),
    ]:
        x, w, b = small.x(n, size[0] * size[1], c), small.w(c, 1, k, k), small.w(c)
        tokens = small.op("Transpose", x, perm=[0, 2, 1])
        picture = small.op("Reshape", tokens, small.const([n, c, *size]))
        pad = [(k - 1) * dilation // 2] * 4
        y = small.op("Conv", picture, w, b, group=c, strides=[stride] * 2, dilations=[dilation] * 2, pads=pad)
        flat = small.op("Reshape", small.op("Relu", y), small.const([n, c, -1]))
        small.out(small.op("Transpose", flat, perm=[0, 2, 1]))
    exe = mlc.compile(small.proto(), target=target, threads=threads)
    moved = [node["kernel"] for node in exe.graph_json["nodes"] if "transpose" in node["kernel"]]
    assert moved == []
    assert mismatches(small, exe, onnxruntime_results(small)) == []
