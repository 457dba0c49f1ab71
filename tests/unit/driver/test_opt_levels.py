"""Optimisation levels 0 to 4: each does more than the one below, and all compute the same."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from graph_passes import optimize, random_store

import mlc
from mlc.dialects.graph import Conv2dOp, GraphOp, MultiplyOp, static_shape
from mlc.dialects.graph.ops.movement import MoveOp
from mlc.dialects.graph.store import attach_store
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.interp.graph import main_function, run_function

X = "tensor<1x32x4x4xf32>"


def network():
    """Three branches with scales behind their activations, a mean, and a dense layer with a softmax."""
    body = []
    for i in range(3):
        y = "tensor<1x16x4x4xf32>"
        body += [
            f'%w{i} = graph.param "w{i}" : tensor<16x32x1x1xf32>',
            f'%b{i} = graph.param "b{i}" : tensor<16xf32>',
            f'%s{i} = graph.param "pos.s{i}" : tensor<16x1x1xf32>',
            f"%c{i} = graph.conv2d %x, %w{i} : ({X}, tensor<16x32x1x1xf32>) -> {y}",
            f"%d{i} = graph.bias_add %c{i}, %b{i} : {y}",
            f"%r{i} = graph.relu %d{i} : {y}",
            f"%m{i} = graph.multiply %r{i}, %s{i} : ({y}, tensor<16x1x1xf32>) -> {y}",
        ]
    body += [
        f"%j = graph.concatenate %m0, %m1, %m2 {{axis = 1}} : ({y}, {y}, {y}) -> tensor<1x48x4x4xf32>",
        "%p = graph.mean %j {axes = [2, 3]} : (tensor<1x48x4x4xf32>) -> tensor<1x48xf32>",
        '%v = graph.param "v" : tensor<10x48xf32>',
        "%q = graph.relu %p : tensor<1x48xf32>",
        "%e = graph.dense %q, %v : (tensor<1x48xf32>, tensor<10x48xf32>) -> tensor<1x10xf32>",
        "%t = graph.relu %e : tensor<1x10xf32>",
        "%u = graph.softmax %t : tensor<1x10xf32>",
    ]
    lines = "\n".join(body)
    return f"func.func @main(%x: {X}) -> tensor<1x10xf32> {{\n{lines}\nreturn %u : tensor<1x10xf32>\n}}"


def calls(module):
    """The calls of kernels in @main."""
    return [op for op in main_function(module).body.block.ops if op.name == "graph.call"]


def kernel_ops(module):
    """The ops that compute, in the kernels that @main calls, as often as it does."""
    functions = {f.sym_name.data: f for f in module.body.block.ops}
    bodies = [functions[op.callee.root_reference.data].body.block for op in calls(module)]
    inner = [op for body in bodies for op in body.ops if isinstance(op, GraphOp) and op.operands]
    return [op for op in inner if not isinstance(op, MoveOp)]


def counted(level):
    """Kernels that @main calls, ops that compute in them, and the convolutions and products of pictures among these."""
    module = optimize(network(), f"graph-O{level}")
    ops = kernel_ops(module)
    convolutions = sum(isinstance(op, Conv2dOp) for op in ops)
    products = sum(isinstance(op, MultiplyOp) and len(static_shape(op.type)) > 2 for op in ops)
    return len(calls(module)), len(ops), convolutions, products


def test_each_level_does_more():
    kernels, ops, convolutions, products = zip(*map(counted, range(5)), strict=True)
    assert kernels[0] > kernels[1]  # 1: ops are fused
    assert kernels[1] > kernels[2]  # 2: so is what follows a reduction
    assert ops[2] > ops[3]  # 3: scales are in the weights
    assert kernels[3] > kernels[4]  # 4: parallel branches are one
    assert convolutions == (3, 3, 3, 3, 1)
    assert products == (3, 3, 3, 0, 0)


def test_each_level_makes_another_program_of_a_model():
    path = (
        Path(str(importlib.util.find_spec("rapidocr_onnxruntime").origin)).parent / "models/ch_PP-OCRv4_rec_infer.onnx"
    )
    programs = []
    for level in range(5):
        model = mlc.load(path, {"x": (1, 3, 48, 320)})
        attach_store(model.module, model.weights)
        run_passes(model.module, make_context(), [f"graph-O{level}"])
        programs.append((len(calls(model.module)), len(kernel_ops(model.module))))
    kernels, ops = zip(*programs, strict=True)
    assert kernels[0] > 2 * kernels[1] > 2 * kernels[2]
    assert ops[0] >= ops[1] >= ops[2] > ops[3]  # scales in the weights
    assert ops[4] > ops[3]  # fast-math spells activations out


@pytest.mark.parametrize("level", range(5))
def test_compiled_levels_agree(level):
    module = parse_module(network())
    store = random_store(module)
    x = np.random.default_rng(1).standard_normal((1, 32, 4, 4)).astype(np.float32)
    (wanted,) = run_function(main_function(module), [x], store)
    exe = mlc.compile(Model(parse_module(network()), store), opt_level=level, threads=1)
    (got,) = exe({exe.inputs[0].name: x}).values()
    np.testing.assert_allclose(got, wanted, atol=1e-5)
