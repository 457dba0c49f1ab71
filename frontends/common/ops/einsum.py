"""Einsum as transposes, matrix products and sums, two operands at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from mlc.dialects import graph as g
from mlc.dialects.graph.dims import UnequalSizes
from mlc.frontends.common.elementwise import iota, reduce, select
from mlc.frontends.common.movement import broadcast_to, reshape, transpose
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value

Labels = tuple[str, ...]


def einsum(node: SourceNode, equation: str, values: Sequence[Value]) -> Value:
    """numpy's einsum of an equation such as `ij,jk->ik`, with ellipses and repeated labels."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        raise node.fail(f"expected an equation of {len(values)} terms, but got '{equation}'")
    rest = max(len(x.shape) - len(term.replace("...", "")) for term, x in zip(terms, values, strict=True))
    labels = [_labels(node, term, len(x.shape), rest) for term, x in zip(terms, values, strict=True)]
    output = _labels(node, right, None, rest) if arrow else _implicit(labels, rest)
    sizes = _sizes(labels, values)
    unknown = [label for label in output if label not in sizes]
    if unknown or len(set(output)) != len(output):
        raise node.fail(f"expected a result of labels that the operands have, each once, but got '{right}'")
    parts = [_diagonal(node, x, of) for x, of in zip(values, labels, strict=True)]
    value, names = parts[0]
    for index, (other, others) in enumerate(parts[1:], 1):
        wanted = {*output, *(label for _, later in parts[index + 1 :] for label in later)}
        value, names = _contract(node, (value, names), (other, others), wanted, sizes)
    value, names = _summed(node, value, names, set(output))
    value = broadcast_to(node, value, [sizes[label] for label in names])
    return transpose(node, value, [names.index(label) for label in output])


def _labels(node: SourceNode, term: str, rank: int | None, rest: int) -> Labels:
    """One label per axis; those of an ellipsis are numbers, counted from its last axis."""
    before, dots, after = term.partition("...")
    hidden = rest if rank is None else rank - len(before) - len(after)
    if hidden < 0 or (not dots and rank is not None and hidden):
        raise node.fail(f"expected as many labels as axes, {rank}, but got '{term}'")
    middle = [str(rest - hidden + i) for i in range(hidden)] if dots else []
    return (*before, *middle, *after)


def _implicit(labels: Sequence[Labels], rest: int) -> Labels:
    """The output without an arrow: the ellipsis, then the labels that occur once, in alphabetical order."""
    count = Counter(label for of in labels for label in of)
    hidden = [str(i) for i in range(rest) if str(i) in count]
    return (*hidden, *sorted(label for label, n in count.items() if n == 1 and not label.isdigit()))


def _sizes(labels: Sequence[Labels], values: Sequence[Value]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for of, x in zip(labels, values, strict=True):
        for label, size in zip(of, x.shape, strict=True):
            known = sizes.setdefault(label, size)
            if known == 1:
                sizes[label] = size
            elif size not in (1, known):
                raise UnequalSizes(f"expected one size of '{label}', but got {known} and {size}", (known, size))
    return sizes


def _diagonal(node: SourceNode, x: Value, labels: Labels) -> tuple[Value, Labels]:
    """The diagonal of an operand over axes with the same label, so that each label occurs once."""
    while len(set(labels)) < len(labels):
        label = next(a for a in labels if labels.count(a) > 1)
        first = labels.index(label)
        second = labels.index(label, first + 1)
        same = node.emit(g.EqualOp, iota(node, x.shape, first), iota(node, x.shape, second))
        x = reduce(node, g.SumOp, select(node, same, x, 0), [second])
        labels = labels[:second] + labels[second + 1 :]
    return x, labels


def _summed(node: SourceNode, x: Value, labels: Labels, wanted: Collection[str]) -> tuple[Value, Labels]:
    """Summed over the labels that are not needed."""
    axes = [a for a, label in enumerate(labels) if label not in wanted]
    return reduce(node, g.SumOp, x, axes), tuple(label for label in labels if label in wanted)


def _contract(
    node: SourceNode, a: tuple[Value, Labels], b: tuple[Value, Labels], wanted: Collection[str], sizes: dict[str, int]
) -> tuple[Value, Labels]:
    """The product of two operands, summed over the labels that they share and that are not needed later."""
    x, left = _summed(node, *a, {*wanted, *b[1]})
    y, right = _summed(node, *b, {*wanted, *left})
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in wanted]
    inner = [label for label in shared if label not in wanted]
    rows = [label for label in left if label not in shared]
    columns = [label for label in right if label not in shared]

    def arranged(value: Value, labels: Labels, *groups: list[str]) -> Value:
        value = broadcast_to(node, value, [sizes[label] for label in labels])
        value = transpose(node, value, [labels.index(label) for group in groups for label in group])
        return reshape(node, value, [math.prod(sizes[label] for label in group) for group in groups])

    a_rows, b_columns = arranged(x, left, batch, rows, inner), arranged(y, right, batch, inner, columns)
    product = node.emit(g.BatchMatmulOp, a_rows, b_columns)
    names = (*batch, *rows, *columns)
    return reshape(node, product, [sizes[label] for label in names]), names


__all__ = ["einsum"]
