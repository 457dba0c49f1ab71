"""Kernels of symbolic heights, widths and lengths: pads, pools, rows and windows, at sizes whole and ragged."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_native import parse, reread
from xdsl.ir import Block

import mlc
from mlc.dialects import loop
from mlc.dialects.graph import Conv2dWinogradOp
from mlc.dialects.graph.types import tensor
from mlc.interp import loop as interp
from mlc.passes.loop.compact_buffers import compact_buffers
from mlc.passes.loop.partitioning.partition import partition
from mlc.passes.loop.tiles.form_tiles import form_tiles
from mlc.passes.loop.tiles.promote_tiles import promote_tiles
from mlc.runtime.cpu import refusal

CONV = """
func.func @main(%x: tensor<1x3x?x?xf32, #graph.dims<[H, W]>>, %w: tensor<32x3x3x3xf32>, %v: tensor<32x1x3x3xf32>)
    -> (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>, tensor<1x32x1x1xf32>) {
  %0 = graph.conv2d %x, %w {padding = [1, 1, 1, 1]} : (tensor<1x3x?x?xf32, #graph.dims<[H, W]>>,
    tensor<32x3x3x3xf32>) -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %1 = graph.relu %0 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %2 = graph.conv2d %1, %v {padding = [1, 1, 1, 1], groups = 32} : (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>,
    tensor<32x1x3x3xf32>) -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %3 = graph.mean %2 {axes = [2, 3], keepdims = true} : (tensor<1x32x?x?xf32, #graph.dims<[H, W]>>)
    -> tensor<1x32x1x1xf32>
  return %2, %3 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>, tensor<1x32x1x1xf32>
}
"""


def windows(x, w, groups):
    """A convolution of 3x3 with a border of one."""
    _, c, h, wd = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = np.stack([padded[:, :, i : i + h, j : j + wd] for i in range(3) for j in range(3)], 2)
    if groups == 1:
        return np.einsum("nctyx,oct->noyx", taps, w.reshape(w.shape[0], c, 9))
    return np.einsum("nctyx,ct->ncyx", taps, w.reshape(c, 9))


@pytest.mark.parametrize("threads", [1, 2])
def test_convolutions_of_any_height_and_width(tmp_path, threads):
    (tmp_path / "model.mlir").write_text(CONV)
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    rng = np.random.default_rng(0)
    w, v = (rng.standard_normal(s).astype(np.float32) for s in ((32, 3, 3, 3), (32, 1, 3, 3)))
    for h, wd in [(1, 1), (2, 3), (5, 7), (13, 14), (29, 31), (64, 33)]:
        x = rng.standard_normal((1, 3, h, wd)).astype(np.float32)
        y, mean = exe({"input0": x, "input1": w, "input2": v}).values()
        wanted = windows(np.maximum(windows(x, w, 1), 0), v, 32)
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(mean[..., 0, 0], wanted.mean((2, 3)), rtol=1e-4, atol=1e-4)


WINOGRAD = """
func.func @main(%x: tensor<1x3x?x?x16xf32, #graph.dims<[H, W]>>, %u: tensor<6x6x2x3x16x16xf32>)
    -> (tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>) {
  %0 = graph.conv2d_winograd %x, %u {tile = 4} : (tensor<1x3x?x?x16xf32, #graph.dims<[H, W]>>,
    tensor<6x6x2x3x16x16xf32>) -> tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>
  %1 = graph.relu %0 : tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>
  return %1 : tensor<1x2x?x?x16xf32, #graph.dims<[H, W]>>
}
"""


def test_winograd_of_any_height_and_width(tmp_path):
    (tmp_path / "model.mlir").write_text(WINOGRAD)
    exe = mlc.compile(tmp_path / "model.mlir", threads=2, cache=False)
    rng = np.random.default_rng(0)
    u = rng.standard_normal((6, 6, 2, 3, 16, 16)).astype(np.float32)
    for h, w in [(8, 8), (5, 7), (33, 20), (1, 1), (64, 3)]:
        x = rng.standard_normal((1, 3, h, w, 16)).astype(np.float32)
        (y,) = exe({"input0": x, "input1": u}).values()
        arguments = Block(arg_types=[tensor(x.shape), tensor(u.shape)]).args
        (wanted,) = Conv2dWinogradOp.make(*arguments, tile=4).evaluate(np, x, u)
        np.testing.assert_allclose(y, np.maximum(wanted, 0), rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


PRODUCT = """
loop.func @k(%A: memref<?x3xf32>, %B: memref<3x8xf32>, %Y: memref<?x8xf32>, %n: index) attributes {{outputs = 1 : i64,
    sizes = [#te.map<"{rows0}, 3">, #te.map<"3, 8">, #te.map<"{rows0}, 8">], least = array<i64: 1>}} {{
  loop.for %p = 0 to (({rows} + {t1}) floordiv {t} + {b1}) floordiv {b} {kind} {{
    loop.for %o = 0 to {b} {{
      loop.for %r = 0 to {t} vectorized {{ loop.for %c = 0 to 8 vectorized {{
        loop.block "start" (%i : {rows} = %p * {tb} + %o * {t} + %r, %j : 8 = %c)
            where (%n - (%p * {tb} + %o * {t} + %r) * {g} - 1) {{
          %z = arith.constant 0.0 : f32
          loop.store %z, %Y[%i, %j] : f32
        }}
      }} }}
{between}
      loop.for %k = 0 to 3 {{
        loop.for %r = 0 to {t} vectorized {{ loop.for %c = 0 to 8 vectorized {{
          loop.block "product" (%i : {rows} = %p * {tb} + %o * {t} + %r, %j : 8 = %c) reduce (%v : 3 = %k)
              where (%n - (%p * {tb} + %o * {t} + %r) * {g} - 1) {{
            %a = loop.load %A[%i, %v] : f32
            %b = loop.load %B[%v, %j] : f32
            %y = loop.load %Y[%i, %j] : f32
            %m = arith.mulf %a, %b : f32
            %s = arith.addf %y, %m : f32
            loop.store %s, %Y[%i, %j] : f32
          }}
        }} }}
      }}
    }}
  }}
}}
"""


@settings(max_examples=30)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["", "parallel"]),
    st.booleans(),
)
def test_ragged_tiles_cover_every_point(n, t, b, g, kind, apart):
    """Of n rows, or of every second or third of them; where the zeros of a block come first, these stay in it."""
    rows = "%n" if g == 1 else f"(%n + {g - 1}) floordiv {g}"
    sizes = {"rows": rows, "rows0": rows.replace("%n", "%0"), "t": t, "t1": t - 1, "b": b, "b1": b - 1, "tb": t * b}
    between = f"}} loop.for %o = 0 to {b} {{" if apart else ""
    f = parse(PRODUCT.format(**sizes, g=g, kind=kind, between=between))
    rng, rows = np.random.default_rng(n), -(-n // g)
    a, w = rng.integers(-3, 4, (rows, 3)).astype(np.float32), rng.integers(-3, 4, (3, 8)).astype(np.float32)
    for rewrite in (lambda f: None, partition, form_tiles, compact_buffers, promote_tiles):
        rewrite(f)
        y = np.full((rows, 8), np.nan, np.float32)
        interp.run(reread(f), [a, w, y, n], shuffle=0)
        np.testing.assert_array_equal(y, a @ w)
    assert apart or all(block.where is None for block in f.walk() if isinstance(block, loop.BlockOp))


@pytest.mark.parametrize("rows", ["50", "?"])
def test_products_of_any_sizes(tmp_path, rows):
    """Both operands are packed and blocked along symbols: no thread begins sums that another one has, or ends them."""
    m, names = ("50", "N") if rows == "50" else ("?", "M, N")
    a = f"tensor<{m}x?xf32, #graph.dims<[{'K' if rows == '50' else 'M, K'}]>>"
    b, y = "tensor<?x?xf32, #graph.dims<[N, K]>>", f"tensor<{m}x?xf32, #graph.dims<[{names}]>>"
    text = (
        f"func.func @main(%a: {a}, %b: {b}) -> {y} {{ %0 = graph.dense %a, %b : ({a}, {b}) -> {y} "
        f"%1 = graph.relu %0 : {y} return %1 : {y} }}"
    )
    (tmp_path / "model.mlir").write_text(text)
    exe = mlc.compile(tmp_path / "model.mlir", threads=2, cache=False)
    rng = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (5, 7, 9), (33, 70, 65), (257, 129, 513), (23, 401, 700), (300, 401, 1030)]:
        a, b = (rng.standard_normal(s).astype(np.float32) for s in ((50 if rows == "50" else m, k), (n, k)))
        (y,) = exe({"input0": a, "input1": b}).values()
        np.testing.assert_allclose(y, np.maximum(a @ b.T, 0), rtol=1e-3, atol=1e-3)


POINTWISE = """
func.func @main(%x: tensor<?x32x?x?xf32, #graph.dims<[N, H * 2, W]>>, %w: tensor<112x32x1x1xf32>)
    -> tensor<?x112x?x?xf32, #graph.dims<[N, H * 2, W]>> {
  %0 = graph.conv2d %x, %w : (tensor<?x32x?x?xf32, #graph.dims<[N, H * 2, W]>>, tensor<112x32x1x1xf32>)
    -> tensor<?x112x?x?xf32, #graph.dims<[N, H * 2, W]>>
  %1 = graph.hard_swish %0 : tensor<?x112x?x?xf32, #graph.dims<[N, H * 2, W]>>
  return %1 : tensor<?x112x?x?xf32, #graph.dims<[N, H * 2, W]>>
}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_pictures_whose_rows_and_columns_are_one_axis(tmp_path, threads):
    """A few pixels, several tiles and a ragged one, several blocks of tiles; columns of which some are left over."""
    (tmp_path / "model.mlir").write_text(POINTWISE)
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((112, 32, 1, 1), np.float32)
    for n, h, wd in ((1, 2, 1), (2, 2, 3), (3, 4, 7), (1, 20, 31), (2, 64, 33)):
        x = rng.standard_normal((n, 32, h, wd), np.float32)
        y = np.einsum("nihw,oi->nohw", x, w[:, :, 0, 0])
        (found,) = exe({spec.name: array for spec, array in zip(exe.inputs, (x, w), strict=True)}).values()
        np.testing.assert_allclose(found, y * np.clip(y / 6 + 0.5, 0, 1), rtol=1e-4, atol=1e-4)


LOOKED_UP = """
func.func @main(%x: tensor<?x16x?xf32, #graph.dims<[N, T]>>, %i: tensor<?x16x?xi64, #graph.dims<[N, T]>>)
    -> tensor<?x16x?xf32, #graph.dims<[N, T]>> {
  %0 = graph.transpose %x {axes = [0, 2, 1]} : (tensor<?x16x?xf32, #graph.dims<[N, T]>>)
    -> tensor<?x?x16xf32, #graph.dims<[N, T]>>
  %1 = graph.transpose %i {axes = [0, 2, 1]} : (tensor<?x16x?xi64, #graph.dims<[N, T]>>)
    -> tensor<?x?x16xi64, #graph.dims<[N, T]>>
  %2 = graph.gather_elements %0, %1 {axis = 2} : (tensor<?x?x16xf32, #graph.dims<[N, T]>>,
    tensor<?x?x16xi64, #graph.dims<[N, T]>>) -> tensor<?x?x16xf32, #graph.dims<[N, T]>>
  %3 = graph.transpose %2 {axes = [0, 2, 1]} : (tensor<?x?x16xf32, #graph.dims<[N, T]>>)
    -> tensor<?x16x?xf32, #graph.dims<[N, T]>>
  return %3 : tensor<?x16x?xf32, #graph.dims<[N, T]>>
}
"""


def test_what_is_looked_up_along_another_axis_than_the_open_last_one(tmp_path):
    """Lanes that an open axis does not have are at no place of the table."""
    (tmp_path / "model.mlir").write_text(LOOKED_UP)
    exe = mlc.compile(tmp_path / "model.mlir", threads=2, cache=False)
    rng = np.random.default_rng(0)
    for n, t in ((1, 1), (2, 7), (3, 70)):
        x, i = rng.standard_normal((n, 16, t), np.float32), rng.integers(0, 16, (n, 16, t))
        (y,) = exe({spec.name: array for spec, array in zip(exe.inputs, (x, i), strict=True)}).values()
        np.testing.assert_array_equal(y, np.take_along_axis(x, i, 1))


QUANTISED = """
func.func @main(%x: tensor<?x24x?x?xui8, #graph.dims<[N, H, W]>>, %w: tensor<40x24x1x1xi8>, %b: tensor<40xi32>)
    -> tensor<?x40x?x?xi32, #graph.dims<[N, H, W]>> {
  %0 = graph.conv2d %x, %w {out_dtype = "int32"} : (tensor<?x24x?x?xui8, #graph.dims<[N, H, W]>>,
    tensor<40x24x1x1xi8>) -> tensor<?x40x?x?xi32, #graph.dims<[N, H, W]>>
  %1 = graph.bias_add %0, %b {axis = 1} : (tensor<?x40x?x?xi32, #graph.dims<[N, H, W]>>, tensor<40xi32>)
    -> tensor<?x40x?x?xi32, #graph.dims<[N, H, W]>>
  return %1 : tensor<?x40x?x?xi32, #graph.dims<[N, H, W]>>
}
"""


def test_pictures_of_bytes_whose_rows_and_columns_are_one_axis(tmp_path):
    (tmp_path / "model.mlir").write_text(QUANTISED)
    exe = mlc.compile(tmp_path / "model.mlir", threads=2, cache=False)
    rng = np.random.default_rng(0)
    w, b = rng.integers(-128, 128, (40, 24, 1, 1), np.int8), rng.integers(-999, 999, 40, np.int32)
    for n, h, wd in ((1, 1, 1), (2, 3, 5), (1, 20, 31), (3, 34, 33)):
        x = rng.integers(0, 256, (n, 24, h, wd), np.uint8)
        (y,) = exe({spec.name: array for spec, array in zip(exe.inputs, (x, w, b), strict=True)}).values()
        expected = np.einsum("nihw,oi->nohw", x.astype(np.int32), w[:, :, 0, 0].astype(np.int32))
        np.testing.assert_array_equal(y, expected + b[:, None, None])


POOL = """
func.func @main(%x: tensor<1x3x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x3x?x?xf32, #graph.dims<[{out}]>> {{
  %0 = graph.max_pool2d %x {{pool_size = [{k}, {k}], strides = [{s}, {s}], padding = [{p}, {p}, {p}, {p}]}} :
    (tensor<1x3x?x?xf32, #graph.dims<[H, W]>>) -> tensor<1x3x?x?xf32, #graph.dims<[{out}]>>
  return %0 : tensor<1x3x?x?xf32, #graph.dims<[{out}]>>
}}
"""


def largest(x, k, s, p):
    padded = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (2, 3))[:, :, ::s, ::s]
    return windows.max((4, 5))


@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize(("k", "s", "p"), [(2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 1, 1), (5, 3, 2), (4, 4, 1), (7, 5, 3)])
def test_windows_over_pictures_of_any_size(tmp_path, k, s, p, target):
    """The inside of a picture has no masks; at its edges elements between the lanes are not read."""
    least = 2 * p - k
    sizes = [f"({n} + {least}) floordiv {s} + 1" if least >= 0 else f"({n} - {-least}) floordiv {s} + 1" for n in "HW"]
    (tmp_path / "model.mlir").write_text(POOL.format(k=k, s=s, p=p, out=", ".join(sizes)))
    exe = mlc.compile(tmp_path / "model.mlir", threads=1, cache=False, target=target)
    if refusal(exe.artifact.model) is not None:
        return
    rng = np.random.default_rng(0)
    for h, w in ((k, k), (9, 8), (17, 31), (16, 64), (33, 70), (40, 131)):
        x = rng.standard_normal((1, 3, h, w), np.float32)
        (y,) = exe({exe.inputs[0].name: x}).values()
        np.testing.assert_array_equal(y, largest(x, k, s, p))


DILATED = """
func.func @main(%x: tensor<1x16x?x?xf32, #graph.dims<[H, W]>>, %w: tensor<32x16x3x3xf32>)
    -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>> {{
  %0 = graph.conv2d %x, %w {{padding = [{d}, {d}, {d}, {d}], dilation = [{d}, {d}]}} :
    (tensor<1x16x?x?xf32, #graph.dims<[H, W]>>, tensor<32x16x3x3xf32>) -> tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  %1 = graph.relu %0 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
  return %1 : tensor<1x32x?x?xf32, #graph.dims<[H, W]>>
}}
"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("d", [6, 12, 18])
def test_taps_far_apart_over_pictures_of_any_size(tmp_path, d, threads):
    """Pictures that no outer tap meets, some of whose tiles they meet, and that they meet everywhere."""
    (tmp_path / "model.mlir").write_text(DILATED.format(d=d))
    exe = mlc.compile(tmp_path / "model.mlir", threads=threads, cache=False)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((32, 16, 3, 3), np.float32)
    for h, wd in ((1, 1), (5, 3), (7, 14), (13, 29), (30, 20), (40, 45)):
        x = rng.standard_normal((1, 16, h, wd), np.float32)
        padded = np.pad(x, ((0, 0), (0, 0), (d, d), (d, d)))
        taps = [padded[:, :, i * d : i * d + h, j * d : j * d + wd] for i in range(3) for j in range(3)]
        y = np.einsum("tnihw,oit->nohw", np.stack(taps), w.reshape(32, 16, 9))
        (found,) = exe({spec.name: a for spec, a in zip(exe.inputs, (x, w), strict=True)}).values()
        np.testing.assert_allclose(found, np.maximum(y, 0), rtol=1e-3, atol=1e-3)


SMALL = """
func.func @main(%x: tensor<1x2x?x?x8xf32, #graph.dims<[H, W]>>, %w: tensor<2x1x1x5x8xf32>)
    -> tensor<1x2x?x?x8xf32, #graph.dims<[H floordiv 64, W floordiv 64]>> {
  %0 = graph.max_pool2d %x {pool_size = [64, 64], strides = [64, 64], layout = "NCHW8c"} :
    (tensor<1x2x?x?x8xf32, #graph.dims<[H, W]>>)
    -> tensor<1x2x?x?x8xf32, #graph.dims<[H floordiv 64, W floordiv 64]>>
  %1 = graph.conv2d %0, %w {groups = 16, padding = [0, 2, 0, 2], data_layout = "NCHW8c", kernel_layout = "OIHW8o"} :
    (tensor<1x2x?x?x8xf32, #graph.dims<[H floordiv 64, W floordiv 64]>>, tensor<2x1x1x5x8xf32>)
    -> tensor<1x2x?x?x8xf32, #graph.dims<[H floordiv 64, W floordiv 64]>>
  return %1 : tensor<1x2x?x?x8xf32, #graph.dims<[H floordiv 64, W floordiv 64]>>
}
"""


def test_padded_copies_of_pictures_that_are_usually_small(tmp_path):
    """Rows whose typical size is below that of a tile may be longer all the same."""
    (tmp_path / "model.mlir").write_text(SMALL)
    exe = mlc.compile(tmp_path / "model.mlir", threads=1, cache=False)
    rng = np.random.default_rng(0)
    w = rng.standard_normal((2, 1, 1, 5, 8), np.float32)
    for h, wd in ((1, 1), (3, 5), (4, 29)):
        x = np.zeros((1, 2, 64 * h, 64 * wd, 8), np.float32)
        pooled = rng.uniform(0, 1, (1, 2, h, wd, 8)).astype(np.float32)
        x[:, :, ::64, ::64] = pooled
        padded = np.pad(pooled, ((0, 0), (0, 0), (0, 0), (2, 2), (0, 0)))
        y = sum(padded[:, :, :, k : k + wd] * w[None, :, 0, :, k, None] for k in range(5))
        (found,) = exe({spec.name: a for spec, a in zip(exe.inputs, (x, w), strict=True)}).values()
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-4)
