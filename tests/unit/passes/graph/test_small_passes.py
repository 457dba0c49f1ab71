"""The small passes of TVM's sequence: values stay, errors say what is wrong, hashes are stable."""

import subprocess
import sys

import numpy as np
import pytest
from graph_passes import groups, names, optimize

from mlc.dialects.graph import CastOp, ConcatenateOp, FusedOp
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.interp.graph import main_function, run_function
from mlc.passes.graph.cleanup.label_ops import HASH, Hasher
from mlc.passes.graph.precision import legalize
from mlc.passes.rewriting import RuleTable


@pytest.mark.parametrize(("shape", "axis"), [("2x3x4", 0), ("2x3x4", 1), ("2x3x4", -1), ("3", 0)])
def test_bias_add_is_an_add(shape, axis):
    size = shape.split("x")[axis]
    text = f"""func.func @main(%x: tensor<{shape}xf32>, %b: tensor<{size}xf32>) -> tensor<{shape}xf32> {{
      %0 = graph.bias_add %x, %b {{axis = {axis}}} : tensor<{shape}xf32>
      return %0 : tensor<{shape}xf32>
    }}"""
    assert names(optimize(text, "graph-canonicalize-ops"))[-1] == "add"


def test_readers_of_a_widened_value_read_the_narrow_one():
    text = """func.func @main(%x: tensor<64x64xf16>, %w: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x64xf32>) {
      %h = graph.relu %x : tensor<64x64xf16>
      %0 = graph.cast %h : (tensor<64x64xf16>) -> tensor<64x64xf32>
      %1 = graph.batch_matmul %0, %w : tensor<64x64xf32>
      %2 = graph.exp %0 : tensor<64x64xf32>
      %3 = graph.add %2, %2 : tensor<64x64xf32>
      return %1, %3 : tensor<64x64xf32>, tensor<64x64xf32>
    }"""
    module = optimize(text, "graph-canonicalize-cast")
    casts = [op for op in main_function(module).body.block.ops if isinstance(op, CastOp)]
    assert [[use.operation.name for use in op.result.uses] for op in casts] == [["graph.batch_matmul"], ["graph.exp"]]


@pytest.mark.parametrize("most", [3, 4, 5, 8])
@pytest.mark.parametrize("count", [2, 7, 9, 16])
def test_no_concatenation_has_more_arguments(most, count):
    types = ", ".join(["tensor<2x3xf32>"] * count)
    args = ", ".join(f"%a{i}: tensor<2x3xf32>" for i in range(count))
    values = ", ".join(f"%a{i}" for i in range(count))
    text = f"""func.func @main({args}) -> tensor<2x{3 * count}xf32> {{
      %0 = graph.concatenate {values} {{axis = 1}} : ({types}) -> tensor<2x{3 * count}xf32>
      %1 = graph.exp %0 : tensor<2x{3 * count}xf32>
      return %1 : tensor<2x{3 * count}xf32>
    }}"""
    module = optimize(text, f"graph-split-args{{max-args={most}}}", "graph-fuse-ops")
    assert all(len(op.operands) < most for op in module.walk() if isinstance(op, FusedOp | ConcatenateOp))
    assert bool(groups(module)) == (count >= most)


CALLS = """func.func @main(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %0, %1 = graph.call @both(%x) : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %2, %3 = graph.call @both(%1) : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %4 = graph.add %0, %2 : tensor<2x4xf32>
  return %4, %3 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @both(%x: tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) attributes {graph.inline} {
  %w = graph.param "w" : tensor<4xf32>
  %0 = graph.multiply %x, %w : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %1 = graph.call @swap(%0, %x) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1, %0 : tensor<2x4xf32>, tensor<2x4xf32>
}
func.func private @swap(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {graph.inline} {
  %0 = graph.subtract %y, %x : tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
func.func private @nobody(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}"""


def test_inlining_and_removal_keep_the_values():
    module = optimize(CALLS, "graph-inline,graph-remove-unused-functions")
    assert [op.sym_name.data for op in module.body.block.ops] == ["main"]
    assert names(module).count("subtract") == 2


def test_the_compiler_inlines_functions():
    module = optimize(CALLS, "graph-O3")
    assert not {"both", "swap", "nobody"} & {op.sym_name.data for op in module.body.block.ops}


