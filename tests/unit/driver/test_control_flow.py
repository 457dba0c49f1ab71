"""graph.if, graph.loop and graph.scan: compiled, they compute what the reference interpreter does."""

import numpy as np
import pytest

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.driver.toolchain import LLVM
from mlc.interp.graph import main_function, run_function
from mlc.lowering.graph_to_main.convert import find_function, plan_of
from mlc.runtime.symbolic import open_executable
from mlc.validation.plans.plan_check import check_plan

V = "tensor<4xf32>"
ALL = f"""
func.func @main(%x: tensor<5x4xf32>, %h: {V}, %c: tensor<i1>, %n: tensor<i64>)
    -> ({V}, tensor<5x4xf32>, {V}, tensor<10x4xf32>, tensor<i64>, {V}) {{
  %s, %ys = graph.scan carried(%h : {V}) rows(%x : tensor<5x4xf32>) -> ({V}, tensor<5x4xf32>) {{
  ^bb0(%a: {V}, %row: {V}):
    %1 = graph.add %a, %row : {V}
    %2 = graph.tanh %1 : {V}
    graph.yield %2, %2 : {V}, {V}
  }}
  %z, %rows, %k = graph.loop at_most 10 limit(%n : tensor<i64>) while(%c : tensor<i1>) carried(%s : {V})
      reads(%h : {V}) -> ({V}, tensor<10x4xf32>, tensor<i64>) {{
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
  func.return %s, %ys, %z, %rows, %k, %r : {V}, tensor<5x4xf32>, {V}, tensor<10x4xf32>, tensor<i64>, {V}
}}
"""
SWAPS = f"""
func.func @main(%x: {V}, %y: {V}) -> ({V}, {V}, tensor<3x4xf32>) {{
  %a, %b, %rows, %n = graph.loop at_most 3 carried(%x, %y : {V}, {V}) -> ({V}, {V}, tensor<3x4xf32>, tensor<i64>) {{
  ^bb0(%i: tensor<i64>, %p: {V}, %q: {V}):
    graph.yield %q, %p, %p : {V}, {V}, {V}
  }}
  func.return %a, %b, %rows : {V}, {V}, tensor<3x4xf32>
}}
"""
OLD_VALUE = f"""
func.func @main(%x: {V}) -> ({V}, tensor<3x4xf32>) {{
  %a, %rows, %n = graph.loop at_most 3 carried(%x : {V}) -> ({V}, tensor<3x4xf32>, tensor<i64>) {{
  ^bb0(%i: tensor<i64>, %p: {V}):
    %1 = graph.exp %p : {V}
    %2 = graph.softmax %1 : {V}
    graph.yield %2, %p : {V}, {V}
  }}
  func.return %a, %rows : {V}, tensor<3x4xf32>
}}
"""
NESTED = f"""
func.func @main(%x: tensor<3x2x4xf32>, %h: {V}) -> ({V}, tensor<3x2x4xf32>) {{
  %s, %ys = graph.scan backward [true, true] carried(%h : {V}) rows(%x : tensor<3x2x4xf32>) reads(%h : {V})
      -> ({V}, tensor<3x2x4xf32>) {{
  ^bb0(%a: {V}, %plane: tensor<2x4xf32>, %g: {V}):
    %t, %zs = graph.scan carried(%a : {V}) rows(%plane : tensor<2x4xf32>) reads(%g : {V}) -> ({V}, tensor<2x4xf32>) {{
    ^bb0(%b: {V}, %row: {V}, %k: {V}):
      %0 = graph.constant dense<0.0> : tensor<f32>
      %all = graph.sum %row {{axes = [0]}} : ({V}) -> tensor<f32>
      %c = graph.greater %all, %0 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %r = graph.if %c : tensor<i1> reads(%b, %row, %k : {V}, {V}, {V}) -> ({V}) {{
      ^bb0(%u: {V}, %v: {V}, %w: {V}):
        %1 = graph.add %u, %v : {V}
        %2 = graph.multiply %1, %w : {V}
        graph.yield %2 : {V}
      }} else {{
      ^bb0(%u: {V}, %v: {V}, %w: {V}):
        graph.yield %u : {V}
      }}
      graph.yield %r, %r : {V}, {V}
    }}
    graph.yield %t, %zs : {V}, tensor<2x4xf32>
  }}
  func.return %s, %ys : {V}, tensor<3x2x4xf32>
}}
"""
PASSES = "graph-fuse-ops,graph-outline-kernels,convert-graph-to-main"


