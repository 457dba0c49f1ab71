"""Models of many layers with open sizes: what is as long as the model must not be recursed over."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from deep_models import decoder, decoder_inputs, encoder, encoder_inputs
from xdsl.dialects import arith, memref, test
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue

import mlc
from mlc.dialects import runtime
from mlc.dialects.attributes import MAIN_SCRATCH
from mlc.dialects.graph.dims import DimExpr
from mlc.dialects.scalar import INDEX
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.load import parse_module
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.onnx import import_model
from mlc.lowering.graph_to_main.convert import find_function
from mlc.lowering.graph_to_main.sizes import SizeEmitter, SizeReader
from mlc.validation.plans.plan_check import PlanError, check_plan
from mlc.validation.plans.plan_places import wholes

LIMIT = 1000
"""Python's own limit of recursion, which the parser of IR raises for the rest of a process."""
CHAIN = 5 * LIMIT


@pytest.fixture(autouse=True)
def python_limit() -> Iterator[None]:
    """Each test runs with Python's own limit of recursion."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(LIMIT)
    yield
    sys.setrecursionlimit(before)


def check(proto: onnx.ModelProto, *calls: dict[str, Any]) -> None:
    """AssertionError unless the compiled model gives what onnxruntime does, at all sizes of the calls."""
    exe = mlc.compile(proto, threads=1, cache=False)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    for feeds in calls:
        found = exe(feeds)
        for name, wanted in zip(names, session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found[name], np.asarray(wanted), rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("layers", [24, pytest.param(96, marks=pytest.mark.slow)])
def test_encoders_of_open_batch_and_length(layers: int):
    check(encoder(layers), encoder_inputs(1, 5), encoder_inputs(3, 19))


@pytest.mark.parametrize("layers", [32, pytest.param(96, marks=pytest.mark.slow)])
def test_decoders_of_an_open_cache(layers: int):
    check(decoder(layers), decoder_inputs(layers, 1, 5), decoder_inputs(layers, 3, 19))


def chain(block: Block, sizes: SizeEmitter, value: SSAValue, other: SSAValue) -> SSAValue:
    """Offsets as deep models have them, each the greater of two ends, one of which it follows from."""
    for k in range(CHAIN):
        end = sizes.add(arith.AddiOp, value, sizes(64 * (k % 3)))
        value = sizes.add(arith.MaxSIOp, end, other)
    return value


def test_sizes_are_read_through_chains_of_any_length():
    block = Block(arg_types=[INDEX])
    sizes = SizeEmitter(block, {"N": block.args[0]})
    last = chain(block, sizes, block.args[0], sizes(128))
    steps = sum(64 * (k % 3) for k in range(CHAIN))
    for n in (40, 1000):
        assert SizeReader({block.args[0]: n})(last) == max(n, 128) + steps


def test_a_chain_that_begins_with_what_is_no_size_is_none():
    block = Block(arg_types=[INDEX])
    sizes = SizeEmitter(block, {"N": block.args[0]})
    unknown = test.TestOp(result_types=[INDEX])
    block.add_op(unknown)
    read = SizeReader({block.args[0]: DimExpr.symbol("N")})
    assert read(chain(block, sizes, unknown.res[0], block.args[0])) is None
    assert read(sizes.add(arith.AddiOp, block.args[0], sizes(3))) == DimExpr.symbol("N") + 3


def planned(proto: onnx.ModelProto) -> FuncOp:
    """@main on buffers."""
    main, _ = Compilation(import_model(proto), Options("native", 2, 1)).plan()
    return main


def test_the_checker_sees_one_wrong_offset_deep_in_a_model():
    main = planned(encoder(24))
    assert check_plan(main) > 24 * 8
    views = [
        op for op in main.body.block.ops if isinstance(op, memref.ViewOp) and op.source is main.body.block.args[-1]
    ]
    views = [op for op in views if MAIN_SCRATCH not in op.attributes]
    wrong = views[len(views) // 2]
    zero = arith.ConstantOp(IntegerAttr(0, INDEX))
    main.body.block.insert_op_before(zero, wrong)
    wrong.operands[1] = zero.result
    with pytest.raises(PlanError):
        check_plan(main)


def nested(parts: int) -> str:
    """A graph of concatenations of which each is a part of the next."""
    lines = ["func.func @main(%x: tensor<2xf32>) -> RESULT {", "%c0 = graph.exp %x : tensor<2xf32>"]
    for k in range(1, parts):
        old, new = (f"tensor<{2 * n}xf32>" for n in (k, k + 1))
        lines.append(f"%e{k} = graph.{'tanh' if k % 2 else 'exp'} %x : tensor<2xf32>")
        lines.append(f"%c{k} = graph.concatenate %c{k - 1}, %e{k} {{axis = 0}} : ({old}, tensor<2xf32>) -> {new}")
    lines += [f"%y = graph.neg %c{parts - 1} : RESULT", "return %y : RESULT }"]
    return "\n".join(lines).replace("RESULT", f"tensor<{2 * parts}xf32>")


def test_parts_of_parts_are_placed_at_any_depth():
    parts = 520
    module = parse_module(nested(parts), "<test>")
    sys.setrecursionlimit(LIMIT)
    run_passes(module, make_context(), ["graph-fuse-ops", "graph-outline-kernels", "convert-graph-to-main"])
    main = find_function(module, "main")
    assert check_plan(main) == parts + 1
    deep = [op for op in main.walk() if isinstance(op, runtime.PartOp)]
    assert max(len(wholes(op.result)) for op in deep) >= parts
