"""graph-fold-scale-axis: where scales go, and that values stay, on chosen and on random graphs."""

import numpy as np
import pytest
from graph_passes import names, optimize

BACK, FORTH = (f"graph-fold-scale-axis{{direction={way}}}" for way in ("backward", "forward"))
X, Y = "tensor<2x6x5x4xf32>", "tensor<2x4x5x4xf32>"

# Pointwise ops on a tensor of C channels: what each does to %{0}, and the weights that it needs.
WITH_WEIGHT = {
    "bias": ("pos.b", "{c}", "bias_add %{0}, %b{1} : {type}"),
    "add": ("b", "{c}x1x1", "add %b{1}, %{0} : ({w}, {type}) -> {type}"),
    "subtract": ("b", "{c}x5x4", "subtract %{0}, %b{1} : ({type}, {w}) -> {type}"),
    "rest": ("b", "1", "subtract %b{1}, %{0} : ({w}, {type}) -> {type}"),
    "scale": ("pos.c", "{c}x1x1", "multiply %{0}, %b{1} : ({type}, {w}) -> {type}"),
    "divide": ("pos.d", "1", "divide %{0}, %b{1} : ({type}, {w}) -> {type}"),
}
POOL = "{{pool_size = [3, 3], padding = [1, 1, 1, 1]}}"
STEPS = {
    "relu": "%{1} = graph.relu %{0} : {type}",
    "leaky_relu": "%{1} = graph.leaky_relu %{0} {{alpha = 0.1}} : {type}",
    "neg": "%{1} = graph.neg %{0} : {type}",
    "abs": "%{1} = graph.abs %{0} : {type}",
    "max_pool": f"%{{1}} = graph.max_pool2d %{{0}} {POOL} : {{type}}",
    "avg_pool": f"%{{1}} = graph.avg_pool2d %{{0}} {POOL} : {{type}}",
    **{
        name: f'%b{{1}} = graph.param "{weight}{{1}}" : {{w}}\n%{{1}} = graph.{op}'.replace(
            "{w}", f"tensor<{shape}xf32>"
        )
        for name, (weight, shape, op) in WITH_WEIGHT.items()
    },
}


def chain(steps, first, type, c):
    lines = [STEPS[step].format(first + i, first + i + 1, type=type, c=c) for i, step in enumerate(steps)]
    return "\n".join(lines)


def backward(steps, scale="pos.s", shape="4x1x1", groups=1):
    kernel = f"tensor<4x{6 // groups}x1x1xf32>"
    return f"""func.func @main(%x: {X}) -> {Y} {{
      %w = graph.param "w" : {kernel}
      %s = graph.param "{scale}" : tensor<{shape}xf32>
      %0 = graph.conv2d %x, %w {{groups = {groups}}} : ({X}, {kernel}) -> {Y}
      {chain(steps, 0, Y, 4)}
      %y = graph.multiply %{len(steps)}, %s : ({Y}, tensor<{shape}xf32>) -> {Y}
      return %y : {Y}
    }}"""


def forward(steps, scale="pos.s", shape="6x1x1", groups=1):
    kernel, y = f"tensor<6x{6 // groups}x1x1xf32>", X
    return f"""func.func @main(%x: {X}) -> {X} {{
      %w = graph.param "w" : {kernel}
      %s = graph.param "{scale}" : tensor<{shape}xf32>
      %0 = graph.multiply %x, %s : ({X}, tensor<{shape}xf32>) -> {X}
      {chain(steps, 0, X, 6)}
      %y = graph.conv2d %{len(steps)}, %w {{groups = {groups}}} : ({X}, {kernel}) -> {y}
      return %y : {y}
    }}"""


@pytest.mark.parametrize("step", ["", *STEPS])
def test_backward_through(step):
    steps = [step] if step else []
    found = names(optimize(backward(steps), BACK, "graph-fold-constant"))
    assert "multiply" not in found
    assert "divide" not in found


