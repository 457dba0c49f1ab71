"""Movements between convolutions: they merge, they sink, and the values stay."""

import numpy as np
import pytest
from graph_passes import names, optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from mlc.dialects.graph import TransposeOp, static_shape
from mlc.dialects.graph.types import dtype_name


def t(shape):
    return f"tensor<{'x'.join(map(str, shape))}xf32>"


@settings(max_examples=60)
@given(st.data())
def test_transposes_merge_through_reshapes(data):
    rank = data.draw(st.integers(2, 5))
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=rank, max_size=rank))
    first = data.draw(st.permutations(range(rank)))
    middle = [shape[axis] for axis in first]
    # Join neighbours, then split what divides.
    after: list[int] = []
    for size in middle:
        if after and data.draw(st.booleans()):
            after[-1] *= size
        else:
            after.append(size)
    split: list[int] = []
    for size in after:
        factor = data.draw(st.sampled_from([k for k in (1, 2, 3) if size % k == 0]))
        split += [size // factor, factor] if factor > 1 else [size]
    second = data.draw(st.permutations(range(len(split))))
    result = [split[axis] for axis in second]
    module = optimize(
        f"""func.func @main(%x: {t(shape)}) -> {t(result)} {{
          %0 = graph.transpose %x {{axes = {list(first)}}} : ({t(shape)}) -> {t(middle)}
          %1 = graph.reshape %0 : ({t(middle)}) -> {t(split)}
          %2 = graph.transpose %1 {{axes = {list(second)}}} : ({t(split)}) -> {t(result)}
          return %2 : {t(result)}
        }}""",
        "graph-canonicalize",
    )
    assert names(module).count("transpose") <= 2


def deconvolutions(channels, middle, outputs, activation="relu"):
    return f"""func.func @main(%x: {t((1, channels, 5, 6))}) -> {t((1, outputs, 20, 24))} {{
      %w0 = graph.param "w0" : {t((channels, middle, 2, 2))}
      %w1 = graph.param "w1" : {t((middle, outputs, 2, 2))}
      %b0 = graph.param "b0" : {t((middle,))}
      %b1 = graph.param "b1" : {t((outputs,))}
      %0 = graph.conv2d_transpose %x, %w0 {{strides = [2, 2]}}
        : ({t((1, channels, 5, 6))}, {t((channels, middle, 2, 2))}) -> {t((1, middle, 10, 12))}
      %1 = graph.bias_add %0, %b0 : ({t((1, middle, 10, 12))}, {t((middle,))}) -> {t((1, middle, 10, 12))}
      %2 = graph.{activation} %1 : {t((1, middle, 10, 12))}
      %3 = graph.conv2d_transpose %2, %w1 {{strides = [2, 2]}}
        : ({t((1, middle, 10, 12))}, {t((middle, outputs, 2, 2))}) -> {t((1, outputs, 20, 24))}
      %4 = graph.bias_add %3, %b1 : ({t((1, outputs, 20, 24))}, {t((outputs,))}) -> {t((1, outputs, 20, 24))}
      %5 = graph.sigmoid %4 : {t((1, outputs, 20, 24))}
      return %5 : {t((1, outputs, 20, 24))}
    }}"""


@pytest.mark.parametrize("sizes", [(16, 24, 1), (16, 16, 4), (8, 32, 2)])
def test_subpixels_are_shuffled_once_at_the_end(sizes):
    module = optimize(deconvolutions(*sizes), "graph-O3")
    calls = [name for name in names(module) if name not in ("reshape", "slice")]
    assert len(calls) <= 4  # the picture into blocks, two convolutions, the shuffle
    moved = [op for op in module.walk() if isinstance(op, TransposeOp)]
    assert [np.prod(static_shape(op.type)) for op in moved] == [sizes[2] * 20 * 24]


def test_constants_of_channels_are_repeated_for_the_subpixels_and_bytes_are_shuffled():
    module = optimize(
        """func.func @main(%x: tensor<1x16x5x6xui8>) -> tensor<1x24x10x12xf32> {
          %w = graph.param "w" : tensor<16x24x2x2xi8>
          %c = graph.param "c" : tensor<1x24x1x1xf32>
          %b = graph.param "b" : tensor<24x1x1xf32>
          %0 = graph.conv2d_transpose %x, %w {strides = [2, 2], out_dtype = "int32"}
            : (tensor<1x16x5x6xui8>, tensor<16x24x2x2xi8>) -> tensor<1x24x10x12xi32>
          %1 = graph.cast %0 : (tensor<1x24x10x12xi32>) -> tensor<1x24x10x12xf32>
          %2 = graph.multiply %1, %c : (tensor<1x24x10x12xf32>, tensor<1x24x1x1xf32>) -> tensor<1x24x10x12xf32>
          %3 = graph.add %b, %2 : (tensor<24x1x1xf32>, tensor<1x24x10x12xf32>) -> tensor<1x24x10x12xf32>
          %4 = graph.clip %3 {min = 0.0, max = 255.0} : tensor<1x24x10x12xf32>
          %5 = graph.cast %4 : (tensor<1x24x10x12xf32>) -> tensor<1x24x10x12xui8>
          %6 = graph.cast %5 : (tensor<1x24x10x12xui8>) -> tensor<1x24x10x12xf32>
          return %6 : tensor<1x24x10x12xf32>
        }""",
        "graph-alter-op-layout{vector-bits=512}",
        "graph-fold-constant",
        "graph-canonicalize",
    )
    moved = [op for op in module.walk() if isinstance(op, TransposeOp) and np.prod(static_shape(op.type)) > 24 * 4]
    assert [dtype_name(op.type.element_type) for op in moved] == ["uint8"]


def test_a_wide_layer_after_the_shuffle_stays_behind_it():
    module = optimize(deconvolutions(16, 16, 48), "graph-O3")
    moved = [np.prod(static_shape(op.type)) for op in module.walk() if isinstance(op, TransposeOp)]
    assert 16 * 10 * 12 in moved


def test_movements_of_what_no_convolution_computes_stay():
    text = """func.func @main(%x: tensor<2x3x4xf32>) -> tensor<4x6xf32> {
      %0 = graph.exp %x : tensor<2x3x4xf32>
      %1 = graph.transpose %0 {axes = [2, 0, 1]} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
      %2 = graph.reshape %1 : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
      %3 = graph.relu %2 : tensor<4x6xf32>
      return %3 : tensor<4x6xf32>
    }"""
    assert names(optimize(text, "graph-canonicalize")) == ["exp", "transpose", "reshape", "relu"]
