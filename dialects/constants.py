"""The elements of dense constants and array attributes."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr
from xdsl.ir import Attribute


def numbers(value: DenseIntOrFPElementsAttr) -> Sequence[int | float]:
    """All elements in row-major order; complex elements, which xDSL's type admits, occur in no dialect here."""
    values: Any = value.get_values()
    return values


def items(attribute: Attribute) -> tuple[Attribute, ...]:
    """The elements of an array attribute; none of other attributes."""
    return attribute.data if isinstance(attribute, ArrayAttr) else ()
