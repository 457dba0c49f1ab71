"""Intrinsics declared as IR: matched by their structure, emitted, and held against what they mean."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.codegen.c import emit as c
from mlc.codegen.c import prelude as c_prelude
from mlc.driver.kernels.kernel import compile_kernel, kernel_passes
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context
from mlc.interp import loop as interp
from mlc.passes.loop.directives.intrinsics import DECLARED
from mlc.support.errors import UserError
from mlc.support.registered import registrations
from mlc.targets.target import Target
from mlc.validation import c_run

EXAMPLES = Path(__file__).parents[4] / "examples" / "intrinsics"
VNNI = not Target.parse("native").missing(["avx512vnni"]) if Target.parse("native").architecture == "x86_64" else False


@pytest.fixture(autouse=True)
def declared():
    te.load_intrinsics(EXAMPLES / "vpdpbusd.mlir")
    te.load_intrinsics(EXAMPLES / "sdot.mlir")
    yield
    for name in list(DECLARED):
        del DECLARED[name]
        registrations.REGISTERED.pop(("intrinsic", name), None)


def gemm(dtype: str, m: int = 6, n: int = 32, k: int = 32):
    """Bytes times bytes, with the right operand packed by fours along k."""
    a, b = te.placeholder((m, k), dtype, name="A"), te.placeholder((k // 4, n, 4), "int8", name="B")
    ko, ki = te.reduce_axis(k // 4, "ko"), te.reduce_axis(4, "ki")
    product = lambda i, j: te.cast(a[i, ko * 4 + ki], "int32") * te.cast(b[ko, j, ki], "int32")  # noqa: E731
    out = te.compute((m, n), lambda i, j: te.sum(product(i, j), axis=(ko, ki)), name="C")
    return te.func("gemm8", [a, b], [out])


def tensorized(dtype: str, width: int, name: str, target: str) -> mlc.Schedule:
    s = mlc.Schedule(gemm(dtype), target=target)
    i, j, ko, ki = s.loops(s["C"])
    _, ji = s.split(j, [None, width])
    s.reorder(i, s.loops(s["C"])[1], ko, ji, ki)
    s.decompose_reduction(s["C"], ko)
    s.tensorize(ji, name)
    s.vectorize(s.loops(s["C_init"])[-1])
    return s


def operands(dtype: str):
    rng = np.random.default_rng(0)
    a = rng.integers(0, 256, (6, 32)).astype(np.uint8) if dtype == "uint8" else rng.integers(-128, 128, (6, 32))
    b = rng.integers(-128, 128, (32, 32)).astype(np.int8)
    packed = b.reshape(8, 4, 32).transpose(0, 2, 1).copy()
    return a.astype(dtype), packed, a.astype(np.int32) @ b.astype(np.int32)


@pytest.mark.skipif(not VNNI, reason="the CPU has no avx512vnni")
def test_vpdpbusd_runs_and_gives_the_products():
    s = tensorized("uint8", 16, "x86.vpdpbusd", "native")
    a, b, want = operands("uint8")
    np.testing.assert_array_equal(interp.run(s.lowered(), [a.view(np.int8), b])[0], want)
    op = mlc.build(s, threads=1)
    np.testing.assert_array_equal(op(a, b), want)
    assert "vpdpbusd" in op.text("asm")
    assert mlc.Schedule(s.text("module")).text("loop") == s.text("loop")


def _compiled(s: mlc.Schedule, level: str) -> str:
    options = Options(s.target, 3, 1, keep=frozenset({level}))
    skipped = {"te-factor-reductions", "te-inline", "te-clip-bands", "te-pad-queries", "te-add-schedule"}
    passes = [one for one in kernel_passes(options, "te") if one.name not in skipped]
    return compile_kernel(list(s.module.body.block.ops), make_context(), passes, options).texts[level]


def test_sdot_is_assembled_for_aarch64_and_its_c_print_gives_the_products():
    s = tensorized("int8", 4, "aarch64.sdot", "neoverse-n1")
    assert "sdot" in _compiled(s, "asm")
    a, b, want = operands("int8")
    np.testing.assert_array_equal(interp.run(s.lowered(), [a.view(np.int8), b])[0], want)
    kernels = c_run.compile_and_load(c_prelude.PRELUDE + c.print_function(s.lowered()))
    out = np.full((6, 32), -1, np.int32)
    assert kernels["gemm8"]([a, b, out]) == 0
    np.testing.assert_array_equal(out, want)


def test_sdot_runs_under_qemu(tmp_path):
    tools = ["aarch64-linux-gnu-gcc", "qemu-aarch64"]
    if missing := [tool for tool in tools if shutil.which(tool) is None]:
        pytest.skip(f"{', '.join(missing)} is not installed")
    s = tensorized("int8", 4, "aarch64.sdot", "neoverse-n1")
    (tmp_path / "k.s").write_text(_compiled(s, "asm"))
    a, b, want = operands("int8")
    data = [", ".join(map(str, x.ravel())) for x in (a, b, want)]
    (tmp_path / "main.c").write_text(
        "#include <stdint.h>\nint32_t gemm8(void **, void *);\n"
        f"static int8_t a[] = {{{data[0]}}}, b[] = {{{data[1]}}};\nstatic int32_t want[] = {{{data[2]}}}, out[192];\n"
        "int main(void) { void *args[] = {a, b, out, 0}; if (gemm8(args, 0)) return 2;\n"
        "for (int k = 0; k < 192; k++) if (out[k] != want[k]) return 1; return 0; }\n"
    )
    subprocess.run([tools[0], "-static", "-o", "k", "k.s", "main.c"], cwd=tmp_path, check=True)
    assert subprocess.run([tools[1], "./k"], cwd=tmp_path, check=False).returncode == 0


def test_an_intrinsic_that_the_target_lacks_is_refused():
    with pytest.raises(UserError, match=r"'x86.vpdpbusd' needs avx512vnni, which target 'x86-64-v3' lacks"):
        tensorized("uint8", 16, "x86.vpdpbusd", "x86-64-v3")
    s = mlc.Schedule(gemm("uint8"), target="znver4")
    i, j, ko, ki = s.loops(s["C"])
    _, ji = s.split(j, [None, 16])
    s.reorder(i, s.loops(s["C"])[1], ko, ji, ki)
    s.decompose_reduction(s["C"], ko)
    s.tensorize(ji, "x86.vpdpbusd")
    with pytest.raises(UserError, match=r"needs avx512vnni, which target 'x86-64-v3' lacks"):
        mlc.build(s, target="x86-64-v3", cache=False)


@pytest.mark.parametrize(
    ("dtype", "width", "reorder", "message"),
    [
        ("int8", 16, True, r"`.*extui.*`, but got `.*extsi"),
        ("uint8", 8, True, "expected 16 iterations of loop %j_i, as loop %j has, but got 8"),
        ("uint8", 16, False, "expected 2 loops inside each other, but got 3"),
    ],
)
def test_what_differs_from_the_meaning_is_said(dtype, width, reorder, message):
    s = mlc.Schedule(gemm(dtype), target="znver4")
    i, j, ko, ki = s.loops(s["C"])
    jo, ji = s.split(j, [None, width])
    if reorder:
        s.reorder(i, jo, ko, ji, ki)
    s.decompose_reduction(s["C"], ko if reorder else ji)
    before = s.text("loop"), str(s)
    with pytest.raises(UserError, match=message):
        s.tensorize(ji, "x86.vpdpbusd")
    assert (s.text("loop"), str(s)) == before


def test_an_access_that_moves_in_another_way_is_refused():
    a, b = te.placeholder((4, 8), "uint8", name="A"), te.placeholder((8, 16), "int8", name="B")
    k = te.reduce_axis(8, "k")
    c_ = te.compute(
        (4, 16), lambda i, j: te.sum(te.cast(a[i, k], "int32") * te.cast(b[k, j], "int32"), axis=k), name="C"
    )
    s = mlc.Schedule(te.func("plain", [a, b], [c_]), target="znver4")
    i, j, k = s.loops(s["C"])
    ko, ki = s.split(k, [None, 4])
    s.reorder(i, ko, j, ki)
    s.decompose_reduction(s["C"], ko)
    with pytest.raises(UserError, match=r"expected %B at indices that move as %b\[%vj, %vk\] does, but got %B\["):
        s.tensorize(j, "x86.vpdpbusd")


MEANS = """
loop.func @double(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 8 { loop.block "d" (%v : 8 = %i) {
    %0 = loop.load %x[%v] : f32
    %1 = arith.addf %0, %0 : f32
    loop.store %1, %y[%v] : f32
  } }
}
"""
EMITS = """
loop.func @fast(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %0 = loop.load %x[d0] tile (d0 : 8) : vector<8xf32>
  %1 = arith.OPf %0, %0 : vector<8xf32>
  loop.store %1, %y[d0] tile (d0 : 8) : vector<8xf32>
}
"""


def doubled() -> mlc.Schedule:
    x = te.placeholder((5, 16), name="X")
    s = mlc.Schedule(te.func("doubled", [x], [te.compute((5, 16), lambda i, j: x[i, j] + x[i, j], name="D")]))
    _, ji = s.split(s.loops(s["D"])[1], [None, 8])
    s.tensorize(ji, "double8")
    return s


def test_an_intrinsic_of_texts_is_compiled_and_its_values_are_checked():
    te.intrinsic("double8", MEANS, EMITS.replace("OP", "add"))
    x = np.arange(80, dtype=np.float32).reshape(5, 16)
    np.testing.assert_array_equal(mlc.build(doubled(), threads=1)(x), x + x)
    te.intrinsic("double8", MEANS, EMITS.replace("OP", "mul"))
    with pytest.raises(UserError, match=r"expected 'double8' to compute what it means, but it gives .* at \[0\]"):
        mlc.build(doubled(), threads=1)


def test_a_te_function_is_a_meaning():
    x = te.placeholder((8,), name="x")
    means = te.func("double", [x], [te.compute((8,), lambda i: x[i] + x[i], name="y")])
    te.intrinsic("double8", means, EMITS.replace("OP", "add"))
    x = np.arange(80, dtype=np.float32).reshape(5, 16)
    np.testing.assert_array_equal(mlc.build(doubled(), threads=1)(x), x + x)


RAMP = """
loop.func @ramp(%x: memref<8xf32>, %y: memref<8xf32>) attributes {outputs = 1 : i64} {
  %0 = loop.load %x[d0] tile (d0 : 8) : vector<8xf32>
  %2 = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : vector<8xf32>
  %3 = arith.mulf %0, %2 : vector<8xf32>
  loop.store %3, %y[d0] tile (d0 : 8) : vector<8xf32>
}
"""


def ramp(n: int, name: str = "R"):
    x = te.placeholder((n,), name="X")
    return te.func("ramp", [x], [te.compute((n,), lambda i: x[i] * te.cast(i, "float32"), name=name)])


def test_an_index_is_part_of_what_an_intrinsic_means():
    te.intrinsic("ramp8", ramp(8), RAMP)
    whole, parts = mlc.Schedule(ramp(8)), mlc.Schedule(ramp(16))
    whole.tensorize(whole.loops(whole["R"])[0], "ramp8")
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(mlc.build(whole, threads=1)(x), x * x)
    _, inner = parts.split(parts.loops(parts["R"])[0], [None, 8])
    with pytest.raises(UserError, match=r"expected the value of %\w+ in @means, but got %\w+ \* 8 \+ %\w+"):
        parts.tensorize(inner, "ramp8")


def test_a_meaning_that_starts_behind_index_0_is_refused():
    later = MEANS.replace("%x: memref<8xf32>", "%x: memref<9xf32>").replace("%x[%v]", "%x[%v + 1]")
    te.intrinsic("double8", later, EMITS.replace("OP", "add").replace("memref<8xf32>, %y", "memref<9xf32>, %y"))
    with pytest.raises(UserError, match=r"expected @means to access %x from index 0 on, but got %x\[%v \+ 1\]"):
        doubled()


def test_wrong_declarations_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"expected @emits of the type of @means"):
        te.intrinsic("d", MEANS, EMITS.replace("OP", "add").replace("memref<8xf32>, %y", "memref<9xf32>, %y"))
    with pytest.raises(UserError, match=r"expected operations on tiles in @emits, but got loop.for"):
        te.intrinsic("d", MEANS, MEANS)
    (tmp_path / "m.mlir").write_text(MEANS)
    with pytest.raises(UserError, match=r"m.mlir: expected sched.intrinsic operations, but got loop.func"):
        te.load_intrinsics(tmp_path / "m.mlir")
    s = mlc.Schedule(MEANS)
    with pytest.raises(UserError, match=r"expected an intrinsic of dot_accumulate, .*, but got 'double9'"):
        s.tensorize(s.loops(s["d"])[0], "double9")
