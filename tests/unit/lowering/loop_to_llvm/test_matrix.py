"""loop.contract of several words: interpreter, C99 print, dot products, and the matrix unit in software, agree."""

import matrix_unit
import numpy as np
import pytest
from loop_native import native_kernel, parse, reread
from xdsl.dialects.builtin import ModuleOp

from mlc.codegen import native
from mlc.codegen.llvm import ir as llvm_ir
from mlc.interp import loop as interp
from mlc.lowering.loop_to_llvm.convert import lower_kernel
from mlc.passes.loop.compact_buffers import compact_buffers
from mlc.passes.loop.partitioning.partition import partition
from mlc.passes.loop.tiles.form_tiles import form_tiles
from mlc.passes.loop.tiles.promote_tiles import promote_tiles
from mlc.support.errors import collected_warnings
from mlc.targets.target import Target
from mlc.validation import c_run

AMX = ("tdpbf16ps", "tdpbusd")
NATIVE = Target.parse("native")
DOTS = tuple(name for name in NATIVE.instructions if name not in AMX)
COUNTS = {"bf16": 2, "i8": 4}
CASTS = {"s": "extsi", "u": "extui"}


def dense(element, m, n, k, tile, steps, signs="ss"):
    """Vectorized loops round a block: tiles of rows and columns, k summed by `steps` words; a relu behind it."""
    floats, g = element == "bf16", COUNTS[element]
    wide, casts = ("f32", ["extf", "extf"]) if floats else ("i32", [CASTS[s] for s in signs])
    zero, relu = ("0.0 : f32", "arith.maximumf") if floats else ("0 : i32", "arith.maxsi")
    rows, lanes = tile
    ranges = f"(%vi : {m} = %io * {rows} + %ii, %vj : {n} = %jo * {lanes} + %ji)"
    where = f" where ({m - 1} - %io * {rows} - %ii)" if m % rows else ""
    spatial = f"loop.for %ii = 0 to {rows} vectorized {{ loop.for %ji = 0 to {lanes} vectorized {{"
    return f"""
loop.func @dense(%A: memref<{m}x{k}x{element}>, %B: memref<{k // g}x{n}x{g}x{element}>, %D: memref<{m}x{n}x{wide}>)
    attributes {{outputs = 1}} {{
  %C = loop.alloc "local" : memref<{m}x{n}x{wide}>
  loop.for %jo = 0 to {n // lanes} {{ loop.for %io = 0 to {-(-m // rows)} {{
    {spatial} loop.block "init" {ranges}{where} {{
      %z = arith.constant {zero}
      loop.store %z, %C[%vi, %vj] : {wide}
    }} }} }}
    loop.for %ko = 0 to {k // g // steps} {{
      {spatial} loop.for %s = 0 to {steps} vectorized {{ loop.for %w = 0 to {g} vectorized {{
        loop.block "dense" {ranges} reduce (%vk : {k} = %ko * {steps * g} + %s * {g} + %w){where} {{
          %a = loop.load %A[%vi, %vk] : {element}
          %b = loop.load %B[%vk floordiv {g}, %vj, %vk mod {g}] : {element}
          %x = loop.cast {casts[0]} %a : {element} to {wide}
          %y = loop.cast {casts[1]} %b : {element} to {wide}
          %c = loop.load %C[%vi, %vj] : {wide}
          %n = loop.fma %x, %y, %c : {wide}, {wide}, {wide}
          loop.store %n, %C[%vi, %vj] : {wide}
      }} }} }}
    }} }} }}
    {spatial} loop.block "relu" {ranges}{where} {{
      %c = loop.load %C[%vi, %vj] : {wide}
      %z = arith.constant {zero}
      %r = {relu} %c, %z : {wide}
      loop.store %r, %D[%vi, %vj] : {wide}
    }} }} }}
  }} }}
}}"""


