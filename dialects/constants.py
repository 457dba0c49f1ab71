"""The elements of dense constants and array attributes."""

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DenseIntOrFPElementsAttr, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from mlc.dialects.attributes import NARROW_BYTES


def numbers(value: DenseIntOrFPElementsAttr) -> Sequence[int | float]:
    """All elements in row-major order; complex elements, which xDSL's type admits, occur in no dialect here."""
    values: Any = value.get_values()
    return values


def integers(attribute: Attribute | None) -> tuple[int, ...] | None:
    """The elements of a dense array of integers; None for other attributes and without one."""
    if not isinstance(attribute, DenseArrayBase):
        return None
    return cast("DenseArrayBase[IntegerType]", attribute).get_values()


def integer(attribute: Attribute | None) -> int | None:
    """The value of an integer attribute; None for other attributes and without one."""
    return attribute.value.data if isinstance(attribute, IntegerAttr) else None


def narrow_arguments(kernel: Operation) -> tuple[int, ...]:
    """The numbers of a kernel's arguments whose bytes are promised to be from -64 to 64 (`NARROW_BYTES`)."""
    return integers(kernel.attributes.get(NARROW_BYTES)) or ()


def items(attribute: Attribute) -> tuple[Attribute, ...]:
    """The elements of an array attribute; none of other attributes."""
    return attribute.data if isinstance(attribute, ArrayAttr) else ()
