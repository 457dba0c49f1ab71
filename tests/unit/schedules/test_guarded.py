"""Guards round operands: what reads or writes out of place is noticed; the kernels of all strategies do neither."""

import ctypes

import fuzz_oracle as oracle
import numpy as np
import pytest
from guarded import Region, guarded_runs

import mlc
from mlc.dialects.graph.graph_numpy import result_dtype
from mlc.dialects.syntax.source import parse_module
from mlc.frontends.common.model import Model
from mlc.interp.graph import Interpreter
from mlc.support.arithmetic import WIDE
from mlc.support.weights import WeightStore

# Name -> (the operands' types, an op of them with its attributes, the result's type): odd sizes for each strategy.
OPS = {
    "conv 3x3": ("1x19x15x13xf32, 37x19x3x3xf32", "conv2d {padding = [1, 1, 1, 1]}", "1x37x15x13xf32"),
    "conv 3x3, few channels": ("1x3x17x19xf32, 16x3x3x3xf32", "conv2d {strides = [2, 2]}", "1x16x8x9xf32"),
    "conv 1x1": ("1x33x7x11xf32, 17x33x1x1xf32", "conv2d", "1x17x7x11xf32"),
    "conv 1x7": ("1x16x9x23xf32, 16x16x1x7xf32", "conv2d", "1x16x9x17xf32"),
    "depthwise": ("1x21x13x11xf32, 21x1x3x3xf32", "conv2d {groups = 21, padding = [1, 1, 1, 1]}", "1x21x13x11xf32"),
    "groups": ("1x12x9x9xf32, 18x4x3x3xf32", "conv2d {groups = 3}", "1x18x7x7xf32"),
    "transposed": ("1x5x7x6xf32, 5x9x2x2xf32", "conv2d_transpose {strides = [2, 2]}", "1x9x14x12xf32"),
    "dense": ("7x61xf32, 67x61xf32", "dense", "7x67xf32"),
    "one row": ("1x129xf32, 35x129xf32", "dense", "1x35xf32"),
    "matmul": ("3x13x31xf32, 3x31x47xf32", "batch_matmul", "3x13x47xf32"),
    "pool": ("1x19x15x13xf32", "max_pool2d {pool_size = [3, 3], strides = [2, 2]}", "1x19x7x6xf32"),
    "softmax": ("13x37xf32", "softmax", "13x37xf32"),
    "norm": ("9x35xf32, 35xf32, 35xf32", "layer_norm", "9x35xf32"),
    "sum of rows": ("31x45xf32", "sum {axes = [0]}", "45xf32"),
    "sum in rows": ("31x45xf32", "sum {axes = [1]}", "31xf32"),
    "transpose": ("17x5x23xf32", "transpose {axes = [2, 0, 1]}", "23x17x5xf32"),
    "pad": ("5x7xf32", "pad {pad_width = [1, 2, 3, 4]}", "8x14xf32"),
    "slice": ("9x31xf32", "slice {begin = [1, 2], end = [8, 30], strides = [2, 3]}", "4x10xf32"),
    "add": ("7x1x33xf32, 5x1xf32", "add", "7x5x33xf32"),
    "half": ("3x17xf16", "exp", "3x17xf16"),
    "bytes": ("41xi8, 41xi8", "add", "41xi8"),
}


def model(names) -> str:
    args, lines, results, types = [], [], [], []
    for index, name in enumerate(names):
        operands, op, result = OPS[name]
        own = [f"tensor<{t}>" for t in operands.split(", ")]
        values = [f"%x{index}_{k}" for k in range(len(own))]
        args += [f"{v}: {t}" for v, t in zip(values, own, strict=True)]
        kind, _, attributes = op.partition(" ")
        signature = f"({', '.join(own)}) -> tensor<{result}>"
        lines.append(f"%r{index} = graph.{kind} {', '.join(values)} {attributes} : {signature}")
        results.append(f"%r{index}")
        types.append(f"tensor<{result}>")
    body = "\n  ".join(lines)
    returned = f"return {', '.join(results)} : {', '.join(types)}"
    return f"func.func @main({', '.join(args)}) -> ({', '.join(types)}) {{\n  {body}\n  {returned}\n}}\n"


@pytest.fixture(scope="module")
def case():
    module = parse_module(model(OPS))
    rng = np.random.default_rng(0)
    main = Model(module, WeightStore()).main
    types = main.function_type.inputs.data
    arrays = [rng.integers(-3, 4, t.get_shape()).astype(result_dtype(t)) for t in types]
    return module, arrays, Interpreter(WeightStore(), WIDE).run(main, arrays)


@pytest.mark.parametrize(("threads", "level"), [(1, 3), (2, 3), (1, 0)])
def test_every_strategy_keeps_to_its_operands(case, threads, level):
    module, arrays, wanted = case

    def run() -> str:
        exe = mlc.compile(Model(module.clone(), WeightStore()), threads=threads, opt_level=level)
        given = {spec.name: array for spec, array in zip(exe.inputs, arrays, strict=True)}
        for how, results in guarded_runs(exe, given):
            for name, found, array in zip(OPS, results, wanted, strict=True):
                tolerance = 4e-3 if found.dtype == np.float16 else 2e-4
                np.testing.assert_allclose(found, array, tolerance, tolerance, err_msg=f"{name}, {how}")
        return ""

    assert oracle.isolated(run) == ""


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("write", [True, False])
def test_a_byte_out_of_place_is_noticed(at_end, write):
    def run() -> str:
        region = Region(100, at_end)
        place = region.address + (100 if at_end else -1)
        if write:
            ctypes.memset(place, 0, 1)
        return "nothing happened" if write else str(ctypes.string_at(place, 1))

    assert oracle.isolated(run) == "the process died: Segmentation fault"


def test_a_write_beside_what_is_aligned_is_noticed():
    region = Region(100, True, 64)
    assert region.intact()
    ctypes.memset(region.address + 100, 0, 1)
    assert not region.intact()
