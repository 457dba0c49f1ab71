"""
The sizes that an op on whole tensors or buffers lists: one expression for each `?` of their types, then others.

    sizes ::= (`sizes` `(` expr,* `)`)?        expressions of the kernel's symbols
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import print_exprs
from mlc.dialects.index import Index, const


def open_shapes(types: Sequence[Attribute], sizes: Sequence[Index]) -> list[tuple[Index, ...]]:
    """The shapes of these types, with an expression of `sizes` for each `?`, in order."""
    given = iter(sizes)
    return [tuple(next(given) if n < 0 else const(n) for n in _shape(t)) for t in types]


def count_open(types: Sequence[Attribute]) -> int:
    """The number of `?` of these types."""
    return sum(n < 0 for t in types for n in _shape(t))


def expect_sizes(types: Sequence[Attribute], sizes: Sequence[Index]) -> None:
    """Raise VerifyException where there are fewer sizes than `?`."""
    if len(sizes) < (wanted := count_open(types)):
        raise VerifyException(f"expected {wanted} sizes, one for each ? of the types, but got {len(sizes)}")


def print_sizes(printer: Printer, sizes: Sequence[Index], symbols: Sequence[SSAValue]) -> None:
    """` sizes (%n, %n * 2)`; nothing without sizes."""
    if sizes:
        printer.print_string(" sizes (")
        print_exprs(printer, sizes, symbols)
        printer.print_string(")")


def _shape(t: Attribute) -> Sequence[int]:
    return cast("MemRefType[Any] | TensorType[Any]", t).get_shape()
