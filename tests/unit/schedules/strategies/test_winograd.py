"""Winograd's convolution: the matrices, the error that ERROR_GROWTH states, compiled values beside the direct sum."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.parser import Parser

import mlc
from mlc import te
from mlc.dialects.graph.ops.winograd import ERROR_GROWTH, MATRICES
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_te.winograd import transformed
from mlc.passes.graph.select_algorithm import Shape
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.targets.cost.winograd import Block, WinogradProblem, problem
from mlc.targets.target import Target
from mlc.tuning import extract_tasks

CONV = """
func.func @main(%x: tensor<{n}x{c}x{h}x{w}xf32> {{graph.name = "x"}})
    -> (tensor<{n}x{k}x{oh}x{ow}xf32> {{graph.name = "y"}}) {{
  %w = graph.param "w" : tensor<{k}x{c}x3x3xf32>
  %0 = graph.conv2d %x, %w {{padding = {pads}}}
      : (tensor<{n}x{c}x{h}x{w}xf32>, tensor<{k}x{c}x3x3xf32>) -> tensor<{n}x{k}x{oh}x{ow}xf32>
  %1 = graph.relu %0 : tensor<{n}x{k}x{oh}x{ow}xf32>
  return %1 : tensor<{n}x{k}x{oh}x{ow}xf32>
}}
"""


def direct(x: np.ndarray, w: np.ndarray, pads: tuple[int, ...]) -> np.ndarray:
    """The convolution in the arrays' own precision, tap by tap."""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    h, width = (size - 2 for size in padded.shape[2:])
    taps = [(i, j) for i in range(3) for j in range(3)]
    return sum(np.einsum("nchw,kc->nkhw", padded[:, :, i : i + h, j : j + width], w[:, :, i, j]) for i, j in taps)


