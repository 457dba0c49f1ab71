"""Which kernels run on all threads: sums of rows where pointwise kernels of as many elements do."""

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.dialects.te import FuncOp
from mlc.schedules.strategy import choose_schedule
from mlc.targets.target import Target

ROWS, COLUMNS = 158, 768
"""More elements than a pointwise kernel of one thread has, and fewer sums than a product of one thread."""


def squares() -> FuncOp:
    """The sum of the squares of each row."""
    x, k = te.placeholder((ROWS, COLUMNS), name="x"), te.reduce_axis(COLUMNS, "k")
    return te.func("squares", [x], [te.compute((ROWS,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="s")])


def doubled() -> FuncOp:
    """A pointwise kernel of the same elements."""
    x = te.placeholder((ROWS, COLUMNS), name="x")
    return te.func("doubled", [x], [te.compute((ROWS, COLUMNS), lambda i, j: x[i, j] + x[i, j], name="y")])


def row_times_matrix() -> FuncOp:
    """One row times a matrix, which no thread has written: more elements than a pointwise kernel of one thread has."""
    x, w, k = te.placeholder((192,), name="x"), te.placeholder((320, 192), name="w"), te.reduce_axis(192, "k")
    return te.func("row", [x, w], [te.compute((320,), lambda j: te.sum(x[k] * w[j, k], axis=k), name="y")])


@pytest.mark.parametrize(("make", "shared"), [(squares, True), (doubled, True), (row_times_matrix, False)])
@pytest.mark.parametrize("target", ["znver4", "znver3", "skylake-avx512"])
def test_what_threads_share(make, shared, target):
    schedule = str(choose_schedule(make(), Target.parse(target), 2))
    assert ("sched.parallel" in schedule) == shared
    assert "sched.parallel" not in str(choose_schedule(make(), Target.parse(target), 1))


def test_sums_on_two_threads():
    x = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype("f4")
    y = mlc.build(squares(), threads=2, cache=False)(x)
    np.testing.assert_allclose(y, (x.astype("f8") ** 2).sum(1), rtol=1e-4)
