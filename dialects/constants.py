"""The numbers of a dense constant."""

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr


def numbers(value: DenseIntOrFPElementsAttr) -> Sequence[int | float]:
    """All elements, row-major (complex elements, which upstream's type admits, no dialect here has)."""
    values: Any = value.get_values()
    return values
