"""Graph passes that rewrite locally: what they make of small graphs, and that values stay."""

import numpy as np
import pytest
from graph_passes import names, optimize

from mlc.dialects.graph import ConstantOp, FullOp, ParamOp, location_name
from mlc.dialects.graph.store import attach_store, store_of
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.passes.graph.shared.constants import is_constant
from mlc.support.limits import limits
from mlc.support.weights import WeightStore

NORM = """func.func @main(%x: tensor<1x3x6x5xf32>) -> tensor<1x4x4x3xf32> {
  %w = graph.param "w" : tensor<4x3x3x3xf32>
  %b = graph.param "b" : tensor<4xf32>
  %g = graph.param "g" : tensor<4xf32>
  %t = graph.param "t" : tensor<4xf32>
  %m = graph.param "m" : tensor<4xf32>
  %v = graph.param "pos.v" : tensor<4xf32>
  %s = graph.param "s" : tensor<4x1x1xf32>
  %0 = graph.conv2d %x, %w : (tensor<1x3x6x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x3xf32> loc("conv")
  %1 = graph.bias_add %0, %b : tensor<1x4x4x3xf32> loc("bias")
  %2 = graph.batch_norm %1, %g, %t, %m, %v : tensor<1x4x4x3xf32> loc("norm")
  %3 = graph.multiply %2, %s : (tensor<1x4x4x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x4x3xf32> loc("scale")
  %4 = graph.subtract %3, %s : (tensor<1x4x4x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x4x3xf32> loc("shift")
  return %4 : tensor<1x4x4x3xf32>
}"""
SIMPLIFY = "graph-simplify-inference,graph-canonicalize,graph-fold-constant"


def test_scales_and_shifts_end_in_weights_and_one_bias():
    module = optimize(NORM, SIMPLIFY)
    assert names(module) == ["conv2d", "bias_add"]
    ops = list(main_function(module).body.block.ops)
    assert [location_name(op) for op in ops if op.name == "graph.conv2d"] == ["conv"]


def test_simplify_without_a_store_is_symbolic_and_right():
    module = optimize(NORM, SIMPLIFY, weights=False)
    assert names(module)[-1] == "bias_add"
    assert names(module).count("conv2d") == 1
    assert not {"batch_norm", "bias_add"} & set(names(module)[:-1])
    assert {op.entry for op in module.walk() if isinstance(op, ParamOp)} == {"w", "b", "g", "t", "m", "pos.v", "s"}


@pytest.mark.parametrize(
    ("shape", "folds"),
    [("4x1x1", True), ("1x4x1x1", True), ("1", True), ("", True), ("4x4x3", False), ("4x1", False), ("3", False)],
)
def test_only_a_scale_per_channel_goes_into_the_weights(shape, folds):
    type = f"tensor<{shape}xf32>" if shape else "tensor<f32>"
    text = f"""func.func @main(%x: tensor<1x3x4x3xf32>) -> tensor<1x4x4x3xf32> {{
      %w = graph.param "w" : tensor<4x3x1x1xf32>
      %s = graph.param "s" : {type}
      %0 = graph.conv2d %x, %w : (tensor<1x3x4x3xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x4x3xf32>
      %1 = graph.multiply %0, %s : (tensor<1x4x4x3xf32>, {type}) -> tensor<1x4x4x3xf32>
      return %1 : tensor<1x4x4x3xf32>
    }}"""
    assert names(optimize(text, SIMPLIFY)) == (["conv2d"] if folds else ["conv2d", "multiply"])


