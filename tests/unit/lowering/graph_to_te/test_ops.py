"""Every graph op's samples: the te that it lowers to gives what its numpy meaning gives."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, UnitAttr
from xdsl.ir import Block, Region

from mlc.dialects import graph as g
from mlc.dialects import te
from mlc.dialects.graph import OPS, ParamOp, Sample, graph_numpy
from mlc.dialects.graph.types import is_float, numpy_dtype, static_shape, tensor
from mlc.dialects.te_builder.builder import signless
from mlc.interp import loop as loop_interp
from mlc.interp import te as interp
from mlc.interp import values
from mlc.lowering.graph_to_te.convert import convert_kernel
from mlc.lowering.graph_to_te.extern.kernels import EXTERN
from mlc.lowering.te_to_loop.convert import convert_func
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


def sample(cls, *operands, dtype="float32", result=None, integers=(-5, 6), **attrs):
    """A case of our own; a result given as a dtype has the first operand's shape."""
    types = tuple(tensor(o, dtype) if isinstance(o, tuple) else o for o in operands)
    result = tensor(static_shape(types[0]), result) if isinstance(result, str) else result
    return cls, Sample(types, attrs, result=result, integers=integers, low=0.5 if cls is g.PowerOp else -2.0)


INTEGERS = ("int8", "int32", "int64", "uint8")
FLOATS = ("float64", "float16", "bfloat16")
BLOCKED = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4i8o"}
EXTRA = [
    *(sample(op, (2, 3), dtype=t) for t in INTEGERS for op in (g.ReluOp, g.SignOp, g.AbsOp)),
    *(sample(op, (5,), dtype=t) for t in FLOATS for op in (g.SigmoidOp, g.RoundOp, g.SignOp)),
    *(
        sample(op, (3, 4), (4,), dtype=t, integers=(1, 6))
        for t in INTEGERS
        for op in (g.AddOp, g.DivideOp, g.ModOp, g.MaximumOp, g.LessOp, g.EqualOp, g.PowerOp)
    ),
    sample(g.DivideOp, (64,), (64,), dtype="int32", integers=(-9, 0)),
    *(sample(g.ModOp, (64,), (64,), truncated=t) for t in (False, True)),
    *(sample(g.ModOp, (64,), (64,), dtype="int32", integers=(-9, 0), truncated=t) for t in (False, True)),
    *(sample(g.ClipOp, (9,), dtype=t, min=-1.0, max=3.0) for t in ("float32", "int32", "uint8")),
    *(
        sample(g.CastOp, (9,), dtype=a, result=b)
        for a in ("float32", "float16", "bfloat16", "int8", "uint8", "int64", "bool")
        for b in ("float32", "float16", "bfloat16", "int8", "uint8", "int32", "bool")
        if not (a.endswith(("32", "16")) and b == "uint8")
    ),
    *(sample(op, (3, 4, 5), dtype=t, axes=(1,)) for t in ("int32", "float64") for op in (g.SumOp, g.MeanOp, g.MaxOp)),
    *(sample(op, (4, 9), dtype="int32", axes=(1,)) for op in (g.ArgmaxOp, g.ArgminOp, g.MinOp, g.ProdOp)),
    sample(g.MaxOp, (3, 5), dtype="uint8", axes=(1,), integers=(100, 250)),
    *(sample(op, (3, 5), dtype="bool", axes=(1,)) for op in (g.MaxOp, g.MinOp, g.SumOp, g.ProdOp, g.ArgmaxOp)),
    # grouped, strided, dilated, in plain and blocked layouts; blocks of data and kernel that differ
    sample(g.Conv2dOp, (1, 4, 9, 8, 4), (2, 1, 3, 3, 4, 8), **BLOCKED, groups=4, padding=(1, 2, 0, 1), strides=(2, 1)),
    sample(g.Conv2dOp, (1, 2, 9, 8, 4), (2, 2, 3, 1, 4, 8), **BLOCKED, dilation=(2, 1), padding=(2, 0, 2, 0)),
    sample(g.Conv2dOp, (2, 3, 8, 8), (2, 3, 3, 3, 8), kernel_layout="OIHW8o", strides=(2, 2), padding=(1, 1, 1, 1)),
    sample(g.Conv2dOp, (1, 2, 5, 5, 8), (2, 4, 1, 1, 4, 8), data_layout="NCHW8c", kernel_layout="OIHW4i8o"),
    sample(g.Conv2dOp, (1, 2, 5, 5, 4), (1, 8, 1, 1, 8), data_layout="NCHW4c", kernel_layout="OIHW8o"),
    sample(g.Conv2dOp, (1, 7, 6, 4), (8, 2, 3, 3), data_layout="NHWC", groups=2, padding=(1, 1, 1, 1)),
    sample(g.Conv2dOp, (1, 3, 1, 20), (4, 3, 1, 5), padding=(0, 2, 0, 2)),
    *(
        sample(op, (1, 2, 7, 9, 4), layout="NCHW4c", pool_size=(3, 2), strides=(2, 3), padding=(1, 1, 1, 0), **extra)
        for op in (g.MaxPool2dOp, g.AvgPool2dOp)
        for extra in ({}, {"dilation": (1, 3)}, {"ceil_mode": True})
    ),
    *(
        sample(g.AvgPool2dOp, (1, 2, 7, 9), pool_size=(3, 3), strides=(2, 2), padding=(1,) * 4, count_include_pad=c)
        for c in (False, True)
    ),
    sample(g.MaxPool2dOp, (1, 2, 6, 6), dtype="int8", pool_size=(2, 2), padding=(1, 1, 0, 0)),
    sample(g.MaxPool2dOp, (1, 2, 6, 6), dtype="uint8", pool_size=(2, 2), padding=(1, 1, 0, 0), integers=(1, 250)),
    sample(g.ReshapeOp, (2, 3, 4, 5), result=tensor((6, 2, 10))),
    sample(g.ReshapeOp, (1, 7, 1), result=tensor((7,))),
    sample(g.ReshapeOp, (1,), result=tensor(())),
    sample(g.ReshapeOp, (6, 35), result=tensor((10, 21))),
    sample(g.PadOp, (3, 4, 5), pad_width=(2, 1, 0, 2, 3, 4), mode="reflect"),
    sample(g.PadOp, (3, 4), dtype="int32", pad_width=(2, 1, 0, 2), mode="edge"),
    sample(g.PadOp, (3, 4), dtype="int64", pad_width=(2, 1, 0, 2), value=7.0),
    sample(g.TakeOp, tensor((5, 3)), tensor((2, 3), "int64"), axis=0, integers=(-5, 5)),
    sample(g.TakeOp, tensor((5, 3)), tensor((4,), "uint8"), axis=1, integers=(0, 3)),
    sample(g.LayoutTransformOp, (2, 7, 3, 3), src="NCHW", dst="NCHW4c"),
    sample(g.LayoutTransformOp, (2, 2, 3, 3, 4), src="NCHW4c", dst="NCHW", result=tensor((2, 7, 3, 3))),
    sample(g.LayoutTransformOp, (10, 6, 3, 3), src="OIHW", dst="OIHW4i8o"),
    sample(g.LayoutTransformOp, (2, 2, 3, 3, 4), src="NCHW4c", dst="NHWC", result=tensor((2, 3, 3, 8))),
    sample(g.BatchMatmulOp, (5, 1, 3, 4), (2, 5, 4), transpose_b=True),
    sample(g.DenseOp, (7,), (5, 7)),
    sample(g.IotaOp, axis=0, result=tensor((4, 2), "float32")),
    sample(g.ConstantOp, value=g.structure.dense_attribute(np.arange(6.0).reshape(2, 3), "float32")),
    sample(g.ConstantOp, value=g.structure.dense_attribute(np.array([3, 3]), "int64")),
    sample(g.ConstantOp, value=g.structure.dense_attribute(np.array([True, False]))),
]
CASES = (
    [
        pytest.param(cls, sample, id=f"{cls.name[6:]}-{k}")
        for cls in OPS.values()
        if cls not in EXTERN  # loops by hand, tested with the models that use them
        if cls is not ParamOp
        for k, sample in enumerate(cls.samples())
    ]
    + [pytest.param(cls, s, id=f"{cls.name[6:]}-more{k}") for k, (cls, s) in enumerate(EXTRA)]
)


