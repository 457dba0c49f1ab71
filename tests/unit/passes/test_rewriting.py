"""Rule tables: order, merging, families of ops, arguments, and listeners that count and reject rewrites."""

import numpy as np

from mlc.dialects.graph import (
    OPS,
    AbsOp,
    AddOp,
    ClipOp,
    IdentityOp,
    MaximumOp,
    MinimumOp,
    NegOp,
    ReluOp,
    UnaryOp,
    op_classes,
)
from mlc.dialects.syntax.source import parse_module
from mlc.interp.graph import main_function, run_function
from mlc.passes.rewriting import Rewriter, Rules, RuleTable, Values, apply_rules, blocks, defining_op
from mlc.passes.verifier import verify

CHAIN = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = graph.relu %x : tensor<4xf32>
  %1 = graph.neg %0 : tensor<4xf32>
  %2 = graph.relu %1 : tensor<4xf32>
  %3 = graph.abs %2 : tensor<4xf32>
  return %3 : tensor<4xf32>
}"""
X = np.array([-2, -0.5, 0.5, 3], np.float32)


def names(module):
    return [op.name.removeprefix("graph.") for block in blocks(module) for op in block.ops if op.results]


def clip_rules():
    rules = Rules()

    @rules.on(ReluOp)
    def clip_from_relu(op, rw):
        return rw.make(ClipOp, op.operands[0], min=0.0)

    @rules.on(ReluOp, AbsOp)
    def operand(op, rw):
        return op.operands[0]

    return rules, clip_from_relu, operand


def test_the_rules_of_an_op_are_tried_in_order():
    rules, *_ = clip_rules()
    module = parse_module(CHAIN)
    assert apply_rules(module, rules) == 3
    assert names(module) == ["clip", "neg", "clip"]
    verify(module)


def test_merged_tables_keep_the_order_and_the_tables():
    first, second = Rules(), clip_rules()[0]

    @first.on(ReluOp)
    def keep(op, rw):
        return rw.make(MaximumOp, op.operands[0], op.operands[0])

    assert AbsOp not in first
    both = Rules(first, second)
    assert ReluOp in both
    assert AbsOp in both
    assert NegOp not in both
    module = parse_module(CHAIN)
    assert apply_rules(module, both) == 3
    assert names(module) == ["maximum", "neg", "maximum"]
    assert AbsOp not in first


def test_a_listener_counts_rewrites_and_rejects_them():
    rules, clip_from_relu, operand = clip_rules()
    expected = run_function(main_function(parse_module(CHAIN)), [X])[0]
    seen = []

    def first_only(rule, op):
        seen.append((rule, op.name))
        return len(seen) == 1

    module = parse_module(CHAIN)
    assert apply_rules(module, rules, first_only) == 1
    # The clip that was rejected is erased, and the next rule of the op is tried.
    assert [rule for rule, _ in seen] == [clip_from_relu, clip_from_relu, operand, operand]
    assert names(module) == ["clip", "neg", "relu", "abs"]
    verify(module)
    np.testing.assert_array_equal(run_function(main_function(module), [X])[0], expected)


def test_rules_with_more_parameters_are_bound_to_arguments():
    table = RuleTable[[Rewriter, float], Values]()

    @table.on(ReluOp)
    def bounded(op, rw, limit):
        return rw.make(ClipOp, op.operands[0], min=0.0, max=limit)

    module = parse_module(CHAIN)
    assert apply_rules(module, Rules.bound(table, 2.0)) == 2
    assert run_function(main_function(module), [X])[0].tolist() == [0, 0, 0, 0]
    assert [op.max for block in blocks(module) for op in block.ops if isinstance(op, ClipOp)] == [2.0, 2.0]


def test_first_is_the_answer_of_the_first_rule_that_applies():
    table = RuleTable[[int], int]()
    table.on(ReluOp)(lambda op, n: None if n < 5 else n)
    table.on(ReluOp, NegOp)(lambda op, n: -n)
    module = parse_module(CHAIN)
    relu, neg, _, absolute = (op for block in blocks(module) for op in block.ops if op.results)
    assert [table.first(op, n) for op in (relu, neg, absolute) for n in (3, 7)] == [-3, 7, -3, -7, None, None]


def test_the_classes_of_a_family():
    unary = op_classes(UnaryOp)
    assert {ReluOp, ClipOp, IdentityOp} <= set(unary)
    assert AddOp not in unary
    assert [cls for cls in OPS.values() if cls in unary] == list(unary)


def test_defining_op_is_of_a_class():
    module = parse_module(CHAIN)
    relu, neg, *_ = (op for block in blocks(module) for op in block.ops)
    assert defining_op(neg.operands[0], ReluOp) is relu
    assert defining_op(neg.operands[0], MinimumOp) is None
    assert defining_op(relu.operands[0], ReluOp) is None


def test_a_clone_keeps_attributes_and_location():
    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<2xf32>) -> tensor<4xf32> {
      %0 = graph.clip %x {min = -1.0, max = 6.0} : tensor<4xf32> loc("here")
      return %0 : tensor<4xf32>
    }"""
    module = parse_module(text)
    block = next(blocks(module))
    clip = block.first_op
    rw = Rewriter()
    rw.at = clip
    new = defining_op(rw.clone(clip, block.args[1], max=7.0), ClipOp)
    assert (new.min, new.max, new.type) == (-1.0, 7.0, block.args[1].type)
    assert new.location == clip.location
    rw.undo()
    assert next(iter(block.ops)) is clip
