"""loop.contract: the interpreter, the C99 print and native code, with the machine's dot product and without, agree."""

import numpy as np
import pytest
from loop_native import native_kernel, parse, reread
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block
from xdsl.parser import Parser

from mlc.dialects import loop
from mlc.dialects.attributes import NARROW_BYTES
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp import loop as interp
from mlc.interp import values
from mlc.passes.loop.compact_buffers import compact_buffers
from mlc.passes.loop.partitioning.partition import partition
from mlc.passes.loop.tiles.form_tiles import form_tiles
from mlc.passes.loop.tiles.promote_tiles import promote_tiles
from mlc.support.errors import collected_warnings
from mlc.targets.target import Target
from mlc.validation import c_run

DOTS = Target.parse("native").instructions
WIDEST = Target.parse("native").vector_bits
"""The widest vectors that the dot products of this machine take; loops without them may be wider."""
COUNTS = {"bf16": 2, "f16": 2, "i8": 4, "i16": 2}
SIGNS = {"i8": ("ss", "us", "su", "uu"), "i16": ("ss", "us")}
CASTS = {"s": "extsi", "u": "extui"}


def dense(element, m, n, k, tile_n, packed=True, signs="ss"):
    """A kernel of vectorized loops round a block: m rows, n columns in tiles, k summed word by word."""
    wide, casts = ("i32", [CASTS[s] for s in signs]) if element[0] == "i" else ("f32", ["extf", "extf"])
    g, tiles = COUNTS[element], -(-n // tile_n)
    weight = f"memref<{k // g}x{n}x{g}x{element}>" if packed else f"memref<{n}x{k}x{element}>"
    index = f"%vk floordiv {g}, %vj, %vk mod {g}" if packed else "%vj, %vk"
    zero = "arith.constant 0 : i32" if wide == "i32" else "arith.constant 0.0 : f32"
    where = f" where ({n - 1} - %jo * {tile_n} - %ji)" if n % tile_n else ""
    return f"""
loop.func @dense(%A: memref<{m}x{k}x{element}>, %B: {weight}, %C: memref<{m}x{n}x{wide}>) attributes {{outputs = 1}} {{
  loop.for %jo = 0 to {tiles} {{
    loop.for %i = 0 to {m} vectorized {{ loop.for %ji = 0 to {tile_n} vectorized {{
      loop.block "init" (%vi : {m} = %i, %vj : {n} = %jo * {tile_n} + %ji){where} {{
        %z = {zero}
        loop.store %z, %C[%vi, %vj] : {wide}
      }}
    }} }}
    loop.for %ko = 0 to {k // g} {{
      loop.for %i = 0 to {m} vectorized {{ loop.for %ji = 0 to {tile_n} vectorized {{
        loop.for %w = 0 to {g} vectorized {{ loop.block "dense"
            (%vi : {m} = %i, %vj : {n} = %jo * {tile_n} + %ji) reduce (%vk : {k} = %ko * {g} + %w){where} {{
          %a = loop.load %A[%vi, %vk] : {element}
          %b = loop.load %B[{index}] : {element}
          %x = loop.cast {casts[0]} %a : {element} to {wide}
          %y = loop.cast {casts[1]} %b : {element} to {wide}
          %c = loop.load %C[%vi, %vj] : {wide}
          %n = loop.fma %x, %y, %c : {wide}, {wide}, {wide}
          loop.store %n, %C[%vi, %vj] : {wide}
        }}
      }} }} }}
    }}
  }}
}}"""


def data(element, m, n, k, packed, signs="ss"):
    """The operands as the kernel reads them, and the exact result."""
    from mlc.dialects.graph.types import ELEMENT_TYPES

    rng = np.random.default_rng(n)
    dtype = next(values.dtype_of(t) for t in ELEMENT_TYPES.values() if str(t) == element)
    draw = (lambda *s: rng.integers(-128, 128, s)) if element[0] == "i" else (lambda *s: rng.standard_normal(s))
    a, b = draw(m, k).astype(dtype), draw(n, k).astype(dtype)
    g = COUNTS[element]
    if element[0] == "i":
        a[0], b[0] = a.min(), b.min()  # the largest products
    x, y = (v.view(f"u{v.dtype.itemsize}") if s == "u" else v for v, s in zip((a, b), signs, strict=True))
    exact = x.astype(np.float64) @ y.astype(np.float64).T
    return a, b.reshape(n, k // g, g).transpose(1, 0, 2).copy() if packed else b, exact


@pytest.mark.parametrize(("element", "signs"), [(e, s) for e in COUNTS for s in SIGNS.get(e, ("ss",))])
@pytest.mark.parametrize(
    ("m", "n", "k", "tile_n", "packed"), [(3, 32, 16, 32, True), (2, 27, 8, 16, True), (2, 5, 12, 5, False)]
)
def test_a_contraction_is_the_same_everywhere(element, signs, m, n, k, tile_n, packed):
    func = parse(dense(element, m, n, k, tile_n, packed, signs))
    a, b, exact = data(element, m, n, k, packed, signs)
    expected = exact.astype(np.int32 if element[0] == "i" else np.float32)
    arrays = [a, b, np.zeros((m, n), expected.dtype)]

    def check(found, what):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=what)

    check(interp.run(func, arrays)[0], "the loop nest")
    for rewrite in (partition, form_tiles, compact_buffers, promote_tiles):
        rewrite(func)
        check(interp.run(reread(func), arrays)[0], rewrite.__name__)
    assert "loop.contract" in str(func)
    check(c_run.run(func, arrays)[0], "C99")
    pairs = tuple(name for name in DOTS if name == "pmaddwd")
    for bits, instructions in {(512, ()), (WIDEST, pairs), (WIDEST, DOTS), (256 if n == 32 else 128, DOTS)}:
        kernel = native_kernel(func, bits, instructions)
        for shift in (0, 8):
            check(kernel(arrays, shift)[0], f"{bits} bits, {instructions}")


@pytest.mark.parametrize(("m", "n", "k", "tile_n"), [(3, 32, 16, 32), (2, 27, 8, 16)])
@pytest.mark.parametrize("signs", ["us", "su"])
def test_narrow_bytes_at_their_limits(signs, m, n, k, tile_n):
    """The greatest sums of two products, 2 * 255 * 64 of either sign, are exact: nothing saturates."""
    if "pmaddubsw" not in DOTS:
        pytest.skip("the CPU has no pmaddubsw")
    func = parse(dense("i8", m, n, k, tile_n, True, signs))
    func.attributes[NARROW_BYTES] = DenseArrayBase.from_list(i64, [signs.index("s")])
    rng = np.random.default_rng(n)
    a, b = rng.integers(0, 256, (m, k)), rng.integers(0, 256, (n, k))
    narrow, wide = (b, a) if signs == "us" else (a, b)
    narrow[:] = rng.integers(-64, 65, narrow.shape)
    narrow[0], narrow[1], wide[0] = 64, -64, 255
    exact = (a @ b.T).astype(np.int32)
    packed = b.astype(np.uint8).reshape(n, k // 4, 4).transpose(1, 0, 2).copy()
    arrays = [a.astype(np.uint8).view(np.int8), packed.view(np.int8), np.zeros((m, n), np.int32)]
    for rewrite in (partition, form_tiles, compact_buffers, promote_tiles):
        rewrite(func)
        np.testing.assert_array_equal(interp.run(reread(func), arrays)[0], exact)
    assert " narrow, " in str(func)
    np.testing.assert_array_equal(c_run.run(func, arrays)[0], exact)
    for bits, instructions in {(WIDEST, ("pmaddwd", "pmaddubsw")), (128, ("pmaddwd", "pmaddubsw")), (WIDEST, DOTS)}:
        for shift in (0, 8):
            np.testing.assert_array_equal(native_kernel(func, bits, instructions)(arrays, shift)[0], exact)


def test_subnormal_and_infinite_factors():
    func = parse(dense("bf16", 1, 16, 2, 16))
    for rewrite in (partition, form_tiles, promote_tiles):
        rewrite(func)
    a, b, _ = data("bf16", 1, 16, 2, True)
    a[0, 0], b[0, 0, 0], b[0, 1, 0], b[0, 2, 0] = 2.0, np.inf, np.nan, 0.0
    for instructions in {(), DOTS}:
        found = native_kernel(func, WIDEST, instructions)([a, b, np.zeros((1, 16), np.float32)])[0][0]
        assert np.isposinf(found[0])
        assert np.isnan(found[1])
        assert np.isfinite(found[2:]).all()


def test_registers_are_counted_in_words():
    """12 x 32 of f32 are 24 vectors; two vectors of words and a splat fit beside them."""
    func = parse(dense("bf16", 12, 32, 16, 32))
    for rewrite in (partition, form_tiles, promote_tiles):
        rewrite(func)
    from mlc.lowering.loop_to_llvm.convert import lower_kernel

    with collected_warnings() as warnings:
        lower_kernel(func, 16)
    assert not warnings


@pytest.mark.parametrize(
    ("target", "dots"),
    [
        ("znver4", ("dpbf16ps", "dpbusd", "pmaddwd", "pmaddubsw", "permi2b")),
        ("znver4,-avx512bf16", ("dpbusd", "pmaddwd", "pmaddubsw", "permi2b")),
        ("znver4,-avx512f", ("pmaddwd", "pmaddubsw")),
        ("znver5,-avx512f", ("dpbusd256", "pmaddwd", "pmaddubsw")),
        ("znver5,-avx512vnni", ("dpbf16ps", "dpbusd256", "pmaddwd", "pmaddubsw", "permi2b")),
        ("x86-64-v4", ("pmaddwd", "pmaddubsw")),
        ("x86-64-v4,+avx512bf16", ("dpbf16ps", "pmaddwd", "pmaddubsw")),
        ("x86-64", ("pmaddwd",)),
        ("aarch64", ()),
    ],
)
def test_a_target_says_which_dot_products_it_has(target, dots):
    assert Target.parse(target).instructions == dots


@pytest.mark.parametrize(("m", "n", "k"), [(1, 96, 64), (24, 64, 48), (128, 384, 1536), (40, 24, 2 * 7 * 11 * 13)])
def test_strategies_make_words_of_every_product(m, n, k):
    """Small products, rows of one, and those that the caches block, also along the reduction."""
    tiles = -(-n // 32)
    text = f"""
te.func @dense(%x: tensor<{m}x{k}xbf16>, %w: tensor<{tiles}x{k // 2}x32x2xbf16>) -> tensor<{m}x{n}xf32> {{
  %y = te.compute "dense" (%i : {m}, %j : {n}) reduce (%k : {k}) sum {{
    %0 = te.read %x[%i, %k] : bf16
    %1 = te.read %w[%j floordiv 32, %k floordiv 2, %j mod 32, %k mod 2] : bf16
    %2 = arith.extf %0 : bf16 to f32
    %3 = arith.extf %1 : bf16 to f32
    %4 = arith.mulf %2, %3 : f32
    te.yield %4 : f32
  }} : tensor<{m}x{n}xf32>
  te.return %y : tensor<{m}x{n}xf32>
}}"""
    ctx = make_context()
    module = Parser(ctx, text).parse_module()
    specs = ["te-add-schedule{target=znver4}", "convert-te-to-loop", "loop-apply-schedule", "loop-tiles"]
    run_passes(module, ctx, specs)
    found = [op for op in module.walk() if isinstance(op, loop.ContractOp)]
    assert found
    assert not any(isinstance(op, loop.FmaOp | loop.ReduceOp) for op in module.walk())
    assert all(isinstance(op.c.owner, Block) for op in found)  # carried in registers
