"""
The layouts of a function as a graph of choices: a node for each convolution and dense layer, its blocks the
alternatives; an edge where one's result is the picture of another, or is combined with it, the transform its cost.

    conv a --relu--> conv b      own(a, blocks) + own(b, blocks) + transform(result of a: NCHW16c -> NCHW8c)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from mlc.dialects.graph import (
    AvgPool2dOp,
    BiasAddOp,
    BinaryOp,
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    DenseOp,
    LookupOp,
    MaxOp,
    MaxPool2dOp,
    MeanOp,
    MinOp,
    PadOp,
    PreluOp,
    ProdOp,
    Resize2dOp,
    SliceOp,
    SumOp,
    UnaryOp,
    WhereOp,
    shape_of,
)
from mlc.dialects.graph.types import static_shape
from mlc.passes.graph.layout.alter_op_layout.records import LAYOUTS, SiteBlocks, sites_of
from mlc.passes.graph.layout.alter_op_layout.versions import PLAIN
from mlc.passes.graph.shared.blocks import channel_block, data_name, padded, unit_block, wasteful
from mlc.passes.graph.shared.constants import is_constant
from mlc.support.records import KnobValues
from mlc.tuning.graph_tuner.pbqp import Assignment, ChoiceGraph, Costs, kernel_best, solve

KEEPS = (UnaryOp, CastOp, MaxPool2dOp, AvgPool2dOp, Resize2dOp, BiasAddOp, LookupOp, SliceOp, PadOp)
"""Ops that compute in the layout of their first operand."""
COMBINES = (BinaryOp, WhereOp, PreluOp, ConcatenateOp)
"""Ops that compute in the layout of the first blocked operand; the others are transformed to it."""
REDUCES = (MeanOp, SumOp, MaxOp, MinOp, ProdOp)
"""Ops whose result, over rows and columns, is small: a transform behind them costs nothing."""

Site = Conv2dOp | DenseOp


class TransformCosts(Protocol):
    """Seconds of kernels and of transforms, measured or made up."""

    def kernel(self, site: Site, blocks: SiteBlocks) -> float:
        """One convolution or dense layer, its operands in the layouts of these blocks."""
        ...

    def transform(self, shape: tuple[int, ...], source: str, target: str) -> float:
        """A picture of this shape (NCHW) from one layout to another; 0 where they are the same."""
        ...


@dataclass
class LayoutChoices:
    """The sites of a function, the blocks that each may take, and what they cost."""

    sites: list[Site]
    alternatives: list[list[SiteBlocks]]
    graph: ChoiceGraph = field(default_factory=ChoiceGraph)

    def solve(self) -> Assignment:
        """The cheapest blocks that are found: never costlier than the pass's own, nor than each kernel's best."""
        return solve(self.graph, [[0] * len(self.sites)])

    def kernel_best(self) -> tuple[int, ...]:
        """The choices in which each kernel is fastest, whatever the transforms."""
        return kernel_best(self.graph)

    def values(self, choices: Sequence[int]) -> KnobValues:
        """Choices as the values of a record, which graph-alter-op-layout reads."""
        blocks = [found[choice] for found, choice in zip(self.alternatives, choices, strict=True)]
        return {
            "strategy": LAYOUTS,
            "in_blocks": tuple(one.inner for one in blocks),
            "out_blocks": tuple(one.outer for one in blocks),
        }


def layout_choices(function: FuncOp, costs: TransformCosts, block: int) -> LayoutChoices:
    """The choices of a function in front of graph-alter-op-layout; `block` is the elements of a vector."""
    sites = sites_of(function)
    found = LayoutChoices(sites, [alternatives_of(site, block) for site in sites])
    for site, blocks in zip(sites, found.alternatives, strict=True):
        found.graph.add_node([costs.kernel(site, one) for one in blocks])
    _Edges(found, costs).walk(function)
    return found


def alternatives_of(site: Site, block: int) -> list[SiteBlocks]:
    """The blocks that are worth measuring, the pass's own first."""
    weight = static_shape(site.operands[1].type)
    if isinstance(site, DenseOp):
        wide = 2 * block
        own = wide if not wasteful(weight[0], wide) else unit_block(weight[0], block)
        return [SiteBlocks(0, n) for n in _distinct(own, (block, wide, 4 * block), weight[0])]
    channels = shape_of(site.operands[0].type)[1]
    assert isinstance(channels, int)
    outer = _distinct(channel_block(weight[0], block), (block // 2, block, 2 * block), weight[0])
    if site.groups != 1:
        return [SiteBlocks(n, n) for n in outer]
    inner = _distinct(channel_block(channels, block), (block // 2, block, 2 * block), channels)
    return [SiteBlocks(i, o) for o in outer for i in inner]


def _distinct(own: int, others: Sequence[int], size: int) -> list[int]:
    """A block and further ones that pad nothing."""
    return list(dict.fromkeys([own, *(n for n in others if 1 < n <= size and padded(size, n) == size)]))


class _Edges:
    """Adds the costs of transforms while the ops of a function are visited in order."""

    def __init__(self, choices: LayoutChoices, costs: TransformCosts) -> None:
        self.choices, self.costs = choices, costs
        self.number: dict[Operation, int] = {site: n for n, site in enumerate(choices.sites)}
        self.source: dict[SSAValue, int] = {}
        """Value -> the site whose result's layout it has; other values are plain."""

    def walk(self, function: FuncOp) -> None:
        """Visit all ops; what control flow holds reads plain values."""
        for op in function.body.block.ops:
            if op in self.number:
                self._site(op, self.number[op])
            elif isinstance(op, COMBINES) and len(shape_of(op.results[0].type)) == 4:
                self._combine(op)
            elif isinstance(op, KEEPS) and len(shape_of(op.results[0].type)) == 4:
                self._follow(op.results[0], op.operands[0])
            elif not isinstance(op, REDUCES):
                for value in dict.fromkeys(v for inner in op.walk() for v in inner.operands):
                    self._plain(value)

    def _site(self, op: Operation, number: int) -> None:
        if not isinstance(op, Conv2dOp):
            self._plain(op.operands[0])
            return
        inner = [data_name(one.inner) for one in self.choices.alternatives[number]]
        self._read(op.operands[0], number, inner)
        self.source[op.results[0]] = number

    def _combine(self, op: Operation) -> None:
        pictures = [v for v in op.operands if len(shape_of(v.type)) == 4 and not is_constant(v)]
        first = next((v for v in pictures if v in self.source), None)
        if first is None:
            return
        number = self.source[first]
        for value in pictures:
            if value is not first:
                self._read(value, number, self._results(number))
        self._follow(op.results[0], first)

    def _follow(self, result: SSAValue, operand: SSAValue) -> None:
        if operand in self.source:
            self.source[result] = self.source[operand]

    def _results(self, number: int) -> list[str]:
        return [data_name(one.outer) for one in self.choices.alternatives[number]]

    def _read(self, value: SSAValue, reader: int, wanted: Sequence[str]) -> None:
        """The transforms of a value to the layouts in which the alternatives of a site want it."""
        seconds = self._seconds_of(value)
        before = self.source.get(value)
        if before is None:
            self.choices.graph.own[reader] += np.array([seconds(PLAIN, one) for one in wanted])
        elif before != reader:
            made = self._results(before)
            self.choices.graph.add_edge(before, reader, _matrix(made, wanted, seconds))
        else:
            own = [seconds(a, b) for a, b in zip(self._results(reader), wanted, strict=True)]
            self.choices.graph.own[reader] += np.array(own)

    def _plain(self, value: SSAValue) -> None:
        """The transforms of a value that is read plain."""
        if (number := self.source.get(value)) is not None:
            seconds = self._seconds_of(value)
            self.choices.graph.own[number] += np.array([seconds(one, PLAIN) for one in self._results(number)])

    def _seconds_of(self, value: SSAValue) -> Callable[[str, str], float]:
        shape = static_shape(value.type)

        def seconds(source: str, target: str) -> float:
            return 0.0 if source == target else self.costs.transform(shape, source, target)

        return seconds


def _matrix(rows: Sequence[str], columns: Sequence[str], seconds: Callable[[str, str], float]) -> Costs:
    return np.array([[seconds(a, b) for b in columns] for a in rows])
