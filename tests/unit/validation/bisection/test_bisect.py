"""Bisection: wrong passes of all kinds and levels are named, with the rewrite, the function and the op."""

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from mlc.dialects import graph, loop
from mlc.dialects.graph.base import name_location
from mlc.dialects.index import IndexMapAttr
from mlc.dialects.syntax.source import parse_module
from mlc.driver.compare.bisection import load_subject, passes_of
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, parse_pipeline
from mlc.passes.rewriting import Rules, apply_rules, defining_op
from mlc.validation.bisection.failure import facts_of_op
from mlc.validation.bisection.oracle import Compared, NotComparable, Sampled, Validated, first_difference
from mlc.validation.bisection.search import Bisection
from mlc.validation.reduction.subject import Subject

CHAIN = """func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = graph.neg %x : tensor<4x8xf32>
  %1 = graph.relu %0 : tensor<4x8xf32>
  %2 = graph.clip %1 {min = 0.0, max = 6.0} : tensor<4x8xf32>
  %3 = graph.tanh %2 : tensor<4x8xf32>
  %4 = graph.relu %0 : tensor<4x8xf32>
  %5 = graph.clip %4 {min = -1.0, max = 2.0} : tensor<4x8xf32> loc("second_clip")
  %6 = graph.sigmoid %5 : tensor<4x8xf32> loc("the_sigmoid")
  %7 = graph.abs %6 : tensor<4x8xf32>
  return %3, %7 : tensor<4x8xf32>, tensor<4x8xf32>
}"""
DENSE = """func.func @main(%x: tensor<3x8xf32>, %w: tensor<5x8xf32>, %v: tensor<4x5xf32>) -> tensor<3x4xf32> {
  %0 = graph.dense %x, %w : (tensor<3x8xf32>, tensor<5x8xf32>) -> tensor<3x5xf32>
  %1 = graph.relu %0 : tensor<3x5xf32>
  %2 = graph.dense %1, %v : (tensor<3x5xf32>, tensor<4x5xf32>) -> tensor<3x4xf32>
  %3 = graph.sigmoid %2 : tensor<3x4xf32>
  return %3 : tensor<3x4xf32>
}"""
TO_TE = "graph-O3,convert-graph-to-te"
TO_LOOP = f"{TO_TE},te-factor-reductions,te-inline,te-add-schedule,convert-te-to-loop"

RULES = Rules()


@RULES.on(graph.ClipOp)
def clip_of_relu(op, rw):
    """Wrong where the least value is below 0."""
    relu = defining_op(op.operands[0], graph.ReluOp)
    return None if relu is None else rw.make(graph.ClipOp, relu.operands[0], min=op.min, max=op.max)


def by_rules(module: ModuleOp) -> None:
    apply_rules(module, RULES)


