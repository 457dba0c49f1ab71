"""Rows of which a reduction runs in the loop of the stage that it reads; values as numpy's."""

import numpy as np
import pytest
from small_graphs import Small, mismatches, onnxruntime_results
from xdsl.ir import SSAValue

import mlc
from mlc.dialects.sched import ReverseComputeAtOp
from mlc.dialects.syntax.source import parse_module
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.compile import load_model
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import parse_pipeline, run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.support.errors import UserError

te = mlc.te


def softmax(rows: int, columns: int):
    """The stages of a softmax: maximum, exponentials, their sum, the quotients."""
    x = te.placeholder((rows, columns), name="x")
    k, j = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "j")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, c: te.exp(x[i, c] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, j], axis=j), name="total")
    y = te.compute((rows, columns), lambda i, c: e[i, c] / total[i], name="y")
    return x, top, e, total, y


def expected(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("columns", [5, 64, 100, 1001, 4096, 20000])
def test_values(columns: int, target: str):
    x, *_, y = softmax(3, columns)
    values = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32) * 4
    for threads in (1, 2):
        built = mlc.build(te.func("softmax", [x], [y]), target=target, threads=threads, cache=False)
        np.testing.assert_allclose(built(values), expected(values), rtol=2e-6, atol=1e-9)


def test_the_sum_runs_in_the_loop_of_the_exponentials():
    x, *_, y = softmax(3, 20000)
    module = parse_module(str(te.func("softmax", [x], [y])))
    run_passes(module, make_context(), parse_pipeline("te-add-schedule{target=x86-64-v4}"))
    assert [op.block.owner.block_name.data for op in module.walk() if isinstance(op, ReverseComputeAtOp)] == ["total"]


def joined(columns: int, factor: int) -> tuple[mlc.Schedule, SSAValue]:
    """A schedule whose sum is computed in pieces, each behind the exponentials that it adds; the loop over pieces."""
    x, *_, y = softmax(3, columns)
    s = mlc.Schedule(te.func("softmax", [x], [y]), target="x86-64-v3")
    i, _ = s.loops(s["y"])
    for name in ("total", "e", "top"):
        s.compute_at(s[name], i)
    *_, c = s.loops(s["e"])
    o, _ = s.split(c, [None, factor])
    s.reverse_compute_at(s["total"], o)
    return s, o


@pytest.mark.parametrize(("columns", "factor"), [(96, 16), (100, 16), (64, 64)])
def test_a_reduction_in_a_loop_of_its_producer(columns: int, factor: int):
    """Each iteration adds the elements that it computed; the sum begins in front of the loop."""
    values = np.random.default_rng(0).standard_normal((3, columns)).astype(np.float32)
    for decomposed in (False, True):
        s, o = joined(columns, factor)
        if decomposed:
            s.decompose_reduction(s["total"], o)
        built = mlc.build(s, threads=1, cache=False)
        np.testing.assert_allclose(built(values), expected(values), rtol=2e-6)


def test_such_a_loop_is_serial():
    s, o = joined(96, 16)
    with pytest.raises(UserError, match="parallel"):
        s.parallel(o)
    x, *_, y = softmax(3, 96)
    s = mlc.Schedule(te.func("softmax", [x], [y]), target="x86-64-v3")
    o, _ = s.split(s.loops(s["e"])[1], [None, 16])
    s.parallel(o)
    with pytest.raises(UserError, match="reduces over elements of %e from different iterations"):
        s.reverse_compute_at(s["total"], o)


def bags(n: int, k: int, width: int, op: str) -> Small:
    """Sums, means or maxima of `k` rows of a table each, whose places are an input."""
    small = Small()
    table, at = small.w(90, width), small.x(n, k, dtype=np.int64)
    small.out(small.op(op, small.op("Gather", table, at), small.const([1]), keepdims=0))
    return small


@pytest.mark.parametrize("target", ["native", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean", "ReduceMax"])
@pytest.mark.parametrize(("n", "k", "width"), [(7, 5, 64), (3, 20, 37), (9, 33, 2), (1, 4, 700)])
def test_sums_of_gathered_rows(n: int, k: int, width: int, op: str, threads: int, target: str):
    small = bags(n, k, width, op)
    exe = mlc.compile(small.proto(), target=target, threads=threads, cache=False)
    assert mismatches(small, exe, onnxruntime_results(small)) == []


@pytest.mark.parametrize(("width", "strategy"), [(64, "reduction"), (3, "rows")])
def test_gathered_rows_are_read_along_their_elements(width: int, strategy: str):
    compilation = Compilation(load_model(bags(7, 20, width, "ReduceSum").proto(), {}), Options("x86-64-v3", threads=1))
    assert [f'strategy = "{strategy}"' in text for text in compilation.schedule_texts().values()] == [True]
