"""Index maps of layouts: from the dimensions of a blocked tensor to its axes and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlc.dialects.graph import Conv2dOp, Conv2dTransposeOp, DenseOp
from mlc.dialects.graph.layout import layout
from mlc.dialects.te_builder import builder as te


def logical(name: str, indices: Sequence[te.IndexExpr]) -> dict[str, te.IndexExpr]:
    """The index of each axis: `NCHW16c, (n, co, h, w, ci) -> {C: co * 16 + ci, ...}`."""
    of = layout(name)
    result: dict[str, te.IndexExpr] = {}
    left = dict(of.factors)
    for (letter, inner), index in zip(of.parts, indices, strict=True):
        if inner:
            left[letter] //= inner
            result[letter] = result[letter] + index * left[letter] if letter in result else index * left[letter]
        else:
            outer = index * of.factors[letter] if of.factors[letter] > 1 else index
            result[letter] = result[letter] + outer if letter in result else outer
    return result


def blocked(name: str, axes: Mapping[str, te.IndexExpr]) -> list[te.IndexExpr]:
    """The indices of a tensor of this layout: `NCHW16c, {C: c, ...} -> (n, c // 16, h, w, c % 16)`."""
    of = layout(name)
    left = dict(of.factors)
    result: list[te.IndexExpr] = []
    for letter, inner in of.parts:
        index = axes[letter]
        if not inner:
            result.append(index // of.factors[letter] if of.factors[letter] > 1 else index)
            continue
        left[letter] //= inner
        result.append((index // left[letter]) % inner if left[letter] > 1 else index % inner)
    return result


def axis_names(name: str, letters: Mapping[str, str]) -> list[str]:
    """Names of a tensor's dimensions: `NCHW16c` with `{C: oc, ...}` -> `n, oc_o, oh, ow, oc_i`."""
    of = layout(name)
    names: list[str] = []
    for letter, inner in of.parts:
        base = letters.get(letter, letter.lower())
        names.append(f"{base}_i" if inner else f"{base}_o" if of.factors[letter] > 1 else base)
    return names


def widened(op: Conv2dOp | Conv2dTransposeOp | DenseOp, factor: te.Scalar) -> te.Scalar:
    """A factor in the type of the sums that the op makes."""
    return te.cast(factor, op.type.element_type) if op.out_dtype else factor
