"""te.var: one kernel for all sizes, which the arrays of each call tell."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mlc
from mlc.driver.operator.build import Operator
from mlc.support.errors import UserError

te = mlc.te
N, M = te.var("n", 1, 512), te.var("m")


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def matmul() -> Operator:
    a, b, k = te.placeholder((N, 24), name="A"), te.placeholder((24, M), name="B"), te.reduce_axis(24, "k")
    c = te.compute((N, M), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return mlc.build(te.func("matmul", [a, b], [c]), threads=2)


@settings(max_examples=25, database=None, derandomize=True)
@given(st.integers(1, 70), st.integers(1, 70))
def test_one_kernel_for_all_sizes(matmul, n, m):
    a, b = values(n, 24), values(24, m, seed=1)
    np.testing.assert_allclose(matmul(a, b), a @ b, rtol=1e-4, atol=1e-4)


def test_specs_and_wrong_shapes(matmul):
    assert [spec.shape for spec in (*matmul.inputs, *matmul.outputs)] == [("n", 24), (24, "m"), ("n", "m")]
    for shapes, message in (
        (((513, 24), (24, 3)), r"expected axis 0 of input 'A' \(n\) from 1 to 512, but got 513"),
        (((3, 23), (24, 3)), "expected axis 1 of input 'A' to be 24, but got 23"),
        (((3, 24), (24,)), r"expected input 'B' of rank 2, but got shape \(24,\)"),
    ):
        with pytest.raises(ValueError, match=message):
            matmul(*(values(*s) for s in shapes))
    with pytest.raises(ValueError, match=r"expected output 'output0' of shape \(3, 5\), but got \(5, 3\)"):
        matmul(values(3, 24), values(24, 5), out=values(5, 3))


def test_sizes_that_must_agree_and_sizes_in_arithmetic():
    x, y = te.placeholder((N, 2 * M + 1), name="x"), te.placeholder((M,), name="y")
    k = te.reduce_axis(M, "k")
    sums = te.compute((N,), lambda i: te.sum(x[i, k * 2], axis=k), "sums")
    flat = te.compute((N * 4, M), lambda i, j: x[i // 4, j + 1] + y[j], "flat")
    area = te.compute((N,), lambda i: sums[i] * N + M, "area")
    operator = mlc.build([x, y, flat, area], threads=1)
    a, b = values(3, 11), values(5)
    found = operator(a, b)
    np.testing.assert_allclose(found[0], np.repeat(a[:, 1:6], 4, 0) + b, rtol=1e-5)
    np.testing.assert_allclose(found[1], a[:, :10:2].sum(1) * 3 + 5, rtol=1e-5)
    with pytest.raises(ValueError, match=r"expected axis 1 of input 'x' to be 13 \(m \* 2 \+ 1\), but got 11"):
        operator(a, values(6))


def test_text_with_open_sizes_is_built_as_well():
    x = te.placeholder((N, M), name="x")
    func = te.func("twice", [x], [te.compute((N, M), lambda i, j: x[i, j] * 2.0, "y"), x])
    operator = mlc.build(str(func), threads=1)
    a = values(7, 5)
    for got, want in zip(operator(a), (a * 2, a), strict=True):
        np.testing.assert_array_equal(got, want)
    s = mlc.Schedule(func)
    i, j = s.loops(s["y"])
    _, inner = s.split(j, [None, 8])
    s.vectorize(inner)
    s.parallel(i)
    np.testing.assert_array_equal(mlc.build(s)(a)[0], a * 2)


def test_unsigned_integers_stay_unsigned():
    x = te.placeholder((M,), "uint8", name="x")
    operator = mlc.build([x, te.compute((M,), lambda i: te.maximum(x[i], 7), "y")], threads=1)
    a = np.arange(240, 260).astype(np.uint8)
    np.testing.assert_array_equal(operator(a), np.maximum(a, 7))
    assert (operator.inputs[0].dtype, operator.outputs[0].dtype) == ("uint8", "uint8")


X, TABLE = te.placeholder((N,), name="x"), te.placeholder((8, 16), name="table")
SHORT, K = te.var("short", 1, 16), te.reduce_axis(N, "k")


@pytest.mark.parametrize(
    ("shape", "body", "span"),
    [
        ((N + 1,), lambda i: X[i], r"0\.\.n;"),
        ((N,), lambda i: X[i + 3], r"3\.\.n \+ 2;"),
        ((N,), lambda i: X[2 * i], r"0\.\.n \* 2 - 2;"),
        ((64,), lambda i: X[i], r"0\.\.63;"),
        ((N,), lambda i: X[i] + X[7], r"7\.\.7;"),
        ((2,), lambda i: te.sum(X[K + i], axis=K), r"0\.\.n;"),
        ((M,), lambda i: TABLE[0, i], r"0\.\.m - 1;"),
        ((N,), lambda i: X[N - 2 - i], r"-1\.\.n - 2;"),
    ],
)
def test_a_read_that_leaves_an_open_tensor_for_some_sizes_is_refused(shape, body, span):
    with pytest.raises(UserError, match=f"expected an index in .* but it spans {span} use te.if_then_else"):
        te.compute(shape, body, "y")


@settings(max_examples=200, database=None, derandomize=True)
@given(*[st.integers(0, 3)] * 2, st.integers(1, 3), st.integers(-3, 3), st.integers(-3, 3), st.integers(-2, 3))
def test_reads_are_refused_where_an_enumeration_finds_one_outside(held, extra, reads, first, step, offset):
    size, most = te.var("n", 1, 6), 6
    x = te.placeholder((held * size + extra + 1,), name="x")
    extent = reads * size + first

    def outside(n):
        indices = range(offset, offset + step * (reads * n + first), step) if step else [offset] * (reads * n + first)
        return any(not 0 <= i < held * n + extra + 1 for i in indices)

    if any(reads * n + first < 0 for n in range(1, most + 1)):
        return
    wrong = any(map(outside, range(1, most + 1)))
    with pytest.raises(UserError, match="expected an index") if wrong else nullcontext():
        te.func("f", [x], [te.compute((extent,), lambda i: x[step * i + offset], "y")])


def test_a_read_before_an_open_tensor_is_refused():
    before = te.compute((N,), lambda i: X[i - 1], "y")  # it might be the state of a scan
    with pytest.raises(
        UserError, match=r"stage 'y': expected an index of at least 0 on axis 0 .*, but it begins at -1"
    ):
        te.func("f", [X], [before])


def test_reads_inside_of_open_tensors():
    short = te.placeholder((SHORT,), name="short")
    a, table = values(9), values(8, 16)
    for shape, body, want in [
        ((N - 1,), lambda i: X[i + 1] - X[i], a[1:] - a[:-1]),
        ((N,), lambda i: X[N - 1 - i], a[::-1]),
        ((N - 2,), lambda i: X[i + 2] * X[2], a[2:] * a[2]),
        ((N,), lambda i: te.if_then_else(i >= 1, X[i - 1], 0.0), np.append(np.float32(0), a[:-1])),
    ]:
        np.testing.assert_array_equal(mlc.build([X, te.compute(shape, body, "y")], threads=1)(a), want)
    looked_up = te.compute((SHORT,), lambda i: TABLE[0, i] + short[i], "y")
    np.testing.assert_array_equal(mlc.build([short, TABLE, looked_up], threads=1)(a, table), table[0, :9] + a)


def test_what_is_refused():
    for arguments in (("a b",), ("n", -1), ("n", 5, 4)):
        with pytest.raises(UserError, match=r"expected .* size"):
            te.var(*arguments)
    x, hidden = te.placeholder((N,), name="x"), te.var("hidden")
    with pytest.raises(UserError, match="expected 'hidden' to be a size of an input, alone or in a sum"):
        mlc.build(te.func("f", [x], [te.compute((N, hidden), lambda i, j: x[i], "y")]))
    text = "te.func @f(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> { te.return %x : tensor<?xf32> }"
    with pytest.raises(UserError, match="expected the kernel's attribute 'sizes' to say the open sizes"):
        mlc.build(text)
