"""Contractions for a target with a matrix unit: its tiles are chosen, and give what the te interpreter computes."""

import matrix_unit
import ml_dtypes
import numpy as np
import pytest
from loop_native import native_kernel
from native import parse, through
from strategy_cases import compute, kernel
from xdsl.dialects.builtin import MemRefType

from mlc.dialects import loop
from mlc.interp import te as te_interpreter
from mlc.interp.loop import run
from mlc.support.errors import UserError
from mlc.targets.target import Target
from mlc.validation import c_run

TARGET = "sapphirerapids"
DOTS = Target.parse("native").instructions if Target.parse("native").vector_bits == 512 else ()
INSTRUCTIONS = tuple(i for i in Target.parse(TARGET).instructions if i in DOTS or i.startswith("tdp"))
"""Those of the matrix unit, which runs in software, and the dot products of 512 bits that this machine has."""
WORDS = {"bf16": 2, "i8": 4}
DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "i8": np.dtype(np.int8), "f32": np.dtype("f4"), "i32": np.dtype("i4")}


def summed(name: str, spatial: str, reduce: str, a: str, b: str, out: str, element: str) -> str:
    """A sum of products of narrow factors; bytes of a are unsigned."""
    floats = element == "bf16"
    wide, kinds, multiply = ("f32", ("extf", "extf"), "mulf") if floats else ("i32", ("extui", "extsi"), "muli")
    body = (
        f"%0 = te.read {a} : {element}\n%1 = te.read {b} : {element}\n"
        f"%2 = arith.{kinds[0]} %0 : {element} to {wide}\n%3 = arith.{kinds[1]} %1 : {element} to {wide}\n"
        f"%4 = arith.{multiply} %2, %3 : {wide}\nte.yield %4 : {wide}"
    )
    return compute(name, spatial, body, out, f"reduce ({reduce}) sum")


def relu(spatial: str, read: str, out: str, wide: str) -> str:
    zero, largest = ("0.0 : f32", "maximumf") if wide == "f32" else ("0 : i32", "maxsi")
    body = f"%0 = te.read {read} : {wide}\n%z = arith.constant {zero}\n%1 = arith.{largest} %0, %z : {wide}\n"
    return compute("o", spatial, f"{body}te.yield %1 : {wide}", out)


def dense(m: int, n: int, k: int, element: str) -> str:
    """Rows times packed columns, and a relu."""
    g, wide = WORDS[element], "f32" if element == "bf16" else "i32"
    weights, out = f"tensor<{-(-n // 32)}x{k // g}x32x{g}x{element}>", f"tensor<{m}x{n}x{wide}>"
    spatial = f"%i : {m}, %j : {n}"
    read = f"%w[%j floordiv 32, %k floordiv {g}, %j mod 32, %k mod {g}]"
    stages = summed("d", spatial, f"%k : {k}", "%x[%i, %k]", read, out, element)
    stages += relu(spatial, "%d[%i, %j]", out, wide)
    return kernel(f"%x: tensor<{m}x{k}x{element}>, %w: {weights}", stages, "o", out)


def conv(
    channels: int, outputs: int, size: int, element: str, stride: int = 1, window: int = 3, block: int = 16
) -> str:
    """A convolution of blocked channels without padding, and a relu."""
    g, wide, to = WORDS[element], "f32" if element == "bf16" else "i32", (size - window) // stride + 1
    x = f"tensor<1x{channels}x{size}x{size}x{block}x{element}>"
    w = f"tensor<{outputs}x{channels}x{window}x{window}x{block // g}x{block}x{g}x{element}>"
    out = f"tensor<1x{outputs}x{to}x{to}x{block}x{wide}>"
    spatial = f"%n : 1, %o : {outputs}, %h : {to}, %v : {to}, %b : {block}"
    stages = summed(
        "c",
        spatial,
        f"%ic : {channels}, %kh : {window}, %kw : {window}, %ib : {block}",
        f"%x[%n, %ic, %h * {stride} + %kh, %v * {stride} + %kw, %ib]",
        f"%w[%o, %ic, %kh, %kw, %ib floordiv {g}, %b, %ib mod {g}]",
        out,
        element,
    )
    stages += relu(spatial, "%c[%n, %o, %h, %v, %b]", out, wide)
    return kernel(f"%x: {x}, %w: {w}", stages, "o", out)


