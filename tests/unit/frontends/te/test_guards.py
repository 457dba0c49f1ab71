"""te.if_then_else reads nothing in the branch that is not taken; te.table; what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from te_levels import check_levels

import mlc
from mlc.support.errors import UserError

te = mlc.te
X = te.placeholder((20,), name="x")


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_a_condition_on_indices_guards_what_lies_outside():
    left = te.compute((20,), lambda i: te.if_then_else(i >= 1, X[i - 1], 0.0) + X[i], "left")
    inner = te.compute((24,), lambda i: te.if_then_else(te.all(i >= 2, i < 22), X[i - 2] * 2.0, -1.0), "inner")
    outer = te.compute((24,), lambda i: te.if_then_else(i < 20, X.read(i, mask=20 - 1 - i), X.read(i - 4, mask=i - 4)))
    a = values(20)
    wanted = [
        np.pad(a, (1, 0))[:-1] + a,
        np.pad(a * 2, 2, constant_values=-1),
        np.concatenate([a, a[16:]]),
    ]
    operator = check_levels(te.func("edges", [X], [left, inner, outer]), [a], wanted)
    assert "vector<" in operator.text("loop")


def test_a_condition_on_data_guards_a_gather_and_a_division():
    at, t = te.placeholder((50,), "int64", name="at"), te.placeholder((20,), name="t")
    d = te.placeholder((50,), "int32", name="d")
    found = te.compute((50,), lambda i: te.if_then_else(te.all(at[i] >= 0, at[i] < 20), t[at[i]], -1.0), "found")
    parts = te.compute((50,), lambda i: te.if_then_else(te.equal(d[i], 0), 0, (d[i] * 0 + 100) / d[i]), "parts")
    rng = np.random.default_rng(0)
    places, table, by = rng.integers(-30, 50, 50), values(20), rng.integers(-2, 3, 50).astype(np.int32)
    inside = (places >= 0) & (places < 20)
    wanted = [np.where(inside, table[places % 20], -1), np.where(by == 0, 0, 100 // np.where(by == 0, 1, by))]
    check_levels(te.func("guarded", [at, t, d], [found, parts]), [places, table, by], wanted)


def test_nested_guards():
    y = te.compute(
        (20, 20),
        lambda i, j: te.if_then_else(
            i >= 5, te.if_then_else(te.cast(j, "float32") < X[i - 5], X[i - 5], te.if_then_else(j < 3, X[j], 7.0)), -1.0
        ),
        "y",
    )
    a = values(20) * 8
    i, j = np.ogrid[:20, :20]
    inner = np.where(j < a[np.maximum(i - 5, 0)], a[np.maximum(i - 5, 0)], np.where(j < 3, a[j], 7))
    check_levels(te.func("nested", [X], [y]), [a], [np.where(i >= 5, inner, -1)])


def test_a_guard_without_a_read_outside_keeps_the_plain_read():
    y = te.compute((20,), lambda i: te.if_then_else(X[i] > 0, te.sqrt(X[i]), X[i]), "y")
    func = te.func("roots", [X], [y])
    assert "mask" not in str(func)
    a = values(20)
    check_levels(func, [a], [np.where(a > 0, np.sqrt(np.maximum(a, 0)), a)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint8", "int32", "bool"])
def test_tables(dtype):
    numbers = (np.arange(12).reshape(3, 4) % 5 - 2).astype(dtype)
    t = te.table(numbers, name="numbers")
    y = te.compute((20,), lambda i: te.cast(t[i % 3, i // 5], "float32") * X[i], "y")
    a, n = values(20), np.arange(20)
    check_levels(te.func("tabled", [X], [y]), [a], [numbers[n % 3, n // 5].astype(np.float32) * a])


def test_a_matrix_of_constants_and_a_table_as_result():
    m, k = te.table([[1.0, 2.0], [3.0, -1.0]], dtype="float32"), te.reduce_axis(2, "k")
    x = te.placeholder((2, 40), name="x")
    y = te.compute((2, 40), lambda i, j: te.sum(m[i, k] * x[k, j], axis=k), "y")
    a = values(2, 40)
    wanted = np.array([[1, 2], [3, -1]], np.float32)
    check_levels(te.func("mixed", [x], [y, m]), [a], [wanted @ a, wanted])


def test_a_stage_of_two_elements():
    lower, upper = te.compute((20,), lambda i: (te.minimum(X[i], 0.0), te.maximum(X[i], 0.0)), "parts")
    again = te.compute((20,), lambda i: lower[i] + upper[19 - i], "again")
    a = values(20)
    wanted = [np.minimum(a, 0), np.minimum(a, 0) + np.maximum(a, 0)[::-1]]
    check_levels(te.func("two", [X], [lower, again]), [a], wanted)


OTHER: list = []
te.compute((20,), lambda i: [OTHER.extend([i, X[i]]), X[i]][1])
REFUSED = [
    (
        lambda i: te.if_then_else(1, X[i], 0.0),
        "expected a condition as the first argument of te.if_then_else, but got 1",
    ),
    (lambda i: te.if_then_else(X[i], X[i], 0.0), "expected a condition as the first argument .* but got f32"),
    (lambda i: te.if_then_else(i > 1, 1.0, 0.0), "expected an element of a tensor, but got 1.0 and 0.0"),
    (lambda i: X[i + 1], r"it spans 1..20; use te.if_then_else\(...\) or .read\(..., mask=...\)"),
    (lambda i: te.if_then_else(i >= 1, X[i - 1], 0.0) + X[i + 1], "it spans 1..20"),
    (lambda i: X[OTHER[0]], "expected an index of this stage, but got one of another te.compute"),
    (lambda i: X[i] + OTHER[1], "expected elements of one stage, but got one of another te.compute"),
    (lambda i: OTHER[1], "expected the body of 'y' to give an element of its own, but got another stage's"),
    (lambda i: X, r"expected the body of 'y' to give an element, but got .*; read one by its indices, A\[i, j\]"),
    (lambda i: i > 1, "a condition is chosen by te.where or te.if_then_else"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_bodies(body, message):
    with pytest.raises(UserError, match=message):
        te.compute((20,), body, name="y")


def test_refused_tables_and_names():
    with pytest.raises(UserError, match="expected an array of numbers for te.table, but got 'x'"):
        te.table("x")
    with pytest.raises(UserError, match="expected one of the dtypes .* but got float3"):
        te.placeholder((3,), "float3")
    with pytest.raises(UserError, match="expected the name of the kernel, but got 'a b'"):
        te.func("a b", [X], [X])
    with pytest.raises(UserError, match="expected the inputs of te.func to be placeholders, each once, but got 'x'"):
        te.func("f", [X, X], [X])
    assert {"compute", "scan", "comm_reducer", "if_then_else", "table", "var", "buffer", "extern"} <= set(dir(te))
    assert not {"builder", "api", "ModuleType", "annotations"} & set(dir(te))
    assert all(hasattr(te, name) for name in dir(te))
