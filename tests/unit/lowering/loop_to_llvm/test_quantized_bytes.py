"""Floats rounded, clipped and stored as bytes: the interpreter and native code of every width agree."""

import numpy as np
import pytest
from loop_native import PASSES, native_kernel, parse

from mlc.interp import loop as interp
from mlc.targets.target import Target

BYTES = {"fptoui": np.uint8, "fptosi": np.int8}
NATIVE = Target.parse("native")
WIDTHS = [bits for bits in (128, 256, 512) if bits <= NATIVE.vector_bits]
"""The instructions of wider vectors abort LLVM."""


def kernel(rows: int, lanes: int, kind: str, zero: int, low: int, high: int, stride: int) -> str:
    """`cast (clip (round %x + zero))`, row by row of a buffer whose rows may lie apart."""
    return f"""
loop.func @k(%x: memref<{rows}x{lanes}xf32>, %y: memref<{rows}x{stride}xi8>) attributes {{outputs = 1 : i64}} {{
  loop.for %i = 0 to {rows} vectorized {{ loop.for %j = 0 to {lanes} vectorized {{
    loop.block "b" (%u : {rows} = %i, %v : {lanes} = %j) {{
      %low = arith.constant {low}.0 : f32
      %high = arith.constant {high}.0 : f32
      %zero = arith.constant {zero}.0 : f32
      %0 = loop.load %x[%u, %v] : f32
      %1 = math.roundeven %0 : f32
      %2 = arith.addf %1, %zero : f32
      %3 = arith.maximumf %2, %low : f32
      %4 = arith.minimumf %3, %high : f32
      %5 = loop.cast {kind} %4 : f32 to i8
      loop.store %5, %y[%u, %v] : i8
    }}
  }} }}
}}"""


def floats(rows: int, lanes: int) -> np.ndarray:
    """Halves, which round to even, and numbers that are far out."""
    rng = np.random.default_rng(0)
    x = rng.integers(-700, 700, (rows, lanes)).astype(np.float32) / 2
    wild = np.float32(
        [np.inf, -np.inf, 3e38, -3e38, 2.0**31, -(2.0**31), 2.0**31 - 128, 1e10, -1e10, 32767.5, -32768.5]
    )
    x.flat[:: max(1, x.size // len(wild))][: len(wild)] = wild[: len(x.flat[:: max(1, x.size // len(wild))])]
    return x


@pytest.mark.parametrize(("rows", "lanes"), [(1, 64), (5, 16), (3, 24), (2, 7), (6, 8), (1, 1)])
@pytest.mark.parametrize(
    ("kind", "zero", "low", "high"),
    [
        ("fptoui", 0, 0, 255),
        ("fptoui", 255, 0, 255),
        ("fptoui", 3, 3, 200),
        ("fptosi", 0, -128, 127),
        ("fptosi", -128, -128, 127),
        ("fptosi", 127, -5, 90),
    ],
)
def test_bytes_are_rounded_and_saturated(rows: int, lanes: int, kind: str, zero: int, low: int, high: int) -> None:
    for stride in (lanes, lanes + 3):
        func = parse(kernel(rows, lanes, kind, zero, low, high, stride))
        x = floats(rows, lanes)
        wanted = np.clip(np.rint(x) + zero, low, high).astype(BYTES[kind])
        arrays = [x, np.zeros((rows, stride), np.int8)]
        for rewrite in PASSES:
            rewrite(func)
        assert (interp.run(func, arrays)[0].view(BYTES[kind])[:, :lanes] == wanted).all()
        for bits, names in (
            (NATIVE.vector_bits, NATIVE.instructions),
            (256, ("pmaddwd",)),
            (128, ("pmaddwd",)),
            (512, ()),
        ):
            run = native_kernel(func, bits, names)
            found = run(arrays)[0].view(BYTES[kind])[:, :lanes]
            assert (found == wanted).all(), (bits, names)


@pytest.mark.parametrize("bits", WIDTHS)
def test_neighbouring_vectors_are_packed(bits: int) -> None:
    func = parse(kernel(4, bits // 32, "fptoui", 3, 0, 255, bits // 32))
    for rewrite in PASSES:
        rewrite(func)
    text = native_kernel(func, bits, ("pmaddwd",)).ir
    calls = [line for line in text.splitlines() if " call " in line and "@llvm.x86." in line]
    assert len(calls) == 4 + 3  # four conversions, three packs
    assert text.count(f"store <{bits // 8} x i8>") == 1


@pytest.mark.parametrize("bits", WIDTHS)
def test_ends_that_are_infinite_are_no_numbers_to_clip_at(bits: int) -> None:
    func = parse(kernel(2, 32, "fptoui", 0, 0, 255, 32).replace("constant 255.0", "constant 0x7F800000"))
    for rewrite in PASSES:
        rewrite(func)
    x = np.arange(64, dtype=np.float32).reshape(2, 32) + 0.5
    (found,) = native_kernel(func, bits, ("pmaddwd",))([x, np.zeros((2, 32), np.int8)])
    np.testing.assert_array_equal(found, np.rint(x))


@pytest.mark.parametrize("wide", ["i16", "i32", "i64"])
@pytest.mark.parametrize("lanes", [17, 35, 65])
def test_truncated_lanes_write_nothing_behind_them(wide: str, lanes: int) -> None:
    func = parse(f"""
loop.func @k(%x: memref<2x{lanes}x{wide}>, %y: memref<2x{lanes}xi8>) attributes {{outputs = 1 : i64}} {{
  loop.for %i = 0 to 2 vectorized {{ loop.for %j = 0 to {lanes} vectorized {{
    loop.block "b" (%u : 2 = %i, %v : {lanes} = %j) {{
      %0 = loop.load %x[%u, %v] : {wide}
      %1 = loop.cast trunci %0 : {wide} to i8
      loop.store %1, %y[%u, %v] : i8
    }}
  }} }}
}}""")
    for rewrite in PASSES:
        rewrite(func)
    x = np.arange(2 * lanes).reshape(2, lanes).astype({"i16": np.int16, "i32": np.int32, "i64": np.int64}[wide])
    for bits in (128, 256, 512):
        (found,) = native_kernel(func, bits, ())([x, np.zeros((2, lanes), np.int8)])
        assert (found.view(np.uint8) == x.astype(np.uint8)).all(), bits
