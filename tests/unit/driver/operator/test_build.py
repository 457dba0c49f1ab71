"""`mlc.build`: one operator from mlc.te tensors, te and loop IR, with and without a schedule."""

import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith

import mlc
from mlc.driver.operator.arguments import KernelArguments
from mlc.support.errors import UserError

RELU = """
te.func @relu(%x: tensor<100xf32>) -> tensor<100xf32> {
  %relu = te.compute "relu" (%i : 100) {
    %0 = te.read %x[%i] : f32
    %zero = arith.constant 0.0 : f32
    %1 = arith.maximumf %0, %zero : f32
    te.yield %1 : f32
  } : tensor<100xf32>
  te.return %relu : tensor<100xf32>
}
"""
SCHEDULE = """
sched.schedule @relu {
  %c = sched.block "relu" : !sched.block
  %i = sched.loops %c : 1
  %o, %l = sched.split %i [?, 8]
  sched.vectorize %l
}
"""
X = np.random.default_rng(0).standard_normal(100).astype(np.float32)


def matmul(m: int, n: int, k: int) -> Any:
    te = mlc.te
    a = te.placeholder((m, k), name="A")
    b = te.placeholder((k, n), name="B")
    r = te.reduce_axis(k)
    return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")


def test_tensors_of_the_builder():
    a, b, c = matmul(33, 47, 29)
    op = mlc.build([a, b, c], threads=1)
    x, y = X.repeat(10)[: 33 * 29].reshape(33, 29), X.repeat(14)[: 29 * 47].reshape(29, 47)
    np.testing.assert_allclose(op(x, y), x @ y, rtol=1e-4, atol=1e-4)
    assert [str(s) for s in (*op.inputs, *op.outputs)] == [
        "A: 33x29 float32", "B: 29x47 float32", "output0: 33x47 float32"
    ]  # fmt: skip
    swapped = mlc.build([b, a, c], threads=1)
    np.testing.assert_allclose(swapped(y, x), op(x, y))
    only_output = mlc.build(c, threads=1)
    assert np.array_equal(only_output(x, y), op(x, y))


def test_two_threads_agree_with_one():
    a, b, c = matmul(96, 128, 64)
    x = np.random.default_rng(1).standard_normal((96, 64)).astype(np.float32)
    y = np.random.default_rng(2).standard_normal((64, 128)).astype(np.float32)
    np.testing.assert_allclose(mlc.build([a, b, c], threads=2)(x, y), x @ y, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("schedule", [None, SCHEDULE])
def test_te_text(schedule: str | None):
    op = mlc.build(RELU, schedule=schedule, threads=1)
    assert np.array_equal(op(X), np.maximum(X, 0))
    beside = mlc.build(RELU + (schedule or ""), threads=1)
    assert np.array_equal(beside(X), np.maximum(X, 0))


def test_the_schedule_is_what_was_asked_for():
    op = mlc.build(RELU, schedule=SCHEDULE)
    assert "vector<8xf32>" in op.text("loop")
    assert "sched.split" in op.text("te")
    assert "define i32 @relu" in op.text("llvm-ir")


def test_loop_text():
    text = """
    loop.func @twice(%x: memref<10xf32>, %y: memref<10xf32>) attributes {outputs = 1 : i64} {
      %v = loop.load %x[d0] tile (d0 : 10) : vector<10xf32>
      %w = arith.addf %v, %v : vector<10xf32>
      loop.store %w, %y[d0] tile (d0 : 10) : vector<10xf32>
    }"""
    op = mlc.build(text)
    assert np.array_equal(op(X[:10]), X[:10] * 2)
    with pytest.raises(UserError, match="no text on level 'te'"):
        op.text("te")


def test_out_is_written_into():
    op = mlc.build(RELU)
    out = np.full(100, np.nan, np.float32)
    assert op(X, out=out) is out
    assert np.array_equal(out, np.maximum(X, 0))


def test_several_outputs():
    te = mlc.te
    a = te.placeholder((8, 5), name="a")
    k = te.reduce_axis(5)
    total = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="total")
    double = te.compute((8, 5), lambda i, j: a[i, j] + a[i, j], name="double")
    x = X[:40].reshape(8, 5)
    sums, twice = mlc.build([a, total, double], threads=1)(x)
    np.testing.assert_allclose(sums, x.sum(1), rtol=1e-5, atol=1e-5)
    assert np.array_equal(twice, 2 * x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda op: op(), "expected 1 inputs of 'relu', but got 0"),
        (lambda op: op(X[:5]), r"expected input 'x' of shape \(100,\), but got \(5,\)"),
        (lambda op: op(X.astype(np.int32)), "of dtype float32, but got int32"),
        (lambda op: op(X, out=np.zeros(3, np.float32)), "expected output 'output0' of shape"),
        (lambda op: op(X, out=[X, X]), "expected 1 arrays in out, but got 2"),
        (lambda op: op(X, out=np.zeros(200, np.float32)[::2]), "contiguous array that can be written"),
    ],
)
def test_wrong_calls(call: Any, message: str):
    op = mlc.build(RELU)
    with pytest.raises(ValueError, match=message):
        call(op)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"func": 3}, "expected a te.func, loop.func, IR text or mlc.te tensors, but got 3"),
        ({"func": RELU + RELU.replace("@relu", "@relu2")}, "expected one te.func or loop.func"),
        ({"func": "te.func @x("}, "<build>:1"),
        ({"func": RELU, "schedule": SCHEDULE.replace("@relu", "@other")}, "expected a schedule of @relu"),
        ({"func": RELU, "schedule": RELU}, "expected the text of one sched.schedule"),
        ({"func": RELU, "schedule": 1}, "expected a sched.schedule op or its text"),
        ({"func": SCHEDULE}, "expected one te.func or loop.func"),
        ({"func": RELU, "target": "pdp11"}, "expected target to be one of"),
        ({"func": RELU, "memory_planner": "bets"}, r"expected memory_planner to be one of best, .*did you mean 'best'"),
        ({"func": RELU, "memory_seed": -1}, "expected memory_seed to be an integer from 0 on, but got -1"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str):
    with pytest.raises(UserError, match=message):
        mlc.build(**arguments)


