"""Pointwise kernels that compute with their indices keep the loops of these apart, so that no lane divides."""

import re

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.dialects.te import FuncOp
from mlc.schedules.strategy import choose_schedule
from mlc.targets.target import Target


def triangle(*shape: int, axes: tuple[int, int] = (-2, -1), dtype: str = "float32") -> FuncOp:
    """The elements whose index along the first axis is not below that along the second; zeros for others."""
    x = te.placeholder(shape, dtype, name="X")

    def body(*at):
        first, second = (te.cast(at[axis], "int64") for axis in axes)
        return te.if_then_else(first >= second, x[at], 0.0)

    return te.func("triangle", [x], [te.compute(shape, body, name="Y")])


def fused(func: FuncOp, threads: int = 1) -> list[int]:
    """The number of loops in each fusion."""
    text = str(choose_schedule(func, Target.parse("x86-64-v3"), threads))
    return [len(loops.split(",")) for loops in re.findall(r"sched\.fuse ([^:\n]*)", text)]


@pytest.mark.parametrize(
    ("func", "loops"),
    [
        (triangle(8, 30, 50), []),
        (triangle(40, 50), []),
        (triangle(8, 9, 30, 50, axes=(0, 1)), [2]),  # rows and columns of the last two axes are one
        (triangle(60, 3), [2]),  # rows too short for lanes of their own
    ],
)
def test_axes_in_values_are_not_fused(func: FuncOp, loops: list[int]) -> None:
    assert fused(func) == loops


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("shape", "axes"), [((3, 31, 37), (-2, -1)), ((40, 50), (1, 0)), ((5, 4, 6, 23), (0, 1)), ((60, 3), (0, 1))]
)
def test_values(shape: tuple[int, ...], axes: tuple[int, int], threads: int, target: str) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    at = np.indices(shape)
    op = mlc.build(triangle(*shape, axes=axes), target=target, threads=threads, cache=False)
    np.testing.assert_array_equal(op(x), np.where(at[axes[0]] >= at[axes[1]], x, 0))
