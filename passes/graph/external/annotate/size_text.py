"""Sizes of tensors as C, for the code of external compilers."""

from __future__ import annotations

from collections.abc import Mapping

from mlc.dialects.graph.dims import Atom, Dim, DimExpr, FloorDiv


def size_text(size: Dim, arguments: Mapping[DimExpr, str]) -> str:
    """A size as an `int64_t` expression of C, in parentheses; `arguments` are the texts of what it is made of."""
    if isinstance(size, int):
        return str(size)
    terms = [
        f"{_product_text(product, arguments)} * {factor}" if product else str(factor) for product, factor in size.terms
    ]
    return f"({' + '.join(terms)})"


def _product_text(product: tuple[Atom, ...], arguments: Mapping[DimExpr, str]) -> str:
    """A product of symbols, or a quotient, which is rounded down as `floordiv` is (C rounds towards 0)."""
    if len(product) == 1 and isinstance(quotient := product[0], FloorDiv):
        value, by = size_text(quotient.value, arguments), quotient.divisor
        return f"(({value} - ({value} % {by} + {by}) % {by}) / {by})"
    return arguments[DimExpr({product: 1})]


__all__ = ["size_text"]