def both(text, arrays, **options):
    """The results of the interpreter, then those of the compiled model."""
    module = parse_module(text, "<test>")
    wanted = run_function(main_function(module), arrays)
    exe = mlc.compile(_model(text), threads=1, cache=False, **options)
    got = exe({spec.name: a for spec, a in zip(exe.inputs, arrays, strict=True)})
    return wanted, list(got.values())


def _model(text):
    from mlc.frontends.common.model import Model
    from mlc.support.weights import WeightStore

    return Model(parse_module(text, "<test>"), WeightStore())


def random(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(("limit", "start"), [(20, True), (2, True), (20, False), (0, True), (-1, True)])
def test_limits_and_conditions(limit, start):
    x, h = random((5, 4), (4,))
    wanted, got = both(ALL, [x, h, np.array(start), np.array(limit)])
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    assert got[4] == (min(max(limit, 0), 4) if start else 0)


@pytest.mark.parametrize("text", [SWAPS, OLD_VALUE, NESTED], ids=["swaps", "old-value", "nested"])
@pytest.mark.parametrize("level", [0, 3])
def test_values(text, level):
    shapes = [t.get_shape() for t in main_function(parse_module(text, "<test>")).function_type.inputs]
    wanted, got = both(text, random(*shapes), opt_level=level)
    for a, b in zip(wanted, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def test_validated():
    """Every pass over the regions keeps what they compute."""
    x, h = random((3, 2, 4), (4,))
    wanted, got = both(NESTED, [x, h], validate_each=True)
    np.testing.assert_allclose(got[0], wanted[0], rtol=1e-5)


def test_a_state_is_written_in_place():
    """What is carried on is not copied where the call that makes it comes after the last that reads the old value."""
    text = OLD_VALUE.replace("graph.yield %2, %p", "graph.yield %2, %1")
    module = parse_module(text, "<test>")
    run_passes(module, make_context(), [PASSES], verify=True)
    main = find_function(module, "main")
    assert check_plan(main) == 2
    (loop,) = [op for op in main.body.block.ops if op.name == "scf.for"]
    assert not [op for op in loop.walk() if op.name == "memref.copy"]
    assert plan_of(main).bytes == 0


@pytest.mark.parametrize("text", [SWAPS, OLD_VALUE, NESTED], ids=["swaps", "old-value", "nested"])
def test_the_graph_executor_steps_into_regions(text):
    exe = mlc.compile(_model(text), threads=1, cache=False)
    steps = mlc.compile(_model(text), threads=1, cache=False, executor="steps")
    given = {}
    for spec in exe.inputs:
        values = np.random.default_rng(0).standard_normal(spec.shape) * 3
        given[spec.name] = np.asarray(values > 0 if spec.dtype == "bool" else values).astype(spec.dtype)
    for a, b in zip(exe(given).values(), steps(given).values(), strict=True):
        np.testing.assert_array_equal(a, b)
    ran = steps.profile(given, repeat=1)
    assert len(ran) <= len(exe.artifact.model["nodes"])
    assert all(row.seconds > 0 for row in ran)
    assert f"all: {sum(row.count for row in ran)} calls of" in ran.table(100), "iterations are calls"


@pytest.mark.parametrize("text", [SWAPS, OLD_VALUE, NESTED], ids=["swaps", "old-value", "nested"])
def test_the_vm_branches_and_loops(text):
    exe = mlc.compile(_model(text), threads=1, cache=False, opt_level=1)
    vm = open_executable(exe.artifact, 1, "vm", LLVM())
    for positive in (True, False):
        given = {}
        for spec in exe.inputs:
            values = np.random.default_rng(0).standard_normal(spec.shape) * 3
            given[spec.name] = np.asarray(positive if spec.dtype == "bool" else values).astype(spec.dtype)
        for a, b in zip(exe(given).values(), vm(given).values(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_plan_of_a_loop_is_checked():
    """A buffer that the next iteration needs may not be overwritten."""
    module = parse_module(NESTED, "<test>")
    run_passes(module, make_context(), [PASSES])
    main = find_function(module, "main")
    check_plan(main)
    loop = next(op for op in main.walk() if op.name == "scf.if")
    call = next(op for op in loop.walk() if op.name == "runtime.call")
    from mlc.validation.plans.plan_check import PlanError

    call.operands[-1] = call.operands[0]
    with pytest.raises(PlanError):
        check_plan(main)
