"""The elements of dense constants and array attributes."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr
from xdsl.ir import Attribute


def numbers(value: DenseIntOrFPElementsAttr) -> Sequence[int | float]:
    """All elements, row-major (complex elements, which upstream's type admits, no dialect here has)."""
    values: Any = value.get_values()
    return values


def items(attribute: Attribute) -> tuple[Attribute, ...]:
    """The elements of an array attribute; none of other attributes."""
    return attribute.data if isinstance(attribute, ArrayAttr) else ()
