"""A te kernel on every level: interpreted, its loops interpreted and as C, and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import mlc
from mlc.dialects import te
from mlc.dialects.syntax.source import parse_module
from mlc.driver.operator.build import Operator
from mlc.interp import loop as loop_interpreter
from mlc.interp import te as te_interpreter
from mlc.validation import c_run

Arrays = Sequence[Any]


def check_levels(
    func: te.FuncOp, arrays: Arrays, expected: Arrays, *, tolerance: float = 1e-5, sizes: Sequence[int] = ()
) -> Operator:
    """The values of a kernel, of its printed text, of its loops, of their C print, and of its code on two threads."""
    module = parse_module(str(func))
    again = module.body.block.first_op
    assert isinstance(again, te.FuncOp)
    assert str(again) == str(func)
    same(te_interpreter.run(again, [*arrays, *sizes]), expected, tolerance)
    (loops,) = mlc.lower(func).body.block.ops
    outputs = [np.empty_like(np.asarray(e)) for e in expected]
    same(loop_interpreter.run(loops, [*arrays, *outputs, *sizes]), expected, tolerance)
    same(c_run.run(loops, [*arrays, *(np.empty_like(o) for o in outputs), *sizes]), expected, tolerance)
    operator = mlc.build(func, threads=2)
    found = operator(*arrays)
    same(found if isinstance(found, tuple) else [found], expected, tolerance)
    return operator


def same(found: Arrays, expected: Arrays, tolerance: float) -> None:
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
