"""Reduction: every level gets small, every candidate is valid, and the result is never worse than the input."""

import re

import numpy as np
import pytest
from xdsl.dialects.func import FuncOp

from mlc.dialects import loop, sched, te
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, parse_pipeline, run_passes
from mlc.interp.graph import run_function
from mlc.passes.verifier import verify
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.validation.reduction import edits, places, schedule_edits
from mlc.validation.reduction.edits import Edit, edited
from mlc.validation.reduction.reduce import Reducer
from mlc.validation.reduction.resize import Resizing, resized
from mlc.validation.reduction.subject import Subject

GRAPH = """
func.func @helper(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = graph.abs %x : tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
func.func @main(%x: tensor<1x64x32x32xf32>) -> (tensor<1x8x32x32xf32>, tensor<1x64x32x32xf32>) {
  %0 = graph.relu %x : tensor<1x64x32x32xf32>
  %1 = graph.neg %0 : tensor<1x64x32x32xf32>
  %w = graph.param "w" : tensor<8x64x3x3xf32>
  %2 = graph.conv2d %1, %w {padding = [1, 1, 1, 1]}
    : (tensor<1x64x32x32xf32>, tensor<8x64x3x3xf32>) -> tensor<1x8x32x32xf32>
  %3 = graph.add %2, %2 : tensor<1x8x32x32xf32>
  %4 = graph.clip %3 {min = 0.25, max = 0.75} : tensor<1x8x32x32xf32>
  %5 = graph.sigmoid %4 : tensor<1x8x32x32xf32>
  return %5, %0 : tensor<1x8x32x32xf32>, tensor<1x64x32x32xf32>
}"""
DENSE = """func.func @main(%x: tensor<16x64xf32>, %w: tensor<48x64xf32>) -> tensor<16x48xf32> {
  %0 = graph.dense %x, %w : (tensor<16x64xf32>, tensor<48x64xf32>) -> tensor<16x48xf32>
  %1 = graph.tanh %0 : tensor<16x48xf32>
  %2 = graph.relu %1 : tensor<16x48xf32>
  return %2 : tensor<16x48xf32>
}"""
TO_TE = "graph-fuse-ops,graph-outline-kernels,convert-graph-to-te"


def subject_of(text, pipeline=None):
    module = parse_module(text, "a.mlir", make_context())
    if pipeline:
        run_passes(module, make_context(), parse_pipeline(pipeline))
    return Subject(module)


def reduced(subject, check):
    """The reduced subject; each candidate is valid, and no result is larger."""
    sizes = []

    def checked(candidate):
        verify(candidate.module)
        good = check(candidate)
        if good:
            sizes.append(candidate.size)
        return good

    reducer = Reducer(make_context(), checked)
    result = reducer.reduce(subject)
    assert sizes == sorted(sizes, reverse=True)
    assert result.size == min(sizes)
    assert check(result)
    parse_module(result.text, "r.mlir", make_context())
    return result, reducer


def has(*names):
    return lambda candidate: set(names) <= {op.name for op in candidate.module.walk()}


def test_a_graph_keeps_what_is_needed():
    result, reducer = reduced(subject_of(GRAPH), has("graph.conv2d", "graph.clip"))
    assert [op.name for op in result.entry_function.body.block.ops] == ["graph.conv2d", "graph.clip", "func.return"]
    assert "helper" not in result.text
    assert "64" not in result.text
    assert "min" not in result.text
    assert reducer.checks < 60


@pytest.mark.parametrize("name", ["graph.relu", "graph.neg", "graph.add", "graph.sigmoid", "graph.param"])
def test_any_one_op_is_left_alone(name):
    result, _ = reduced(subject_of(GRAPH), has(name))
    assert result.size[0] == 1
    assert "1x1x1x1" in result.text


def test_sizes_stop_where_the_check_says():
    def check(candidate):
        func = candidate.entry_function
        return isinstance(func, FuncOp) and any(
            op.name == "graph.neg" and op.results[0].type.get_shape()[1] > 5 for op in func.body.block.ops
        )

    result, _ = reduced(subject_of(GRAPH), check)
    assert "graph.neg %x : tensor<1x6x1x1xf32>" in result.text


def test_attributes_take_their_defaults():
    result, _ = reduced(subject_of(GRAPH), has("graph.clip"))
    assert re.search(r"graph.clip %\w+ : tensor<1x1x1x1xf32>", result.text)


def test_a_check_that_does_not_hold_is_an_error():
    with pytest.raises(UserError, match="expected the check to hold for the input itself"):
        Reducer(make_context(), lambda candidate: False).reduce(subject_of(GRAPH))


def test_nothing_smaller_is_the_input_itself():
    subject = subject_of(DENSE)
    text = subject.text
    assert Reducer(make_context(), lambda one: one.text == text).reduce(subject).text == text


