"""What `make fuzz` found, made small: each is computed as the graph interpreter does."""

import fuzz_oracle as oracle
import numpy as np
import pytest
from random_graphs import Case

from mlc.dialects.graph.graph_numpy import result_dtype
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.support.weights import WeightStore

F, E = "tensor<3x4xf32>", "tensor<0x4xf32>"
# Name -> (the types of the operands, an op of them, the results' type, options of the compilation).
FOUND = {
    "relu of nothing": ([E], "relu %0", E, {}),
    "relu of nothing at O0": ([E], "relu %0", E, {"level": 0}),
    "sum of nothing": ([E], "sum %0 {axes = [0]}", "tensor<4xf32>", {}),
    "dense over nothing": (["tensor<3x0xf32>", "tensor<5x0xf32>"], "dense %0, %1", "tensor<3x5xf32>", {}),
    "a piece of nothing": ([E, F], "concatenate %0, %1 {axis = 0}", F, {}),
    "padding round nothing": ([E], "pad %0 {pad_width = [1, 2, 0, 0], value = 2.0}", F, {}),
    "updates of nothing": ([F, "tensor<0x4xi64>", E], "scatter_elements %0, %1, %2 {axis = 0}", F, {}),
    "bf16 lanes, chosen": (["tensor<9x47xbf16>"], "max %0 {axes = [1]}", "tensor<9xbf16>", {"target": "x86-64-v2"}),
    "bf16 lanes, chosen with AVX2": (
        ["tensor<9x47xbf16>"], "max %0 {axes = [1]}", "tensor<9xbf16>", {"target": "x86-64-v3"},
    ),
    "bf16 exp without AVX": (["tensor<47xbf16>"], "exp %0", "tensor<47xbf16>", {"target": "x86-64"}),
    "bf16 where": (
        ["tensor<47xi1>", "tensor<47xbf16>", "tensor<47xbf16>"], "where %0, %1, %2", "tensor<47xbf16>",
        {"target": "x86-64-v3"},
    ),
}  # fmt: skip


def case_of(operands, op, result, integers=(0, 1)) -> Case:
    """A case of one op."""
    name, _, rest = op.partition(" ")
    args = ", ".join(f"%{k}: {t}" for k, t in enumerate(operands))
    body = f"%r = graph.{name} {rest} : ({', '.join(operands)}) -> {result}\n  return %r : {result}"
    module = parse_module(f"func.func @main({args}) -> {result} {{\n  {body}\n}}\n")
    rng, arrays = np.random.default_rng(0), []
    for type in Model(module, WeightStore()).main.function_type.inputs.data:
        dtype, shape = result_dtype(type), type.get_shape()
        number = rng.integers(*integers, shape) if dtype.kind in "iu" else rng.uniform(-2, 2, shape)
        arrays.append(number > 0 if dtype.kind == "b" else number.astype(dtype))
    return Case(module, WeightStore(), arrays)


@pytest.mark.parametrize("what", FOUND)
def test_found(what):
    operands, op, result, options = FOUND[what]
    way = oracle.Compiled(**{"level": 3, "guarded": True, **options})
    assert oracle.failure(case_of(operands, op, result), way, 0.5) == ""


@pytest.mark.parametrize(
    ("operands", "op"),
    [
        ([F, "tensor<3xi64>"], "take %0, %1 {axis = 0}"),
        ([F, "tensor<3x4xi64>"], "gather_elements %0, %1 {axis = 0}"),
        ([F, "tensor<3xi64>"], "gather_rows %0, %1"),
        ([F, "tensor<3x4xi64>", F], "scatter_elements %0, %1, %2 {axis = 1}"),
        ([F, "tensor<3x1xi64>", F], "scatter_nd %0, %1, %2"),
    ],
)
@pytest.mark.parametrize("far", [6, 1 << 40, (1 << 63) - 1])
def test_indices_out_of_range_read_the_nearest_and_write_nothing(operands, op, far):
    case = case_of(operands, op, F, (-far, far))
    assert oracle.failure(case, oracle.Compiled(3, 1, guarded=True), 4.0) == ""
