"""mlc.te: what a user writes, what it computes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import mlc
from mlc.interp import te as interp
from mlc.support.arithmetic import WIDE
from mlc.support.errors import UserError

te = mlc.te


def grid(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def run(outputs, inputs, arrays):
    func = te.func("f", inputs, outputs)
    func.verify()
    return interp.run(func, arrays)


def test_matmul():
    a, b = te.placeholder((4, 6), name="A"), te.placeholder((6, 5), name="B")
    k = te.reduce_axis(6, "k")
    c = te.compute((4, 5), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    x, y = grid(4, 6), grid(6, 5, seed=1)
    np.testing.assert_allclose(run([c], [a, b], [x, y])[0], x @ y, rtol=1e-5)


def test_axes_have_the_names_and_the_order_that_the_user_gave():
    a = te.placeholder((4, 6, 7))
    k, l = te.reduce_axis((0, 6), "k"), te.reduce_axis(7, "l")  # noqa: E741
    c = te.compute((4,), lambda row: te.max(a[row, k, l], axis=[l, k]), name="C")
    assert [v.name_hint for v in c.op.axes] == ["row", "l", "k"]
    x = grid(4, 6, 7)
    np.testing.assert_array_equal(run([c], [a], [x])[0], x.max(axis=(1, 2)))


def test_index_arithmetic_and_masked_reads():
    a = te.placeholder((8,))
    padded = te.compute((12,), lambda i: a.read(i - 2, mask=[i - 2, 9 - i], otherwise=-1), name="padded")
    pairs = te.compute((4, 2), lambda i, j: a[(i * 2 + j) % 8] + a[(7 - i * 2 - j) // 1])
    folded = te.compute((8,), lambda i: a[(i // 4) * 4 + (3 - i % 4)], name="folded")
    x = grid(8)
    p, q, r = run([padded, pairs, folded], [a], [x])
    np.testing.assert_array_equal(p, np.pad(x, 2, constant_values=-1))
    np.testing.assert_array_equal(q, (x + x[::-1]).reshape(4, 2))
    np.testing.assert_array_equal(r, x.reshape(2, 4)[:, ::-1].ravel())


def test_condition_and_where():
    a = te.placeholder((8,))
    b = te.compute((8,), lambda i: te.where((i >= 2) & (i < 5), a[i], 0.0))
    c = te.compute((8,), lambda i: te.where((a[i] > 0) & ~(a[i] <= 1), te.exp(a[i]), 1 / (2 - a[i])))
    d = te.compute((8,), lambda i: te.where((i > 3), te.cast(i, "float32"), -a[i]))
    x = grid(8)
    n = np.arange(8)
    got = run([b, c, d], [a], [x])
    np.testing.assert_array_equal(got[0], np.where((n >= 2) & (n < 5), x, 0))
    np.testing.assert_allclose(got[1], np.where(x > 1, np.exp(x), 1 / (2 - x)), rtol=1e-6)
    np.testing.assert_array_equal(got[2], np.where(n > 3, n, -x))


def test_argmax_gives_value_and_first_index():
    a = te.placeholder((3, 5))
    k = te.reduce_axis(5)
    value, index = te.compute((3,), lambda i: te.argmax(a[i, k], axis=k))
    x = np.array([[1, 3, 3, 0, 2], [5, 5, 5, 5, 5], [-1, -2, -3, -4, 0]], np.float32)
    v, i = run([value, index], [a], [x])
    np.testing.assert_array_equal(v, [3, 5, 0])
    np.testing.assert_array_equal(i, [1, 0, 4])


def test_gather_and_integers():
    a, at = te.placeholder((10, 3)), te.placeholder((4,), "int64")
    b = te.compute((4, 3), lambda i, j: a[at[i], j] * te.cast(at[i] * 2 - 1, "float32"))
    x, n = grid(10, 3), np.array([3, 0, 9, 3])
    np.testing.assert_allclose(run([b], [a, at], [x, n])[0], x[n] * (n * 2 - 1)[:, None], rtol=1e-6)


def test_unsigned_numbers_keep_their_order():
    a = te.placeholder((5,), "uint8")
    k = te.reduce_axis(5)
    top = te.compute((), lambda: te.max(a[k], axis=k))
    half = te.compute((5,), lambda i: a[i] / 2)
    x = np.array([3, 200, 7, 130, 90], np.uint8)
    t, h = run([top, half], [a], [x.view(np.int8)])
    assert t.view(np.uint8) == 200
    np.testing.assert_array_equal(h.view(np.uint8), x // 2)


def test_one_stage_in_two_kernels_and_names_made_unique():
    a = te.placeholder((4,))
    b = te.compute((4,), lambda i: a[i] + 1, name="same")
    c = te.compute((4,), lambda i: b[i] * 2, name="same")
    first, second = te.func("f", [a], [c]), te.func("g", [a], [b])
    assert [s.stage_name for s in first.stages] == ["same", "same_1"]
    np.testing.assert_array_equal(interp.run(second, [np.zeros(4, np.float32)])[0], 1)


def test_names_of_numbers():
    n = te.var("_3")
    x = te.placeholder((n,), name="_0")
    y = te.compute((n,), lambda i: x[i] + 1, name="_0_1")
    array = grid(5)
    np.testing.assert_array_equal(
        mlc.build(te.func("f", [x], [te.compute((n,), lambda i: y[i] * 2, "%1")]))(array), (array + 1) * 2
    )


def test_wide_runs_in_f64_and_large_grids_in_pieces(monkeypatch):
    a = te.placeholder((40, 30))
    k = te.reduce_axis(30)
    b = te.compute((40,), lambda i: te.sum(a[i, k] * a[i, k], axis=k))
    func, x = te.func("f", [a], [b]), grid(40, 30)
    whole = interp.run(func, [x])[0]
    monkeypatch.setattr(interp, "CHUNK_POINTS", 100)
    np.testing.assert_array_equal(interp.run(func, [x])[0], whole)
    wide = interp.run(func, [x], arithmetic=WIDE)[0]
    assert wide.dtype == np.float64
    np.testing.assert_allclose(wide, (x.astype(np.float64) ** 2).sum(1), rtol=1e-14)


A = te.placeholder((4, 6), name="A")
N = te.placeholder((4,), "int32", name="N")
K = te.reduce_axis(6, "k")
REFUSED = [
    (lambda i: A[i], "expected 2 indices of 'A' of shape 4x6, but got 1"),
    (lambda i: A[i, 6], "expected an index in 0..5 on axis 1 of 'A' of shape 4x6, but it spans 6..6"),
    (lambda i: A[i, i - 1], r"it spans -1..2; use te.if_then_else\(...\) or .read\(..., mask=...\)"),
    (lambda i: A[i, K], "expected 'y' to reduce axis k by te.sum"),
    (lambda i: te.sum(A[i, K], axis=K) + 1, r"expected te.sum\(..., axis=k\) to be the whole body of a stage"),
    (lambda i: te.sum(A[i, K]), r"expected te.sum to have an axis: k = te.reduce_axis\(n\) before"),
    (lambda i: te.sum(A[i, K], axis=()), "expected te.sum to have an axis"),
    (lambda i: te.argmax(A[i, K]), "expected te.argmax to have an axis"),
    (lambda i, j: A[i, j], "expected a body of 1 indices, one for each axis of the shape; missing .* 'j'"),
    (A, "expected the body of a stage, a function of its 1 indices, but got Tensor"),
    (lambda i: te.sum(A[i, 0], axis=K), "expected 'y' to use the axes that it reduces, but got k"),
    (lambda i: te.sum(A[i, 0], axis=i), "expected axis to be made by te.reduce_axis"),
    (lambda i: A[i, 0] + N[i], "expected operands of one type, but got f32 and i32; use te.cast"),
    (lambda i: A[i, 0] + i, "but got an index; use te.cast"),
    (lambda i: A[i, 0] + "x", "expected an element of a tensor or a number, but got 'x'"),
    (lambda i: te.exp(N[i]), "expected a floating-point element for math.exp, but got i32; use te.cast"),
    (lambda i: A[i, 0] & 1, "expected integers for 'and', but got f32"),
    (lambda i: i, "expected the body of 'y' to give an element, but got an index; use te.cast"),
    (lambda i: N[i] * 0.5, "expected a whole number next to elements of i32, but got 0.5; use te.cast on the element"),
    (lambda i: te.where(N[i] < 1.5, N[i], 0), "expected a whole number next to elements of i32, but got 1.5"),
    (lambda i: N[i] / 2.0, "expected integers in a division of i32, but got a float; use te.cast on the element"),
    (lambda i: A[i * i, 0], "expected an integer factor of an index"),
    (lambda i: A[i // 0, 0], "expected a positive integer to divide an index by, but got 0"),
    (lambda i: A["i", 0], "expected an index expression, but got 'i'"),
    (lambda i: 1 if A[i, 0] > 0 else 0, "use te.where instead of if"),
    (lambda i: 1 if i > 0 else 0, "use te.where or a mask"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_bodies(body, message):
    with pytest.raises(UserError, match=message):
        te.compute((4,), body, name="y")


def test_refused_uses():
    with pytest.raises(UserError, match=r"expected this inside the function given to te.compute"):
        A[0, 0]
    with pytest.raises(UserError, match="expected a reduction axis from 0, but got one from 1"):
        te.reduce_axis((1, 4))
    with pytest.raises(UserError, match=r"expected a shape of sizes >= 0, but got \[2, -1\]"):
        te.placeholder((2, -1))
    for named in (
        lambda: te.placeholder((2,), name=3),
        lambda: te.compute((4,), lambda i: A[i, 0], name=3),
        lambda: te.table([1.0], name=3),
        lambda: te.scan(A, A, A, name=3),
        lambda: te.extern((4,), [A], te.call("f"), name=3),
        lambda: te.reduce_axis(2, name=3),
        lambda: te.call(3),
    ):
        with pytest.raises(UserError, match="expected a name, but got 3"):
            named()
    with pytest.raises(UserError, match="expected the name of the kernel to begin with a letter, but got '9'"):
        te.func("9", [A], [te.compute((4,), lambda i: A[i, 0])])


def test_a_number_has_the_type_that_cast_says():
    y = te.compute((4,), lambda i: te.cast(3.5, "int32") + N[i], name="y")
    z = te.compute((4,), lambda i: te.cast(3.5, "float32"), name="z")
    found = interp.run(te.func("f", [N], [y, z]), [np.arange(4, dtype=np.int32)])
    np.testing.assert_array_equal(found[0], np.arange(4) + 3)
    np.testing.assert_array_equal(found[1], np.full(4, 3.5, np.float32))
    with pytest.raises(UserError, match=r"expected a shape of whole sizes, but got \(2, 1.5\)"):
        te.placeholder((2, 1.5))
    y = te.compute((np.int64(4),), lambda i: A[i, 0])
    with pytest.raises(UserError, match=r"expected 'A' among the inputs of te.func, but it is not"):
        te.func("f", [N], [y])
    with pytest.raises(UserError, match=r"but got te.full; copy it by te.compute"):
        te.func("f", [te.full((4,), 1.0)], [y])


def test_interpreter_refuses_wrong_inputs_and_reads_outside():
    at = te.placeholder((2,), "int64", name="at")
    func = te.func("f", [A, at], [te.compute((2,), lambda i: A[at[i], 0])])
    with pytest.raises(ValueError, match=r"expected input 0 of @f with shape \(4, 6\) and dtype float32"):
        interp.run(func, [grid(4, 5), np.array([0, 1])])
    with pytest.raises(ValueError, match=r"expected 2 inputs of @f, but got 1"):
        interp.run(func, [grid(4, 6)])
    with pytest.raises(interp.InterpreterError, match=r"te.read of %A at 7 on axis 0, which has 4 elements"):
        interp.run(func, [grid(4, 6), np.array([0, 7])])