def test_known_sizes_are_static():
    text = """func.func @main(%x: tensor<?x8xf32, #graph.dims<[N]>>) -> tensor<?xf32, #graph.dims<[8 * N]>>
        attributes {graph.symbols = {N = #graph.symbol<2 to 64 step 2>}} {
      %0 = graph.fused "relu" (%a = %x : tensor<?x8xf32, #graph.dims<[N]>>) -> tensor<?x8xf32, #graph.dims<[N]>> {
        %1 = graph.relu %a : tensor<?x8xf32, #graph.dims<[N]>>
        graph.yield %1 : tensor<?x8xf32, #graph.dims<[N]>>
      }
      %2 = graph.reshape %0 : (tensor<?x8xf32, #graph.dims<[N]>>) -> tensor<?xf32, #graph.dims<[8 * N]>>
      return %2 : tensor<?xf32, #graph.dims<[8 * N]>>
    }"""
    module = parse_module(text)
    run_passes(module, make_context(), ["graph-dynamic-to-static{sizes=N:4}"], verify=True)
    assert "?" not in str(module)
    assert "graph.symbols" not in str(module)
    x = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    (result,) = run_function(main_function(module), [x])
    np.testing.assert_array_equal(result, np.maximum(x, 0).reshape(-1))


@pytest.mark.parametrize("target", ["x86-64-v3", "znver5", "aarch64"])
def test_widened_products_are_the_same_numbers(target):
    text = """func.func @main(%x: tensor<1x4x6x6xbf16>) -> tensor<1x2x6x6xf32> {
      %w = graph.param "w" : tensor<2x4x1x1xbf16>
      %0 = graph.conv2d %x, %w {out_dtype = "float32"}
        : (tensor<1x4x6x6xbf16>, tensor<2x4x1x1xbf16>) -> tensor<1x2x6x6xf32>
      return %0 : tensor<1x2x6x6xf32>
    }"""
    module = parse_module(text.replace('graph.param "w"', "graph.full {value = 0.3}"))
    import ml_dtypes

    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype(ml_dtypes.bfloat16)
    before = run_function(main_function(module), [x])
    run_passes(module, make_context(), [f"graph-legalize{{target={target}}}"], verify=True)
    np.testing.assert_array_equal(run_function(main_function(module), [x])[0], before[0])
    assert ("cast" in names(module)) == (target != "znver5")


def test_a_rule_for_a_target_is_one_function(monkeypatch):
    from mlc.dialects.graph import HardSwishOp, MultiplyOp, SigmoidOp

    table = RuleTable(legalize.LEGALIZE)
    monkeypatch.setattr(legalize, "LEGALIZE", table)

    @table.on(HardSwishOp)
    def no_hard_swish(op, rw, target):
        return (
            rw.make(MultiplyOp, op.operands[0], rw.make(SigmoidOp, op.operands[0])) if target.lanes("f32") < 8 else None
        )

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = graph.hard_swish %x : tensor<4xf32>
      return %0 : tensor<4xf32>
    }"""
    for target, wanted in (("aarch64", ["sigmoid", "multiply"]), ("znver5", ["hard_swish"])):
        module = parse_module(text)
        run_passes(module, make_context(), [f"graph-legalize{{target={target}}}"], verify=True)
        assert names(module) == wanted


HASHED = """func.func @main(%x: tensor<2x4xf32>, %y: tensor<2x4xf32>) -> tensor<2x4xf32> {{
  %0 = graph.{op} %x, %y : tensor<2x4xf32>
  %1 = graph.{op} {order} : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}}"""


def test_hashes_tell_structures_apart_and_are_the_same_in_every_process():
    texts = [HASHED.format(op=op, order=o) for op in ("add", "subtract") for o in ("%0, %x", "%x, %0", "%0, %y")]
    hashes = [Hasher().hash(main_function(parse_module(text))) for text in texts]
    assert len(set(hashes)) == len(texts)
    code = (
        "import sys; from mlc.dialects.syntax.source import parse_module; from mlc.interp.graph import main_function\n"
        "from mlc.passes.graph.cleanup.label_ops import Hasher\n"
        "print(Hasher().hash(main_function(parse_module(sys.argv[1]))))"
    )
    found = subprocess.run([sys.executable, "-c", code, texts[0]], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == hashes[0]


def test_the_compiler_labels_its_kernels():
    module = optimize(CALLS, "graph-O1")
    assert all(HASH in op.attributes for op in module.body.block.ops)