def grouped(groups: int, size: int, element: str) -> str:
    """A convolution of groups of 32 channels, each two blocks of 16, by windows of 3 x 3 without padding."""
    g, wide, to, blocks = WORDS[element], "f32" if element == "bf16" else "i32", size - 2, 2 * groups
    x = f"tensor<1x{blocks}x{size}x{size}x16x{element}>"
    w = f"tensor<{blocks}x2x3x3x{16 // g}x16x{g}x{element}>"
    out = f"tensor<1x{blocks}x{to}x{to}x16x{wide}>"
    spatial = f"%n : 1, %o : {blocks}, %h : {to}, %v : {to}, %b : 16"
    stages = summed(
        "c",
        spatial,
        "%ic : 2, %kh : 3, %kw : 3, %ib : 16",
        "%x[%n, %o floordiv 2 * 2 + %ic, %h + %kh, %v + %kw, %ib]",
        f"%w[%o, %ic, %kh, %kw, %ib floordiv {g}, %b, %ib mod {g}]",
        out,
        element,
    )
    stages += relu(spatial, "%c[%n, %o, %h, %v, %b]", out, wide)
    return kernel(f"%x: {x}, %w: {w}", stages, "o", out)


def arrays_of(func: loop.FuncOp) -> list[np.ndarray]:
    rng, arrays = np.random.default_rng(3), []
    for arg in func.args:
        assert isinstance(arg.type, MemRefType)
        dtype, shape = DTYPES[str(arg.type.element_type)], arg.type.get_shape()
        drawn = rng.integers(-128, 128, shape) if dtype.kind == "i" else rng.standard_normal(shape)
        arrays.append(drawn.astype(dtype))
    return arrays


def first(module) -> loop.FuncOp:
    func = next(op for op in module.body.block.ops if isinstance(op, loop.FuncOp))
    return func


SCHEDULED = ("convert-te-to-loop", "loop-apply-schedule", "loop-tiles")
CASES = {
    "dense": (dense, (64, 96, 128)),
    "dense, one row tile": (dense, (12, 64, 64)),
    "dense, ragged rows": (dense, (77, 64, 128)),
    "dense, twelve words": (dense, (32, 32, 96)),
    "dense, blocked": (dense, (192, 320, 512)),
    "conv": (conv, (2, 4, 10)),
    "conv, wide picture": (conv, (2, 2, 31)),
    "conv, stride 2": (conv, (1, 3, 15), 2),
    "conv 1x1": (conv, (4, 4, 7), 1, 1),
    "conv, wide blocks": (conv, (1, 2, 30), 1, 3, 64),
    "conv, groups": (grouped, (3, 10)),
}
WITH_REST = ["conv, wide picture"]
"""29 pixels are two registers of 14, and one that is left to vectors."""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("element", WORDS)
@pytest.mark.parametrize("name", CASES)
def test_matrix_tiles_give_the_values_of_the_plain_loops(name: str, element: str, threads: int) -> None:
    make, sizes, *options = CASES[name]
    text = make(*sizes, element, *options)
    if name == "dense, blocked":
        text = text.replace("{\n", 'attributes {mlc.knobs = {blocked = "on", depth = 64 : i64}} {\n', 1)
    plain = parse(text)
    arrays = arrays_of(first(through(plain.clone(), "convert-te-to-loop")))
    expected = te_interpreter.run(plain.body.block.first_op, arrays[:-1])[0]
    func = first(through(parse(text), f"te-add-schedule{{target={TARGET} threads={threads}}}", *SCHEDULED))
    assert "loop.contract" in str(func)
    tolerance = {"rtol": 1e-5, "atol": 1e-4}
    np.testing.assert_allclose(run(func, arrays)[0], expected, **tolerance)
    np.testing.assert_allclose(c_run.run(func, arrays)[0], expected, **tolerance)
    matrix_unit.products()
    found = native_kernel(func, 512, INSTRUCTIONS)
    np.testing.assert_allclose(found(arrays)[0], expected, **tolerance)
    assert matrix_unit.products() > 0
    dot = {"bf16": "dpbf16ps", "i8": "dpbusd"}[element]
    assert ("dpbf16ps.512" in found.ir or "vpdpbusd" in found.ir) == (name in WITH_REST and dot in DOTS)


@pytest.mark.parametrize(("rows", "depth"), [(2, 64), (64, 4), (64, 34)])  # few rows, few words, 17 words
def test_small_products_stay_with_vectors(rows: int, depth: int) -> None:
    func = first(through(parse(dense(rows, 64, depth, "bf16")), f"te-add-schedule{{target={TARGET}}}", *SCHEDULED))
    assert "x32x2xbf16>" in str(func)
    assert "x86_amx" not in native_kernel(func, 512, INSTRUCTIONS).ir


def test_a_tile_of_too_many_registers_is_refused() -> None:
    knobs = "attributes {mlc.knobs = {tile_rows = 32 : i64, tile_lanes = 128 : i64}}"
    text = dense(64, 128, 128, "bf16").replace("xf32> {", f"xf32> {knobs} {{", 1)
    with pytest.raises(UserError, match="at most 6 matrices, the registers of the target for sums, but got 16"):
        through(parse(text), f"te-add-schedule{{target={TARGET}}}")
