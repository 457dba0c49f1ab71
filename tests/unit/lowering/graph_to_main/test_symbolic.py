"""@main of symbolic sizes: control flow, parts of buffers, copies, and the checker of its plan."""

import numpy as np
import pytest
from xdsl.dialects import memref

import mlc
from mlc.dialects import runtime
from mlc.dialects.graph import SymbolAttr
from mlc.dialects.graph.symbols import bind
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.interp.graph import main_function, run_function
from mlc.lowering.graph_to_main.convert import find_function
from mlc.support.weights import WeightStore
from mlc.validation.plans.plan_check import check_plan
from mlc.validation.plans.plan_places import PlanError, sizes_to_try

PASSES = "graph-fuse-ops,graph-outline-kernels,convert-graph-to-main"
V, S = "tensor<?x4xf32, #graph.dims<[N]>>", "tensor<?x?x4xf32, #graph.dims<[T, N]>>"
ROWS = "tensor<10x?x4xf32, #graph.dims<[N]>>"
CONTROL = f"""
func.func @main(%x: {S}, %h: {V}, %c: tensor<i1>, %n: tensor<i64>) -> ({V}, {S}, {V}, {ROWS}, tensor<i64>, {V}) {{
  %s, %ys = graph.scan carried(%h : {V}) rows(%x : {S}) -> ({V}, {S}) {{
  ^bb0(%a: {V}, %row: {V}):
    %1 = graph.add %a, %row : {V}
    %2 = graph.tanh %1 : {V}
    graph.yield %2, %2 : {V}, {V}
  }}
  %z, %rows, %k = graph.loop at_most 10 limit(%n : tensor<i64>) while(%c : tensor<i1>) carried(%s : {V})
      reads(%h : {V}) -> ({V}, {ROWS}, tensor<i64>) {{
  ^bb0(%i: tensor<i64>, %a: {V}, %b: {V}):
    %1 = graph.add %a, %b : {V}
    %two = graph.constant dense<3> : tensor<i64>
    %more = graph.less %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
    graph.yield %more, %1, %a : tensor<i1>, {V}, {V}
  }}
  %r = graph.if %c : tensor<i1> reads(%z, %h : {V}, {V}) -> ({V}) {{
  ^bb0(%a: {V}, %b: {V}):
    graph.yield %a : {V}
  }} else {{
  ^bb0(%a: {V}, %b: {V}):
    %1 = graph.neg %b : {V}
    graph.yield %1 : {V}
  }}
  func.return %s, %ys, %z, %rows, %k, %r : {V}, {S}, {V}, {ROWS}, tensor<i64>, {V}
}}
"""
BACKWARD = f"""
func.func @main(%x: {S}, %h: {V}) -> ({V}, {S}) {{
  %s, %ys = graph.scan backward [true, true] carried(%h : {V}) rows(%x : {S}) reads(%h : {V}) -> ({V}, {S}) {{
  ^bb0(%a: {V}, %plane: {V}, %g: {V}):
    %t, %zs = graph.scan carried(%g : {V}) rows(%plane : {V}) reads(%a : {V}) -> ({V}, {V}) {{
    ^bb0(%b: {V}, %row: tensor<4xf32>, %k: {V}):
      %1 = graph.multiply %b, %k : {V}
      %2 = graph.add %1, %row : ({V}, tensor<4xf32>) -> {V}
      %3 = graph.exp %row : tensor<4xf32>
      graph.yield %2, %3 : {V}, tensor<4xf32>
    }}
    %u = graph.tanh %t : {V}
    graph.yield %u, %zs : {V}, {V}
  }}
  func.return %s, %ys : {V}, {S}
}}
"""


def type_of(*sizes):
    """The text of a tensor type over sizes, which are numbers or expressions."""
    opened = [s for s in sizes if isinstance(s, str)]
    shape = "x".join("?" if isinstance(s, str) else str(s) for s in sizes)
    return f"tensor<{shape}xf32" + (f", #graph.dims<[{', '.join(opened)}]>" if opened else "") + ">"


A, B, AB, AAB = type_of(1, 4, 8), type_of(1, "N", 8), type_of(1, "N + 4", 8), type_of(1, "N + 8", 8)
PARTS = f"""
func.func @main(%x: {A}, %y: {B}) -> ({AAB}, {type_of(1, "N + 1", 8)}, {B}) {{
  %0 = graph.softmax %x {{axis = 2}} : {A}
  %1 = graph.softmax %y {{axis = 2}} : {B}
  %2 = graph.concatenate %1, %0 {{axis = 1}} : ({B}, {A}) -> {AB}
  %3 = graph.softmax %2 {{axis = 2}} : {AB}
  %4 = graph.slice %3 {{begin = [0, 3, 0], end = [1, 9223372036854775807, 9223372036854775807], strides = [1, 1, 1]}}
    : ({AB}) -> {type_of(1, "N + 1", 8)}
  %5 = graph.softmax %4 {{axis = 2}} : {type_of(1, "N + 1", 8)}
  %6 = graph.slice %3 {{begin = [0, 4, 0], end = [1, 9223372036854775807, 9223372036854775807], strides = [1, 1, 1]}}
    : ({AB}) -> {B}
  %7 = graph.concatenate %0, %3 {{axis = 1}} : ({A}, {AB}) -> {AAB}
  %8 = graph.softmax %7 {{axis = 2}} : {AAB}
  func.return %8, %5, %6 : {AAB}, {type_of(1, "N + 1", 8)}, {B}
}}
"""
IDENTITY = f"func.func @main(%x: {V}) -> ({V}, {V}) {{ func.return %x, %x : {V}, {V} }}"


