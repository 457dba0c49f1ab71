"""Matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OUT_FUSABLE, GraphOp, Sample
from mlc.dialects.graph.dims import UnequalSizes
from mlc.dialects.graph.layout import layout, same_axes
from mlc.dialects.graph.op_attributes import Bool, Int, Str
from mlc.dialects.graph.ops.accumulate import accumulator, widened
from mlc.dialects.graph.ops.conv import plain_steps
from mlc.dialects.graph.types import Array, Dim, Tensor, broadcast, known_size, shape_of, shape_text, tensor


class DenseOp(GraphOp):
    """
    `x @ w.T`, the last axis of x against I of the weight.

    `graph.dense %x, %w : (tensor<1x784xf32>, tensor<256x784xf32>) -> tensor<1x256xf32>`

    A packed weight (`kernel_layout = "OI32o"`) stays packed in its type, padded up with zeros where O does not
    divide; `units` is then the logical O (0: all). The result is plain.
    With an `out_dtype` the operands may be narrower floats, and the weight integers of 8 or 16 bits: they are widened
    before they are multiplied.
    """

    name = "graph.dense"
    kind = OUT_FUSABLE
    arity = (2, 2)
    tolerance = 2.0
    units = Int(0)
    kernel_layout = Str("OI")
    out_dtype = Str("")

    def weight_sizes(self) -> dict[str, Dim]:
        """O and I of the weight, block padding included."""
        kernel = layout(self.kernel_layout)
        same_axes(kernel, layout("OI"))
        return kernel.sizes(shape_of(self.operands[1].type), "the weight")

    def infer_types(self) -> list[Tensor]:
        x, w = self.input_types
        element = accumulator(self.out_dtype, x, w, "operands")
        shape, sizes = shape_of(x), self.weight_sizes()
        kernel = layout(self.kernel_layout)
        if not shape or kernel.padded("I", shape[-1]) != sizes["I"]:
            raise UnequalSizes(
                f"expected a weight for the last axis of {shape_text(shape)}, but got one with I = {sizes['I']}",
                *((size, sizes["I"]) for size in shape[-1:]),
            )
        if self.units and kernel.padded("O", self.units) != sizes["O"]:
            raise VerifyException(f"expected a weight for {self.units} units, padded up, but got O = {sizes['O']}")
        return [tensor((*shape[:-1], self.units or sizes["O"]), element)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import layout_transform

        x, w = widened(self, *arrays)
        plain = layout_transform(w, plain_steps(self.kernel_layout, "OI", w.shape))
        plain = plain[: self.units or None, : x.shape[-1]]
        return (np.matmul(x, plain.T),)

    def reduction_length(self) -> int:
        return known_size(shape_of(self.operands[0].type)[-1])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((3, 7)), tensor((5, 7)))),
            Sample((tensor((2, 3, 8)), tensor((4, 8)))),
            Sample((tensor((3, 7)), tensor((2, 7, 4))), {"kernel_layout": "OI4o", "units": 6}),
            Sample((tensor((3, 7)), tensor((7, 2, 4))), {"kernel_layout": "IO4o"}),
            Sample(
                (tensor((3, 6), "bfloat16"), tensor((2, 3, 4, 2), "bfloat16")),
                {"kernel_layout": "OI4o2i", "out_dtype": "float32"},
            ),
            Sample((tensor((3, 7)), tensor((5, 7), "int8")), {"out_dtype": "float32"}),
        ]


class BatchMatmulOp(GraphOp):
    """
    `a @ b` of the last two axes, the others broadcast as in numpy.

    `graph.batch_matmul %a, %b {transpose_b = true} : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>`
    """

    name = "graph.batch_matmul"
    kind = OUT_FUSABLE
    arity = (2, 2)
    tolerance = 2.0
    transpose_a = Bool(False)
    transpose_b = Bool(False)

    def infer_types(self) -> list[Tensor]:
        a, b = self.input_types
        if a.element_type != b.element_type:
            raise VerifyException(f"expected operands with the same element type, but got {a} and {b}")
        left, right = self.shapes
        if len(left) < 2 or len(right) < 2:
            raise VerifyException(f"expected operands of rank 2 or more, but got {a} and {b}")
        m, k = _matrix(left, self.transpose_a)
        k2, n = _matrix(right, self.transpose_b)
        if k != k2:
            raise UnequalSizes(f"expected inner sizes that agree, but got {k} in {a} and {k2} in {b}", (k, k2))
        return [tensor((*broadcast([left[:-2], right[:-2]]), m, n), a.element_type)]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        a, b = arrays
        a = np.swapaxes(a, -1, -2) if self.transpose_a else a
        b = np.swapaxes(b, -1, -2) if self.transpose_b else b
        return (np.matmul(a, b),)

    def reduction_length(self) -> int:
        return known_size(_matrix(self.shapes[0], self.transpose_a)[1])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((3, 4)), tensor((4, 5)))),
            Sample((tensor((2, 3, 4)), tensor((2, 5, 4))), {"transpose_b": True}),
            Sample((tensor((2, 1, 4, 3)), tensor((6, 4, 5))), {"transpose_a": True}),
        ]


def _matrix(shape: Sequence[Dim], transposed: bool) -> tuple[Dim, Dim]:
    return (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])


OPS: list[type[GraphOp]] = [DenseOp, BatchMatmulOp]
