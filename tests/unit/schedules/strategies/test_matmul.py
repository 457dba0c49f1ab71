"""Matrix products of every layout, blocked and not, give what numpy gives; how they are blocked; what is transposed."""

from dataclasses import replace

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results

import mlc
from mlc import te
from mlc.dialects.te import FuncOp
from mlc.runtime.cpu import refusal
from mlc.schedules.knobs import given
from mlc.schedules.strategy import choose_schedule
from mlc.targets.target import Target

NATIVE = Target.parse("native")
SMALL = replace(NATIVE, l1_bytes=4 << 10, l2_bytes=16 << 10)


def product(m: int, n: int, k: int, layout: str = "nn", batch: int = 0, bias: bool = False) -> FuncOp:
    """The product as te: `layout` says which operands are transposed, p is a packed right operand."""
    left_t, right_t, packed = layout[0] == "t", layout[1] == "t", layout[1] == "p"
    outer = (batch,) if batch else ()
    a = te.placeholder((*outer, k, m) if left_t else (*outer, m, k), name="A")
    shape = (-(-n // 32), k, 32) if packed else (*outer, n, k) if right_t else (*outer, k, n)
    b, axis = te.placeholder(shape, name="B"), te.reduce_axis(k, "k")
    vector = te.placeholder((n,), name="bias")

    def body(*at):
        *o, i, j = at
        left = a[(*o, axis, i)] if left_t else a[(*o, i, axis)]
        right = b[j // 32, axis, j % 32] if packed else b[(*o, j, axis)] if right_t else b[(*o, axis, j)]
        return te.sum(left * right, axis=axis)

    c = te.compute((*outer, m, n), body, name="C")
    if not bias:
        return te.func("product", [a, b], [c])
    d = te.compute((*outer, m, n), lambda *at: c[at] + vector[at[-1]], name="D")
    return te.func("product", [a, b, vector], [d])


def check(func: FuncOp, layout: str, threads: int, target: Target = NATIVE) -> None:
    """Build with the strategy's schedule for a target, run, and compare with numpy."""
    op = mlc.build(func.clone(), schedule=choose_schedule(func, target, threads), threads=threads, cache=False)
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, spec.shape).astype(np.float32) for spec in op.inputs]
    a, b = inputs[:2]
    n = op.outputs[0].shape[-1]
    left = a.swapaxes(-1, -2) if layout[0] == "t" else a
    right = b.swapaxes(-1, -2) if layout[1] == "t" else b
    if layout[1] == "p":
        right = b.transpose(1, 0, 2).reshape(b.shape[1], -1)[:, :n]
    want = left.astype(np.float64) @ right + (inputs[2] if len(inputs) > 2 else 0)
    np.testing.assert_allclose(op(*inputs), want, rtol=1e-4, atol=1e-4)


def directives(func: FuncOp, target: Target, threads: int = 1) -> str:
    """The strategy's schedule as text."""
    schedule = choose_schedule(func, target, threads)
    assert "matmul" in str(schedule.attributes["strategy"])
    return str(schedule)


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt", "np"])
@pytest.mark.parametrize("shape", [(37, 61, 53), (64, 96, 128), (40, 260, 128)])
def test_blocked_products(shape: tuple[int, int, int], layout: str) -> None:
    check(product(*shape, layout, bias=True), layout, 2, SMALL)


@pytest.mark.parametrize("layout", ["nn", "nt"])
def test_batches(layout: str) -> None:
    check(product(29, 40, 17, layout, batch=3), layout, 2)


@pytest.mark.parametrize("shape", [(24, 9, 33), (131, 16, 8), (25, 33, 1), (40, 13, 1025)])
def test_transposed_edges(shape: tuple[int, int, int]) -> None:
    check(product(*shape, "nt"), "nt", 2)


def test_blocks_follow_the_caches() -> None:
    small = directives(product(64, 512, 128), SMALL, 2)
    assert "sched.cache_read" in small
    assert "sched.transform_layout" in small
    assert small.count("sched.parallel") == 1
    plain = directives(product(64, 512, 128), NATIVE)
    assert "sched.cache_read" not in plain


def test_packed_operand_is_not_copied() -> None:
    assert "sched.cache_read" not in directives(product(64, 96, 128, "np"), SMALL)


@pytest.mark.parametrize(
    ("target", "rows", "depth", "columns", "copied"),
    [
        ("znver4", 96, 384, 2048, False),  # 7 row tiles of 14x2: L2 gives the vectors while a tile adds
        ("znver4", 512, 384, 2048, True),  # 37 row tiles
        ("znver4", 48, 768, 4096, True),  # rows of B push each other out of L2
        ("znver3", 96, 384, 2048, True),  # 16 row tiles of 6x2
        ("znver3", 16, 384, 2048, False),  # 3 row tiles
    ],
)
def test_panels_are_copied_for_many_row_tiles(target: str, rows: int, depth: int, columns: int, copied: bool) -> None:
    schedule = directives(product(rows, columns, depth), Target.parse(target))
    assert ("sched.cache_read" in schedule) is copied


def test_few_rows_are_not_worth_a_transposed_copy() -> None:
    schedule = choose_schedule(product(8, 96, 128, "nt"), NATIVE, 1)
    assert "sched.cache_read" not in str(schedule)


def test_rows_that_share_a_set_of_l1() -> None:
    """Twelve rows of the thirteen that the registers of AVX-512 take."""
    target = replace(Target.parse("x86-64-v4"), l1_bytes=48 << 10)
    assert "sched.split %0 [?, 12]" in directives(product(48, 64, 1024), target)


def test_small_products_stay_on_one_thread() -> None:
    assert "sched.parallel" not in directives(product(16, 32, 64), NATIVE, 2)


# --- panels of narrow elements ---


def narrow_product(m: int, n: int, k: int, dtype: str) -> FuncOp:
    """A product by a packed right operand of a narrow type, which is cast to f32."""
    a, b = te.placeholder((m, k), name="A"), te.placeholder((-(-n // 16), k, 16), dtype, name="B")
    axis = te.reduce_axis(k, "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis] * te.cast(b[j // 16, axis, j % 16], "float32"), axis), "C")
    return te.func("product", [a, b], [c])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "bfloat16"])
@pytest.mark.parametrize(("shape", "threads"), [((101, 50, 70), 1), ((128, 96, 64), 2), ((97, 40, 530), 1)])
def test_panels_of_narrow_elements_are_widened_once(dtype: str, shape: tuple[int, int, int], threads: int) -> None:
    func = narrow_product(*shape, dtype)
    for target in (Target.parse("x86-64-v3"), replace(Target.parse("x86-64-v3"), l2_bytes=16 << 10)):
        schedule = choose_schedule(func, target, threads)
        assert 'sched.cache_read %C[1] "local" as f32' in str(schedule)
        op = mlc.build(func.clone(), schedule=schedule, threads=threads, cache=False)
        rng = np.random.default_rng(0)
        left = rng.integers(-9, 9, op.inputs[0].shape).astype(np.float32)
        panels = rng.integers(0, 100, op.inputs[1].shape).astype(op.inputs[1].dtype)
        right = panels.astype(np.float32).transpose(1, 0, 2).reshape(shape[2], -1)[:, : shape[1]]
        np.testing.assert_array_equal(op(left, panels), left @ right)  # exact: whole numbers below 2 ** 24


@pytest.mark.parametrize(
    ("shape", "dtype", "target"),
    [
        ((16, 96, 64), "int8", "x86-64-v3"),  # few rows
        ((48, 96, 64), "float16", "x86-64-v3"),  # one instruction widens a vector, so it takes more rows
        ((128, 96, 2048), "int8", "x86-64-v3"),  # a panel of f32 would not stay near
        ((128, 96, 64), "float32", "x86-64-v3"),
        ((128, 96, 64), "int8", "x86-64-v4"),  # not measured to pay
    ],
)
def test_panels_that_stay_narrow(shape: tuple[int, int, int], dtype: str, target: str) -> None:
    assert "sched.cache_read" not in str(choose_schedule(narrow_product(*shape, dtype), Target.parse(target), 1))


def test_a_narrow_data_path_widens_f16_in_fewer_rows() -> None:
    schedules = [choose_schedule(narrow_product(48, 96, 64, "float16"), Target.parse(f"znver{k}"), 1) for k in (1, 3)]
    assert ["sched.cache_read" in str(one) for one in schedules] == [True, False]


def test_rows_of_an_open_size_stay_narrow() -> None:
    """A call may have a single row, for which a copy of a panel would take as long as the product."""
    m, axis = te.var("m"), te.reduce_axis(64, "k")
    a, b = te.placeholder((m, 64), name="A"), te.placeholder((6, 64, 16), "int8", name="B")
    c = te.compute((m, 96), lambda i, j: te.sum(a[i, axis] * te.cast(b[j // 16, axis, j % 16], "float32"), axis), "C")
    schedule = choose_schedule(te.func("product", [a, b], [c]), Target.parse("x86-64-v3"), 1)
    assert "sched.cache_read" not in str(schedule)


@pytest.mark.parametrize(("rows", "value", "widened"), [(48, "auto", False), (48, "on", True), (128, "off", False)])
def test_the_knob_decides_whether_panels_are_widened(rows: int, value: str, widened: bool) -> None:
    with given({"widen": value}):
        schedule = choose_schedule(narrow_product(rows, 96, 64, "float16"), Target.parse("x86-64-v3"), 1)
    assert ("sched.cache_read" in str(schedule)) is widened


@pytest.mark.parametrize(("rows", "units"), [(12, 20), (6, 28), (3, 36), (14, 12)])
def test_half_a_vector_that_rows_share_leaves_registers(rows: int, units: int, capsys: pytest.CaptureFixture[str]):
    s = Small(case="units")
    s.out(s.op("MatMul", s.x(rows, 40), s.w(40, units)))
    exe = mlc.compile(mlc.load(s.proto()), target="x86-64-v3", threads=1, cache=False)
    assert "native vectors" not in capsys.readouterr().err
    if refusal(exe.artifact.model) is None:
        assert mismatches(s, exe, onnxruntime_results(s)) == []


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize(("m", "n", "k"), [(37, 61, 29), (64, 96, 300), (600, 70, 1100)])
def test_tiles_of_doubles_fit_the_registers(m: int, n: int, k: int, target: str, capsys: pytest.CaptureFixture[str]):
    """A native vector has half as many elements of f64 as of f32."""
    a, b = te.placeholder((m, k), "float64", name="A"), te.placeholder((k, n), "float64", name="B")
    axis = te.reduce_axis(k, "k")
    c = te.compute((m, n), lambda i, j: te.sum(a[i, axis] * b[axis, j], axis=axis), name="C")
    func, cpu = te.func("product", [a, b], [c]), Target.parse(target)
    op = mlc.build(func, schedule=choose_schedule(func, cpu, 1), target=cpu, cache=False)
    assert "native vectors" not in capsys.readouterr().err
    if NATIVE.vector_bits >= cpu.vector_bits:
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal((m, k)), rng.standard_normal((k, n))
        np.testing.assert_allclose(op(x, y), x @ y, rtol=1e-10, atol=1e-10)