@pytest.mark.parametrize("m", MATRICES)
def test_matrices_compute_the_correlation(m: int) -> None:
    bt, g, at = (np.array(matrix, np.float64) for matrix in MATRICES[m])
    rng = np.random.default_rng(m)
    d, w = rng.standard_normal(m + 2), rng.standard_normal(3)
    np.testing.assert_allclose(at @ ((g @ w) * (bt @ d)), np.correlate(d, w, "valid"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("m", MATRICES)
@pytest.mark.parametrize("channels", [64, 512])
def test_error_growth_is_what_the_table_states(m: int, channels: int) -> None:
    bt, g, at = (np.array(matrix, np.float32) for matrix in MATRICES[m])
    rng = np.random.default_rng(0)
    t = m + 2
    d = rng.standard_normal((100, channels, t, t)).astype(np.float32)
    w = rng.standard_normal((channels, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(d, (3, 3), axis=(2, 3))
    exact = np.einsum("ncabij,cij->nab", windows.astype(np.float64), w.astype(np.float64), optimize=True)
    plain = np.float32(0) + sum(
        windows[:, c, :, :, i, j] * w[c, i, j] for c in range(channels) for i in range(3) for j in range(3)
    )
    u = np.einsum("ai,cij,bj->cab", g, w, g)
    v = np.einsum("ai,ncij,bj->ncab", bt, d, bt, optimize=True)
    product = np.float32(0) + sum(v[:, c] * u[c] for c in range(channels))
    fast = np.einsum("ra,nab,sb->nrs", at, product, at)
    growth = np.sqrt(np.mean((fast - exact) ** 2) / np.mean((plain - exact) ** 2))
    assert ERROR_GROWTH[m] / 8 < growth < ERROR_GROWTH[m]


@pytest.mark.parametrize("m", MATRICES)
@pytest.mark.parametrize("which", [0, 2])
def test_transforms_multiply_in_few_operations(m: int, which: int) -> None:
    matrix = MATRICES[m][which]
    x, size = te.placeholder((len(matrix[0]),), name="x"), len(matrix)
    stage = te.compute((size,), lambda i: transformed(matrix, [x[k] for k in range(len(matrix[0]))], i), "y")
    ops = [
        op.name for op in stage.op.body.block.ops if op.name.startswith(("math", "arith.add", "arith.sub", "arith.mul"))
    ]
    assert len(ops) <= {(2, 0): 4, (2, 2): 4, (4, 0): 14, (4, 2): 10}[m, which]
    values = np.random.default_rng(0).standard_normal(len(matrix[0])).astype(np.float32)
    got = mlc.build(te.func("transform", [x], [stage]), threads=1)(values)
    np.testing.assert_allclose(got, np.array(matrix) @ values, rtol=1e-5, atol=1e-5)


def model_of(
    n: int, c: int, k: int, h: int, w: int, pads: tuple[int, ...]
) -> tuple[Model, np.ndarray, np.random.Generator]:
    """A convolution, its random normal weight, and what more is drawn from."""
    rng = np.random.default_rng(1)
    weight = (rng.standard_normal((k, c, 3, 3)) / np.sqrt(9 * c)).astype(np.float32)
    store = WeightStore()
    store.add("w", weight)
    sizes = dict(oh=h + pads[0] + pads[2] - 2, ow=w + pads[1] + pads[3] - 2, pads=list(pads))
    return (
        Model(Parser(make_context(), CONV.format(n=n, c=c, k=k, h=h, w=w, **sizes)).parse_module(), store),
        weight,
        rng,
    )


def compiled(n: int, c: int, k: int, h: int, w: int, pads: tuple[int, ...], **options: Any) -> tuple[Any, ...]:
    """An executable, its input, and the exact result of a convolution with random normal data."""
    model, weight, rng = model_of(n, c, k, h, w, pads)
    exe = mlc.compile(model, cache=False, **options)
    x = rng.standard_normal((n, c, h, w)).astype(np.float32)
    return exe, x, np.maximum(direct(x.astype(np.float64), weight.astype(np.float64), pads), 0)


RESIDUAL = """
func.func @main(%x: tensor<{n}x64x{h}x{w}xf32> {{graph.name = "x"}},
                %r: tensor<{n}x48x{h}x{w}xf32> {{graph.name = "r"}})
    -> (tensor<{n}x48x{h}x{w}xf32> {{graph.name = "y"}}, tensor<{n}x48x{h}x{w}xf32> {{graph.name = "z"}}) {{
  %w = graph.param "w" : tensor<48x64x3x3xf32>
  %b = graph.param "b" : tensor<48x1x1xf32>
  %0 = graph.conv2d %x, %w {{padding = [1, 1, 1, 1]}}
      : (tensor<{n}x64x{h}x{w}xf32>, tensor<48x64x3x3xf32>) -> tensor<{n}x48x{h}x{w}xf32>
  %1 = graph.add %0, %r : (tensor<{n}x48x{h}x{w}xf32>, tensor<{n}x48x{h}x{w}xf32>) -> tensor<{n}x48x{h}x{w}xf32>
  %2 = graph.multiply %1, %b : (tensor<{n}x48x{h}x{w}xf32>, tensor<48x1x1xf32>) -> tensor<{n}x48x{h}x{w}xf32>
  %3 = graph.relu %2 : tensor<{n}x48x{h}x{w}xf32>
  return %3, %{second} : tensor<{n}x48x{h}x{w}xf32>, tensor<{n}x48x{h}x{w}xf32>
}}
"""


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize(
    ("n", "h", "w", "threads", "second"), [(1, 13, 13, 1, 1), (2, 7, 10, 2, 2), (1, 9, 31, 1, 3), (1, 17, 6, 2, 3)]
)
def test_last_tiles_beside_other_operands(n: int, h: int, w: int, threads: int, second: int, target: str) -> None:
    rng = np.random.default_rng(h * w)
    text = RESIDUAL.format(n=n, h=h, w=w, second=second)
    weights = WeightStore()
    kernel, scale = rng.standard_normal((48, 64, 3, 3)), rng.standard_normal((48, 1, 1))
    weights.add("w", kernel.astype(np.float32))
    weights.add("b", scale.astype(np.float32))
    model = Model(Parser(make_context(), text).parse_module(), weights)
    x, r = rng.standard_normal((n, 64, h, w)), rng.standard_normal((n, 48, h, w))
    exe = mlc.compile(model, cache=False, threads=threads, target=target)
    inputs = {"x": x.astype(np.float32), "r": r.astype(np.float32)}
    assert any("winograd" in row.kernel for row in exe.profile(inputs))
    total = direct(x, kernel, (1, 1, 1, 1)) + r
    expected = {1: total, 2: total * scale, 3: np.maximum(total * scale, 0)}
    got = exe(inputs)
    np.testing.assert_allclose(got["y"], expected[3], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(got["z"], expected[second], rtol=1e-3, atol=1e-3)


def is_fast(exe: Any, x: np.ndarray) -> bool:
    """Whether a kernel is Winograd's."""
    return any("winograd" in kernel.kernel for kernel in exe.profile({"x": x}))


SHAPES = [  # batch, channels in and out, height, width, padding
    ((1, 64, 64, 24, 20, (1, 1, 1, 1)), 1),
    ((2, 32, 48, 17, 29, (0, 1, 2, 0)), 2),
    ((1, 96, 24, 41, 43, (1, 0, 1, 2)), 1),  # blocks of 8 channels, prime sizes
    ((1, 48, 40, 7, 47, (1, 1, 1, 1)), 1),
    ((2, 128, 32, 13, 12, (1, 1, 1, 1)), 2),
    ((1, 113, 61, 19, 23, (1, 1, 1, 1)), 1),  # blocks of 16 channels, the last of them padded
]


@pytest.mark.parametrize(("shape", "threads"), SHAPES)
def test_compiled_winograd_agrees_with_the_direct_sum(shape: tuple[Any, ...], threads: int) -> None:
    exe, x, expected = compiled(*shape, threads=threads)
    assert is_fast(exe, x)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-5)


GROUPED = [  # batch, groups, channels of a group in and out, height, width, target, threads
    (1, 2, 32, 48, 24, 20, "native", 1),
    (2, 3, 64, 16, 13, 22, "native", 2),
    (1, 8, 32, 32, 15, 17, "x86-64-v3", 1),
    (1, 2, 24, 40, 21, 19, "x86-64-v3", 2),
    (1, 4, 16, 48, 19, 26, "x86-64-v2", 1),
]


def grouped(groups: int, c: int, k: int, picture: list[Any]) -> tuple[onnx.ModelProto, np.ndarray]:
    """A convolution of groups of c channels in and k out, and its weight."""
    weight = np.random.default_rng(2).standard_normal((groups * k, c, 3, 3)) / np.sqrt(9 * c)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [picture[0], groups * c, *picture[1:]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    conv = helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, group=groups)
    nodes = [conv, helper.make_node("Relu", ["c"], ["y"])]
    stored = numpy_helper.from_array(weight.astype(np.float32), "w")
    return helper.make_model(helper.make_graph(nodes, "g", [x], [y], [stored])), weight


def direct_groups(x: np.ndarray, weight: np.ndarray, groups: int) -> np.ndarray:
    parts = zip(np.split(x, groups, axis=1), np.split(weight, groups), strict=True)
    return np.maximum(np.concatenate([direct(one, w, (1, 1, 1, 1)) for one, w in parts], axis=1), 0)


@pytest.mark.parametrize(("n", "groups", "c", "k", "h", "w", "target", "threads"), GROUPED)
def test_groups_of_whole_blocks(n: int, groups: int, c: int, k: int, h: int, w: int, target: str, threads: int) -> None:
    proto, weight = grouped(groups, c, k, [n, h, w])
    exe = mlc.compile(proto, threads=threads, target=target, cache=False)
    x = np.random.default_rng(3).standard_normal((n, groups * c, h, w))
    assert is_fast(exe, x.astype(np.float32))
    np.testing.assert_allclose(
        exe({"x": x.astype(np.float32)})["y"], direct_groups(x, weight, groups), rtol=1e-4, atol=3e-5
    )


def test_groups_of_open_sizes() -> None:
    proto, weight = grouped(3, 32, 32, [1, "h", "w"])
    exe = mlc.compile(proto, threads=2, cache=False)
    for h, w in [(5, 9), (31, 40)]:
        x = np.random.default_rng(h).standard_normal((1, 96, h, w))
        assert is_fast(exe, x.astype(np.float32))
        np.testing.assert_allclose(
            exe({"x": x.astype(np.float32)})["y"], direct_groups(x, weight, 3), rtol=1e-4, atol=3e-5
        )


BLOCKS = [Block(3, 7), Block(1, 7), Block(1, 2), Block(2, 7), Block(3, 7, True)]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_blocking_computes_the_same(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WinogradProblem, "best", lambda self, target, threads: (0.0, block))
    exe, x, expected = compiled(2, 16, 24, 11, 27, (1, 1, 1, 1), threads=1)
    assert is_fast(exe, x)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-5)


@pytest.mark.parametrize(
    ("channels", "size", "block", "tiles"),
    [
        ((16, 64), 55, Block(1, 14), 14),  # the last row of tiles is another loop, with a buffer of its own
        ((32, 512), 13, Block(4, 4, True), 0),  # m holds the channels of a register tile, not all of them
    ],
)
def test_transformed_tiles_of_a_block_are_all_that_is_kept(
    channels: tuple[int, int], size: int, block: Block, tiles: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WinogradProblem, "best", lambda self, target, threads: (0.0, block))
    exe, x, expected = compiled(1, *channels, size, size, (1, 1, 1, 1), threads=1)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-5)
    kept = exe.artifact.model["scratch_bytes"]
    point = 4 * 36  # bytes of a transformed tile of one channel
    whole = point * 16 * sum(channels)
    assert kept <= (1.01 * point * tiles * sum(channels) if tiles else whole / 3)


@pytest.mark.parametrize(
    ("block", "threads", "loops"),
    [(Block(2, 4), 1, 3), (Block(4, 4, True), 1, 3), (Block(4, 4, True), 2, 1)],  # points (a, b), and columns
)
def test_weights_beyond_l2_are_fetched_ahead(
    block: Block, threads: int, loops: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """6 x 6 x 256 x 128 floats are 4.5 MiB."""
    monkeypatch.setattr(WinogradProblem, "best", lambda self, target, threads: (0.0, block))
    monkeypatch.setattr(Shape, "choose", lambda self, target, threads, growth: 4)
    shape = (1, 256, 128, 16, 16, (1, 1, 1, 1))
    compilation = Compilation(model_of(*shape)[0], Options("znver3", threads=threads, keep=frozenset(["te"])))
    compilation.write(tmp_path)
    assert compilation.texts["te"].count('"prefetch"') == loops
    exe, x, expected = compiled(*shape, threads=threads)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=1e-4)


def test_validate_each_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shape, "choose", lambda self, target, threads, growth: 2)
    exe, x, expected = compiled(1, 8, 8, 3, 4, (1, 0, 1, 1), threads=1, validate_each=True)
    assert is_fast(exe, x)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-5)