def parsed(text):
    return parse_module(text, "<test>")


def on_buffers(text):
    module = parsed(text)
    run_passes(module, make_context(), [PASSES], verify=True)
    return find_function(module, "main")


def check(text, sizes, others=()):
    """Compiled once, right at each of these sizes; the model."""
    exe = mlc.compile(Model(parsed(text), WeightStore()), threads=1, cache=False)
    rng = np.random.default_rng(0)
    for values in sizes:
        module = parsed(text)
        main = main_function(module)
        bind(main, values)
        shapes = [t.get_shape() for t in main.function_type.inputs][: len(main.body.block.args) - len(others)]
        arrays = [*(rng.standard_normal(shape).astype(np.float32) for shape in shapes), *others]
        wanted = run_function(main, arrays)
        got = exe({spec.name: a for spec, a in zip(exe.inputs, arrays, strict=True)})
        for a, b in zip(wanted, got.values(), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    return exe


@pytest.mark.parametrize(("limit", "start"), [(20, True), (2, True), (20, False)])
def test_limits_and_conditions(limit, start):
    sizes = [{"T": t, "N": n} for t, n in [(5, 1), (1, 7), (33, 17)]]
    check(CONTROL, sizes, (np.array(start), np.array(limit)))


def test_scans_in_scans_backward():
    exe = check(BACKWARD, [{"T": t, "N": n} for t, n in [(5, 1), (1, 7), (9, 17)]])
    given = {spec.name: np.ones([2] * (len(spec.shape) - 1) + [4], np.float32) for spec in exe.inputs}
    wanted = exe(given)
    assert len(exe.profile(given, repeat=1)) == len(exe.artifact.model["nodes"])
    steps = mlc.compile(Model(parsed(BACKWARD), WeightStore()), threads=1, cache=False, executor="steps")
    for a, b in zip(wanted.values(), steps(given).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_parts_cost_nothing_and_are_right():
    exe = check(PARTS, [{"N": n} for n in (1, 5, 16, 63, 64)])
    kernels = [node["kernel"].rpartition("_")[0] for node in exe.artifact.model["nodes"]]
    assert sorted(kernels) == ["copy", *["softmax"] * 5]
    inputs = {spec.name: np.ones([7 if s == "N" else s for s in spec.shape], np.float32) for spec in exe.inputs}
    assert len(exe.profile(inputs, repeat=1)) == 6


def test_an_input_that_is_an_output_is_copied():
    exe = check(IDENTITY, [{"N": 3}, {"N": 64}])
    assert not exe.artifact.model["nodes"]
    assert len(exe.artifact.model["copies"]) == 2


@pytest.mark.parametrize("text", [CONTROL, BACKWARD, PARTS, IDENTITY], ids=["control", "backward", "parts", "identity"])
def test_plans_are_right(text):
    assert check_plan(on_buffers(text)) == len([o for o in on_buffers(text).walk() if isinstance(o, runtime.CallOp)])


def test_buffers_that_overlap_are_found():
    """At the smallest size all buffers fit below one another's offset; at others two that are alive meet."""
    main = on_buffers(PARTS)
    views = [o for o in main.walk() if isinstance(o, memref.ViewOp) and o.source is main.body.block.args[-1]]
    assert len(views) > 2  # the last one stands behind all buffers
    views[1].operands[1] = views[0].byte_shift
    with pytest.raises(PlanError, match=r"(overwritten|in use by the same call).* \(where N = \d+\)"):
        check_plan(main)


def test_parts_that_leave_their_buffer_are_found():
    main = on_buffers(PARTS)
    part = next(o for o in main.walk() if isinstance(o, runtime.PartOp) and o.shift is not None)
    part.properties["offset"] = type(part.offset)(1 << 20, 64)
    with pytest.raises(PlanError, match=r"expected a part within \d+ bytes, but got \d+ \(where N = 256\)"):
        check_plan(main)


def test_sizes_that_are_tried_are_possible():
    spans = {"H": SymbolAttr(32, 2048, 32), "N": SymbolAttr(1, (1 << 31) - 1), "K": SymbolAttr(5, 5)}
    tried = sizes_to_try(spans, 50)
    assert tried[1] == {"H": 32, "N": 1, "K": 5}
    assert len({tuple(t.values()) for t in tried}) > 40
    for values in tried:
        for name, span in spans.items():
            assert span.low.data <= values[name] <= span.high.data
            assert values[name] % span.step.data == 0