class AbsOfSigmoid(RewritePattern):
    """Wrong: `abs(sigmoid(x))` is no `neg`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, graph.AbsOp):
            rewriter.replace(op, graph.NegOp.make(op.operands[0]))


def by_pattern(module: ModuleOp) -> None:
    PatternRewriteWalker(AbsOfSigmoid()).rewrite_module(module)


def first(module: ModuleOp, kind: type) -> list:
    return [op for op in module.walk() if isinstance(op, kind)]


def drop_sigmoid(module: ModuleOp) -> None:
    for op in first(module, graph.SigmoidOp):
        op.results[0].replace_all_uses_with(op.operands[0])
        op.detach()
        op.erase()


def raise_at_sigmoid(module: ModuleOp) -> None:
    for op in first(module, graph.SigmoidOp):
        raise KeyError(op.name)


def die_at_sigmoid(module: ModuleOp) -> None:
    if first(module, graph.SigmoidOp):
        ctypes.string_at(0)


def break_sigmoid(module: ModuleOp) -> None:
    for op in first(module, graph.SigmoidOp):
        op.properties["nonsense"] = StringAttr("x")


def shorten_loop(module: ModuleOp) -> None:
    found = [op for op in first(module, loop.ForOp) if (op.extent or 0) > 1]
    for op in found[:1]:
        op.bounds = IndexMapAttr.get([op.lower, op.upper - 1])


def add_for_multiply(module: ModuleOp) -> None:
    for op in first(module, arith.MulfOp)[:1]:
        new = arith.AddfOp(op.lhs, op.rhs)
        op.parent.insert_op_before(new, op)
        op.results[0].replace_all_uses_with(new.result)
        op.detach()
        op.erase()


def store_to_null(module: ModuleOp) -> None:
    for op in first(module, llvm.StoreOp):
        null = llvm.ZeroOp.create(result_types=[llvm.LLVMPointerType()])
        op.parent.insert_op_before(null, op)
        op.operands[1] = null.results[0]


def wrong(change) -> ModulePass:
    @dataclass(frozen=True)
    class WrongPass(ModulePass):
        name = f"wrong-{change.__name__}"

        def apply(self, ctx, op):
            change(op)

    return WrongPass()


def subject_of(text: str) -> Subject:
    return Subject(parse_module(text, "a.mlir", make_context()))


def culprit_of(text, before, change, oracle=None, after="", reduce=True):
    """The culprit on a wrong pass between others, and its number."""
    passes = [*parse_pipeline(before), wrong(change), *(parse_pipeline(after) if after else [])]
    oracle = oracle or Validated(make_context(), seconds=60)
    culprit = Bisection(oracle, seconds=20).run(subject_of(text), passes, reduce)
    assert culprit.failure.index == len(parse_pipeline(before))
    assert culprit.module_pass is passes[culprit.failure.index]
    return culprit


@pytest.mark.parametrize("kind", [Validated, Compared])
@pytest.mark.parametrize(
    ("change", "failure", "op", "size"),
    [
        (by_rules, "values", "graph.clip", 2),
        (by_pattern, "values", "graph.abs", 1),
        (drop_sigmoid, "values", "graph.sigmoid", 1),
        (raise_at_sigmoid, "exception", "graph.sigmoid", 1),
        (die_at_sigmoid, "crash", "graph.sigmoid", 1),
        (break_sigmoid, "invalid", "graph.sigmoid", 1),
    ],
)
def test_on_the_graph_level(kind, change, failure, op, size):
    oracle = kind(make_context(), seconds=60)
    culprit = culprit_of(CHAIN, "graph-canonicalize", change, oracle, "graph-fuse-ops")
    assert culprit.failure.kind == failure
    assert culprit.op.name == op
    assert culprit.reduced.size[0] == size
    assert op in culprit.reduced.text
    assert culprit.plain
    assert "x1xf32" in culprit.reduced.text


def test_the_application_of_a_rule_is_found():
    """The first clip is right, for its least value is 0."""
    culprit = culprit_of(CHAIN, "graph-eliminate-dead-code", by_rules, reduce=False)
    assert (culprit.rule.rule, culprit.rule.number, culprit.rule.count) == ("clip_of_relu", 2, 2)
    assert culprit.op.node == "second_clip"
    assert "min = -1.0" in culprit.op.text


def test_the_application_of_a_pattern_is_found():
    culprit = culprit_of(CHAIN, "graph-eliminate-dead-code", by_pattern, reduce=False)
    assert (culprit.rule.rule, culprit.rule.number, culprit.rule.count) == ("AbsOfSigmoid", 1, 1)
    assert culprit.op.place == "a.mlir:9:8"


def test_an_exception_names_its_class_and_its_op():
    failure = culprit_of(CHAIN, "graph-canonicalize", raise_at_sigmoid, reduce=False).failure
    assert failure.exception == "KeyError"
    assert failure.message == "pass 'wrong-raise_at_sigmoid' raised KeyError: 'graph.sigmoid'"
    assert failure.op.node == "the_sigmoid"
    assert failure.function == "main"


@pytest.mark.parametrize(
    ("before", "change", "after", "ops", "size"),
    [
        (f"{TO_TE},te-inline", add_for_multiply, "kernel-O3", ("te.compute",), 4),
        (TO_LOOP, shorten_loop, "loop-apply-schedule", ("loop.for",), 8),
    ],
)
def test_in_kernels(before, change, after, ops, size):
    culprit = culprit_of(DENSE, before, change, after=after)
    assert culprit.failure.kind == "values"
    assert culprit.failure.function.startswith("dense_relu")
    assert culprit.op.name in ops
    assert f"{culprit.op}" == f"{ops[0]} in @{culprit.failure.function}"
    assert culprit.reduced.size[0] <= size
    assert culprit.plain


def test_the_place_of_an_op_in_a_kernel():
    module = parse_module("""loop.func @k(%x: memref<4x2xf32>) attributes {outputs = 1 : i64} {
      loop.for %i = 0 to 4 {
        loop.for %j = 0 to 2 {
          loop.block "init" (%vi : 4 = %i, %vj : 2 = %j) {
            %z = arith.constant 0.0 : f32
            loop.store %z, %x[%vi, %vj] : f32
          }
        }
      }
    }""")
    inside = {op.name: facts_of_op(op).inside for op in module.walk()}
    assert inside["loop.store"] == '@k, loops %i, %j, block "init"'
    assert inside["loop.block"] == "@k, loops %i, %j"
    assert inside["loop.func"] == inside["builtin.module"] == ""
    stages = parse_module("""te.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = te.compute "twice" (%i : 4) {
        %a = te.read %x[%i] : f32
        %b = arith.addf %a, %a : f32
        te.yield %b : f32
      } : tensor<4xf32>
      te.return %y : tensor<4xf32>
    }""")
    assert [facts_of_op(op).inside for op in stages.walk() if op.name == "te.read"] == ['@f, stage "twice"']
    assert [facts_of_op(op).inside for op in parse_module(CHAIN).walk() if op.name == "graph.clip"] == ["", ""]


def test_a_crash_of_native_code():
    """The llvm level is run only behind the conversion, which is therefore part of the reproducer."""
    culprit = culprit_of(DENSE, f"{TO_TE},kernel-O3", store_to_null, reduce=False)
    assert (culprit.failure.kind, culprit.failure.signal, culprit.failure.running) == ("crash", "SIGSEGV", True)
    assert culprit.failure.function.startswith("dense_relu")
    assert [one.name for one in culprit.passes] == ["convert-loop-to-llvm", "wrong-store_to_null"]


def test_right_passes_are_not_blamed():
    subject = subject_of(DENSE)
    for oracle in (Validated(make_context()), Compared(make_context())):
        assert Bisection(oracle).run(subject, passes_of(subject, Options())) is None


def test_outputs_of_a_reference_are_compared():
    """A program that is wrong from the start: the pass that changed the outputs is found by halving."""
    subject = subject_of(CHAIN)
    subject.inputs = [np.linspace(-3, 3, 32, dtype=np.float32).reshape(4, 8)]
    x = -subject.inputs[0]
    expected = [np.tanh(np.clip(x, 0, 6)), 1 / (1 + np.exp(-np.clip(x, 0, 2)))]
    oracle = Compared(make_context(), expected=expected)
    passes = [*parse_pipeline("graph-canonicalize"), wrong(drop_sigmoid), *parse_pipeline("graph-O3")]
    culprit = Bisection(oracle).run(subject, passes, reduce=False)
    assert culprit.module_pass.name == "wrong-drop_sigmoid"
    assert culprit.op.name == "graph.sigmoid"
    assert Bisection(oracle).run(subject, parse_pipeline("graph-O3")) is None


def test_outputs_are_compared_as_far_as_they_count():
    two, i64 = "tensor<1x4xi64>, tensor<i64>", "attributes {mlc.counted = [[0, 1]]} {"
    text = f"func.func @main(%x: tensor<4xi1>) -> ({two}) {i64}\n"
    text += f"  %r, %n = graph.nonzero %x : (tensor<4xi1>) -> ({two})\n  func.return %r, %n : {two}\n}}\n"
    subject = subject_of(text)
    subject.inputs = [np.array([False, True, False, True])]
    for expected, message in [([[1, 3]], ""), ([[1, 2]], "output 0 at [0, 1]"), ([[1]], "output 0: expected shape")]:
        oracle = Compared(make_context(), expected=[np.array(expected)])
        failure = oracle.observe(subject, parse_pipeline("graph-canonicalize")).failure
        assert (failure is None) == (not message)
        assert failure is None or failure.message.startswith(message)


def test_what_cannot_be_run_is_said():
    text = "func.func private @f(tensor<2xf32>) -> tensor<2xf32>"
    with pytest.raises(NotComparable, match=r"^expected a function @main on the graph level"):
        Bisection(Compared(make_context())).run(subject_of(text), parse_pipeline("graph-canonicalize"))


def test_weights_are_those_of_the_model(tmp_path):
    """With the model's own weights a bug shows that random ones hide."""
    from mlc.support.weights import WeightStore

    path = tmp_path / "m.mlir"
    path.write_text(
        'func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %w = graph.param "w" : tensor<4xf32>\n'
        "  %0 = graph.maximum %w, %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n"
    )
    store = WeightStore()
    store.add("w", np.full(4, 100, np.float32))
    store.save(path.with_suffix(".safetensors"))

    def to_sum(module: ModuleOp) -> None:
        for op in first(module, graph.MaximumOp):
            new = graph.SubtractOp.make(*op.operands, location=name_location("n"))
            op.parent.insert_op_before(new, op)
            op.results[0].replace_all_uses_with(new.results[0])
            op.detach()
            op.erase()

    culprit = Bisection(Validated(make_context()), seconds=20).run(load_subject(path), [wrong(to_sum)])
    assert culprit.op.name == "graph.maximum"
    assert "expected 100.0" in culprit.failure.message