def test_validate_each_holds_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shape, "choose", lambda self, target, threads, growth: 4)
    proto, weight = grouped(2, 16, 16, [1, 12, 11])
    exe = mlc.compile(proto, threads=1, target="x86-64-v3", validate_each=True)
    x = np.random.default_rng(4).standard_normal((1, 32, 12, 11))
    assert is_fast(exe, x.astype(np.float32))
    np.testing.assert_allclose(exe({"x": x.astype(np.float32)})["y"], direct_groups(x, weight, 2), atol=3e-5)


def test_padded_channels_that_hold_other_numbers() -> None:
    """An exponential makes ones of the zeros in the padding of 61 channels, whose weights are zeros."""
    rng = np.random.default_rng(5)
    first, second = rng.standard_normal((61, 8, 3, 3)) / 8, rng.standard_normal((45, 61, 3, 3)) / 24
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Exp", ["c"], ["e"]),
        helper.make_node("Conv", ["e", "v"], ["y"], pads=[1] * 4),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 25, 23])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in (("w", first), ("v", second))]
    exe = mlc.compile(helper.make_model(helper.make_graph(nodes, "g", [x], [y], stored)), threads=1, cache=False)
    data = rng.standard_normal((1, 8, 25, 23))
    assert is_fast(exe, data.astype(np.float32))
    expected = direct(np.exp(direct(data, first, (1, 1, 1, 1))), second, (1, 1, 1, 1))
    np.testing.assert_allclose(exe({"x": data.astype(np.float32)})["y"], expected, rtol=1e-3, atol=1e-3)


