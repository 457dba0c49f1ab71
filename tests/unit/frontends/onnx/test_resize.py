"""Transposed convolutions and resizing: converters beside onnxruntime, refusals, layouts and compiled kernels."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_passes import names, optimize
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from xdsl.utils.exceptions import VerifyException

import mlc
from mlc.dialects import graph as g
from mlc.interp.graph import run_function
from mlc.support.errors import UnsupportedOps, UserError

onnxruntime.set_default_logger_severity(4)
RNG = np.random.default_rng(3)
W = RNG.standard_normal((4, 3, 3, 4)).astype(np.float32)
B = RNG.standard_normal(3).astype(np.float32)


def model_of(kind: str, inputs: list[str], constants: dict[str, Any], shape: Any = (1, 4, 5, 6), opset=18, **attrs):
    """A model of one node, `op`."""
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, ["y"], name="op", **attrs)],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def transposed(w=W, **attrs: Any) -> onnx.ModelProto:
    return model_of("ConvTranspose", ["x", "w", "b"], {"w": w, "b": B[: w.shape[1] * attrs.get("group", 1)]}, **attrs)


def resized(scales: Any = None, sizes: Any = None, **attrs: Any) -> onnx.ModelProto:
    if scales is not None:
        return model_of("Resize", ["x", "", "s"], {"s": np.array(scales, np.float32)}, **attrs)
    return model_of("Resize", ["x", "", "", "s"], {"s": np.array(sizes, np.int64)}, **attrs)


MODES = [
    {"mode": "nearest", "coordinate_transformation_mode": c, "nearest_mode": r}
    for c in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    for r in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
] + [
    {"mode": "linear", "coordinate_transformation_mode": c}
    for c in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
]
CASES: dict[str, onnx.ModelProto] = {
    "stride": transposed(strides=[2, 2], pads=[1, 0, 2, 1], output_padding=[1, 0]),
    "dilation": transposed(strides=[2, 1], dilations=[2, 3]),
    "group": transposed(w=W[:, :1], group=2, strides=[1, 3]),
    "same": transposed(strides=[2, 3], auto_pad="SAME_UPPER"),
    "same-lower": transposed(strides=[3, 2], auto_pad="SAME_LOWER"),
    "output-shape": transposed(strides=[2, 2], output_shape=[10, 13]),
    "one-axis": transposed(w=W[:, :, 0], shape=(2, 4, 7), strides=[3], pads=[1, 2]),
    "upsample-9": model_of("Upsample", ["x", "s"], {"s": np.array([1, 1, 2, 3], np.float32)}, opset=9),
    "upsample-7": model_of("Upsample", ["x"], {}, opset=7, scales=[1.0, 1.0, 2.0, 1.5], mode="linear"),
    "resize-10": model_of("Resize", ["x", "s"], {"s": np.array([1, 1, 0.5, 3], np.float32)}, opset=10),
    "axes": resized(scales=[2, 1.7], axes=[3, 2]),
    "rank-3": resized(sizes=[1, 4, 11], shape=(1, 4, 5), mode="linear"),
    **{f"scales-{i}": resized(scales=[1, 1, 2, 0.6], **modes) for i, modes in enumerate(MODES)},
    **{f"sizes-{i}": resized(sizes=[1, 4, 7, 4], **modes) for i, modes in enumerate(MODES)},
}


@pytest.mark.parametrize("name", CASES)
def test_converters_against_onnxruntime(name: str):
    proto = CASES[name]
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).standard_normal(session.get_inputs()[0].shape).astype(np.float32)
    if name.startswith("scales") and b"align_corners" in proto.SerializeToString():
        (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})  # of fractional sizes onnxruntime has its own idea
    else:
        (wanted,) = session.run(None, {"x": x})
    model = mlc.load(proto)
    (result,) = run_function(model.main, [x], model.weights)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-5)


TAPS: dict[str, onnx.ModelProto] = {
    "cubic": resized(scales=[1, 1, 2, 1.5], mode="cubic", cubic_coeff_a=-0.5),
    "exclude": resized(scales=[1, 1, 0.7, 1.5], mode="cubic", exclude_outside=1),
    "antialias": resized(scales=[1, 1, 0.5, 0.6], mode="linear", antialias=1),
    "antialias-cubic": resized(sizes=[1, 4, 3, 4], mode="cubic", antialias=1),
    "channels": resized(scales=[1, 2, 2, 2], mode="linear"),
    "symmetric": resized(scales=[1, 1, 1.3, 2.3], mode="linear", coordinate_transformation_mode="half_pixel_symmetric"),
    "larger": resized(sizes=[9, 9], axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    "smaller": resized(sizes=[9, 9], axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    "rank-5": model_of(
        "Resize", ["x", "", "s"], {"s": np.array([1, 1, 2, 2, 1.5], np.float32)}, shape=(1, 2, 3, 4, 5), mode="linear"
    ),
    "crop": model_of(
        "Resize",
        ["x", "r", "", "s"],
        {"r": np.array([0, 0, 0.2, 0.3, 1, 1, 0.9, 1.2], np.float32), "s": np.array([1, 4, 9, 9])},
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.0,
        mode="linear",
    ),
    "transposed-3": transposed(
        w=np.random.default_rng(3).standard_normal((4, 2, 2, 3, 2)).astype(np.float32),
        shape=(1, 4, 3, 4, 5),
        strides=[2, 1, 3],
        dilations=[3, 1, 1],
        pads=[1, 0, 1, 2, 1, 0],
        output_padding=[1, 0, 0],
    ),
}


@pytest.mark.parametrize("proto", TAPS.values(), ids=TAPS)
def test_resizing_along_any_axes_against_the_reference(proto: onnx.ModelProto):
    shape = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    model = mlc.load(proto)
    (result,) = run_function(model.main, [x], model.weights)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("proto", "why"),
    [
        (resized(scales=[1, 1, 2, 2], mode="spline"), "mode spline; mlc has nearest, linear, cubic"),
        (
            resized(sizes=[1, 4, 9, 9], coordinate_transformation_mode="middle"),
            "coordinate_transformation_mode middle; mlc has half_pixel, ",
        ),
        (resized(sizes=[9, 9], axes=[2, 3], keep_aspect_ratio_policy="least"), "keep_aspect_ratio_policy least; mlc"),
        (transposed(w=W[..., None, None], shape=(1, 4, 5, 6, 2, 2)), "an input of rank 6 and a weight of rank 6"),
    ],
)
def test_what_is_not_supported_is_told(proto: onnx.ModelProto, why: str):
    with pytest.raises(UnsupportedOps) as caught:
        mlc.load(proto)
    ((path, _, told),) = caught.value.ops
    assert path == "op"
    assert why in told


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (resized(scales=[1, 2, 2]), "expected 4 scales or sizes > 0, but got"),
        (resized(sizes=[1, 4, 0, 2]), "expected 4 scales or sizes > 0, but got"),
        (model_of("Resize", ["x", "", "x"], {}), r"expected input 2 \('x'\) to be constant"),
        (transposed(pads=[-1, 0, 0, 0]), "expected pads of 4 integers >= 0, but got"),
        (transposed(kernel_shape=[2, 2]), r"expected kernel_shape \[3, 4\], like the weight, but got \[2, 2\]"),
    ],
)
def test_wrong_nodes(proto: onnx.ModelProto, message: str):
    with pytest.raises(UserError, match=message):
        mlc.load(proto)


UPSCALE = """func.func @main(%x: tensor<2x{c}x5x4xf32>) -> tensor<2x{o}x{h}x{w}xf32> {{
  %k = graph.param "k" : tensor<{c}x{o}x{kh}x{kw}xf32>
  %0 = graph.conv2d_transpose %x, %k {{{attrs}}} : (tensor<2x{c}x5x4xf32>, tensor<{c}x{o}x{kh}x{kw}xf32>) -> tensor<2x{o}x{h}x{w}xf32>
  %b = graph.param "b" : tensor<{o}xf32>
  %1 = graph.bias_add %0, %b : (tensor<2x{o}x{h}x{w}xf32>, tensor<{o}xf32>) -> tensor<2x{o}x{h}x{w}xf32>
  %2 = graph.relu %1 : tensor<2x{o}x{h}x{w}xf32>
  return %2 : tensor<2x{o}x{h}x{w}xf32>
}}"""  # noqa: E501


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "padding", "extra"),
    [
        ((24, 24), (2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
        ((24, 1), (2, 2), (2, 2), (0, 0, 0, 0), (0, 0)),
        ((3, 30), (4, 3), (2, 2), (1, 0, 1, 2), (0, 1)),
        ((16, 20), (3, 3), (1, 1), (1, 1, 1, 1), (0, 0)),
        ((8, 5), (3, 5), (2, 3), (0, 2, 1, 4), (1, 0)),
        ((4, 8), (1, 2), (2, 3), (0, 0, 0, 0), (1, 2)),
        ((5, 25), (2, 2), (2, 2), (3, 0, 0, 0), (0, 0)),  # the first rows meet no tap: not blocked
    ],
)
def test_transposed_convolutions_by_subpixels(channels, kernel, stride, padding, extra):
    kinds = by_subpixels(channels, kernel, stride, padding, extra)
    blocked = all(p < -(-k // s) * s for p, k, s in zip(padding, kernel, stride, strict=False))
    assert ("conv2d" in kinds) == blocked
    assert ("conv2d_transpose" in kinds) != blocked
    if blocked:
        assert kinds.index("add") == kinds.index("conv2d") + 1  # the bias, before the shuffle


def by_subpixels(channels, kernel, stride, padding, extra) -> list[str]:
    """The ops that a transposed convolution becomes; values are checked."""
    sizes = [
        (n - 1) * s + k - padding[a] - padding[2 + a] + e
        for a, (n, s, k, e) in enumerate(zip((5, 4), stride, kernel, extra, strict=True))
    ]
    text = UPSCALE.format(
        c=channels[0], o=channels[1], h=sizes[0], w=sizes[1], kh=kernel[0], kw=kernel[1],
        attrs=f"strides = {list(stride)}, padding = {list(padding)}, output_padding = {list(extra)}",
    )  # fmt: skip
    return names(optimize(text, "graph-simplify,graph-alter-op-layout,graph-fold-constant,graph-canonicalize"))


@pytest.mark.parametrize(
    ("channels", "kernel", "strides", "pads", "extra"),
    [
        ((24, 32), (3, 3), [2, 2], [1, 1, 1, 1], [1, 1]),
        ((16, 30), (3, 3), [2, 2], [0, 1, 0, 0], [0, 0]),  # the last block is not full
        ((5, 16), (5, 5), [3, 3], [1, 0, 2, 1], [0, 2]),
        ((8, 32), (3, 4), [2, 2], [0, 0, 0, 0], [0, 0]),
        ((8, 16), (3, 1), [2, 1], [1, 0, 0, 0], [0, 0]),
    ],
)
def test_subpixels_of_different_taps_are_convolutions_of_their_own(channels, kernel, strides, pads, extra):
    w = np.random.default_rng(2).standard_normal((*channels, *kernel)).astype(np.float32)
    b = np.random.default_rng(3).standard_normal(channels[1]).astype(np.float32)
    attrs = {"strides": strides, "pads": pads, "output_padding": extra}
    proto = model_of("ConvTranspose", ["x", "w", "b"], {"w": w, "b": b}, (2, channels[0], 7, 6), **attrs)
    kinds = by_subpixels(channels, kernel, strides, pads, extra)
    assert kinds.count("conv2d") == kinds.count("add") == strides[0] * strides[1]
    exe = mlc.compile(proto, threads=1, cache=False)
    x = np.random.default_rng(1).standard_normal((2, channels[0], 7, 6)).astype(np.float32)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(exe({"x": x})["y"], session.run(None, {"x": x})[0], rtol=2e-5, atol=1e-4)


def test_scales_go_into_the_transposed_weights():
    norm = """graph.batch_norm %0, %g, %g, %g, %v : (tensor<1x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>,
      tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>"""
    module = optimize(
        f"""func.func @main(%x: tensor<1x2x2x2xf32>) -> tensor<1x3x4x4xf32> {{
          %k = graph.param "k" : tensor<2x3x2x2xf32>
          %g = graph.param "g" : tensor<3xf32>
          %v = graph.param "pos" : tensor<3xf32>
          %0 = graph.conv2d_transpose %x, %k {{strides = [2, 2]}} :
            (tensor<1x2x2x2xf32>, tensor<2x3x2x2xf32>) -> tensor<1x3x4x4xf32>
          %1 = {norm}
          return %1 : tensor<1x3x4x4xf32>
        }}""",
        "graph-simplify,graph-fold-constant",
    )
    assert names(module) == ["conv2d_transpose", "bias_add"]


def test_resizing_stays_blocked():
    module = optimize(
        """func.func @main(%x: tensor<1x16x4x4xf32>) -> tensor<1x16x8x8xf32> {
          %w = graph.param "w" : tensor<16x16x1x1xf32>
          %0 = graph.conv2d %x, %w : (tensor<1x16x4x4xf32>, tensor<16x16x1x1xf32>) -> tensor<1x16x4x4xf32>
          %1 = graph.resize2d %0 {size = [8, 8]} : (tensor<1x16x4x4xf32>) -> tensor<1x16x8x8xf32>
          return %1 : tensor<1x16x8x8xf32>
        }""",
        "graph-alter-op-layout",
    )
    (op,) = [op for op in module.walk() if isinstance(op, g.Resize2dOp)]
    assert op.layout == "NCHW16c"


@pytest.mark.parametrize(
    "proto",
    [
        transposed(strides=[2, 2], pads=[1, 0, 2, 1], output_padding=[1, 0]),
        transposed(strides=[2, 1], dilations=[2, 3]),
        resized(scales=[1, 1, 2, 0.6]),
        resized(sizes=[1, 4, 7, 13], mode="linear"),
    ],
)
def test_compiled_kernels(proto: onnx.ModelProto):
    model = mlc.load(proto)
    x = np.random.default_rng(2).standard_normal((1, 4, 5, 6)).astype(np.float32)
    (wanted,) = run_function(model.main, [x], model.weights)
    for level in (0, 3):
        (result,) = mlc.compile(mlc.load(proto), threads=1, opt_level=level)({"x": x}).values()
        np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-5)


PICTURE, KERNEL = g.tensor((1, 4, 5, 6)), g.tensor((4, 3, 2, 2))


@pytest.mark.parametrize(
    ("types", "attrs", "message"),
    [
        ((PICTURE, g.tensor((3, 4, 2, 2))), {}, "expected a kernel for 4 input channels, but got one for 3"),
        ((PICTURE, g.tensor((4, 3, 2))), {}, "expected an image and a kernel of rank 4, but got"),
        ((PICTURE, g.tensor((4, 3, 2, 2), "float64")), {}, "expected image and kernel with the same element type"),
        ((PICTURE, KERNEL), {"groups": 3}, "expected groups that divide 4 input channels, but got 3"),
        ((PICTURE, KERNEL), {"output_padding": (1, 0)}, "expected output_padding of 2 integers >= 0 below the stride"),
        ((PICTURE, KERNEL), {"strides": (0, 1)}, "expected strides of 2 integers >= 1"),
        (
            (PICTURE, KERNEL),
            {"padding": (3, 0, 3, 0)},
            r"expected padding that leaves a result, but \[3, 3\] are cut off 6 on axis H",
        ),
    ],
)
def test_wrong_transposed_convolutions(types: Any, attrs: dict[str, Any], message: str):
    with pytest.raises(VerifyException, match=message):
        g.Conv2dTransposeOp.make(*(g.ParamOp.make(result=t, entry="x") for t in types), **attrs)


@pytest.mark.parametrize(
    ("type", "attrs", "message"),
    [
        (PICTURE, {"size": (4, 0)}, "expected size of 2 integers >= 1, but got"),
        (PICTURE, {"size": (4, 4), "step": (1, 2)}, "expected step of 4 integers >= 1, or none, but got"),
        (PICTURE, {"size": (4, 4), "mode": "cubic"}, "expected mode to be one of nearest, linear, but got 'cubic'"),
        (PICTURE, {"size": (4, 4), "rounding": "up"}, "expected rounding to be one of floor, "),
        (PICTURE, {"size": (4, 4), "coordinates": "half"}, "expected coordinates to be one of half_pixel, "),
        (g.tensor((1, 4, 5, 6), "int32"), {"size": (4, 4), "mode": "linear"}, "expected floating-point elements"),
    ],
)
def test_wrong_resizes(type: Any, attrs: dict[str, Any], message: str):
    with pytest.raises(VerifyException, match=message):
        g.Resize2dOp.make(g.ParamOp.make(result=type, entry="x"), **attrs)


@pytest.mark.parametrize(
    ("attrs", "kept"),
    [
        ("size = [5, 6]", 0),
        ('size = [5, 6], mode = "linear", coordinates = "align_corners"', 0),
        ('size = [5, 6], step = [1, 2, 1, 1], coordinates = "asymmetric"', 1),
    ],
)
def test_a_resize_to_the_same_size_disappears(attrs: str, kept: int):
    module = optimize(
        f"""func.func @main(%x: tensor<1x4x5x6xf32>) -> tensor<1x4x5x6xf32> {{
          %0 = graph.resize2d %x {{{attrs}}} : (tensor<1x4x5x6xf32>) -> tensor<1x4x5x6xf32>
          return %0 : tensor<1x4x5x6xf32>
        }}""",
        "graph-canonicalize",
    )
    assert names(module).count("resize2d") == kept
