"""Every op of the graph dialect on its own samples: text forms, inference, and meaning."""

import math
from io import StringIO

import numpy as np
import pytest
from graph_samples import arrays_of, make
from xdsl.dialects.builtin import FunctionType, ModuleOp, i16
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import graph as g
from mlc.dialects.graph.base import GraphOp
from mlc.dialects.graph.graph_numpy import evaluate, result_dtype
from mlc.dialects.graph.numerics import erf
from mlc.dialects.syntax.source import parse_module
from mlc.support.arithmetic import WIDE

SAMPLES = [(cls, sample) for cls in g.OPS.values() for sample in cls.samples()]
IDS = [f"{cls.name}-{i}" for i, (cls, _) in enumerate(SAMPLES)]


def module_of(cls, sample) -> tuple[ModuleOp, GraphOp]:
    func = FuncOp("main", (list(sample.operands), []))
    op = make(cls, sample, func.body.block.args)
    func.body.block.add_ops([op, ReturnOp(*op.results)])
    func.properties["function_type"] = FunctionType.from_lists(sample.operands, op.result_types)
    return ModuleOp([func]), op


def test_every_op_but_param_has_samples():
    assert [name for name, cls in g.OPS.items() if not cls.samples()] == ["graph.param"]


def test_every_op_is_documented_with_its_text_form():
    assert [name for name, cls in g.OPS.items() if name not in (cls.__doc__ or "")] == []


@pytest.mark.parametrize(("cls", "sample"), SAMPLES, ids=IDS)
def test_text_forms_are_fixed_points(cls, sample):
    module, _ = module_of(cls, sample)
    module.verify()
    text = str(module)
    assert str(parse_module(text)) == text
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(module)
    assert str(parse_module(stream.getvalue())) == text


CHOSEN = {
    "graph.full": {"size", "rank", "element"},
    "graph.band": {"size", "rank", "element"},
    "graph.iota": {"size", "rank", "element"},
    "graph.reshape": {"rank"},  # by an axis of size 1
    "graph.broadcast_to": {"size"},  # 1 to 2
    "graph.cast": {"element"},
}
"""The changes of a result's type after which an op is still right: its text chooses them."""


def test_a_written_type_that_contradicts_an_op_is_refused():
    wrong: dict[str, set[str]] = {}
    for cls, sample in SAMPLES:
        _, op = module_of(cls, sample)
        for result in op.results:
            shape, element = list(result.type.get_shape()), result.type.element_type
            changes = {"rank": ([*shape, 1], element), "element": (shape, "int16" if element != i16 else "float64")}
            if shape:
                changes["size"] = ([shape[0] + 1, *shape[1:]], element)
            right = result.type
            for what, (sizes, dtype) in changes.items():
                result._type = g.tensor(sizes, dtype)
                try:
                    op.verify_()
                except VerifyException:
                    continue
                finally:
                    result._type = right
                wrong.setdefault(cls.name, set()).add(what)
    assert {
        name: whats - CHOSEN.get(name, set()) for name, whats in wrong.items() if whats - CHOSEN.get(name, set())
    } == {}


@pytest.mark.parametrize(("cls", "sample"), SAMPLES, ids=IDS)
def test_meaning_has_the_inferred_type(cls, sample):
    _, op = module_of(cls, sample)
    arrays = list(arrays_of(sample))
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
    exact = evaluate(op, wide, WIDE)
    for result, value, baseline in zip(op.results, evaluate(op, arrays), exact, strict=True):
        assert value.shape == result.type.get_shape()
        assert value.dtype == result_dtype(result.type)
        if value.dtype == np.float32:
            bound = max(op.tolerance, 1.0) * np.finfo(np.float32).eps * math.sqrt(op.reduction_length())
            np.testing.assert_allclose(value, baseline, rtol=bound, atol=4 * bound * max(1.0, np.abs(baseline).max()))


def test_erf_is_accurate_to_double_precision():
    x = np.concatenate([np.linspace(-7, 7, 4001), [0.0, 1e-9, 30.0, -30.0]])
    np.testing.assert_allclose(erf(x), [math.erf(v) for v in x], rtol=0, atol=1e-15)


def run(cls, *arrays, **attrs):
    params = [g.ParamOp.make(result=g.tensor(a.shape, a.dtype), entry="x") for a in arrays]
    op = cls.make(*params, **attrs)
    return evaluate(op, arrays)[0]


def naive_conv(x, w, strides, padding, dilation, groups):
    x = np.pad(x, ((0, 0), (0, 0), (padding[0], padding[2]), (padding[1], padding[3])))
    o, i, kh, kw = w.shape
    oh = (x.shape[2] - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (x.shape[3] - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], o, oh, ow))
    for c in range(o):
        first = c // (o // groups) * i
        for r in range(oh):
            for s in range(ow):
                rows = slice(r * strides[0], r * strides[0] + (kh - 1) * dilation[0] + 1, dilation[0])
                columns = slice(s * strides[1], s * strides[1] + (kw - 1) * dilation[1] + 1, dilation[1])
                y[:, c, r, s] = (x[:, first : first + i, rows, columns] * w[c]).sum(axis=(1, 2, 3))
    return y