def test_time_is_bounded():
    reducer = Reducer(make_context(), lambda one: True, seconds=0.0)
    assert reducer.reduce(subject_of(GRAPH)).text == subject_of(GRAPH).text
    assert reducer.checks == 0


def test_te_stages_and_their_bodies():
    def check(candidate):
        return any(op.name == "math.tanh" for op in candidate.module.walk())

    result, _ = reduced(subject_of(DENSE, TO_TE), check)
    stages = [op for op in result.module.walk() if isinstance(op, te.ComputeOp)]
    assert len(stages) == 1
    assert stages[0].static_extents in ([1, 1], (1, 1))
    assert result.size[0] <= 3


def test_directives_of_a_schedule():
    subject = subject_of(DENSE, f"{TO_TE},te-inline,te-add-schedule")
    before = sum(op.name.startswith("sched.") for op in subject.module.walk())
    result, _ = reduced(subject, lambda one: any(isinstance(op, sched.VectorizeOp) for op in one.module.walk()))
    names = [op.name for op in result.module.walk() if op.name.startswith("sched.")]
    assert len(names) <= 4 < before
    assert names[0] == "sched.schedule"
    assert "sched.vectorize" in names


NEST = """loop.func @k(%x: memref<1x2x8xf32>, %o: memref<1x2x8xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "shared" : memref<1x2x8xf32>
  loop.for %a = 0 to 1 {
    loop.for %b = 0 to 2 {
      loop.for %c = 0 to 8 {
        loop.block "t" (%va : 1 = %a, %vb : 2 = %b, %vc : 8 = %c) {
          %0 = loop.load %x[%va, %vb, %vc] : f32
          loop.store %0, %t[%va, %vb, %vc] : f32
        }
      }
    }
  }
  loop.for %d = 0 to 1 {
    loop.for %e = 0 to 2 {
      loop.for %f = 0 to 8 {
        loop.block "o" (%vd : 1 = %d, %ve : 2 = %e, %vf : 8 = %f) {
          %1 = loop.load %t[%vd, %ve, %vf] : f32
          loop.store %1, %o[%vd, %ve, %vf] : f32
        }
      }
    }
  }
}
sched.schedule @k {
  %o = sched.block "o" : !sched.block
  %0, %1, %2 = sched.loops %o : 3
  %3, %4 = sched.split %2 [?, 4]
  sched.reorder %0, %3, %1, %4
  %5 = sched.fuse %0, %3
  sched.parallel %5
}"""


def scheduled(subject):
    """Whether a pass can apply the schedule of a subject, and makes a parallel loop of it."""
    copy = subject.copy()
    try:
        run_passes(copy.module, make_context(), ["loop-apply-schedule"])
    except UserError:
        return False
    return any(isinstance(op, loop.ForOp) and op.kind.data == "parallel" for op in copy.module.walk())


def test_a_schedule_shrinks_with_its_nest():
    """Loops go from the function and from the handles together, splits and fusions of what is left go, too."""
    result, _ = reduced(subject_of(NEST), scheduled)
    names = [op.name for op in result.module.walk() if op.name.startswith("sched.")]
    assert names == ["sched.schedule", "sched.block", "sched.loops", "sched.parallel"]
    func = next(op for op in result.module.walk() if isinstance(op, loop.FuncOp))
    assert sum(isinstance(op, loop.ForOp) for op in func.walk()) == 1


@pytest.mark.parametrize("number", [0, 1], ids=["fused", "reordered"])
def test_directives_name_the_loops_that_are_left(number):
    subject = subject_of(NEST)
    index = next(i for i, op in enumerate(subject.module.walk()) if isinstance(op, sched.LoopsOp))
    shorter = edited(subject, [Edit(index, schedule_edits.unlooped, number)])
    assert scheduled(shorter)
    reorder = next(op for op in shorter.module.walk() if isinstance(op, sched.ReorderOp))
    assert len(reorder.operands) == 3
    assert len(next(op for op in shorter.module.walk() if isinstance(op, sched.LoopsOp)).results) == 2


def test_a_buffer_becomes_an_input():
    """What computes a buffer goes where only its use matters."""

    def check(candidate):
        loads = [op for op in candidate.module.walk() if isinstance(op, loop.LoadOp)]
        return any(op.buffer.name_hint == "t" for op in loads)

    result, _ = reduced(subject_of(NEST), check)
    func = next(op for op in result.module.walk() if isinstance(op, loop.FuncOp))
    assert not any(isinstance(op, loop.AllocOp) for op in func.walk())
    assert [arg.name_hint for arg in func.args] == ["t", "o"]
    assert sum(isinstance(op, loop.StoreOp) for op in func.walk()) == 1


def test_loops():
    to_loops = "te-inline,te-add-schedule,convert-te-to-loop,loop-apply-schedule,loop-tiles"
    result, _ = reduced(subject_of(DENSE, f"{TO_TE},{to_loops}"), has("loop.fma"))
    assert result.size[0] <= 6
    assert all(op.extent == 1 for op in result.module.walk() if isinstance(op, loop.ForOp))


