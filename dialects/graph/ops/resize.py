"""
Resizing of images: nearest elements, or linear interpolation between two along each axis.

Coordinates are exact: along an axis, element o of the result lies at (a * o + b) / c of the image, in integers.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import INJECTIVE, AttrValue, GraphOp, Sample
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.layout import Layout, image_layout
from mlc.dialects.graph.op_attributes import Ints, Str
from mlc.dialects.graph.types import Array, Tensor, is_float, is_static, shape_of, tensor

MODES = ("nearest", "linear")
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")

AS_STEP = -1
"""A size that is computed from the image's size and the step."""

Place = tuple[int, int, int]
"""(a, b, c) of the coordinate (a * o + b) / c."""


def reduced(a: int, b: int, c: int) -> Place:
    """The same coordinate in the smallest integers."""
    divisor = gcd(a, b, c)
    return a // divisor, b // divisor, c // divisor


def place(coordinates: str, step: Fraction, size: int, out: int) -> Place:
    """
    The sampling position along an axis as (a, b, c): element o of the result reads the image at (a * o + b) / c.

    `step` is image elements per result element.
    """
    p, q = step.numerator, step.denominator
    if coordinates == "asymmetric":
        return p, 0, q
    if coordinates == "align_corners":
        return reduced(size - 1, 0, out - 1) if out > 1 else (0, 0, 1)
    if coordinates == "pytorch_half_pixel" and out == 1:
        return 0, 0, 1
    return reduced(2 * p, p - q, 2 * q)


def rounded(at: Place, rounding: str) -> Place:
    """The place whose floor is the rounded coordinate."""
    a, b, c = at
    if rounding == "floor":
        return at
    if rounding == "ceil":
        return a, b + c - 1, c
    return 2 * a, 2 * b + (c if rounding == "round_prefer_ceil" else c - 1), 2 * c


class Resize2dOp(GraphOp):
    """
    An image with other numbers of rows and columns.

    `graph.resize2d %x {size = [8, 8], mode = "nearest", coordinates = "asymmetric", rounding = "floor"} :
    (tensor<1x3x4x4xf32>) -> tensor<1x3x8x8xf32>`

    `step` is [p, q, p, q]: p / q elements of the image along H and W make one of the result (none: as sizes say).
    A size of -1 follows from the image's by the step: of an image whose own sizes are symbolic. What lies outside of
    the image reads as the nearest element inside. `rounding` is for nearest only.
    """

    name = "graph.resize2d"
    kind = INJECTIVE
    layout_rule = "pool"
    tolerance = 8.0
    size = Ints()
    step = Ints(())
    mode = Str("nearest")
    coordinates = Str("half_pixel")
    rounding = Str("round_prefer_floor")
    layout = Str("NCHW")

    @property
    def parsed_layout(self) -> Layout:
        """The layout of image and result."""
        return image_layout(self.layout)

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        for name, value, known in (
            ("mode", self.mode, MODES),
            ("coordinates", self.coordinates, COORDINATES),
            ("rounding", self.rounding, ROUNDINGS),
        ):
            if value not in known:
                raise VerifyException(f"expected {name} to be one of {', '.join(known)}, but got '{value}'")
        if len(self.size) != 2 or any(n < 1 and n != AS_STEP for n in self.size):
            raise VerifyException(f"expected size of 2 integers >= 1, but got {list(self.size)}")
        if len(self.step) not in (0, 4) or min(self.step, default=1) < 1:
            raise VerifyException(f"expected step of 4 integers >= 1, or none, but got {list(self.step)}")
        if self.mode == "linear" and not is_float(x):
            raise VerifyException(f"expected floating-point elements to interpolate, but got {x}")
        sizes = self.parsed_layout.sizes(shape_of(x), "the image")
        for axis, letter in enumerate("HW"):
            if isinstance(sizes[letter], DimExpr) and (self.size[axis] != AS_STEP or not self.step):
                raise VerifyException(f"expected an image of static height and width, or a step, but got {x}")
            sizes[letter] = self.out(axis, sizes[letter])
        return [tensor(self.parsed_layout.shape(sizes), x.element_type)]

    def out(self, axis: int, size: Dim) -> Dim:
        """The result's number of rows (axis 0) or columns (1), for an image of this size."""
        if self.size[axis] != AS_STEP:
            return self.size[axis]
        p, q = self.step[2 * axis : 2 * axis + 2]
        return size * q // p

    def place(self, axis: int) -> Place:
        """The place of the result's elements along H (0) or W (1); with mode nearest, the place to round down."""
        size: Any = shape_of(self.input_types[0])[self.parsed_layout.position("HW"[axis])]
        out: Any = self.out(axis, size)
        if not is_static([size]) and self.coordinates in ("align_corners", "pytorch_half_pixel"):
            raise VerifyException(f"expected static sizes for coordinates '{self.coordinates}', but got {size}")
        step = Fraction(*self.step[2 * axis : 2 * axis + 2]) if self.step else Fraction(size, out)
        at = place(self.coordinates, step, size, out)
        return rounded(at, self.rounding) if self.mode == "nearest" else at

    def fold(self) -> Any:
        """`resize2d %x -> %x` if it is the identity."""
        if self.type != self.input_types[0] or AS_STEP in self.size:
            return None
        still = all(
            (a * o + b) // c == o and (self.mode == "nearest" or (a * o + b) % c == 0)
            for (a, b, c), size in zip(map(self.place, (0, 1)), self.size, strict=True)
            for o in range(size)
        )
        return (self.operands[0],) if still else None

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import resize_axis

        x = arrays[0]
        for axis, letter in enumerate("HW"):
            where = self.parsed_layout.position(letter)
            x = resize_axis(x, where, self.place(axis), int(self.out(axis, x.shape[where])), self.mode == "linear")
        return (x,)

    def reduction_length(self) -> int:
        return 4 if self.mode == "linear" else 1

    @classmethod
    def samples(cls) -> list[Sample]:
        def one(shape: tuple[int, ...], **attrs: AttrValue) -> Sample:
            return Sample((tensor(shape),), attrs)

        return [
            one((1, 2, 4, 5), size=(8, 15), coordinates="asymmetric", rounding="floor"),
            one((2, 2, 5, 7), size=(3, 11)),
            one((1, 2, 3, 4), size=(7, 2), coordinates="align_corners", rounding="round_prefer_ceil"),
            one((1, 2, 4, 4), size=(6, 9), step=(3, 5, 2, 5), coordinates="asymmetric", rounding="ceil"),
            one((1, 2, 3, 3, 4), size=(6, 6), coordinates="asymmetric", rounding="floor", layout="NCHW4c"),
            one((1, 2, 4, 5), size=(8, 7), mode="linear"),
            one((1, 2, 4, 5), size=(1, 3), mode="linear", coordinates="pytorch_half_pixel"),
            one((1, 2, 3, 3, 4), size=(5, 7), mode="linear", coordinates="align_corners", layout="NCHW4c"),
            one((1, 2, 4, 4), size=(7, 7), mode="linear", step=(4, 7, 3, 7), coordinates="asymmetric"),
        ]


OPS: list[type[GraphOp]] = [Resize2dOp]
