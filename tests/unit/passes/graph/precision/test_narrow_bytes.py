"""Weights in bytes from -64 to 64: without dot products of bytes their products take half of the multiplications."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.parser import Parser

import mlc
from mlc.driver.models.compilation import Compilation
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import parse_pipeline, run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.frontends.onnx.importer import import_model
from mlc.support.errors import UserError
from mlc.targets.target import Target
from mlc.tuning.measure.signature import signature as tuned_signature
from mlc.validation.inputs import RandomWeights, random_inputs
from mlc.validation.validate_each import ValidateInstrument

Array = np.ndarray[Any, np.dtype[Any]]
ROWS, UNITS, DEPTH = 13, 48, 96
TARGET = "x86-64-v3"
"""Bytes are multiplied in pairs, on every CPU that runs it: it has no dot products of bytes."""
RNG = np.random.default_rng(5)


def weights(*shape: int, most: int) -> Array:
    """Weights that reach both ends of their range in neighbours."""
    w = RNG.integers(-most, most + 1, shape).astype(np.int8)
    w.reshape(-1)[:8], w.reshape(-1)[-8:] = most, -most
    return w


def product(*ws: Array) -> onnx.ModelProto:
    """y0 = x @ w0, y1 = x @ w1, ... of bytes."""
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [ROWS, DEPTH])
    names = [f"y{k}" for k in range(len(ws))]
    nodes = [helper.make_node("MatMulInteger", ["x", f"w{k}"], [name]) for k, name in enumerate(names)]
    outputs = [helper.make_tensor_value_info(name, TensorProto.INT32, [ROWS, UNITS]) for name in names]
    tensors = [numpy_helper.from_array(w, f"w{k}") for k, w in enumerate(ws)]
    graph = helper.make_graph(nodes, "g", [x], outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def convolution(w: Array, size: int) -> onnx.ModelProto:
    """A convolution of bytes."""
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, w.shape[1], size, size])
    y = helper.make_tensor_value_info("y", TensorProto.INT32, None)
    pads = [w.shape[-1] // 2] * 4
    graph = helper.make_graph(
        [helper.make_node("ConvInteger", ["x", "w"], ["y"], pads=pads)],
        "g",
        [x],
        [y],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def bytes_of(*shape: int) -> Array:
    """Data whose first and last rows are as large as bytes are."""
    x = RNG.integers(0, 256, shape).astype(np.uint8)
    x[0], x[..., -1] = 255, 255
    return x


def multiplies_pairs(model: onnx.ModelProto, target: str = TARGET, parts: bool = True) -> bool:
    """Whether the code of a model multiplies bytes in pairs; `parts` is off for the graph executor."""
    options = Options(target, threads=1, keep=frozenset({"asm"}), parts=parts)
    compilation = Compilation(import_model(model), options)
    kernels = compilation.compile_kernels(compilation.plan()[1])
    return "pmaddubsw" in "".join(code.texts["asm"] for code in kernels.values())


def run(model: onnx.ModelProto, x: Array, **options: Any) -> list[Array]:
    """The outputs of a model compiled for TARGET; without AVX2 the test is skipped."""
    try:
        return list(mlc.compile(model, target=TARGET, threads=1, **options)({"x": x}).values())
    except UserError as error:
        if "which this one lacks" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("most", [64, 65, 127])
def test_products_are_exact(most: int) -> None:
    w, x = weights(DEPTH, UNITS, most=most), bytes_of(ROWS, DEPTH)
    wanted = x.astype(np.int64) @ w.astype(np.int64)
    np.testing.assert_array_equal(run(product(w), x)[0], wanted)
    assert multiplies_pairs(product(w)) == (most == 64)


@pytest.mark.parametrize(("channels", "kernel", "size"), [(64, 1, 9), (32, 3, 7)])
def test_convolutions_are_exact(channels: int, kernel: int, size: int) -> None:
    w, x = weights(channels, channels, kernel, kernel, most=64), bytes_of(1, channels, size, size)
    padded = np.pad(x.astype(np.int64), [(0, 0), (0, 0), *[(kernel // 2, kernel // 2)] * 2])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    wanted = np.einsum("nchwij,ocij->nohw", windows, w.astype(np.int64))
    np.testing.assert_array_equal(run(convolution(w, size), x)[0], wanted)
    assert multiplies_pairs(convolution(w, size))


def test_calls_of_one_kernel() -> None:
    """Two products of equal shapes share a kernel, which multiplies pairs only if both weights are narrow."""
    narrow, wide, x = weights(DEPTH, UNITS, most=60), weights(DEPTH, UNITS, most=127), bytes_of(ROWS, DEPTH)
    model = product(narrow, wide)
    for got, w in zip(run(model, x, opt_level=2), (narrow, wide), strict=True):
        np.testing.assert_array_equal(got, x.astype(np.int64) @ w.astype(np.int64))


def test_every_pass_keeps_the_values() -> None:
    w, x = weights(DEPTH, UNITS, most=64), bytes_of(ROWS, DEPTH)
    wanted = x.astype(np.int64) @ w.astype(np.int64)
    np.testing.assert_array_equal(run(product(w), x, validate_each=True)[0], wanted)


def test_other_instructions() -> None:
    """A dot product of bytes takes any; weights that may be replaced may be any."""
    model = product(weights(DEPTH, UNITS, most=64))
    assert not multiplies_pairs(model, "znver4")
    assert not multiplies_pairs(model, parts=False)
    assert Target.parse("x86-64-v4").instructions == ("pmaddwd", "pmaddubsw")
    assert multiplies_pairs(model, "x86-64-v4")


def test_a_weight_that_is_replaced(tmp_path: Path) -> None:
    """The graph executor's weights may be set when the model runs."""
    w, other = weights(DEPTH, UNITS, most=64), weights(DEPTH, UNITS, most=127)
    x = bytes_of(ROWS, DEPTH)
    exe = mlc.compile(product(w), target=TARGET, threads=1, executor="graph")
    module = mlc.graph_executor.create(exe.graph_json, exe.lib, exe.params)
    packed = next(name for name, array in exe.params.items() if array.dtype == np.int8)
    replacement = mlc.compile(product(other), target=TARGET, threads=1, executor="graph").params
    module.load_params({packed: replacement[packed]})
    module.run(x=x)
    np.testing.assert_array_equal(module.get_output(0), x.astype(np.int64) @ other.astype(np.int64))