def test_knobs_of_groups_have_values_that_all_blocks_take() -> None:
    """Blocks of a register tile divide those of a group."""
    proto, _ = grouped(2, 32, 48, [1, 17, 22])
    (task,) = [one for one in extract_tasks(load_model(proto, {}), "znver5", 1) if one.name.startswith("conv2d")]
    parts = [part for part in task.space.parts if part.strategy == "winograd"]
    assert parts
    for part in parts:
        columns = next(knob for knob in part.knobs if knob.name == "tile_columns")
        assert [value for value in columns.candidates if value and 3 % value] == []


def test_groups_cost_as_much_as_each_alone() -> None:
    target = Target.parse("znver5")
    one, eight = (
        problem(4, 1, (12, 12), (2, 16), (2, 16), 16, 16),
        problem(4, 1, (12, 12), (16, 16), (16, 16), 16, 16, 8),
    )
    assert eight.weight_bytes == 8 * one.weight_bytes
    whole = Block(one.tile_rows, one.tile_columns, True)
    assert eight.cycles(whole, target, 1) == pytest.approx(8 * one.cycles(whole, target, 1), rel=0.3)


def test_narrow_vectors() -> None:
    exe, x, expected = compiled(1, 64, 40, 18, 23, (1, 1, 1, 1), threads=1, target="x86-64-v3")
    assert is_fast(exe, x)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-5)


