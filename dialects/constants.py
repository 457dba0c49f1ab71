"""Reads the elements of dense constants."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr


def numbers(value: DenseIntOrFPElementsAttr) -> Sequence[int | float]:
    """All elements in row-major order; complex elements, which xDSL's type admits, occur in no dialect here."""
    values: Any = value.get_values()
    return values