def test_weights_shrink_with_the_sizes_and_go_into_the_text():
    store = WeightStore()
    array = np.arange(8 * 64 * 9, dtype=np.float32).reshape(8, 64, 3, 3)
    store.add("w", array)
    store.add("unused", array)
    subject = subject_of(GRAPH)
    subject.weights = store

    def check(candidate):
        for op in candidate.module.walk():
            if op.name == "graph.conv2d":
                return getattr(op.operands[1].owner, "name", "") in ("graph.param", "graph.constant")
        return False

    result, _ = reduced_without_sizes(subject, check)
    constant = next(op for op in result.module.walk() if op.name == "graph.constant")
    assert constant.array().size <= 64
    assert constant.array().flat[0] == 0.0
    assert list(store) == ["w", "unused"]
    assert store.array("w").shape == (8, 64, 3, 3)


def reduced_without_sizes(subject, check):
    reducer = Reducer(make_context(), check)
    return reducer.reduce(subject), reducer


def test_given_inputs_stay_what_they_were():
    """A value that becomes an input has the array that was computed there."""
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = graph.neg %x : tensor<3xf32>
      %1 = graph.exp %0 : tensor<3xf32>
      %2 = graph.sqrt %1 : tensor<3xf32>
      return %2 : tensor<3xf32>
    }"""
    x = np.array([1, 2, 4], np.float32)
    subject = subject_of(text)
    subject.inputs = [x]

    def check(candidate):
        func = candidate.entry_function
        got = run_function(func, candidate.inputs)[0]
        return has("graph.sqrt")(candidate) and np.isclose(got, np.exp(-2 / 2)).any()

    result, _ = reduced_without_sizes(subject, check)
    assert [op.name for op in result.entry_function.body.block.ops] == ["graph.sqrt", "func.return"]
    assert len(result.inputs) == 1
    assert np.isclose(result.inputs[0], np.exp(-2)).any()


def test_an_edit_does_not_touch_its_subject():
    subject = subject_of(GRAPH)
    text = str(subject.module)
    for edit in (*places.cuts(subject), *places.replacements(edits.by_argument)(subject), *places.outputs(subject)):
        edited(subject, [edit])
    assert str(subject.module) == text


def test_invalid_candidates_are_none():
    subject = subject_of("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}")
    terminator = next(i for i, op in enumerate(subject.module.walk()) if op.name == "func.return")
    assert edited(subject, [Edit(terminator, edits.erase)]) is None
    assert resized(subject, Resizing(3, 1, "arguments"), make_context()) is None
    assert "tensor<1xf32>" in resized(subject, Resizing(2, 1, "text"), make_context()).text


KERNEL = """loop.func @k(%a: memref<4xf32>, %o: memref<4xf32>) attributes {outputs = 1 : i64} {
  %t = loop.alloc "shared" : memref<4xf32>
  loop.for %i = 0 to 4 {
    %0 = loop.load %a[%i] : f32
    %1 = math.exp %0 : f32
    loop.store %1, %t[%i] : f32
  }
  loop.for %j = 0 to 4 {
    %2 = loop.load %t[%j] : f32
    loop.store %2, %o[%j] : f32
  }
}"""


def test_a_buffer_becomes_an_output_and_the_other_goes():
    """What is computed behind the op that is needed is dropped, although a kernel must write its outputs."""

    def check(candidate):
        found = next((op for op in candidate.module.walk() if op.name == "math.exp"), None)
        return found is not None and any(use.operation.name == "loop.store" for use in found.results[0].uses)

    result, _ = reduced(subject_of(KERNEL), check)
    func = next(op for op in result.module.body.block.ops if isinstance(op, loop.FuncOp))
    assert func.outputs.value.data == 1
    assert [op.name for op in func.body.block.ops] == ["loop.load", "math.exp", "loop.store", "loop.yield"]


@pytest.mark.parametrize(("change", "value"), [(edits.by_earlier, "%0"), (edits.by_nearest, "%1")])
def test_values_before_an_op_stand_in_for_it(change, value):
    text = """func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
      %0 = graph.neg %y : tensor<3xf32>
      %1 = graph.abs %0 : tensor<3xf32>
      %2 = graph.exp %1 : tensor<3xf32>
      %3 = graph.tanh %2 : tensor<3xf32>
      return %3 : tensor<3xf32>
    }"""
    subject = subject_of(text)
    index = next(i for i, op in enumerate(subject.module.walk()) if op.name == "graph.exp")
    shorter = edited(subject, [Edit(index, change)])
    read = next(op for op in shorter.module.walk() if op.name == "graph.tanh").operands[0]
    assert read.type.get_shape() == (3,)
    assert (getattr(read.owner, "name", "argument")) == {"%0": "argument", "%1": "graph.abs"}[value]