def test_error_growth_is_an_option() -> None:
    exe, x, expected = compiled(1, 64, 64, 24, 20, (1, 1, 1, 1), threads=1, error_growth=0)
    assert not is_fast(exe, x)
    np.testing.assert_allclose(exe({"x": x})["y"], expected, atol=3e-6)


@pytest.mark.parametrize("growth", [-1.0, float("nan")])
def test_error_growth_is_checked(growth: float) -> None:
    with pytest.raises(UserError, match="expected error_growth to be at least 0, but got"):
        Options(error_growth=growth)


def test_error_growth_is_part_of_the_key() -> None:
    assert Options(error_growth=0).model_key() != Options().model_key()


@pytest.mark.parametrize(("l2", "whole"), [(1 << 20, False), (256 << 10, True)])
def test_blocks_fit_the_cache_with_the_weights(l2: int, whole: bool) -> None:
    work = problem(4, 1, (56, 56), (4, 16), (4, 16), 16, 16)
    block = work.best(replace(Target.parse("znver5"), l2_bytes=l2), 1)[1]
    assert block.whole == whole
    assert whole or work.weight_bytes + work.tile_bytes(block.rows * block.columns) <= l2


def test_wide_pictures_are_cut_into_parts_of_a_row() -> None:
    work = problem(4, 1, (640, 640), (8, 16), (8, 16), 16, 16)
    cycles, block = work.best(Target.parse("znver5"), 2)
    assert block.rows == 1
    assert block.columns < 160
    assert cycles < work.cycles(Block(160, 160, True), Target.parse("znver5"), 2)