def operands(element, m, n, k, signs):
    """Both operands as the kernel reads them, and the exact result."""
    import ml_dtypes

    rng, g = np.random.default_rng(m), COUNTS[element]
    dtype = ml_dtypes.bfloat16 if element == "bf16" else np.int8
    draw = rng.standard_normal if element == "bf16" else lambda shape: rng.integers(-128, 128, shape)
    a, b = draw((m, k)).astype(dtype), draw((n, k)).astype(dtype)
    x, y = (v.view(np.uint8) if s == "u" else v for v, s in zip((a, b), signs, strict=True))
    exact = np.maximum(x.astype(np.float64) @ y.astype(np.float64).T, 0)
    return a, np.ascontiguousarray(b.reshape(n, k // g, g).transpose(1, 0, 2)), exact


def tiled(text):
    """The kernel with its loops as tiles."""
    func = parse(text)
    for rewrite in (partition, form_tiles, compact_buffers, promote_tiles):
        rewrite(func)
    return func


SIGNS = [("bf16", "ss"), ("i8", "us"), ("i8", "ss"), ("i8", "su"), ("i8", "uu")]
SIZES = [
    (16, 16, 128, (16, 16), 16),
    (14, 64, 96, (14, 64), 8),
    (5, 24, 48, (5, 24), 4),  # half a register of lanes
]
REST = (37, 64, 192, (32, 32), 16)
"""Two registers of rows, and a rest of rows, whose shape no register is left for: much code, so for two signs alone."""


@pytest.mark.parametrize(
    ("element", "signs", "m", "n", "k", "tile", "steps"),
    [*((*signs, *sizes) for signs in SIGNS for sizes in SIZES), *((*signs, *REST) for signs in SIGNS[:2])],
)
def test_a_matrix_product_is_the_same_everywhere(element, signs, m, n, k, tile, steps):
    k = k // 2 * COUNTS[element]
    a, b, exact = operands(element, m, n, k, signs)
    expected = exact.astype(np.float32 if element == "bf16" else np.int32)
    arrays = [a, b, np.zeros((m, n), expected.dtype)]
    func = tiled(dense(element, m, n, k, tile, steps, signs))
    assert f"x{steps}x{COUNTS[element]}x{element}>" in str(func)

    def check(found, what):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4, err_msg=what)

    check(interp.run(reread(func), arrays)[0], "tiles")
    check(c_run.run(func, arrays)[0], "C99")
    check(native_kernel(func, NATIVE.vector_bits, DOTS)(arrays)[0], "vectors of this machine")
    assert matrix_unit.products() == 0
    with collected_warnings() as warnings:
        kernel = native_kernel(func, 512, AMX)
    assert not warnings
    for shift in (0, 8):
        check(kernel(arrays, shift)[0], "the matrix unit")
    tiles = m // tile[0] * -(-tile[0] // 16) * (n // tile[1]) * -(-tile[1] // 16)
    assert matrix_unit.products() == 2 * tiles * (k // COUNTS[element] // steps)
    if set(AMX).issubset(NATIVE.instructions):
        check(native_kernel(func, 512, NATIVE.instructions, has_unit=True)(arrays)[0], "this machine's matrix unit")


def test_a_kernel_for_the_matrix_unit_assembles():
    func = tiled(dense("bf16", 64, 64, 256, (32, 32), 16))
    module = ModuleOp(lower_kernel(func, 16, instructions=AMX))
    module.verify()
    text = native.assemble(llvm_ir.print_module(module, target="sapphirerapids"), "sapphirerapids")
    assert text.count("tdpbf16ps") == 4
    assert text.count("tileloadd") == 4
    inner = text.split("ldtilecfg")[1]
    assert text.count("ldtilecfg") == 1  # in front of all loops
    assert "tdpbf16ps" in inner
    assert "tilerelease" in inner


@pytest.mark.parametrize("seed", range(12))
def test_random_tiles_find_registers(seed: int):
    """Every shape of a register needs one of its own; LLVM ends the process where there are too few."""
    rng = np.random.default_rng(seed)
    rows, lanes, steps = int(rng.integers(2, 33)), int(rng.choice([16, 24, 32, 48, 64])), int(rng.integers(4, 17))
    if -(-rows // 16) * -(-lanes // 16) > 4:
        lanes = 32
    m = rows * int(rng.integers(1, 4)) + int(rng.integers(0, rows))
    func = tiled(dense("bf16", m, 2 * lanes, 4 * steps, (rows, lanes), steps))
    module = ModuleOp(lower_kernel(func, 16, instructions=AMX))
    text = native.assemble(llvm_ir.print_module(module, target="sapphirerapids"), "sapphirerapids")
    assert "tdpbf16ps" in text
