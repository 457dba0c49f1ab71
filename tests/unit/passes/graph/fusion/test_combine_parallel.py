"""Parallel branches made one: values of inception- and transformer-like graphs, and that only what pays is made one."""

import pytest
from graph_passes import names, optimize

from mlc.dialects.graph import Conv2dOp, shape_of
from mlc.dialects.syntax.source import parse_module
from mlc.interp.graph import main_function
from mlc.passes.graph.fusion.combine_parallel.conv2d import Convolutions
from mlc.targets.cost.branches import BranchCosts

# for one machine, as costs decide: Zen 3
CONV, DENSE, MATMUL = (
    f"graph-combine-parallel-{kind}{{target=znver3}}" for kind in ("conv2d", "dense", "batch-matmul")
)


def lines(*parts):
    return "\n".join(parts)


def inception(size=7, batch=1, channels=(16, 32, 16, 48), inputs=32):
    """Four branches of 1x1 convolutions, one of which goes on, and their concatenation."""
    x = f"tensor<{batch}x{inputs}x{size}x{size}xf32>"
    body = []
    for i, c in enumerate(channels):
        y = f"tensor<{batch}x{c}x{size}x{size}xf32>"
        body += [
            f'%w{i} = graph.param "w{i}" : tensor<{c}x{inputs}x1x1xf32>',
            f'%b{i} = graph.param "b{i}" : tensor<{c}xf32>',
            f'%s{i} = graph.param "s{i}" : tensor<{c}x1x1xf32>',
            f"%c{i} = graph.conv2d %x, %w{i} : ({x}, tensor<{c}x{inputs}x1x1xf32>) -> {y}",
            f"%d{i} = graph.bias_add %c{i}, %b{i} : {y}",
            f"%e{i} = graph.multiply %s{i}, %d{i} : (tensor<{c}x1x1xf32>, {y}) -> {y}",
            f"%f{i} = graph.relu %e{i} : {y}",
        ]
    total = sum(channels)
    out = f"tensor<{batch}x{total}x{size}x{size}xf32>"
    types = ", ".join(f"tensor<{batch}x{c}x{size}x{size}xf32>" for c in channels)
    operands = ", ".join(f"%f{i}" for i in range(len(channels)))
    return lines(
        f"func.func @main(%x: {x}) -> {out} {{",
        *body,
        f"%y = graph.concatenate {operands} {{axis = 1}} : ({types}) -> {out}",
        f"return %y : {out}",
        "}",
    )


def test_an_inception_block_becomes_one_convolution():
    module = optimize(inception(), CONV, "graph-fold-constant")
    assert names(module) == ["conv2d", "bias_add", "multiply", "relu", *["slice"] * 4, "concatenate"]
    # Slices of whole blocks of channels are parts of the memory: the picture goes in and out of NCHW once.
    calls = {
        level: names(optimize(inception(size=4, inputs=16), level)).count("call") for level in ("graph-O3", "graph-O4")
    }
    assert calls["graph-O4"] < calls["graph-O3"]


@pytest.mark.parametrize("level", ["graph-O3", "graph-O4"])
def test_values_of_whole_pipelines(level):
    optimize(inception(channels=(16, 16, 32)), level)
    optimize(inception(channels=(5, 7, 9)), level)
    optimize(inception(channels=(5, 7, 9), batch=2), level)


def test_scalars_that_differ_become_a_vector():
    x, y = "tensor<1x32x4x4xf32>", "tensor<1x16x4x4xf32>"
    body = []
    for i in range(3):
        body += [
            f'%w{i} = graph.param "w{i}" : tensor<16x32x1x1xf32>',
            f"%k{i} = graph.constant dense<{i + 1}.0> : tensor<f32>",
            f"%c{i} = graph.conv2d %x, %w{i} : ({x}, tensor<16x32x1x1xf32>) -> {y}",
            f"%d{i} = graph.add %k{i}, %c{i} : (tensor<f32>, {y}) -> {y}",
        ]
    text = lines(f"func.func @main(%x: {x}) -> ({y}, {y}, {y}) {{", *body, f"return %d0, %d1, %d2 : {y}, {y}, {y}", "}")
    assert names(optimize(text, CONV, "graph-fold-constant")) == ["conv2d", "add", "slice", "slice", "slice"]


def test_chains_part_where_they_differ():
    # What is left of a chain is a kernel of its own: only worth it where the picture is large beside its parts.
    text = inception(channels=(16,) * 4).replace("%f1 = graph.relu", "%f1 = graph.tanh")
    assert "slice" not in names(optimize(text, CONV))
    text = text.replace("w0", "wide").replace("32x7x7", "2048x7x7").replace("x32x1x1", "x2048x1x1")
    found = names(optimize(text, CONV, "graph-fold-constant"))
    assert found == ["conv2d", "bias_add", "multiply", *["slice"] * 4, "relu", "tanh", "relu", "relu", "concatenate"]


def test_a_value_with_two_readers_ends_its_chain():
    x, y = "tensor<1x1024x7x7xf32>", "tensor<1x16x7x7xf32>"
    body = []
    for i in range(3):
        body += [
            f'%w{i} = graph.param "w{i}" : tensor<16x1024x1x1xf32>',
            f"%c{i} = graph.conv2d %x, %w{i} : ({x}, tensor<16x1024x1x1xf32>) -> {y}",
            f"%d{i} = graph.relu %c{i} : {y}",
        ]
    text = lines(f"func.func @main(%x: {x}) -> ({y}, {y}, {y}, {y}) {{", *body)
    text += f"\nreturn %d0, %d1, %d2, %c1 : {y}, {y}, {y}, {y}\n}}"
    assert names(optimize(text, CONV, "graph-fold-constant")) == ["conv2d", *["slice"] * 3, "relu", "relu", "relu"]


