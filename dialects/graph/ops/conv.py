"""Convolution and pooling, in plain and blocked layouts."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OUT_FUSABLE, AttrValue, GraphOp, Sample
from mlc.dialects.graph.dims import Dim, UnequalSizes, least
from mlc.dialects.graph.layout import Layout, TransformSteps, image_layout, layout, same_axes, transform_steps
from mlc.dialects.graph.op_attributes import Bool, Int, Ints, Str
from mlc.dialects.graph.ops.accumulate import accumulator, widened
from mlc.dialects.graph.types import Array, Tensor, is_float, shape_of, static_shape, tensor


class Conv2dOp(GraphOp):
    """
    2-D convolution (cross-correlation) of an image by a kernel.

    `graph.conv2d %x, %w {strides = [2, 2], padding = [1, 1, 1, 1]} :
    (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32>`

    `padding` is [top, left, bottom, right]. The kernel's I is the channels of one group. With blocked layouts
    (`data_layout = "NCHW16c", kernel_layout = "OIHW16i32o"`) operands stay blocked in their types, and the result
    has the data's layout with the kernel's block of o. Sizes that do not divide are padded up, the kernel with
    zeros; `channels` is then the logical number of output channels (0: the kernel's O). A depthwise kernel is
    `OIHW16o`, with I = 1. With an `out_dtype` image and kernel may be narrower, and are widened first: floats, or
    integers of 8 bits to int32. `pad_value` is what surrounds the image: the zero point of a quantised one.
    """

    name = "graph.conv2d"
    kind = OUT_FUSABLE
    layout_rule = "conv"
    arity = (2, 2)
    tolerance = 2.0
    strides = Ints((1, 1))
    padding = Ints((0, 0, 0, 0))
    dilation = Ints((1, 1))
    groups = Int(1)
    channels = Int(0)
    data_layout = Str("NCHW")
    kernel_layout = Str("OIHW")
    out_dtype = Str("")
    pad_value = Int(0)

    @property
    def out_layout(self) -> str:
        """The result's layout: the data's, with the kernel's block of output channels."""
        data = layout(self.data_layout)
        if data.is_plain:
            return self.data_layout
        return data.with_factor("C", layout(self.kernel_layout).factors["O"])

    def logical_sizes(self) -> tuple[dict[str, Dim], dict[str, Dim]]:
        """The axis sizes of image and kernel, block padding included."""
        data, kernel = layout(self.data_layout), layout(self.kernel_layout)
        same_axes(data, layout("NCHW"))
        same_axes(kernel, layout("OIHW"))
        x, w = self.input_types
        return data.sizes(shape_of(x), "the image"), kernel.sizes(shape_of(w), "the kernel")

    def infer_types(self) -> list[Tensor]:
        check_window(self, self.strides, self.dilation, self.padding)
        x, w = self.input_types
        element = accumulator(self.out_dtype, x, w, "image and kernel")
        image, kernel = self.logical_sizes()
        self._check_channels(image["C"], kernel["O"], kernel["I"])
        sizes = {"N": image["N"], "C": kernel["O"]}
        for axis, letter in enumerate("HW"):
            sizes[letter] = window_count(
                letter, image[letter], kernel[letter], self.strides[axis], self.dilation[axis], self.padding[axis::2]
            )
        return [tensor(layout(self.out_layout).shape(sizes), element)]

    @property
    def is_depthwise(self) -> bool:
        """Whether each channel has a group of its own."""
        return self.groups > 1 and self.logical_sizes()[1]["I"] == 1 and self._is_depthwise()

    def _is_depthwise(self) -> bool:
        image, kernel = self.logical_sizes()
        return image["C"] == kernel["O"] and layout(self.data_layout).padded("C", self.groups) == image["C"]

    def _check_channels(self, c: Dim, o: Dim, i: Dim) -> None:
        groups = self.groups
        if groups < 1:
            raise VerifyException(f"expected at least 1 group, but got {groups}")
        if groups > 1 and i == 1 and self._is_depthwise():
            pass
        elif isinstance(i, int) and i * groups != c:
            raise UnequalSizes(
                f"expected a kernel for {c} / {groups} input channels (channels / groups), but got one for {i}",
                (c, i * groups),
            )
        elif isinstance(o, int) and o % groups:
            raise VerifyException(f"expected output channels that {groups} groups divide, but got {o}")
        if self.channels and layout(self.kernel_layout).padded("O", self.channels) != o:
            raise VerifyException(
                f"expected a kernel for {self.channels} output channels, padded up, but got one for {o}"
            )

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import conv2d, layout_transform

        arrays = widened(self, *arrays)
        x = layout_transform(arrays[0], plain_steps(self.data_layout, "NCHW", arrays[0].shape))
        w = layout_transform(arrays[1], plain_steps(self.kernel_layout, "OIHW", arrays[1].shape))
        groups = x.shape[1] if self.groups > 1 and w.shape[1] == 1 else self.groups
        y = conv2d(x, w, self.strides, self.padding, self.dilation, groups, self.pad_value)
        return (layout_transform(y, plain_steps("NCHW", self.out_layout, y.shape)),)

    def reduction_length(self) -> int:
        _, kernel = self.logical_sizes()
        length = kernel["I"] * kernel["H"] * kernel["W"]
        return length if isinstance(length, int) else 1

    @classmethod
    def samples(cls) -> list[Sample]:
        def one(x: Sequence[int], w: Sequence[int], **attrs: AttrValue) -> Sample:
            return Sample((tensor(x), tensor(w)), attrs)

        return [
            one((1, 3, 7, 6), (4, 3, 3, 3), padding=(1, 1, 1, 1)),
            one((2, 4, 8, 8), (6, 2, 3, 2), strides=(2, 1), groups=2, padding=(0, 1, 2, 0)),
            one((1, 5, 9, 9), (5, 1, 3, 3), groups=5, dilation=(2, 2)),
            one((1, 6, 5, 3), (4, 3, 1, 1), data_layout="NHWC"),
            one((1, 2, 5, 5, 4), (1, 2, 3, 3, 4, 8), data_layout="NCHW4c", kernel_layout="OIHW4i8o", channels=6),
            one((1, 2, 5, 5, 4), (2, 1, 3, 3, 4), data_layout="NCHW4c", kernel_layout="OIHW4o", groups=7, channels=7),
            Sample(
                (tensor((1, 1, 5, 5, 4), "bfloat16"), tensor((2, 1, 3, 3, 2, 8, 2), "bfloat16")),
                {"data_layout": "NCHW4c", "kernel_layout": "OIHW2i8o2i", "out_dtype": "float32"},
            ),
            Sample(
                (tensor((1, 4, 5, 5), "uint8"), tensor((3, 4, 3, 3), "int8")),
                {"padding": (1, 1, 1, 1), "out_dtype": "int32", "pad_value": 7},
            ),
        ]


def plain_steps(src: str, dst: str, shape: Sequence[int]) -> TransformSteps:
    """The steps from one layout to another, with block padding kept as data."""
    source = layout(src)
    sizes: Any = source.sizes(shape)
    return transform_steps(source, layout(dst), shape, sizes)


def check_window(op: GraphOp, strides: Sequence[int], dilation: Sequence[int], padding: Sequence[int]) -> None:
    """Check the attributes that convolutions and pools share."""
    for name, values, count, low in (
        ("strides", strides, 2, 1),
        ("dilation", dilation, 2, 1),
        ("padding", padding, 4, 0),
    ):
        if len(values) != count or any(value < low for value in values):
            raise VerifyException(f"expected {name} of {count} integers >= {low}, but got {list(values)}")


def window_count(
    axis: str, size: Dim, window: Dim, stride: int, dilation: int, padding: Sequence[int], ceil_mode: bool = False
) -> Dim:
    """The number of windows that fit on an axis of a padded image."""
    reach = (window - 1) * dilation + 1
    room = size + sum(padding) - reach
    if isinstance(room, int) and room < 0:
        raise VerifyException(
            f"expected a window that fits: on axis {axis} it spans {reach}, but the padded image has "
            f"{size + sum(padding)}"
        )
    if not ceil_mode:
        return room // stride + 1
    count = (room + (stride - 1)) // stride + 1
    if padding[1] + stride - 1 < reach:
        return count
    # A last window that would start in the padding on the right is dropped: (count - 1) * stride < size + begin.
    return least(count, (size + padding[0] - 1) // stride + 1)


class PoolOp(GraphOp):
    """The base of max and average pooling."""

    kind = OUT_FUSABLE
    layout_rule = "pool"
    pool_size = Ints()
    strides = Ints((1, 1))
    padding = Ints((0, 0, 0, 0))
    dilation = Ints((1, 1))
    ceil_mode = Bool(False)
    layout = Str("NCHW")

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        check_window(self, self.strides, self.dilation, self.padding)
        if len(self.pool_size) != 2 or min(self.pool_size) < 1:
            raise VerifyException(f"expected pool_size of 2 integers >= 1, but got {list(self.pool_size)}")
        order = self.parsed_layout
        sizes = order.sizes(shape_of(x), "the image")
        for axis, letter in enumerate("HW"):
            reach = (self.pool_size[axis] - 1) * self.dilation[axis] + 1
            if max(self.padding[axis::2]) >= reach:
                raise VerifyException(
                    f"expected padding smaller than the window of {reach} on axis {letter}, "
                    f"but got {list(self.padding[axis::2])}"
                )
            sizes[letter] = window_count(
                letter,
                sizes[letter],
                self.pool_size[axis],
                self.strides[axis],
                self.dilation[axis],
                self.padding[axis::2],
                self.ceil_mode,
            )
        return [tensor(order.shape(sizes), x.element_type)]

    @property
    def parsed_layout(self) -> Layout:
        """The layout of image and result."""
        return image_layout(self.layout)

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import layout_transform, pool2d

        x = layout_transform(arrays[0], plain_steps(self.layout, "NCHW", arrays[0].shape))
        sizes: Any = self.parsed_layout.sizes(static_shape(self.type))
        count_padding = isinstance(self, AvgPool2dOp) and self.count_include_pad
        y = pool2d(x, self, (sizes["H"], sizes["W"]), isinstance(self, MaxPool2dOp), count_padding)
        return (layout_transform(y, plain_steps("NCHW", self.layout, y.shape)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        window = {"pool_size": (3, 2), "strides": (2, 2)}
        return [
            Sample((tensor((1, 3, 7, 8)),), {**window, "padding": (1, 0, 1, 1)}),
            Sample((tensor((1, 2, 8, 7)),), {**window, "ceil_mode": True, "padding": (1, 1, 1, 0)}),
            Sample((tensor((1, 2, 6, 6, 4)),), {**window, "layout": "NCHW4c"}),
        ]


class MaxPool2dOp(PoolOp):
    """
    The maximum of each window; padding never wins.

    `graph.max_pool2d %x {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>`
    """

    name = "graph.max_pool2d"


class AvgPool2dOp(PoolOp):
    """
    The mean of each window, over what lies inside the image or (`count_include_pad`) its padding.

    `graph.avg_pool2d %x {pool_size = [2, 2], strides = [2, 2]} : (tensor<1x8x4x4xf32>) -> tensor<1x8x2x2xf32>`
    """

    name = "graph.avg_pool2d"
    tolerance = 2.0
    count_include_pad = Bool(False)

    def infer_types(self) -> list[Tensor]:
        if not is_float(self.input_types[0]):
            raise VerifyException(f"expected operand to have floating-point elements, but got {self.input_types[0]}")
        return super().infer_types()

    def reduction_length(self) -> int:
        return self.pool_size[0] * self.pool_size[1]

    @classmethod
    def samples(cls) -> list[Sample]:
        base = super().samples()
        return [*base, *(Sample(s.operands, {**s.attrs, "count_include_pad": True}) for s in base[:2])]


OPS: list[type[GraphOp]] = [Conv2dOp, MaxPool2dOp, AvgPool2dOp]
