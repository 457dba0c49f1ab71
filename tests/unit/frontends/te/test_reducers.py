"""Reducers of one's own, any and all: on every level, scheduled, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from te_levels import check_levels

import mlc
from mlc.interp import loop as loop_interpreter
from mlc.interp import te as interpreter
from mlc.support.errors import UserError

te = mlc.te


def lesser(a, b):
    """The pair with the lesser value, of equal ones that with the lesser place."""
    first = (a[0] < b[0]) | (te.equal(a[0], b[0]) & (a[1] < b[1]))
    return te.where(first, a[0], b[0]), te.where(first, a[1], b[1])


def log_sum_exp(a, b):
    return te.maximum(a, b) + te.log(1.0 + te.exp(-te.abs(a - b)))


ARGMIN = te.comm_reducer(lesser, lambda value, place: (te.max_value(value), te.max_value(place)), name="argmin")
LOG_SUM_EXP = te.comm_reducer(log_sum_exp, lambda t: -1e30, name="log_sum_exp")
MOMENTS = te.comm_reducer(lambda a, b: (a[0] + b[0], a[1] + b[1], a[2] + b[2]), lambda *t: (0, 0, 0), name="moments")


def pairs(shape, axis, place="int64"):
    """The kernel of the least values along an axis and their places."""
    x = te.placeholder(shape, name="x")
    k = te.reduce_axis(shape[axis], "k")
    kept = [n for a, n in enumerate(shape) if a != axis]

    def body(*i):
        at = [*i[:axis], k, *i[axis:]]
        return ARGMIN((x[at], te.cast(k, place)), axis=k)

    return te.func("least", [x], list(te.compute(kept, body, "least")))


def whole(*shape, seed=0):
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


@pytest.mark.parametrize(("shape", "axis"), [((5, 23), 1), ((7, 40), 0), ((3, 9, 33), 1)])
def test_pairs_of_a_value_and_its_place(shape, axis):
    a = whole(*shape)
    operator = check_levels(pairs(shape, axis), [a], [a.min(axis), a.argmin(axis)])
    assert "vector<" in operator.text("loop")


def test_a_reducer_of_one_value():
    x, k, l = te.placeholder((6, 5, 7), name="x"), te.reduce_axis(5, "k"), te.reduce_axis(7, "l")  # noqa: E741
    y = te.compute((6,), lambda i: LOG_SUM_EXP(x[i, k, l], axis=[k, l]), "y")
    a = np.random.default_rng(0).standard_normal((6, 5, 7)).astype(np.float32)
    check_levels(te.func("lse", [x], [y]), [a], [np.log(np.exp(a).sum((1, 2)))])


def test_three_values_and_a_condition():
    x, k = te.placeholder((4, 30), name="x"), te.reduce_axis(30, "k")
    parts = te.compute(
        (4,), lambda i: MOMENTS((x[i, k], x[i, k] * x[i, k], te.cast(k, "int32")), axis=k, where=x[i, k] > 0), "parts"
    )
    a = whole(4, 30)
    kept = np.where(a > 0, a, 0)
    wanted = [kept.sum(1), (kept**2).sum(1), np.where(a > 0, np.arange(30), 0).sum(1).astype(np.int32)]
    check_levels(te.func("moments", [x], list(parts)), [a], wanted)


@settings(max_examples=16, database=None, derandomize=True)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=3), st.data())
def test_pairs_of_random_shapes(shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    a = whole(*shape, seed=len(shape))
    func = pairs(tuple(shape), axis, "int32")
    (loops,) = mlc.lower(func).body.block.ops
    for found in (interpreter.run(func, [a]), loop_interpreter.run(loops, [a])):
        np.testing.assert_array_equal(found[0], a.min(axis))
        np.testing.assert_array_equal(found[1], a.argmin(axis))


def test_any_and_all():
    x, k = te.placeholder((5, 40), name="x"), te.reduce_axis(40, "k")
    some = te.compute((5,), lambda i: te.any(x[i, k] > 3, axis=k), "some")
    every = te.compute((5,), lambda i: te.all(x[i, k] > -4, axis=k), "every")
    either = te.compute((5,), lambda i: te.where(te.any(x[i, 0] > 0, x[i, 1] > 0, i >= 4), 1.0, x[i, 0]), "either")
    both = te.compute((5,), lambda i: te.where(te.all(i >= 1, i < 4), x[i, 0], 0.0), "both")
    a, n = whole(5, 40), np.arange(5)
    wanted = [
        (a > 3).any(1),
        (a > -4).all(1),
        np.where((a[:, 0] > 0) | (a[:, 1] > 0) | (n >= 4), 1, a[:, 0]),
        np.where((n >= 1) & (n < 4), a[:, 0], 0),
    ]
    check_levels(te.func("booleans", [x], [some, every, either, both]), [a], wanted)


def test_argmax_prod_and_extreme_values():
    x, k, l = te.placeholder((5, 12), name="x"), te.reduce_axis(12, "k"), te.reduce_axis(12, "l")  # noqa: E741
    best, place = te.compute((5,), lambda i: te.argmax(x[i, k], axis=k), "best")
    product = te.compute((5,), lambda i: te.prod(x[i, l], axis=l), "product")
    a = whole(5, 12)
    check_levels(te.func("f", [x], [best, place, product]), [a], [a.max(1), a.argmax(1), a.prod(1)])
    for dtype in ("float16", "float32", "float64"):
        assert te.min_value(dtype) == np.finfo(dtype).min
        assert te.max_value(dtype) == np.finfo(dtype).max
    for dtype in ("int8", "uint8", "int32", "uint64"):
        assert te.min_value(dtype) == np.iinfo(dtype).min
        assert te.max_value(dtype) == np.iinfo(dtype).max
    assert te.max_value("bfloat16") == 3.3895313892515355e38
    with pytest.raises(UserError, match=r"expected one of the dtypes .* but got float3"):
        te.min_value("float3")


def test_rfactor_combines_partial_results_by_the_reducer():
    a = whole(8, 40)
    s = mlc.Schedule(pairs((8, 40), 1))
    _, k = s.loops(s["least"])
    _, inner = s.split(k, [None, 8])
    with pytest.raises(UserError, match=r"reduces block .*least.* by more than one op that commutes"):
        s.vectorize(inner)
    partial = s.rfactor(inner, axis=1)
    i, outer, lanes = s.loops(partial)
    s.decompose_reduction(partial, outer)
    s.reorder(i, outer, lanes)
    s.vectorize(lanes)
    s.parallel(i)
    assert "combine" in s.text("loop")
    value, place = mlc.build(s)(a)
    np.testing.assert_array_equal(value, a.min(1))
    np.testing.assert_array_equal(place, a.argmin(1))


A, K = te.placeholder((4, 6), name="A"), te.reduce_axis(6, "k")
REFUSED = [
    (lambda i: ARGMIN(A[i, K]), r"expected te.argmin to have an axis"),
    (lambda i: ARGMIN((A[i, K], 1), axis=K), "expected te.argmin of an element of a tensor, but got 1"),
    (
        lambda i: ARGMIN((A[i, K], A[i, K]), axis=K) + 1,
        r"expected argmin\(..., axis=k\) to be the whole body of a stage",
    ),
    (lambda i: te.sum(3.0, axis=K), "expected te.sum of an element of a tensor, but got 3.0"),
    (lambda i: te.any(A[i, K], A[i, K], axis=K), "expected te.any of one value along an axis, but got 2"),
    (lambda i: te.all("x"), "expected te.all of conditions, or of elements along an axis, but got 'x'"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refused_bodies(body, message):
    with pytest.raises(UserError, match=message):
        te.compute((4,), body, name="y")


WRONG = [
    (lambda a, b: (a, b), lambda t: 0, "expected 'wrong' to combine to 1 values, but got 2"),
    (lambda a, b: a < b, lambda t: 0, "expected 'wrong' to combine to a value of type f32 at 0, but got i1"),
    (lambda a, b: 1.0, lambda t: 0, "expected 'wrong' to combine to a value of type f32 at 0, but got 1.0"),
    (
        lambda a, b: a + b,
        lambda t: (0, 0),
        r"expected the neutral elements of 'wrong' to be 1 numbers, but got \(0, 0\)",
    ),
    (lambda a, b: a + b, lambda t: "0", "expected the neutral elements of 'wrong' to be 1 numbers, but got '0'"),
]


@pytest.mark.parametrize(("combine", "identity", "message"), WRONG, ids=range(len(WRONG)))
def test_refused_reducers(combine, identity, message):
    wrong = te.comm_reducer(combine, identity, name="wrong")
    with pytest.raises(UserError, match=message):
        te.compute((4,), lambda i: wrong(A[i, K], axis=K), name="y")