@pytest.mark.parametrize(("op", "left"), [("multiply", "multiply"), ("add", "bias_add")])
def test_a_scale_does_not_go_into_narrow_weights(op, left):
    x, y = "tensor<1x4x2x2xbf16>", "tensor<1x8x2x2xf32>"
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %w = graph.param "w" : tensor<8x4x1x1xbf16>
      %s = graph.param "s" : tensor<8x1x1xf32>
      %0 = graph.conv2d %x, %w {{out_dtype = "float32"}} : ({x}, tensor<8x4x1x1xbf16>) -> {y}
      %1 = graph.{op} %0, %s : ({y}, tensor<8x1x1xf32>) -> {y}
      return %1 : {y}
    }}"""
    module = parse_module(text)
    run_passes(module, make_context(), ["graph-simplify-inference,graph-fold-scale-axis"], verify=True)
    assert [name for name in names(module) if name != "reshape"] == ["conv2d", left]


def test_a_scale_that_is_not_constant_stays():
    text = """func.func @main(%x: tensor<2x3xf32>, %s: tensor<4xf32>) -> tensor<2x4xf32> {
      %w = graph.param "w" : tensor<4x3xf32>
      %0 = graph.dense %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
      %1 = graph.multiply %0, %s : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
      return %1 : tensor<2x4xf32>
    }"""
    assert names(optimize(text, SIMPLIFY)) == ["dense", "multiply"]


def layer_norm(divide, axes="[2]", gamma="8", epsilon="tensor<f32>"):
    return f"""func.func @main(%x: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {{
      %g = graph.param "g" : tensor<{gamma}xf32>
      %e = graph.constant dense<0.25> : {epsilon}
      %one = graph.constant dense<1.0> : tensor<f32>
      %0 = graph.mean %x {{axes = {axes}, keepdims = true}} : (tensor<2x5x8xf32>) -> tensor<2x5x1xf32>
      %1 = graph.subtract %x, %0 : (tensor<2x5x8xf32>, tensor<2x5x1xf32>) -> tensor<2x5x8xf32>
      %2 = graph.multiply %1, %1 : tensor<2x5x8xf32>
      %3 = graph.mean %2 {{axes = {axes}, keepdims = true}} : (tensor<2x5x8xf32>) -> tensor<2x5x1xf32>
      %4 = graph.add %e, %3 : ({epsilon}, tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
      {divide}
      %9 = graph.multiply %8, %g : (tensor<2x5x8xf32>, tensor<{gamma}xf32>) -> tensor<2x5x8xf32>
      return %9 : tensor<2x5x8xf32>
    }}"""


DIVIDES = {
    "x / sqrt": """%5 = graph.sqrt %4 : tensor<2x5x1xf32>
      %8 = graph.divide %1, %5 : (tensor<2x5x8xf32>, tensor<2x5x1xf32>) -> tensor<2x5x8xf32>""",
    "rsqrt * x": """%5 = graph.rsqrt %4 : tensor<2x5x1xf32>
      %8 = graph.multiply %5, %1 : (tensor<2x5x1xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>""",
    "x * 1 / sqrt": """%5 = graph.sqrt %4 : tensor<2x5x1xf32>
      %6 = graph.divide %one, %5 : (tensor<f32>, tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
      %8 = graph.multiply %1, %6 : (tensor<2x5x8xf32>, tensor<2x5x1xf32>) -> tensor<2x5x8xf32>""",
}


@pytest.mark.parametrize("form", DIVIDES)
def test_layer_norm_is_recognised(form):
    assert names(optimize(layer_norm(DIVIDES[form]), SIMPLIFY)) == ["layer_norm"]


def test_layer_norm_with_a_gamma_that_broadcasts_keeps_the_product():
    assert names(optimize(layer_norm(DIVIDES["x / sqrt"], gamma="1"), SIMPLIFY)) == ["layer_norm", "multiply"]


def test_sqrt_over_x_is_no_layer_norm():
    swapped = """%5 = graph.sqrt %4 : tensor<2x5x1xf32>
      %8 = graph.divide %5, %1 : (tensor<2x5x1xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>"""
    assert "layer_norm" not in names(optimize(layer_norm(swapped), SIMPLIFY))


def test_a_gate_of_another_value_is_no_activation():
    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %three = graph.constant dense<3.0> : tensor<f32>
      %eighth = graph.constant dense<0.125> : tensor<f32>
      %0 = graph.sigmoid %y : tensor<4xf32>
      %1 = graph.multiply %x, %0 : tensor<4xf32>
      %2 = graph.add %x, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %3 = graph.clip %2 {min = 0.0, max = 6.0} : tensor<4xf32>
      %4 = graph.multiply %3, %eighth : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %1, %4 : tensor<4xf32>, tensor<4xf32>
    }"""
    assert names(optimize(text, SIMPLIFY)) == ["sigmoid", "multiply", "add", "clip", "multiply"]


@pytest.mark.parametrize(
    ("exponent", "op"), [(2.0, "multiply"), (0.5, "sqrt"), (-0.5, "rsqrt"), (-1.0, "reciprocal"), (3.7, "power")]
)
def test_small_powers(exponent, op):
    text = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %p = graph.constant dense<{exponent}> : tensor<f32>
      %a = graph.abs %x : tensor<4xf32>
      %0 = graph.power %a, %p : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      return %0 : tensor<4xf32>
    }}"""
    assert names(optimize(text, SIMPLIFY)) == ["abs", op]


FOLD = """func.func @main(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %w = graph.param "w" : tensor<16x8xf32>
  %0 = graph.transpose %w {axes = [1, 0]} : (tensor<16x8xf32>) -> tensor<8x16xf32> loc("turn")
  %1 = graph.neg %0 : tensor<8x16xf32> loc("flip")
  %2 = graph.add %x, %1 : tensor<8x16xf32>
  return %2 : tensor<8x16xf32>
}"""


def test_folded_weights_are_entries_of_the_store_and_keep_the_name():
    module = optimize(FOLD, "graph-fold-constant")
    (param,) = [op for op in module.walk() if isinstance(op, ParamOp)]
    assert param.entry == "fold.0"
    assert location_name(param) == "flip"
    store = store_of(module)
    np.testing.assert_array_equal(store.array("fold.0"), -store.array("w").T)


def test_folding_again_drops_what_it_made_before():
    module = optimize(FOLD, "graph-fold-constant")
    block = main_function(module).body.block
    from mlc.dialects.graph import NegOp

    (param,) = [op for op in block.ops if isinstance(op, ParamOp)]
    uses = list(param.result.uses)
    negated = NegOp.make(param)
    block.insert_op_after(negated, param)
    for use in uses:
        use.operation.operands[use.index] = negated.result
    run_passes(module, make_context(), ["graph-fold-constant"], verify=True)
    assert [name for name in store_of(module) if name.startswith("fold.")] == ["fold.1"]


def test_folding_obeys_the_limit(monkeypatch):
    monkeypatch.setattr(limits, "folded_bytes", 100)
    text = """func.func @main() -> (tensor<64x8xf32>, tensor<8xf32>) {
      %w = graph.param "w" : tensor<8xf32>
      %0 = graph.broadcast_to %w : (tensor<8xf32>) -> tensor<64x8xf32>
      %1 = graph.neg %w : tensor<8xf32>
      return %0, %1 : tensor<64x8xf32>, tensor<8xf32>
    }"""
    assert names(optimize(text, "graph-fold-constant")) == ["broadcast_to"]


def test_fills_of_the_store_stay_fills():
    text = """func.func @main() -> (tensor<100x100xf32>, tensor<2x100x100x64xf32>) {
      %w = graph.param "w" : tensor<100x100xf32>
      %0 = graph.exp %w : tensor<100x100xf32>
      %v = graph.param "v" : tensor<64x100x100xf32>
      %1 = graph.reshape %v : (tensor<64x100x100xf32>) -> tensor<1x64x100x100xf32>
      %2 = graph.broadcast_to %1 : (tensor<1x64x100x100xf32>) -> tensor<2x64x100x100xf32>
      %3 = graph.transpose %2 {axes = [0, 2, 3, 1]} : (tensor<2x64x100x100xf32>) -> tensor<2x100x100x64xf32>
      return %0, %3 : tensor<100x100xf32>, tensor<2x100x100x64xf32>
    }"""
    module, store = parse_module(text), WeightStore()
    store.add_fill("w", 0.0, (100, 100), np.float32)
    store.add_fill("v", 3.0, (64, 100, 100), np.float32)
    attach_store(module, store)
    run_passes(module, make_context(), ["graph-fold-constant"], verify=True)
    assert [op.value for op in module.walk() if isinstance(op, FullOp)] == [1.0, 3.0]
    first, second = run_function(main_function(module), [], store)
    assert (first == 1).all()
    assert (second == 3).all()


def test_a_fill_that_is_multiplied_stays_a_weight():
    text = """func.func @main(%x: tensor<4x100xf32>) -> tensor<4x100xf32> {
      %w = graph.param "w" : tensor<100x100xf32>
      %0 = graph.exp %w : tensor<100x100xf32>
      %1 = graph.dense %x, %0 : (tensor<4x100xf32>, tensor<100x100xf32>) -> tensor<4x100xf32>
      return %1 : tensor<4x100xf32>
    }"""
    module, store = parse_module(text), WeightStore()
    store.add_fill("w", 0.0, (100, 100), np.float32)
    attach_store(module, store)
    run_passes(module, make_context(), ["graph-fold-constant"], verify=True)
    (param,) = [op for op in module.walk() if isinstance(op, ParamOp)]
    assert store.fill(param.entry) == 1
    (result,) = run_function(main_function(module), [np.ones((4, 100), np.float32)], store)
    assert (result == 100).all()


def test_padding_a_fill_is_no_fill():
    text = """func.func @main() -> tensor<2x2x1x1x8xf32> {
      %0 = graph.full {value = 1.0} : tensor<2x9x1x1xf32>
      %1 = graph.layout_transform %0 {src = "NCHW", dst = "NCHW8c"} : (tensor<2x9x1x1xf32>) -> tensor<2x2x1x1x8xf32>
      return %1 : tensor<2x2x1x1x8xf32>
    }"""
    module = optimize(text, "graph-fold-constant")
    (constant,) = [op for op in module.walk() if isinstance(op, ConstantOp)]
    assert constant.array().sum() == 18


def test_symbolic_shapes_pass_through_every_pass():
    text = """func.func @main(%x: tensor<?x8xf32, #graph.dims<[N]>>) -> tensor<?x8xf32, #graph.dims<[N]>>
        attributes {graph.symbols = {N = #graph.symbol<1 to 64>}} {
      %0 = graph.relu %x : tensor<?x8xf32, #graph.dims<[N]>>
      %1 = graph.exp %0 : tensor<?x8xf32, #graph.dims<[N]>>
      return %1 : tensor<?x8xf32, #graph.dims<[N]>>
    }"""
    module = parse_module(text)
    run_passes(module, make_context(), ["graph-infer-types", "graph-O3"], verify=True)
    assert names(module) == ["call"]
    (kernel,) = [f for f in module.body.block.ops if "graph.kernel" in f.attributes]
    assert "graph.symbols" in kernel.attributes


def test_is_constant_follows_operands():
    module = parse_module(FOLD)
    ops = {op.name: op for op in main_function(module).body.block.ops}
    assert is_constant(ops["graph.neg"].results[0])
    assert not is_constant(ops["graph.add"].results[0])


def test_passes_are_deterministic():
    texts = {str(optimize(NORM, "graph-O3")) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize(("axis", "found"), [(1, True), (0, False)])
def test_spelled_out_softmax_is_recognised(axis, found):
    sums = "tensor<4x1xf32>" if axis else "tensor<1x4xf32>"
    text = f"""func.func @main(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {{
      %m = graph.max %x {{axes = [1]}} : (tensor<4x4xf32>) -> tensor<4xf32>
      %0 = graph.reshape %m : (tensor<4xf32>) -> tensor<4x1xf32>
      %1 = graph.subtract %x, %0 : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x4xf32>
      %2 = graph.exp %1 : tensor<4x4xf32>
      %3 = graph.sum %2 {{axes = [{axis}], keepdims = true}} : (tensor<4x4xf32>) -> {sums}
      %4 = graph.divide %2, %3 : (tensor<4x4xf32>, {sums}) -> tensor<4x4xf32>
      return %4 : tensor<4x4xf32>
    }}"""
    found_names = names(optimize(text, "graph-canonicalize", SIMPLIFY))
    assert (found_names == ["softmax"]) is found


@pytest.mark.parametrize(
    ("op", "number", "found"),
    [("multiply", 0.25, True), ("divide", 4.0, True), ("divide", 0.25, False), ("multiply", 4.0, False)],
)
def test_a_sum_over_its_count_is_a_mean(op, number, found):
    text = f"""func.func @main(%x: tensor<3x4xf32>) -> tensor<3xf32> {{
      %n = graph.constant dense<{number}> : tensor<f32>
      %0 = graph.sum %x {{axes = [1]}} : (tensor<3x4xf32>) -> tensor<3xf32>
      %1 = graph.{op} %0, %n : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
      return %1 : tensor<3xf32>
    }}"""
    assert (names(optimize(text, SIMPLIFY)) == ["mean"]) is found


def one_hot(numbers):
    return f"""func.func @main(%i: tensor<2x5x1xi32>) -> tensor<2x5x3xf32> {{
      %n = {numbers} : tensor<1x1x100xi32>
      %w = graph.param "w" : tensor<3x100xf32>
      %0 = graph.equal %i, %n : (tensor<2x5x1xi32>, tensor<1x1x100xi32>) -> tensor<2x5x100xi1>
      %1 = graph.cast %0 : (tensor<2x5x100xi1>) -> tensor<2x5x100xf32>
      %2 = graph.dense %1, %w : (tensor<2x5x100xf32>, tensor<3x100xf32>) -> tensor<2x5x3xf32>
      return %2 : tensor<2x5x3xf32>
    }}"""


def test_a_product_with_one_hot_rows_is_a_look_up():
    module = parse_module(one_hot('graph.param "n"'))
    store, rng = WeightStore(), np.random.default_rng(0)
    store.add("w", rng.standard_normal((3, 100)).astype(np.float32))
    store.add("n", np.arange(100, dtype=np.int32).reshape(1, 1, 100))
    attach_store(module, store)
    indices = np.array([0, 99, 100, -1, 50, 7, 8, 2**31 - 1, -(2**31), 3], np.int32).reshape(2, 5, 1)
    (wanted,) = run_function(main_function(module), [indices], store)
    run_passes(module, make_context(), ["graph-simplify", "graph-fold-constant"], verify=True)
    assert "take" in names(module)
    assert "dense" not in names(module)
    (result,) = run_function(main_function(module), [indices], store)
    np.testing.assert_array_equal(result, wanted)
    assert (result[0, 2:4] == 0).all()


def test_other_numbers_make_no_look_up():
    module = parse_module(one_hot('graph.param "n"'))
    store = WeightStore()
    store.add("w", np.ones((3, 100), np.float32))
    store.add("n", np.arange(1, 101, dtype=np.int32).reshape(1, 1, 100))
    attach_store(module, store)
    run_passes(module, make_context(), ["graph-simplify"], verify=True)
    assert names(module) == ["equal", "cast", "dense"]


def test_reshapes_of_units_sink_below_what_is_pointwise():
    text = """func.func @main(%x: tensor<1x16x8x1xf32>) -> tensor<1x16xf32> {
      %w = graph.param "w" : tensor<32x16x3x1xf32>
      %b = graph.param "b" : tensor<1x32x1xf32>
      %half = graph.constant dense<0.5> : tensor<1x1x1xf32>
      %0 = graph.conv2d %x, %w : (tensor<1x16x8x1xf32>, tensor<32x16x3x1xf32>) -> tensor<1x32x6x1xf32>
      %1 = graph.reshape %0 : (tensor<1x32x6x1xf32>) -> tensor<1x32x6xf32>
      %2 = graph.add %1, %b : (tensor<1x32x6xf32>, tensor<1x32x1xf32>) -> tensor<1x32x6xf32>
      %3 = graph.tanh %2 : tensor<1x32x6xf32>
      %4 = graph.add %3, %half : (tensor<1x32x6xf32>, tensor<1x1x1xf32>) -> tensor<1x32x6xf32>
      %5 = graph.multiply %2, %4 : tensor<1x32x6xf32>
      %6 = graph.max %5 {axes = [2]} : (tensor<1x32x6xf32>) -> tensor<1x32xf32>
      %7 = graph.slice %6 {begin = [0, 0], end = [1, 16], strides = [1, 1]} : (tensor<1x32xf32>) -> tensor<1x16xf32>
      return %7 : tensor<1x16xf32>
    }"""
    module = optimize(text, "graph-simplify", "graph-fold-constant")
    assert names(module) == ["conv2d", "bias_add", "tanh", "add", "multiply", "max", "reshape", "slice"]
    # Blocked from the convolution to the maximum: one transform of the input, none of the result.
    assert names(optimize(text, "graph-O3")) == ["call", "call", "call", "reshape", "slice"]


def test_a_reshape_that_regroups_elements_stays_where_it_is():
    text = """func.func @main(%x: tensor<1x4x6x1xf32>) -> tensor<1x8x3xf32> {
      %0 = graph.relu %x : tensor<1x4x6x1xf32>
      %1 = graph.reshape %0 : (tensor<1x4x6x1xf32>) -> tensor<1x8x3xf32>
      %2 = graph.exp %1 : tensor<1x8x3xf32>
      return %2 : tensor<1x8x3xf32>
    }"""
    assert names(optimize(text, "graph-canonicalize")) == ["relu", "reshape", "exp"]