@pytest.mark.parametrize(
    ("channels", "out", "groups", "attrs"),
    [
        (4, 6, 1, {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}),
        (6, 4, 2, {"padding": (1, 1, 1, 1)}),
        (5, 5, 5, {"strides": (2, 2), "padding": (1, 2, 1, 0)}),
    ],
)
def test_convolution_against_the_definition(channels, out, groups, attrs):
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((2, channels, 9, 8)), rng.standard_normal((out, channels // groups, 3, 2))
    full = {"strides": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1), **attrs}
    wanted = naive_conv(x, w, full["strides"], full["padding"], full["dilation"], groups)
    np.testing.assert_allclose(run(g.Conv2dOp, x, w, groups=groups, **attrs), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("groups", [1, 7])
def test_blocked_convolution_is_the_plain_one(groups):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((1, 7, 6, 5))
    w = rng.standard_normal((7 if groups == 7 else 10, 7 // groups, 3, 3))
    plain = run(g.Conv2dOp, x, w, groups=groups, padding=(1, 1, 1, 1))
    kernel = "OIHW4o" if groups == 7 else "OIHW4i4o"
    blocked = run(
        g.Conv2dOp,
        run(g.LayoutTransformOp, x, src="NCHW", dst="NCHW4c"),
        run(g.LayoutTransformOp, w, src="OIHW", dst=kernel),
        groups=groups,
        padding=(1, 1, 1, 1),
        channels=w.shape[0],
        data_layout="NCHW4c",
        kernel_layout=kernel,
    )
    back = run(g.LayoutTransformOp, blocked, src="NCHW4c", dst="NCHW", result=g.tensor(plain.shape, "float64"))
    np.testing.assert_allclose(back, plain, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", ["OI4o", "IO4o", "OI2i4o"])
def test_packed_dense_is_the_plain_one(layout):
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((3, 7)), rng.standard_normal((10, 7))
    packed = run(g.LayoutTransformOp, w, src="OI", dst=layout)
    np.testing.assert_allclose(run(g.DenseOp, x, packed, kernel_layout=layout, units=10), x @ w.T, rtol=1e-12)


def test_layout_transforms_against_the_definition():
    x = np.arange(2 * 3 * 2 * 2, dtype=np.float32).reshape(2, 3, 2, 2)
    y = run(g.LayoutTransformOp, x, src="NCHW", dst="NCHW2c")
    assert y.shape == (2, 2, 2, 2, 2)
    assert y[1, 0, 1, 0, 1] == x[1, 1, 1, 0]
    assert y[1, 1, 0, 1, 0] == x[1, 2, 0, 1]
    assert not y[:, 1, :, :, 1].any()  # the padding


def test_average_pools_count_what_they_say():
    x = np.ones((1, 1, 4, 4), np.float32)
    window = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1)}
    np.testing.assert_array_equal(run(g.AvgPool2dOp, x, **window), np.ones((1, 1, 2, 2)))
    counted = run(g.AvgPool2dOp, x, count_include_pad=True, **window)
    np.testing.assert_allclose(counted[0, 0], [[4 / 9, 6 / 9], [6 / 9, 1]], rtol=1e-6)


def test_make_rejects_unknown_attributes_and_wrong_operands():
    x = g.ParamOp.make(result=g.tensor((2, 3)), entry="x")
    with pytest.raises(TypeError, match=r"graph\.softmax has no attribute axes; it has: axis"):
        g.SoftmaxOp.make(x, axes=1)
    with pytest.raises(VerifyException, match="expected 2 operands, but got 1"):
        g.AddOp.make(x)


def test_attributes_are_python_values():
    x = g.ParamOp.make(result=g.tensor((1, 3, 8, 8)), entry="x")
    w = g.ParamOp.make(result=g.tensor((4, 3, 3, 3)), entry="w")
    op = g.Conv2dOp.make(x, w, strides=(2, 2), location="conv1")
    assert (op.strides, op.padding, op.groups, op.data_layout) == ((2, 2), (0, 0, 0, 0), 1, "NCHW")
    assert (op.kind, op.layout_rule, op.reduction_length()) == (4, "conv", 27)
    assert g.location_name(op) == "conv1"
    op.padding = (1, 1, 1, 1)
    assert g.infer(op) == [g.tensor((1, 4, 4, 4))]
    with pytest.raises(VerifyException, match="expected result of type tensor<1x4x4x4xf32>"):
        op.verify()


def test_kinds_follow_the_table():
    kinds = {name.removeprefix("graph."): cls.kind for name, cls in g.OPS.items()}
    wanted = {
        0: "relu exp cast clip full leaky_relu",
        1: "add where bias_add prelu broadcast_to tile",
        2: "reshape transpose concatenate split slice take pad layout_transform flip",
        3: "sum mean max min prod argmax argmin",
        4: "conv2d dense batch_matmul max_pool2d avg_pool2d softmax log_softmax batch_norm instance_norm",
        8: "layer_norm iota param",
    }
    for kind, names in wanted.items():
        assert {name: kinds[name] for name in names.split()} == dict.fromkeys(names.split(), kind)