def attention(rows, width=32, heads=4, readers=True):
    """Queries, keys and values of a transformer: three dense layers of the same rows, split into heads."""
    x, y = f"tensor<1x{rows}x{width}xf32>", f"tensor<1x{rows}x{heads}x{width // heads}xf32>"
    z = f"tensor<1x{heads}x{rows}x{width // heads}xf32>"
    body = []
    for i in range(3):
        body += [
            f'%w{i} = graph.param "w{i}" : tensor<{width}x{width}xf32>',
            f'%b{i} = graph.param "b{i}" : tensor<{width}xf32>',
            f"%c{i} = graph.dense %x, %w{i} : ({x}, tensor<{width}x{width}xf32>) -> {x}",
            f"%d{i} = graph.bias_add %c{i}, %b{i} {{axis = -1}} : {x}",
            f"%e{i} = graph.reshape %d{i} : ({x}) -> {y}",
            f"%f{i} = graph.transpose %e{i} {{axes = [0, 2, 1, 3]}} : ({y}) -> {z}",
        ]
    score = f"tensor<1x{heads}x{rows}x{rows}xf32>"
    body += [
        f"%p = graph.batch_matmul %f0, %f1 {{transpose_b = true}} : ({z}, {z}) -> {score}",
        f"%q = graph.softmax %p : {score}",
        f"%r = graph.batch_matmul %q, %f2 : ({score}, {z}) -> {z}",
    ]
    return lines(f"func.func @main(%x: {x}) -> {z} {{", *body, f"return %r : {z}", "}")


def test_queries_keys_and_values_are_one_layer():
    module = optimize(attention(1), DENSE, "graph-fold-constant")
    assert names(module)[:5] == ["dense", "bias_add", "slice", "slice", "slice"]
    assert names(optimize(attention(128), DENSE)).count("dense") == 3  # the parts of many rows would be copies
    optimize(attention(1), "graph-O4")
    optimize(attention(6), "graph-O4")


def test_layers_whose_rows_would_be_copied_stay():
    x = "tensor<4096x64xf32>"
    body = [
        f'%w{i} = graph.param "w{i}" : tensor<64x64xf32>\n'
        f"%c{i} = graph.dense %x, %w{i} : ({x}, tensor<64x64xf32>) -> {x}"
        for i in range(3)
    ]
    text = lines(f"func.func @main(%x: {x}) -> ({x}, {x}, {x}) {{", *body, f"return %c0, %c1, %c2 : {x}, {x}, {x}", "}")
    assert names(optimize(text, DENSE)) == ["dense"] * 3


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_one_left_side(transposed):
    x, y = "tensor<1x1x32xf32>", "tensor<1x1x8xf32>"
    w = "tensor<1x8x32xf32>" if transposed else "tensor<1x32x8xf32>"
    flag = " {transpose_b = true}" if transposed else ""
    body = [
        f'%w{i} = graph.param "w{i}" : {w}\n%c{i} = graph.batch_matmul %x, %w{i}{flag} : ({x}, {w}) -> {y}'
        for i in range(3)
    ]
    text = lines(f"func.func @main(%x: {x}) -> ({y}, {y}, {y}) {{", *body, f"return %c0, %c1, %c2 : {y}, {y}, {y}", "}")
    module = optimize(text, MATMUL, "graph-fold-constant")
    assert names(module) == ["batch_matmul", "slice", "slice", "slice"]


def relative_gain(batch, channels, size=56, threads=1):
    """What one convolution saves, as a part of the time of the branches, on a machine with AVX-512."""
    module = parse_module(inception(size, batch, channels, inputs=64))
    convs = [op for op in main_function(module).body.block.ops if isinstance(op, Conv2dOp)]
    assert shape_of(convs[0].type)[0] == batch
    apart, together = Convolutions().costs(convs, BranchCosts.of("x86-64-v4", threads))
    return 1 - together / apart


# Measured on Zen 5, in percent at one thread, what reads the branches included: 6, 1, 0, 27, 31, -47, -8.
@pytest.mark.parametrize(
    ("batch", "channels", "size", "low", "high"),
    [
        (1, (16, 16, 16), 56, 0.02, 0.1),  # a tile of one vector loads as much as it multiplies
        (1, (64, 64, 64), 56, -0.01, 0.01),  # wide branches gain nothing
        (1, (192, 96, 16), 14, -0.02, 0.02),
        (1, (8, 8, 8), 28, 0.05, 0.4),  # half vectors that fill whole ones
        (1, (4, 4, 4), 56, 0.3, 0.7),  # quarters
        (1, (24, 24, 24), 28, -2.0, -0.3),  # parts that are no whole blocks are copied
        (4, (32, 32, 32), 28, -1.0, -0.05),  # parts of several pictures, too
    ],
)
def test_the_cost_condition_counts_vectors_tiles_and_copies(batch, channels, size, low, high):
    assert low < relative_gain(batch, channels, size) < high


def test_starting_threads_costs_more_than_a_call():
    assert relative_gain(1, (64, 64, 64), 14, threads=2) > relative_gain(1, (64, 64, 64), 14)