def test_the_memory_planner():
    """TVM's tokens grow a small block that is free, where greedy-by-size places the large buffer first."""
    te = mlc.te
    sizes = (4096, 256, 1024, 4096)
    now = te.placeholder((4096,), name="x")
    inputs = [now]
    for k, n in enumerate((*sizes, 4096)):

        def copied(b: Any, ins: Any, outs: Any, n: int = n, m: int = now.shape[0]) -> None:
            b.loop(0, n, [], lambda i: b.store(b.load(ins[0], b.binary(arith.RemUIOp, i, m)), outs[0], i))

        now = te.extern((n,), [now], copied, name=f"s{k}")
    op: dict[str, Any] = {p: mlc.build([*inputs, now], memory_planner=p) for p in ("tokens", "greedy-by-size", "best")}
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32)
    expected = np.resize(np.resize(x, 256), 4096)
    bytes_of: dict[str, int] = {}
    for name, one in op.items():
        assert np.array_equal(one(x), expected)
        bytes_of[name] = sum(map(int, re.findall(r"mlc.(?:workspace|scratch)_bytes = (\d+)", one.text("llvm"))))
    assert bytes_of["tokens"] > 2 * 4 * 4096  # both blocks as large as the largest buffer
    assert bytes_of["best"] <= bytes_of["greedy-by-size"] < 1.4 * 4 * 4096


def test_only_placeholders():
    with pytest.raises(UserError, match="expected at least one computed tensor"):
        mlc.build([mlc.te.placeholder((3,))])


def test_unknown_level():
    with pytest.raises(UserError, match="expected a level among te, loop, llvm, llvm-ir, asm, but got 'wasm'"):
        mlc.build(RELU).text("wasm")


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_pass_nan_on(name):
    te = mlc.te
    x, y = np.random.default_rng(0).standard_normal((2, 37)).astype(np.float32)
    x[[3, 7]] = y[[5, 7]] = np.nan
    x[8], y[9] = np.inf, -np.inf
    a, b = te.placeholder((37,), name="a"), te.placeholder((37,), name="b")
    f, g = getattr(te, name), getattr(np, name)
    both = mlc.build(te.func("both", [a, b], [te.compute((37,), lambda i: f(a[i], b[i]), "y")]), threads=1)
    np.testing.assert_array_equal(both(x, y), g(x, y))
    one = mlc.build(te.func("one", [a], [te.compute((37,), lambda i: f(a[i], 0.5), "y")]), threads=1)
    np.testing.assert_array_equal(one(x), g(x, np.float32(0.5)))
    k = te.reduce_axis(37, "k")
    reducer = te.max if name == "maximum" else te.min
    rows = te.placeholder((5, 37), name="rows")
    least = mlc.build(
        te.func("rows", [rows], [te.compute((5,), lambda i: reducer(rows[i, k], axis=k), "y")]), threads=1
    )
    z = np.random.default_rng(1).standard_normal((5, 37)).astype(np.float32)
    z[1, 4] = z[2, 0] = z[3, 36] = np.nan
    np.testing.assert_array_equal(least(z), g.reduce(z, axis=1))


def test_a_call_of_fitting_arrays_needs_no_conversion(monkeypatch):
    a = mlc.te.placeholder((4, 6), name="A")
    double, negated = (mlc.te.compute((4, 6), lambda i, j, s=s: s * a[i, j]) for s in (2.0, -1.0))
    op = mlc.build(mlc.te.func("both", [a], [double, negated]))
    monkeypatch.setattr(KernelArguments, "bind", None)  # calling it would raise
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    first, second = op(x), op(2 * x)
    np.testing.assert_array_equal(first[0], 2 * x)
    np.testing.assert_array_equal(first[1], -x)
    np.testing.assert_array_equal(second[0], 4 * x)