KERNEL = """
te.func @dense(%x: tensor<13x96xi8>, %w: tensor<3x24x16x4xi8>) -> tensor<13x48xi32>
    attributes {mlc.narrow_bytes = array<i64: 1>} {
  %y = te.compute "dense" (%i : 13, %j : 48) reduce (%k : 96) sum {
    %0 = te.read %x[%i, %k] : i8
    %1 = te.read %w[%j floordiv 16, %k floordiv 4, %j mod 16, %k mod 4] : i8
    %2 = arith.extui %0 : i8 to i32
    %3 = arith.extsi %1 : i8 to i32
    %4 = arith.muli %2, %3 : i32
    te.yield %4 : i32
  } : tensor<13x48xi32>
  te.return %y : tensor<13x48xi32>
}"""


def test_random_inputs_keep_the_promise() -> None:
    """Validation and tuning call kernels on random arrays, those of narrow arguments from -64 to 64."""
    ctx = make_context()
    module = Parser(ctx, KERNEL).parse_module()
    assert [one.span for one in tuned_signature(module.body.block.first_op).inputs] == [None, (-64, 64)]
    passes = parse_pipeline("kernel-O3", Options(TARGET, threads=1).settings())
    instrument = ValidateInstrument()
    run_passes(module, ctx, passes, instruments=[instrument])
    assert "llvm.x86.avx2.pmadd.ub.sw" in str(module)
    (kernel,) = [op for op in module.walk() if "mlc.signature" in op.attributes]
    data, weight = random_inputs(kernel, [((13, 96), "int8"), ((3, 24, 16, 4), "int8")], 0)
    assert (weight.min(), weight.max()) == (-64, 63)
    assert data.min() < -100


def test_random_weights_keep_the_promise() -> None:
    text = """
func.func @main(%x: tensor<13x96xui8>) -> tensor<13x48xi32> {
  %w = graph.param "w" : tensor<48x96xi8>
  %0 = graph.call @dense(%x, %w) : (tensor<13x96xui8>, tensor<48x96xi8>) -> tensor<13x48xi32>
  return %0 : tensor<13x48xi32>
}
func.func private @dense(%a0: tensor<13x96xui8>, %a1: tensor<48x96xi8>) -> tensor<13x48xi32>
    attributes {graph.kernel, mlc.narrow_bytes = array<i64: 1>} {
  %0 = graph.dense %a0, %a1 {out_dtype = "int32"} : (tensor<13x96xui8>, tensor<48x96xi8>) -> tensor<13x48xi32>
  return %0 : tensor<13x48xi32>
}"""
    weight = RandomWeights(Parser(make_context(), text).parse_module()).array("w")
    assert (weight.min(), weight.max()) == (-64, 63)
