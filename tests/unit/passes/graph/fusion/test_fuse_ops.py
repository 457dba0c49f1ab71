"""Operator fusion: TVM's rules one by one, mlc's on top of them, the inverse, and outlining."""

import numpy as np
import pytest
from graph_passes import groups, kernels, names, optimize
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlc.dialects.graph import (
    AddOp,
    ConcatenateOp,
    ExpOp,
    FusedOp,
    MaxOp,
    MultiplyOp,
    ParamOp,
    ReluOp,
    ReshapeOp,
    SoftmaxOp,
    SplitOp,
    TransposeOp,
)
from mlc.dialects.graph.store import store_of
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.passes.graph.fusion.fuse_ops.dataflow import DataflowNode
from mlc.passes.graph.fusion.fuse_ops.tvm_rules import Partitioner, post_dominators

TVM = "graph-fuse-ops{mode=tvm}"
P = "tensor<1x4x6x6xf32>"
C = "tensor<1x4x1x1xf32>"


def main(body, arguments="", result=P, value="%r"):
    arguments = f"%x: {P}, %y: {P}, %c: {C}, %w: tensor<4x4x1x1xf32>" + arguments
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n return {value} : {result}\n}}"


CONV = f"%conv = graph.conv2d %x, %w : ({P}, tensor<4x4x1x1xf32>) -> {P}"