def check_results(got, wanted, op):
    for a, b, result in zip(got, wanted, op.results, strict=True):
        assert a.shape == b.shape
        assert a.dtype == values.dtype_for(signless(result.type.element_type)[0])
        if is_float(result.type):
            eps = float(ml_dtypes.finfo(a.dtype).eps)
            tolerance = 4 * max(op.tolerance, 1) * eps * np.sqrt(op.reduction_length())
            np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(a, b.view(a.dtype))


def results(lowered):
    return lowered.return_op.values


@pytest.mark.parametrize(("cls", "sample"), CASES)
def test_te_means_what_the_op_means(cls, sample):
    kernel, op = sample_kernel(cls, sample)
    arrays = sample_inputs(sample)
    wanted = graph_numpy.evaluate(op, arrays)
    arrays = [a.view(f"int{8 * a.itemsize}") if a.dtype.kind == "u" else a for a in arrays]
    lowered = convert_kernel(kernel)
    lowered.verify()
    assert isinstance(lowered, te.FuncOp)
    check_results(interp.run(lowered, arrays), wanted, op)
    inline_func(lowered)
    lowered.verify()
    check_results(interp.run(lowered, arrays), wanted, op)
    nest = convert_func(lowered)
    nest.verify()
    outs = [np.zeros(r.type.get_shape(), values.dtype_for(r.type.element_type)) for r in results(lowered)]
    check_results(loop_interp.run(nest, [*arrays, *outs]), wanted, op)