@pytest.mark.parametrize("step", ["", *STEPS])
def test_forward_through(step):
    found = names(optimize(forward([step] if step else []), FORTH, "graph-fold-constant"))
    assert "multiply" not in found
    assert "divide" not in found


@pytest.mark.parametrize("step", ["relu", "leaky_relu", "abs", "max_pool"])
@pytest.mark.parametrize("way", [backward, forward])
def test_a_scale_of_unknown_sign_does_not_pass(way, step):
    found = names(optimize(way([step], scale="s"), "graph-fold-scale-axis", "graph-fold-constant"))
    assert found.count("multiply") == 1


@pytest.mark.parametrize("shape", ["5x4", "4x5x4", "1x4"])
def test_a_scale_along_other_axes_stays(shape):
    assert "multiply" in names(optimize(backward([], shape=shape), BACK, "graph-fold-constant"))


@pytest.mark.parametrize(
    "window", [{"strides": [2, 2], "pool_size": [2, 2]}, {"pool_size": [3, 3], "padding": [1] * 4}]
)
@pytest.mark.parametrize("pool", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize("way", ["backward", "forward"])
def test_a_scale_along_rows_does_not_pass_a_pool(way, pool, window):
    x, size = "tensor<1x4x8x8xf32>", 4 if "strides" in window else 8
    attrs, y = ", ".join(f"{k} = {v}" for k, v in window.items()), f"tensor<1x4x{size}x{size}xf32>"
    scales = [("c", "4x1x1"), ("pos.s", f"{size}x1")] if way == "backward" else [("pos.s", "8x1"), ("c", "4x1x1")]
    (a, s), (b, t) = ((name, f"tensor<{shape}xf32>") for name, shape in scales)
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %a = graph.param "{a}" : {s}
      %b = graph.param "{b}" : {t}
      %0 = graph.multiply %x, %a : ({x}, {s}) -> {x}
      %1 = graph.{pool} %0 {{{attrs}}} : ({x}) -> {y}
      %2 = graph.multiply %1, %b : ({y}, {t}) -> {y}
      return %2 : {y}
    }}"""
    found = names(optimize(text, f"graph-fold-scale-axis{{direction={way}}}", "graph-fold-constant"))
    assert found == ["multiply", pool, "multiply"]


@pytest.mark.parametrize("shape", ["", "1", "1x1x1x1", "1x4x1x1"])
def test_scalars_and_full_ranks_go(shape):
    text = backward(["bias", "relu"], shape=shape).replace("tensor<xf32>", "tensor<f32>")
    assert names(optimize(text, BACK, "graph-fold-constant")) == ["conv2d", "bias_add", "relu"]


@pytest.mark.parametrize(("groups", "gone"), [(1, True), (2, False), (3, False), (6, True)])
def test_forward_into_groups_only_where_each_channel_has_its_own(groups, gone):
    found = names(optimize(forward([], groups=groups), FORTH, "graph-fold-constant"))
    assert found == (["conv2d"] if gone else ["multiply", "conv2d"])


def test_backward_into_groups():
    assert names(optimize(backward(["relu"], groups=2), BACK, "graph-fold-constant")) == ["conv2d", "relu"]


def test_both_branches_of_a_sum_take_the_scale_or_none():
    text = f"""func.func @main(%x: {X}, %z: {Y}) -> {Y} {{
      %w = graph.param "w" : tensor<4x6x1x1xf32>
      %v = graph.param "v" : tensor<4x6x1x1xf32>
      %s = graph.param "pos.s" : tensor<4x1x1xf32>
      %0 = graph.conv2d %x, %w : ({X}, tensor<4x6x1x1xf32>) -> {Y}
      %1 = graph.conv2d %x, %v : ({X}, tensor<4x6x1x1xf32>) -> {Y}
      %2 = graph.relu %1 : {Y}
      %3 = graph.add %0, %2 : {Y}
      %4 = graph.multiply %3, %s : ({Y}, tensor<4x1x1xf32>) -> {Y}
      return %4 : {Y}
    }}"""
    assert names(optimize(text, BACK, "graph-fold-constant")) == ["conv2d", "conv2d", "relu", "add"]
    assert "multiply" in names(optimize(text.replace("graph.add %0, %2", "graph.add %0, %z"), BACK))


@pytest.mark.parametrize("rank", [2, 3])
def test_dense_layers_take_scales_on_both_sides(rank):
    rows = "3" if rank == 2 else "2x3"
    x, y = f"tensor<{rows}x6xf32>", f"tensor<{rows}x4xf32>"
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %w = graph.param "w" : tensor<4x6xf32>
      %s = graph.param "pos.s" : tensor<6xf32>
      %t = graph.param "pos.t" : tensor<4xf32>
      %b = graph.param "b" : tensor<4xf32>
      %0 = graph.multiply %x, %s : ({x}, tensor<6xf32>) -> {x}
      %1 = graph.relu %0 : {x}
      %2 = graph.dense %1, %w : ({x}, tensor<4x6xf32>) -> {y}
      %3 = graph.bias_add %2, %b {{axis = -1}} : {y}
      %4 = graph.relu %3 : {y}
      %5 = graph.divide %4, %t : ({y}, tensor<4xf32>) -> {y}
      return %5 : {y}
    }}"""
    found = names(optimize(text, "graph-fold-scale-axis", "graph-fold-constant"))
    assert found == ["relu", "dense", "bias_add", "relu"]


