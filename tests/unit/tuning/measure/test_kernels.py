"""Kernels whose inputs must fit the ops: the default kernel's output says something, and agrees with itself."""

import numpy as np
import pytest
import tuning_candidates as candidates

from mlc.codegen.evaluator import can_flush
from mlc.targets.target import native_target
from mlc.tuning.farm import Evaluation
from mlc.tuning.measure.builder import build
from mlc.tuning.measure.runner import TaskRunner
from mlc.tuning.results import ErrorCode, MeasureInput

NAME = "tuning_candidates:candidate"
QUICK = Evaluation(number=1, repeat=2, min_repeat_ms=0.01, run_timeout_s=60)


@pytest.fixture(scope="module")
def runner():
    return TaskRunner()


def referred(runner, kernel, threads=1, evaluation=QUICK):
    """The arrays of a task, and the outcome of its own default kernel."""
    task = candidates.task(kernel=kernel, threads=threads)
    built = build(NAME, MeasureInput(task, candidates.values("default")), True, 1 << 32)
    assert (built.error, built.message) == (ErrorCode.NO_ERROR, "")
    outcome = runner.reference(task.key, built.artefact, built.signature, evaluation)
    assert (outcome.error, outcome.message) == (ErrorCode.NO_ERROR, "")
    ((outcome,),) = runner.run(task.key, [built.artefact], evaluation, 1)
    assert (outcome.error, outcome.message) == (ErrorCode.NO_ERROR, "")
    assert len(outcome.seconds) == evaluation.repeat
    return runner.tasks[task.key]


def elementwise(*lines, dtype="f32"):
    body = "\n".join(lines)
    return f"""te.func @k(%x: tensor<100x{dtype}>) -> tensor<100x{dtype}> {{
      %y = te.compute "y" (%i : 100) {{
        %a = te.read %x[%i] : {dtype}
        {body}
        te.yield %z : {dtype}
      }} : tensor<100x{dtype}>
      te.return %y : tensor<100x{dtype}>
    }}"""


def test_half_of_the_logarithms_say_something(runner):
    task = referred(runner, elementwise("%z = math.log %a : f32"))
    share = np.isfinite(task.reference.outputs[0]).mean()
    assert 0.3 < share < 0.7


def test_positive_inputs_where_others_give_no_number(runner):
    # the product of four square roots is a number for one in sixteen signs
    roots = [f"%r{k} = te.read %x[%i + {25 * k}] : f32\n %s{k} = math.sqrt %r{k} : f32" for k in range(4)]
    product = "%p = arith.mulf %s0, %s1 : f32\n%q = arith.mulf %p, %s2 : f32\n%z = arith.mulf %q, %s3 : f32"
    kernel = (
        elementwise(*roots, product)
        .replace('"y" (%i : 100)', '"y" (%i : 25)')
        .replace("-> tensor<100xf32>", "-> tensor<25xf32>")
    )
    kernel = kernel.replace("} : tensor<100xf32>", "} : tensor<25xf32>").replace("%y : tensor<100", "%y : tensor<25")
    kernel = kernel.replace("%a = te.read %x[%i] : f32", "")
    task = referred(runner, kernel)
    assert (task.inputs[0].array > 0).all()
    assert np.isfinite(task.reference.outputs[0]).all()


def test_smaller_inputs_where_all_results_are_the_same(runner):
    limit = "%c = arith.constant 0.02 : f32\n%d = arith.constant -0.02 : f32\n"
    clip = "%m = arith.minimumf %a, %c : f32\n%z = arith.maximumf %m, %d : f32"
    task = referred(runner, elementwise(limit, clip))
    assert np.abs(task.inputs[0].array).mean() < 0.2


def test_threads_and_scratch(runner):
    kernel = """te.func @k(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
      %y = te.compute "y" (%i : 64, %j : 64) reduce (%k : 64) sum {
        %a = te.read %x[%i, %k] : f32
        %b = te.read %w[%k, %j] : f32
        %c = arith.mulf %a, %b : f32
        te.yield %c : f32
      } : tensor<64x64xf32>
      te.return %y : tensor<64x64xf32>
    }"""
    task = referred(runner, kernel, threads=2)
    x, w = (region.array for region in task.inputs)
    assert np.allclose(task.reference.outputs[0], x @ w, atol=task.reference.allowed[0])
    assert task.reference.allowed[0] < 1e-2


@pytest.mark.skipif(not can_flush(native_target()), reason="no instruction evicts lines of the caches here")
def test_flushed_caches(runner):
    flush = Evaluation(number=1, repeat=3, min_repeat_ms=0, flush_cache=True, run_timeout_s=60, stop_factor=0)
    referred(runner, elementwise("%z = arith.addf %a, %a : f32"), evaluation=flush)


def test_a_slower_candidate_is_timed_once(runner):
    kernel = elementwise("%z = arith.mulf %a, %a : f32")
    task = referred(runner, kernel)
    key = candidates.task(kernel=kernel).key
    given = MeasureInput(candidates.task(kernel=kernel), candidates.values("default"))
    artefact = build(NAME, given, False, 1 << 32).artefact
    task.best = 1e-15
    ((outcome,),) = runner.run(key, [artefact], QUICK, 1)
    assert len(outcome.seconds) == 1
    rows = runner.run(key, [artefact, artefact], QUICK, 3)
    assert [[len(one.seconds) for one in row] for row in rows] == [[2] * 3] * 2


def test_a_runner_forgets_old_tasks(runner, monkeypatch):
    monkeypatch.setattr("mlc.tuning.measure.runner.KEPT_BYTES", 0)
    first = candidates.task(kernel=elementwise("%z = arith.subf %a, %a : f32"))
    referred(runner, first.kernel)
    referred(runner, elementwise("%z = arith.addf %a, %a : f32"))
    assert runner.run(first.key, [], QUICK, 1) is None
