"""
Layout names: `NCHW`, `NHWC`, `NCHW16c`, `OIHW16i32o`.

An upper-case letter is an axis, or the outer part of a split one; a number and a lower-case letter are an inner
part. An axis whose size its inner parts do not divide is padded up to the next multiple with zeros.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.dims import Dim

AnyDim = TypeVar("AnyDim", bound=Dim)
"""Integers where the shape has integers, else integers or expressions."""

TransformSteps = tuple[Sequence[int], list[int], list[int], list[int], list[int], list[int], list[int]]
"""(unblock shape, permutation, merged shape, logical sizes, padded sizes, blocked shape, permutation back)."""

_PART = re.compile(r"([A-Z])|(\d+)([a-z])")


@dataclass(frozen=True)
class Layout:
    """A parsed layout name; `parts` are (axis letter, inner size or 0 for the outer part) in memory order."""

    name: str
    parts: tuple[tuple[str, int], ...]

    @cached_property
    def axes(self) -> str:
        """The axis letters in the order of their outer parts: `NCHW16c -> NCHW`."""
        return "".join(letter for letter, inner in self.parts if not inner)

    @cached_property
    def factors(self) -> dict[str, int]:
        """The product of each axis's inner sizes: `NCHW16c -> {C: 16, N: 1, ..}`."""
        result = dict.fromkeys(self.axes, 1)
        for letter, inner in self.parts:
            if inner:
                result[letter] *= inner
        return result

    @property
    def is_plain(self) -> bool:
        """Whether no axis is split."""
        return len(self.parts) == len(self.axes)

    def position(self, letter: str) -> int:
        """The dimension of the tensor that holds the axis, or its outer part."""
        return self.parts.index((letter, 0))

    def sizes(self, shape: Sequence[AnyDim], what: str = "operand") -> dict[str, AnyDim]:
        """The size of each axis, padding included, of a tensor of this layout."""
        if len(shape) != len(self.parts):
            raise VerifyException(
                f"expected {what} of rank {len(self.parts)} for layout {self.name}, but got rank {len(shape)}"
            )
        result: dict[str, Any] = {}
        for (letter, inner), size in zip(self.parts, shape, strict=True):
            if inner and size != inner:
                raise VerifyException(
                    f"expected {what} of layout {self.name} to have {inner} inner {letter.lower()}, but got {size}"
                )
            result[letter] = result.get(letter, 1) * size
        return result

    def shape(self, sizes: Mapping[str, Dim]) -> tuple[Dim, ...]:
        """The shape of a tensor of this layout with these axis sizes, padded up where they do not divide."""
        factors = self.factors
        return tuple(inner or ceil_div(sizes[letter], factors[letter]) for letter, inner in self.parts)

    def padded(self, letter: str, size: Dim) -> Dim:
        """An axis's size, padded up to a multiple of its inner sizes."""
        return ceil_div(size, self.factors[letter]) * self.factors[letter]

    def with_factor(self, letter: str, factor: int) -> str:
        """The name with the axis's inner size replaced: `NCHW16c, C, 32 -> NCHW32c`, `NC4cHW, C, 8 -> NC8cHW`."""
        if factor > 1 and [p for p, inner in self.parts if inner] == [letter]:
            return "".join(f"{factor}{p.lower()}" if inner else p for p, inner in self.parts)
        plain = "".join(
            p if not inner else f"{inner}{p.lower()}" for p, inner in self.parts if not inner or p != letter
        )
        return plain + (f"{factor}{letter.lower()}" if factor > 1 else "")

    def __str__(self) -> str:
        return self.name


def ceil_div(size: Dim, factor: int) -> Dim:
    """`size` divided by `factor`, rounded up."""
    return size if factor == 1 else (size + (factor - 1)) // factor


@cache
def layout(name: str) -> Layout:
    """The layout of this name."""
    matches = list(_PART.finditer(name))
    parts = tuple((m[1], 0) if m[1] else (m[3].upper(), int(m[2])) for m in matches)
    outer = [letter for letter, inner in parts if not inner]
    whole = "".join(m[0] for m in matches) == name and name
    inner_known = all(letter in outer and inner > 0 for letter, inner in parts if inner or letter not in outer)
    if not whole or len(set(outer)) != len(outer) or not inner_known:
        raise VerifyException(f"expected a layout like NCHW, NHWC or NCHW16c, but got '{name}'")
    return Layout(name, parts)


def same_axes(a: Layout, b: Layout) -> None:
    """VerifyException unless two layouts have the same axes."""
    if set(a.axes) != set(b.axes):
        raise VerifyException(f"expected layouts of the same axes, but got {a} and {b}")


def image_layout(name: str) -> Layout:
    """The layout of this name, which must have the axes of NCHW."""
    found = layout(name)
    same_axes(found, layout("NCHW"))
    return found


def transform_steps(src: Layout, dst: Layout, shape: Sequence[int], logical: Mapping[str, int]) -> TransformSteps:
    """The numpy steps from layout `src` to `dst`, which `numerics.layout_transform` applies."""
    axes = src.axes
    source, target = _grouped(src, axes), _grouped(dst, axes)
    merged = [_product(shape[i] for i in source[letter]) for letter in axes]
    kept = [logical[letter] for letter in axes]
    padded = [int(dst.padded(letter, logical[letter])) for letter in axes]
    order = [i for letter in axes for i in target[letter]]
    physical = dst.shape(logical)
    blocked = [int(physical[i]) for i in order]
    inverse = [order.index(i) for i in range(len(order))]
    return shape, [i for letter in axes for i in source[letter]], merged, kept, padded, blocked, inverse


def _grouped(of: Layout, axes: str) -> dict[str, list[int]]:
    """Each axis's dimensions, outer first."""
    groups: dict[str, list[int]] = {letter: [of.position(letter)] for letter in axes}
    for index, (letter, inner) in enumerate(of.parts):
        if inner:
            groups[letter].append(index)
    return groups


def _product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result
