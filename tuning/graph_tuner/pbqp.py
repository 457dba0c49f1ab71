"""
Choose one alternative for each node of a graph at the least total cost: partitioned boolean quadratic programming.

    total = sum over nodes of own[node][choice] + sum over edges of between[a, b][choice of a, choice of b]

Nodes of degree 0, 1 and 2 are removed without a loss (R0, RI, RII: dynamic programming; trees and series-parallel
graphs are solved exactly). Where only nodes of a higher degree are left, the one of the highest degree takes what is
cheapest with the best its neighbours could do (RN: Scholz and Eckstein, "Register allocation for irregular
architectures", 2002), and single choices are improved at the end. An infinite cost forbids a choice, or a pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
import numpy.typing as npt

Costs = npt.NDArray[np.float64]


@dataclass
class ChoiceGraph:
    """Nodes with alternatives, and edges between them; all costs have one unit, e.g. seconds."""

    own: list[Costs] = field(default_factory=list[Costs])
    """For each node the costs of its alternatives."""
    between: dict[tuple[int, int], Costs] = field(default_factory=dict["tuple[int, int]", Costs])
    """(a, b) with a < b -> costs by the choice of a (rows) and of b (columns)."""

    def add_node(self, costs: Sequence[float] | Costs) -> int:
        """A node with these costs of its alternatives; its number."""
        self.own.append(np.asarray(costs, np.float64))
        return len(self.own) - 1

    def add_edge(self, a: int, b: int, costs: Sequence[Sequence[float]] | Costs) -> None:
        """Costs of pairs of choices, rows for `a` and columns for `b`; those of a second edge are added."""
        assert a != b, "expected an edge between two nodes"
        matrix = np.asarray(costs, np.float64)
        assert matrix.shape == (len(self.own[a]), len(self.own[b])), "expected a row for each choice of a"
        key, matrix = ((a, b), matrix) if a < b else ((b, a), matrix.T)
        self.between[key] = self.between[key] + matrix if key in self.between else matrix

    def total(self, choices: Sequence[int]) -> float:
        """The cost of a choice for each node."""
        nodes = sum(float(costs[choice]) for costs, choice in zip(self.own, choices, strict=True))
        return nodes + sum(float(costs[choices[a], choices[b]]) for (a, b), costs in self.between.items())


@dataclass(frozen=True)
class Assignment:
    """A choice for each node."""

    choices: tuple[int, ...]
    cost: float
    is_exact: bool
    """Whether no cheaper choice exists: the heuristic was not needed."""


def kernel_best(graph: ChoiceGraph) -> tuple[int, ...]:
    """Each node's own cheapest alternative, whatever lies between them."""
    return tuple(int(np.argmin(costs)) for costs in graph.own)


def solve(graph: ChoiceGraph, known: Sequence[Sequence[int]] = ()) -> Assignment:
    """
    The cheapest choices that are found, never costlier than those of `known` and than `kernel_best`.

    Exact where reductions alone solve the graph; the cost is infinite where every choice that was found is forbidden.
    """
    choices, is_exact = _Reduction(graph).solve()
    found = [choices] if is_exact else [_improved(graph, choices)]
    if not is_exact:
        found += [_improved(graph, list(one)) for one in [kernel_best(graph), *known]]
    best = min(found, key=graph.total)
    return Assignment(tuple(best), graph.total(best), is_exact)


class _Reduction:
    """The graph while nodes are removed from it."""

    def __init__(self, graph: ChoiceGraph) -> None:
        self.own = [costs.copy() for costs in graph.own]
        self.near: list[dict[int, Costs]] = [{} for _ in graph.own]
        for (a, b), costs in graph.between.items():
            self.near[a][b] = costs.copy()
            self.near[b][a] = costs.T.copy()
        self.removed: list[tuple[int, dict[int, Costs], Costs]] = []
        """The removed nodes with the edges and costs that they had then, in order."""
        self.is_exact = True

    def solve(self) -> tuple[list[int], bool]:
        left = set(range(len(self.own)))
        while left:
            node = min(left, key=lambda one: (len(self.near[one]), one))
            if len(self.near[node]) > 2:
                node = max(left, key=lambda one: (len(self.near[one]), -one))
                self._decide(node)
            self._remove(node)
            left.remove(node)
        choices = [0] * len(self.own)
        for node, near, own in reversed(self.removed):
            costs = own.copy()
            for other, matrix in near.items():
                costs += matrix[:, choices[other]]
            choices[node] = int(np.argmin(costs))
        return choices, self.is_exact

    def _remove(self, node: int) -> None:
        """R0, RI and RII: the node's best answer to each choice of its neighbours becomes a cost of theirs."""
        near, own = self.near[node], self.own[node]
        self.removed.append((node, dict(near), own.copy()))
        others = list(near)
        for other in others:
            del self.near[other][node]
        if len(others) == 1:
            self.own[others[0]] += (own[:, None] + near[others[0]]).min(axis=0)
        elif len(others) == 2:
            a, b = others
            best = (own[:, None, None] + near[a][:, :, None] + near[b][:, None, :]).min(axis=0)
            self.near[a][b] = self.near[a][b] + best if b in self.near[a] else best
            self.near[b][a] = self.near[a][b].T.copy()
        self.near[node] = {}

    def _decide(self, node: int) -> None:
        """RN: fix the choice that is cheapest if each neighbour answers it as it likes best."""
        costs = self.own[node].copy()
        for other, matrix in self.near[node].items():
            costs += (matrix + self.own[other][None, :]).min(axis=1)
        choice = int(np.argmin(costs))
        fixed = np.full_like(self.own[node], inf)
        fixed[choice] = self.own[node][choice]
        self.own[node] = fixed
        for other, matrix in list(self.near[node].items()):
            self.own[other] = self.own[other] + matrix[choice]
            del self.near[other][node]
        self.near[node] = {}
        self.is_exact = False


def _improved(graph: ChoiceGraph, choices: list[int]) -> list[int]:
    """Change single choices as long as one becomes cheaper."""
    near: Mapping[int, list[tuple[int, Costs]]] = _neighbours(graph)
    changed = True
    while changed:
        changed = False
        for node, own in enumerate(graph.own):
            costs = own + sum((matrix[:, choices[other]] for other, matrix in near[node]), np.zeros_like(own))
            best = int(np.argmin(costs))
            if costs[best] < costs[choices[node]]:
                choices[node], changed = best, True
    return choices


def _neighbours(graph: ChoiceGraph) -> dict[int, list[tuple[int, Costs]]]:
    near: dict[int, list[tuple[int, Costs]]] = {node: [] for node in range(len(graph.own))}
    for (a, b), costs in graph.between.items():
        near[a].append((b, costs))
        near[b].append((a, costs.T))
    return near
