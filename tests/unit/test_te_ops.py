"""Every graph op's samples: the te that it lowers to gives what its numpy meaning gives."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, UnitAttr
from xdsl.ir import Block, Region

from mlc.dialects import te
from mlc.dialects.graph import OPS, ParamOp, graph_numpy
from mlc.dialects.graph.types import is_float, numpy_dtype, static_shape
from mlc.interp import te as interp
from mlc.lowering.graph_to_te.builder import signless
from mlc.lowering.graph_to_te.convert import convert_kernel
from mlc.passes.te.inline import inline_func


def sample_kernel(cls, sample):
    """A kernel function of one op, and the op."""
    block = Block(arg_types=sample.operands)
    extra = {} if sample.result is None else {"result": sample.result}
    if cls.name == "graph.constant":
        op = cls.make(**sample.attrs)
    elif cls.name in ("graph.full", "graph.iota"):
        op = super(cls, cls).make.__func__(cls, **extra, **sample.attrs)
    else:
        op = cls.make(*block.args, **extra, **sample.attrs)
    block.add_ops([op, func.ReturnOp(*op.results)])
    kernel = func.FuncOp.create(
        properties={
            "sym_name": func.StringAttr("kernel"),
            "function_type": FunctionType.from_lists(sample.operands, [r.type for r in op.results]),
        },
        attributes={"graph.kernel": UnitAttr()},
        regions=[Region(block)],
    )
    return kernel, op


def sample_inputs(sample, seed=0):
    """Arrays for the operands of a sample."""
    rng = np.random.default_rng(seed)
    arrays = []
    for t in sample.operands:
        dtype, shape = numpy_dtype(t.element_type), static_shape(t)
        if dtype == np.bool_:
            arrays.append(rng.random(shape) < 0.5)
        elif is_float(t):
            arrays.append(rng.uniform(sample.low, sample.high, shape).astype(dtype))
        else:
            low, high = sample.integers
            arrays.append(np.asarray(rng.integers(low, high, shape), dtype))
    return arrays


CASES = [
    pytest.param(cls, sample, id=f"{cls.name[6:]}-{k}")
    for cls in (OPS.values() if isinstance(OPS, dict) else OPS)
    if cls is not ParamOp
    for k, sample in enumerate(cls.samples())
]


def check_results(got, wanted, op):
    rtol = max(op.tolerance, 1) * 2.0**-23 * np.sqrt(op.reduction_length()) * 4
    for a, b, result in zip(got, wanted, op.results, strict=True):
        assert a.shape == b.shape
        assert a.dtype == interp.dtype_for(signless(result.type.element_type)[0], False)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("cls", "sample"), CASES)
def test_te_means_what_the_op_means(cls, sample):
    kernel, op = sample_kernel(cls, sample)
    arrays = sample_inputs(sample)
    wanted = graph_numpy.evaluate(op, arrays)
    lowered = convert_kernel(kernel)
    lowered.verify()
    assert isinstance(lowered, te.FuncOp)
    check_results(interp.run(lowered, arrays), wanted, op)
    inline_func(lowered)
    lowered.verify()
    check_results(interp.run(lowered, arrays), wanted, op)
