"""binds of mlc.build: arrays that lie in larger ones are computed on in place, others are refused."""

from __future__ import annotations

import numpy as np
import pytest

import mlc
from mlc.support.errors import UserError

te = mlc.te
ROWS = te.var("rows", 1, 300)
A, B, K = te.placeholder((ROWS, 20), name="A"), te.placeholder((20, 33), name="B"), te.reduce_axis(20, "k")
C = te.compute((ROWS, 33), lambda i, j: te.sum(A[i, K] * B[K, j], axis=K), name="C")
MATMUL = te.func("matmul", [A, B], [C])
P = te.placeholder((30, 16), name="P")
EXP = te.func("exp", [P], [te.compute((30, 16), lambda i, j: te.exp(P[i, j]), "Q")])


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_slices_of_larger_arrays_in_place():
    operator = mlc.build(
        MATMUL,
        threads=2,
        binds={A: te.buffer(strides=("lda", 1), offset=0, align=4), "C": te.buffer(strides=("ldc", 1))},
    )
    for columns in (20, 40, 61):
        big, target, b = values(50, columns), np.zeros((60, 90), np.float32), values(20, 33, seed=1)
        given, out = big[10:40, columns - 20 :], target[20:50, 7:40]
        assert operator(given, b, out=out) is out
        np.testing.assert_allclose(out, given @ b, rtol=1e-4, atol=1e-4)
        out[:] = 0
        assert not target.any(), "nothing is written beside the slice"
    np.testing.assert_allclose(operator(given, b), given @ b, rtol=1e-4, atol=1e-4)


def test_fixed_strides_an_offset_and_an_alignment():
    binds = {P: te.buffer(strides=(1, "c"), offset=3), "Q": te.buffer(strides=("d", 2), align=64)}
    operator = mlc.build(EXP, threads=1, binds=binds)
    memory = values(16 * 40 + 3)
    given = memory[3:].reshape(16, 40)[:, :30].T
    found = operator(given)
    np.testing.assert_allclose(found, np.exp(given), rtol=1e-5)
    assert found.strides == (16 * 2 * 4, 8)
    assert found.ctypes.data % 64 == 0
    with pytest.raises(ValueError, match="expected input 'P' to begin 3 elements into its memory, but got 4"):
        operator(np.concatenate([memory, [0]]).astype(np.float32)[4:].reshape(16, 40)[:, :30].T)


def test_one_name_is_one_number():
    x, y = te.placeholder((4, 8), name="x"), te.placeholder((4, 8), name="y")
    func = te.func("add", [x, y], [te.compute((4, 8), lambda i, j: x[i, j] + y[i, j], "z")])
    operator = mlc.build(func, threads=1, binds={x: te.buffer(("ld", 1)), y: te.buffer(("ld", 1))})
    a, b = values(4, 12), values(4, 12, seed=1)
    np.testing.assert_array_equal(operator(a[:, 2:10], b[:, 1:9]), a[:, 2:10] + b[:, 1:9])
    with pytest.raises(
        ValueError, match=r"'y' with strides \(ld, 1\) in elements where ld is 12, but got \(8, 1\); pass"
    ):
        operator(a[:, 2:10], values(4, 8))


def test_a_schedule_with_binds():
    s = mlc.Schedule(EXP)
    _, j = s.loops(s["Q"])
    s.vectorize(j)
    operator = mlc.build(s, binds={P: te.buffer(strides=(64, 1))})
    big = values(30, 64)
    np.testing.assert_allclose(operator(big[:, 40:56]), np.exp(big[:, 40:56]), rtol=1e-5)


@pytest.mark.parametrize(
    "array", [np.asfortranarray(values(30, 20)), values(30, 20)[::-1], values(30, 40)[:, ::2]], ids=["F", "back", "2"]
)
def test_an_array_that_does_not_fit_is_refused(array):
    operator = mlc.build(MATMUL, threads=1, binds={A: te.buffer(strides=("lda", 1))})
    with pytest.raises(
        ValueError, match=r"expected input 'A' with strides \(lda, 1\) in elements, but got .*; pass a copy"
    ):
        operator(array, values(20, 33))


def test_an_address_that_is_not_aligned_is_refused():
    operator = mlc.build(EXP, threads=1, binds={P: te.buffer(align=64)})
    memory = values(30 * 16 + 32)
    first = (-memory.ctypes.data // 4) % 16
    aligned = memory[first : first + 480].reshape(30, 16)
    np.testing.assert_allclose(operator(aligned), np.exp(aligned), rtol=1e-5)
    with pytest.raises(ValueError, match="expected input 'P' at a multiple of 64 bytes, but got 0x"):
        operator(memory[first + 1 : first + 481].reshape(30, 16))


WRONG = [
    ({"D": te.buffer()}, "expected a bind of one of A, B, C, but got 'D'"),
    ({A: te.buffer((1,))}, "expected 2 strides of 'A', one for each axis, but got 1"),
    ({A: (1, 2)}, r"expected binds to map to te.buffer\(...\), but got \(1, 2\)"),
]


@pytest.mark.parametrize(("binds", "message"), WRONG, ids=range(len(WRONG)))
def test_refused_binds(binds, message):
    with pytest.raises(UserError, match=message):
        mlc.build(MATMUL, binds=binds)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"strides": (0, 1)}, "expected strides that are names or numbers of elements from 1 on, but got 0"),
        ({"strides": ("a b",)}, "expected strides .* but got 'a b'"),
        ({"offset": -1}, "expected an offset of a number of elements, 0 or more, but got -1"),
        ({"align": 3}, "expected align to be a power of two, in bytes, but got 3"),
    ],
)
def test_refused_buffers(arguments, message):
    with pytest.raises(UserError, match=message):
        te.buffer(**arguments)


def test_lower_gives_the_loops_of_a_function_and_of_a_schedule():
    plain = mlc.lower(EXP)
    assert [op.name for op in plain.body.block.ops] == ["loop.func"]
    assert "vectorized" not in str(plain)
    s = mlc.Schedule(EXP)
    s.vectorize(s.loops(s["Q"])[1])
    assert "loop.for %j = 0 to 16 vectorized" in str(mlc.lower(s))
    assert str(mlc.lower(EXP, str(s))) == str(mlc.lower(s))
    with pytest.raises(UserError, match="expected a schedule of @matmul, but got one of @exp"):
        mlc.lower(MATMUL, str(s))
    with pytest.raises(UserError, match=r"expected a te.func, loop.func, IR text or mlc.te tensors, but got 3"):
        mlc.lower(3)  # pyright: ignore[reportArgumentType] - refused