def test_conv_affine_relu_residual_is_one_group():
    text = main(f"""{CONV}
      %0 = graph.multiply %conv, %c : ({P}, {C}) -> {P}
      %1 = graph.add %0, %c : ({P}, {C}) -> {P}
      %2 = graph.relu %1 : {P}
      %r = graph.add %2, %y : {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        assert groups(optimize(text, mode)) == [["conv2d", "multiply", "add", "relu", "add"]]


def test_a_broadcast_that_grows_the_result_blocks_the_conv_rule():
    text = main(f"""%conv = graph.conv2d %c, %w : ({C}, tensor<4x4x1x1xf32>) -> {C}
      %0 = graph.add %conv, %y : ({C}, {P}) -> {P}
      %r = graph.relu %0 : {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        assert groups(optimize(text, mode)) == [["add", "relu"]]


def test_a_heavy_op_absorbs_no_producer():
    text = main(f"""%0 = graph.multiply %x, %c : ({P}, {C}) -> {P}
      %1 = graph.conv2d %0, %w : ({P}, tensor<4x4x1x1xf32>) -> {P}
      %2 = graph.pad %1 {{pad_width = [0, 0, 0, 0, 1, 1, 1, 1]}} : ({P}) -> tensor<1x4x8x8xf32>
      %r = graph.max_pool2d %2 {{pool_size = [3, 3]}} : (tensor<1x4x8x8xf32>) -> {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        assert groups(optimize(text, mode)) == []


def test_softmax_takes_elementwise_consumers_only_in_tvm_mode():
    text = main(f"""%0 = graph.multiply %x, %c : ({P}, {C}) -> {P}
      %1 = graph.softmax %0 : {P}
      %r = graph.relu %1 : {P}""")
    assert groups(optimize(text, TVM)) == [["softmax", "relu"]]
    assert groups(optimize(text, "graph-fuse-ops")) == [["multiply", "softmax", "relu"]]


def test_a_side_chain_joins_the_group_of_a_conv():
    # "sink may be 4": the sink's group has been merged with the convolution.
    text = main(f"""{CONV}
      %0 = graph.exp %y : {P}
      %1 = graph.relu %0 : {P}
      %r = graph.add %conv, %1 : {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        assert [sorted(g) for g in groups(optimize(text, mode))] == [["add", "conv2d", "exp", "relu"]]


def test_of_two_convs_the_later_takes_the_sum():
    text = main(f"""{CONV}
      %d = graph.conv2d %y, %w : ({P}, tensor<4x4x1x1xf32>) -> {P}
      %0 = graph.add %conv, %d : {P}
      %r = graph.relu %0 : {P}""")
    (group,) = groups(optimize(text, "graph-fuse-ops"))
    assert group == ["conv2d", "add", "relu"]
    # TVM visits nodes in order: the first convolution merges, then the second finds an anchored group.
    (group,) = groups(optimize(text, TVM))
    assert group == ["conv2d", "add", "relu"]


def test_elementwise_before_a_reduction_fuses_injective_only_in_mlc_mode():
    text = main(
        f"""%0 = graph.relu %x : {P}
      %1 = graph.sum %0 {{axes = [1]}} : ({P}) -> tensor<1x6x6xf32>
      %2 = graph.transpose %y {{axes = [0, 2, 3, 1]}} : ({P}) -> tensor<1x6x6x4xf32>
      %3 = graph.max %2 {{axes = [3]}} : (tensor<1x6x6x4xf32>) -> tensor<1x6x6xf32>
      %r = graph.batch_matmul %1, %3 : tensor<1x6x6xf32>""",
        result="tensor<1x6x6xf32>",
    )
    assert groups(optimize(text, TVM)) == [["relu", "sum"]]
    assert groups(optimize(text, "graph-fuse-ops")) == [["relu", "sum"], ["transpose", "max"]]


def test_nothing_fuses_after_a_reduction_in_tvm_mode():
    text = main(
        f"""%0 = graph.mean %x {{axes = [2, 3], keepdims = true}} : ({P}) -> {C}
      %1 = graph.relu %0 : {C}
      %r = graph.sqrt %1 : {C}""",
        result=C,
    )
    assert groups(optimize(text, TVM)) == [["relu", "sqrt"]]
    assert groups(optimize(text, "graph-fuse-ops")) == [["mean", "relu", "sqrt"]]


def test_spelled_out_softmax_splits_in_several_kernels():
    row = "tensor<1x4x6x1xf32>"
    text = main(f"""%m = graph.max %x {{axes = [3], keepdims = true}} : ({P}) -> {row}
      %0 = graph.subtract %x, %m : ({P}, {row}) -> {P}
      %1 = graph.exp %0 : {P}
      %2 = graph.sum %1 {{axes = [3], keepdims = true}} : ({P}) -> {row}
      %r = graph.divide %1, %2 : ({P}, {row}) -> {P}""")
    # exp has two readers, the sum and the quotient, and its post-dominator is behind a reduction.
    assert groups(optimize(text, TVM)) == [["subtract", "exp"]]


def test_a_diamond_fuses_whole():
    text = main(f"""%0 = graph.exp %x : {P}
      %1 = graph.relu %0 : {P}
      %2 = graph.tanh %0 : {P}
      %3 = graph.sqrt %2 : {P}
      %r = graph.add %1, %3 : {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        assert groups(optimize(text, mode)) == [["exp", "relu", "tanh", "sqrt", "add"]]


def test_concatenated_branches_join_through_the_tuple():
    text = main(
        f"""%0 = graph.relu %x : {P}
      %1 = graph.exp %y : {P}
      %2 = graph.concatenate %0, %1 {{axis = 1}} : ({P}, {P}) -> tensor<1x8x6x6xf32>
      %r = graph.neg %2 : tensor<1x8x6x6xf32>""",
        result="tensor<1x8x6x6xf32>",
    )
    assert groups(optimize(text, TVM)) == [["relu", "exp", "concatenate", "neg"]]


def test_a_concatenation_of_convs_takes_none_of_them():
    text = main(
        f"""{CONV}
      %d = graph.conv2d %y, %w : ({P}, tensor<4x4x1x1xf32>) -> {P}
      %2 = graph.concatenate %conv, %d {{axis = 1}} : ({P}, {P}) -> tensor<1x8x6x6xf32>
      %r = graph.relu %2 : tensor<1x8x6x6xf32>""",
        result="tensor<1x8x6x6xf32>",
    )
    assert groups(optimize(text, TVM)) == [["concatenate", "relu"]]


def test_a_concatenation_that_is_read_twice_stops_at_the_tuple():
    # The tuple's consumer is injective, but what follows it is a convolution: the tuple still fuses with it alone.
    text = main(
        f"""%0 = graph.relu %x : {P}
      %2 = graph.concatenate %0, %y {{axis = 2}} : ({P}, {P}) -> tensor<1x4x12x6xf32>
      %r = graph.conv2d %2, %w : (tensor<1x4x12x6xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x12x6xf32>""",
        result="tensor<1x4x12x6xf32>",
    )
    assert groups(optimize(text, TVM)) == [["relu", "concatenate"]]


def test_projections_of_a_split_fuse_with_what_joins_them():
    half = "tensor<1x2x6x6xf32>"
    text = main(
        f"""%a, %b = graph.split %x {{axis = 1, sections = [2, 2]}} : ({P}) -> ({half}, {half})
      %0 = graph.relu %a : {half}
      %r = graph.add %0, %b : {half}""",
        result=half,
    )
    assert groups(optimize(text, TVM)) == [["split", "relu", "add"]]


def test_a_group_of_several_outputs_does_not_form():
    text = main(f"""%0 = graph.relu %x : {P}
      %r = graph.exp %0 : {P}""", result=f"({P}, {P})", value="%r, %0")  # fmt: skip
    text = text.replace(f": ({P}, {P})\n", f": {P}, {P}\n")
    for mode in (TVM, "graph-fuse-ops"):
        assert groups(optimize(text, mode)) == []


def test_scalar_constants_are_pulled_in_vectors_are_operands():
    text = main(f"""%one = graph.constant dense<1.0> : tensor<f32>
      %v = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
      %0 = graph.add %x, %one : ({P}, tensor<f32>) -> {P}
      %r = graph.multiply %0, %v : ({P}, tensor<6xf32>) -> {P}""")
    for mode in (TVM, "graph-fuse-ops"):
        module = optimize(text, mode)
        assert groups(module) == [["constant", "add", "multiply"]]
        assert names(module) == ["fused"]


@pytest.mark.parametrize(("depth", "sizes"), [(256, [10]), (5, [5, 5]), (4, [4, 4, 2]), (1, [])])
def test_max_depth_bounds_a_group(depth, sizes):
    lines = [f"%{i + 1} = graph.exp %{i} : {P}" for i in range(9)]
    text = main("\n".join([f"%0 = graph.exp %x : {P}", *lines]), value="%9")
    for mode in ("tvm", "mlc"):
        found = [len(g) for g in groups(optimize(text, f"graph-fuse-ops{{mode={mode} max-depth={depth}}}"))]
        assert sum(found) <= 10
        assert max(found, default=1) <= depth
        if mode == "mlc":
            assert sorted(found, reverse=True) == sizes


def graph_of(kinds, edges):
    nodes = [DataflowNode(i, kind, None) for i, kind in enumerate(kinds)]
    for source, sink in edges:
        nodes[source].outputs.append((nodes[sink], kinds[sink]))
    return nodes


def test_post_dominators_of_a_diamond():
    nodes = graph_of([0, 1, 3, 0], [(0, 1), (0, 2), (1, 3), (2, 3)])
    tree = post_dominators(nodes)
    assert tree[0].parent is tree[3]
    assert tree[0].kind == 3  # the highest edge kind on the paths
    assert (tree[3].parent, tree[3].depth, tree[1].depth) == (None, 1, 2)


@settings(max_examples=60)
@given(st.data())
def test_post_dominators_lie_on_every_path(data):
    count = data.draw(st.integers(2, 12))
    kinds = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4]), min_size=count, max_size=count))
    edges = [(i, j) for i in range(count) for j in range(i + 1, count) if data.draw(st.booleans())]
    nodes = graph_of(kinds, edges)
    for node, dominator in zip(nodes, post_dominators(nodes), strict=True):

        def paths(index, passed):
            consumers = [sink.index for sink, _ in nodes[index].outputs]
            if not consumers:
                yield passed
            for consumer in consumers:
                yield from paths(consumer, [*passed, consumer])

        ways = [set(path) for path in paths(node.index, [])]
        common = set.intersection(*ways) if ways and all(ways) else set()
        expected = min(common, default=None)
        assert (dominator.parent.node.index if dominator.parent else None) == expected


@settings(max_examples=60)
@given(st.data())
def test_partitions_are_connected_and_have_one_anchor(data):
    count = data.draw(st.integers(2, 12))
    kinds = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 8]), min_size=count, max_size=count))
    edges = [(i, j) for i in range(count) for j in range(i + 1, count) if data.draw(st.integers(0, 3)) == 0]
    nodes = graph_of(kinds, edges)
    roots = Partitioner(nodes).run()
    for root in set(roots):
        members = [i for i in range(count) if roots[i] == root]
        assert max(members) == root
        assert sum(kinds[i] == 4 for i in members) <= 1
        # Only the output is read outside.
        assert all(roots[sink.index] == root for i in members if i != root for sink, _ in nodes[i].outputs)


UNARY, BINARY = [ReluOp, ExpOp], [AddOp, MultiplyOp]


def random_module(data):
    """A random graph over 4x4 tensors of the ops in whose fusion the rules differ."""
    module = parse_module("func.func @main(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) { return }")
    function = main_function(module)
    block = function.body.block
    values = list(block.args)
    end = block.last_op

    def emit(cls, *operands, **attrs):
        op = cls.make(*operands, **attrs)
        block.insert_op_before(op, end)
        values.extend(op.results)
        return op

    for _ in range(data.draw(st.integers(1, 12))):
        pick = lambda: data.draw(st.sampled_from(values))  # noqa: E731
        kind = data.draw(st.sampled_from(["unary", "binary", "transpose", "max", "softmax", "concat", "view"]))
        if kind == "unary":
            emit(data.draw(st.sampled_from(UNARY)), pick())
        elif kind == "binary":
            emit(data.draw(st.sampled_from(BINARY)), pick(), pick())
        elif kind == "transpose":
            emit(TransposeOp, pick(), axes=(1, 0))
        elif kind == "max":
            reduced = emit(MaxOp, pick(), axes=(1,), keepdims=True)
            values.pop()
            emit(AddOp, reduced.result, pick())
        elif kind == "softmax":
            emit(SoftmaxOp, pick())
        elif kind == "view":
            flat = emit(ReshapeOp, pick(), shape=(16,))
            values.pop()
            emit(ReshapeOp, flat.result, shape=(4, 4))
        else:
            long = emit(ConcatenateOp, pick(), pick(), axis=1)
            values.pop()
            first = emit(SplitOp, long, axis=1, sections=(4, 4))
            assert first.results[1] is values[-1]
    end.operands = values[-2:]
    from xdsl.dialects.builtin import FunctionType

    function.function_type = FunctionType.from_lists(list(block.arg_types), [v.type for v in values[-2:]])
    return module


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(st.data(), st.sampled_from(["mlc", "tvm"]))
def test_defusing_undoes_fusing_and_values_stay(data, mode):
    module = random_module(data)
    run_passes(module, make_context(), ["graph-eliminate-dead-code"])
    main_op = main_function(module)
    before, size = module.clone(), len(main_op.body.block.ops)
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(-1, 1, (4, 4)).astype(np.float32) for _ in range(2)]
    wanted = run_function(main_op, inputs)
    run_passes(module, make_context(), [f"graph-fuse-ops{{mode={mode}}}"], verify=True)
    for a, b in zip(run_function(main_op, inputs), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    outlined = module.clone()
    run_passes(outlined, make_context(), ["graph-outline-kernels"], verify=True)
    for a, b in zip(run_function(main_function(outlined), inputs), wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    run_passes(module, make_context(), ["graph-defuse-ops"], verify=True)
    assert not any(isinstance(op, FusedOp) for op in module.walk())
    assert len(main_op.body.block.ops) == size
    assert shape_of_graph(module) == shape_of_graph(before)


def shape_of_graph(module):
    """The graph as a set of trees from its results: equal for graphs that differ in the order of their ops."""
    known = {}

    def describe(value):
        if value not in known:
            owner = value.owner
            inputs = tuple(describe(v) for v in getattr(owner, "operands", ()))
            index = value.index
            name = getattr(owner, "name", "argument")
            known[value] = hash((name, index, inputs, tuple(getattr(owner, "properties", {}).items())))
        return known[value]

    return [describe(value) for value in main_function(module).body.block.last_op.operands]


def test_outlining_shares_kernels_and_moves_constants_to_the_store():
    text = main(f"""%v = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
      %u = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 7.0]> : tensor<6xf32>
      %one = graph.constant dense<1.0> : tensor<f32>
      %0 = graph.add %x, %v : ({P}, tensor<6xf32>) -> {P} loc("first")
      %1 = graph.relu %0 : {P} loc("second")
      %2 = graph.reshape %1 : ({P}) -> tensor<144xf32>
      %3 = graph.reshape %2 : (tensor<144xf32>) -> {P}
      %4 = graph.add %3, %u : ({P}, tensor<6xf32>) -> {P}
      %5 = graph.relu %4 : {P}
      %6 = graph.reshape %5 : ({P}) -> tensor<144xf32>
      %7 = graph.reshape %6 : (tensor<144xf32>) -> {P}
      %r = graph.add %7, %one : ({P}, tensor<f32>) -> {P}""")
    module = optimize(text, "graph-fuse-ops", "graph-outline-kernels")
    assert names(module).count("call") == 3
    assert len(kernels(module)) == 2
    assert sum(isinstance(op, ParamOp) for op in main_function(module).body.block.ops) == 2
    assert [name for name in store_of(module) if name.startswith("const.")] == ["const.0", "const.1"]
    calls = [op for op in main_function(module).body.block.ops if op.name == "graph.call"]
    assert [o.data for o in calls[0].attributes["origins"]] == ["first", "second"]


def test_kernels_are_named_by_their_ops_and_content():
    text = main(f"%0 = graph.exp %x : {P}\n%r = graph.relu %0 : {P}")
    first, second = (kernels(optimize(text, "graph-O2"))[0].sym_name.data for _ in range(2))
    assert first == second
    assert first.startswith("exp_relu_")
    (other,) = kernels(optimize(text.replace("6x6", "6x5"), "graph-O2"))
    assert other.sym_name.data != first


def test_optimisation_levels_differ():
    text = main(
        f"""{CONV}
      %0 = graph.multiply %conv, %c : ({P}, {C}) -> {P}
      %1 = graph.mean %0 {{axes = [2, 3], keepdims = true}} : ({P}) -> {C}
      %2 = graph.relu %1 : {C}
      %w2 = graph.param "w" : tensor<4x4x1x1xf32>
      %r = graph.conv2d %2, %w2 : ({C}, tensor<4x4x1x1xf32>) -> {C}""",
        result=C,
    )
    assert [len(names(optimize(text, f"graph-O{level}"))) for level in range(3)] == [5, 4, 3]
    assert "NCHW4c" in str(optimize(text, "graph-O3"))


def test_a_costly_result_that_is_also_returned():
    text = main(f"""%0 = graph.exp %c : {C}
      %r = graph.add %x, %0 : ({P}, {C}) -> {P}""", result=f"({P}, {C})", value="%r, %0")  # fmt: skip
    text = text.replace(f": ({P}, {C})\n", f": {P}, {C}\n")
    assert groups(optimize(text, "graph-fuse-ops")) == []


@pytest.mark.parametrize("op", ["exp", "tan"])
@pytest.mark.parametrize(
    ("size", "ends", "fused"), [(96, (96, 96), False), (96, (51, 51), True), (96, (48, 48), True), (24, (24, 24), True)]
)
def test_what_several_movements_would_compute_again(size, ends, fused, op):
    """A costly value that two slices read nearly twice is computed once; halves and small ones are not kept."""
    x, parts = f"tensor<{size}x100xf32>", [f"tensor<{size}x{n}xf32>" for n in ends]
    begins = (0, 100 - ends[1])
    slices = "\n".join(
        f"%{k + 1} = graph.slice %0 {{begin = [0, {b}], end = [{size}, {b + n}], strides = [1, 1]}} : ({x}) -> {part}"
        for k, (b, n, part) in enumerate(zip(begins, ends, parts, strict=True))
    )
    text = f"""func.func @main(%x: {x}) -> {parts[0]} {{
      %0 = graph.{op} %x : {x}
      {slices}
      %r = graph.add %1, %2 : {parts[0]}
      return %r : {parts[0]}
    }}"""
    expected = [op, "slice", "slice", "add"] if fused else ["slice", "slice", "add"]
    assert groups(optimize(text, "graph-fuse-ops")) == [expected]


@pytest.mark.parametrize(
    ("axis", "shape", "axes", "fused"),
    [
        (0, (8, 50, 16), (0, 2, 1), False),  # elements of rows that are looked up
        (0, (8, 50, 16), (1, 0, 2), True),  # whole rows in another order
        (1, (20, 8, 50), (2, 0, 1), True),  # elements that are looked up
    ],
)
def test_rows_that_are_looked_up_are_copied_before_they_are_transposed(axis, shape, axes, fused):
    taken, turned = (f"tensor<{'x'.join(map(str, s))}xf32>" for s in (shape, [shape[a] for a in axes]))
    text = f"""func.func @main(%x: tensor<20x16xf32>, %i: tensor<8x50xi64>) -> {turned} {{
      %0 = graph.take %x, %i {{axis = {axis}}} : (tensor<20x16xf32>, tensor<8x50xi64>) -> {taken}
      %r = graph.transpose %0 {{axes = {list(axes)}}} : ({taken}) -> {turned}
      return %r : {turned}
    }}"""
    assert groups(optimize(text, "graph-fuse-ops")) == ([["take", "transpose"]] if fused else [])
