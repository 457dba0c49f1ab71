"""Every sample of every graph op, compiled, beside its meaning in numpy: what docs/operators.md calls supported."""

import math

import numpy as np
import pytest
from graph_samples import arrays_of, make
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp

import mlc
from mlc.dialects import graph as g
from mlc.dialects.graph.graph_numpy import evaluate
from mlc.frontends.common.model import Model
from mlc.support.arithmetic import WIDE
from mlc.support.weights import WeightStore

NAMES = sorted(name for name, cls in g.OPS.items() if cls.samples())
CHUNKS = [NAMES[k : k + 12] for k in range(0, len(NAMES), 12)]


@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: f"{names[0]}..{names[-1]}")
def test_samples_compiled(names):
    samples = [(name, sample) for name in names for sample in g.OPS[name].samples()]
    func = FuncOp("main", ([t for _, sample in samples for t in sample.operands], []))
    args, arrays, results, wanted = iter(func.body.block.args), [], [], []
    for name, sample in samples:
        own = list(arrays_of(sample))
        op = make(g.OPS[name], sample, [next(args) for _ in own])
        func.body.block.add_op(op)
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in own]
        arrays += own
        results += op.results
        wanted += [(name, op, value) for value in evaluate(op, wide, WIDE)]
    func.body.block.add_op(ReturnOp(*results))
    func.properties["function_type"] = FunctionType.from_lists(func.body.block.arg_types, [r.type for r in results])
    exe = mlc.compile(Model(ModuleOp([func]), WeightStore()), threads=1, error_growth=0)
    got = exe({spec.name: array for spec, array in zip(exe.inputs, arrays, strict=True)}).values()
    for (name, op, value), found in zip(wanted, got, strict=True):
        assert found.shape == value.shape, name
        if found.dtype != np.float32:
            np.testing.assert_array_equal(found, value, err_msg=name)
            continue
        bound = max(op.tolerance, 2.0) * np.finfo(np.float32).eps * math.sqrt(op.reduction_length())
        largest = max(1.0, float(np.abs(value).max(initial=0)))
        np.testing.assert_allclose(found, value, rtol=4 * bound, atol=8 * bound * largest, err_msg=name)
