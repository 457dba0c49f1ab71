"""Values during import: SSA values, constants that are not in the graph yet, and facts about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, SSAValue

from mlc.dialects.graph import shape_of
from mlc.dialects.graph.types import dtype_name, element_of, numpy_dtype

if TYPE_CHECKING:
    from mlc.frontends.common.counted import Count

Array: TypeAlias = NDArray[Any]
"""A numpy array of any element type; of dtype `object`, of size expressions, whose element type is int64."""


@dataclass(frozen=True)
class NarrowInteger:
    """An integer type of less than 8 bits: its ONNX name, the dtype of the byte that holds an element, its range."""

    name: str
    dtype: np.dtype[Any]
    low: int
    high: int


@dataclass(eq=False)
class Value:
    """
    A tensor during import: an SSA value, a constant array, or (once an op used the constant) both.

    A bound value is computed by the model, and its array is what it computes for the inputs at hand.
    """

    ssa: SSAValue | None
    array: Any
    name: str
    bound: bool = False
    items: tuple[Value, ...] | None = None
    """The tensors of a sequence; None of a tensor. A sequence has neither an SSA value nor an array."""
    absent: bool = False
    """Whether this is an optional that holds nothing."""
    wide: Value | None = None
    """The f32 value before rounding, of a softmax whose result is rounded to f16 or bf16."""
    span: tuple[Any, Any] | None = None
    """Elementwise lower and upper bounds of a small value that is computed at run time."""
    counted: Count | None = None
    """The run-time length of a padded tensor along one axis; None of a tensor that is not padded."""
    made: bool = False
    """Whether it is computed from constants alone."""
    narrow: NarrowInteger | None = None
    """The declared type of integers of 4 or 2 bits, which are held one to a byte."""

    @property
    def known(self) -> Any:
        """The array of a constant; ValueError for a sequence or an absent optional."""
        if self.array is None:
            kind = "an optional that is absent" if self.absent else "a sequence"
            raise ValueError(f"expected a tensor, but '{self.name}' is {kind}")
        return self.array

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: integers and size expressions."""
        return self.known.shape if self.ssa is None else shape_of(self.ssa.type)

    @property
    def dtype(self) -> Any:
        """The element type, as a numpy dtype or an xDSL type."""
        return self.known.dtype if self.ssa is None else element_of(self.ssa)

    @property
    def dtype_name(self) -> str:
        """numpy's name of the element type."""
        if self.ssa is None:
            return "int64" if self.known.dtype == object else self.known.dtype.name
        return dtype_name(element_of(self.ssa))


NARROW_FLOATS = ("float16", "bfloat16")
"""Tensors of these dtypes are cast to f32 before their means and variances are computed."""


def dtype_like(value: Value) -> Any:
    """The numpy dtype of a value's elements."""
    return value.known.dtype if value.ssa is None else numpy_dtype(value.dtype)


def ancestors(value: SSAValue | None, captures: Mapping[SSAValue, SSAValue]) -> Iterator[SSAValue]:
    """A value and its transitive operands; `captures` maps arguments of regions to their initial values."""
    seen: set[SSAValue] = set()
    left = [] if value is None else [value]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            yield one
            if one in captures:
                left.append(captures[one])
            elif not isinstance(one.owner, Block):
                left.extend(one.owner.operands)
