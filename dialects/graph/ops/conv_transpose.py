"""Transposed convolution: each pixel of the image spreads its kernel over the result."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OUT_FUSABLE, AttrValue, GraphOp, Sample
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.op_attributes import Int, Ints, Str
from mlc.dialects.graph.ops.accumulate import accumulator, widened
from mlc.dialects.graph.ops.conv import check_window
from mlc.dialects.graph.types import Array, Tensor, shape_of, static_shape, tensor


class Conv2dTransposeOp(GraphOp):
    """
    The transpose of a 2-D convolution: `y[s * h - top + d * r] += x[h] * w[r]` along H and W.

    `graph.conv2d_transpose %x, %w {strides = [2, 2]} :
    (tensor<1x4x5x5xf32>, tensor<4x3x2x2xf32>) -> tensor<1x3x10x10xf32>`

    The kernel is IOHW, its O the output channels of one group. `padding` ([top, left, bottom, right]) is cut off the
    result; `output_padding` adds rows and columns at its bottom and right. With an `out_dtype` image and kernel may be
    narrower, and are widened first, as those of a convolution.
    """

    name = "graph.conv2d_transpose"
    kind = OUT_FUSABLE
    layout_rule = "fixed"
    arity = (2, 2)
    tolerance = 2.0
    strides = Ints((1, 1))
    padding = Ints((0, 0, 0, 0))
    output_padding = Ints((0, 0))
    dilation = Ints((1, 1))
    groups = Int(1)
    out_dtype = Str("")

    def infer_types(self) -> list[Tensor]:
        check_window(self, self.strides, self.dilation, self.padding)
        x, w = self.input_types
        element = accumulator(self.out_dtype, x, w, "image and kernel")
        image, kernel = shape_of(x), shape_of(w)
        if len(image) != 4 or len(kernel) != 4:
            raise VerifyException(f"expected an image and a kernel of rank 4, but got {x} and {w}")
        if image[1] != kernel[0]:
            raise VerifyException(f"expected a kernel for {image[1]} input channels, but got one for {kernel[0]}")
        if self.groups < 1 or (isinstance(kernel[0], int) and kernel[0] % self.groups):
            raise VerifyException(f"expected groups that divide {kernel[0]} input channels, but got {self.groups}")
        extra = self.output_padding
        if len(extra) != 2 or any(
            not 0 <= e < max(s, d) for e, s, d in zip(extra, self.strides, self.dilation, strict=True)
        ):
            raise VerifyException(
                f"expected output_padding of 2 integers >= 0 below the stride or the dilation, but got {list(extra)}"
            )
        return [tensor((image[0], kernel[1] * self.groups, *map(self._size, (0, 1))), element)]

    def _size(self, axis: int) -> Dim:
        """The result's size along H or W."""
        size, taps = (shape[2 + axis] for shape in self.shapes)
        spread = (size - 1) * self.strides[axis] + (taps - 1) * self.dilation[axis] + 1
        result = spread - sum(self.padding[axis::2]) + self.output_padding[axis]
        if isinstance(result, int) and result < 1:
            raise VerifyException(
                f"expected padding that leaves a result, but {list(self.padding[axis::2])} are cut off {spread} "
                f"on axis {'HW'[axis]}"
            )
        return result

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import conv2d_transpose

        x, w = widened(self, *arrays)
        return (conv2d_transpose(x, w, self, static_shape(self.type)[2:]),)

    def reduction_length(self) -> int:
        kernel = shape_of(self.input_types[1])
        length = kernel[0] // self.groups * kernel[2] * kernel[3]
        return length if isinstance(length, int) else 1

    @classmethod
    def samples(cls) -> list[Sample]:
        def one(x: Sequence[int], w: Sequence[int], **attrs: AttrValue) -> Sample:
            return Sample((tensor(x), tensor(w)), attrs)

        return [
            one((1, 3, 4, 5), (3, 4, 2, 2), strides=(2, 2)),
            one((2, 3, 4, 3), (3, 2, 3, 4), strides=(2, 3), padding=(1, 0, 1, 2), output_padding=(1, 2)),
            one((1, 4, 3, 4), (4, 2, 3, 3), groups=2, padding=(1, 1, 1, 1)),
            one((1, 2, 4, 3), (2, 3, 3, 2), strides=(2, 1), dilation=(2, 3), padding=(0, 1, 2, 0)),
            one((1, 2, 3, 3), (2, 2, 1, 2), strides=(3, 2)),
            Sample(
                (tensor((1, 20, 3, 4), "uint8"), tensor((20, 24, 2, 2), "int8")),
                {"strides": (2, 2), "out_dtype": "int32"},
            ),
        ]


OPS: list[type[GraphOp]] = [Conv2dTransposeOp]