@pytest.mark.parametrize(
    ("expected", "got", "found"),
    [
        ([1.0, 2.0], [1.0, 2.001], ""),
        ([1.0, 2.0], [1.0, 2.1], "output 0 at [1]: expected 2.0, but got 2.1"),
        ([1.0, np.nan], [1.0, np.nan], ""),
        ([1.0, np.inf], [1.0, 3.0], "output 0 at [1]: expected inf, but got 3.0"),
        ([1, 2], [1, 3], "output 0 at [1]: expected 2, but got 3"),
        ([1.0], [1.0, 2.0], "output 0: expected shape (1,), but got (2,)"),
    ],
)
def test_differences_of_outputs(expected, got, found):
    assert first_difference([np.array(expected)], [np.array(got)]).startswith(found)
    assert bool(first_difference([np.array(expected)], [np.array(got)])) == bool(found)


@pytest.mark.parametrize(("change", "kind"), [(drop_sigmoid, "values"), (raise_at_sigmoid, "exception")])
def test_the_quick_comparison_sees_what_reductions_need(change, kind):
    seen = Sampled(make_context()).observe(subject_of(CHAIN), [wrong(change)]).failure
    assert seen.kind == kind
    blind = Sampled(make_context(), compares=False).observe(subject_of(CHAIN), [wrong(change)]).failure
    assert (blind is None) == (kind == "values")
    assert Sampled(make_context()).observe(subject_of(CHAIN), parse_pipeline("graph-O3")).failure is None


def test_what_is_undefined_before_a_pass_is_no_evidence():
    """A kernel that writes half of its output: only the written half says something."""
    text = """loop.func @k(%o: memref<2xf32>) attributes {outputs = 1 : i64} {
      %0 = arith.constant 1.0 : f32
      loop.store %0, %o[0] : f32
    }"""

    def move(module, keep=False):
        for op in first(module, loop.StoreOp):
            if keep:
                op.parent.insert_op_before(op.clone(), op)
            op.properties["map"] = IndexMapAttr.get([op.map.data[0] + 1])

    def copy(module):
        move(module, keep=True)

    assert Sampled(make_context()).observe(subject_of(text), [wrong(copy)]).failure is None
    seen = Sampled(make_context()).observe(subject_of(text), [wrong(move)]).failure
    assert seen is not None
    assert seen.message == "output 0 at [0]: expected 1.0, but got nan (allowed 0.001)"