def test_transposed_convolutions_take_scales_on_both_sides():
    y = "tensor<2x4x6x5xf32>"
    text = f"""func.func @main(%x: {X}) -> {y} {{
      %w = graph.param "w" : tensor<6x4x2x2xf32>
      %s = graph.param "pos.s" : tensor<6x1x1xf32>
      %t = graph.param "pos.t" : tensor<4x1x1xf32>
      %0 = graph.multiply %x, %s : ({X}, tensor<6x1x1xf32>) -> {X}
      %1 = graph.conv2d_transpose %0, %w : ({X}, tensor<6x4x2x2xf32>) -> {y}
      %2 = graph.relu %1 : {y}
      %3 = graph.multiply %2, %t : ({y}, tensor<4x1x1xf32>) -> {y}
      return %3 : {y}
    }}"""
    assert names(optimize(text, "graph-fold-scale-axis", "graph-fold-constant")) == ["conv2d_transpose", "relu"]


def test_a_value_with_two_readers_keeps_its_scale():
    text = (
        backward(["relu"])
        .replace(f"return %y : {Y}", f"return %y, %1 : {Y}, {Y}")
        .replace(f"-> {Y} {{\n      %w", f"-> ({Y}, {Y}) {{\n      %w")
    )
    assert "multiply" in names(optimize(text, BACK))


def test_a_scale_with_a_zero_does_not_move_before_a_sum():
    text = forward(["bias"]).replace(
        '%s = graph.param "pos.s" : tensor<6x1x1xf32>',
        "%s = graph.constant dense<[[[1.0]],[[0.0]],[[2.0]],[[1.0]],[[3.0]],[[1.0]]]> : tensor<6x1x1xf32>",
    )
    assert names(optimize(text, FORTH)) == ["multiply", "bias_add", "conv2d"]
    assert names(optimize(text.replace("[[0.0]]", "[[0.5]]"), FORTH, "graph-fold-constant")) == ["bias_add", "conv2d"]


def test_without_weights_only_what_needs_no_values_moves():
    assert names(optimize(backward(["relu"]), BACK, weights=False)) == ["conv2d", "relu", "multiply"]
    assert names(optimize(backward(["bias"]), BACK, weights=False))[-1] == "bias_add"


@pytest.mark.parametrize("seed", range(12))
def test_random_chains_keep_their_values(seed):
    rng = np.random.default_rng(seed)
    steps = list(rng.choice(list(STEPS), rng.integers(2, 6)))
    for way in (backward, forward):
        text = way(steps, scale=str(rng.choice(["s", "pos.s"])))
        before = names(optimize(text))
        after = names(optimize(text, "graph-fold-scale-axis", "graph-fold-constant"))
        assert len(after) <= len(before)
