"""The solver of the graph tuner, held against trying every assignment."""

from __future__ import annotations

from itertools import product
from math import inf

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mlc.tuning.graph_tuner.pbqp import ChoiceGraph, kernel_best, solve

COST = st.one_of(st.integers(0, 20).map(float), st.just(inf))


@st.composite
def graphs(draw: st.DrawFn, kind: str = "any") -> ChoiceGraph:
    """A random graph of at most 7 nodes with at most 3 alternatives: a tree, a series-parallel graph, or any."""
    graph = ChoiceGraph()
    count = draw(st.integers(1, 7))
    for _ in range(count):
        graph.add_node(draw(st.lists(st.integers(0, 20).map(float), min_size=1, max_size=3)))
    pairs: set[tuple[int, int]] = set()
    for node in range(1, count):
        before = draw(st.integers(0, node - 1))
        pairs.add((before, node))
        if kind == "series-parallel":  # the other end of an edge of that node: a 2-tree
            near = sorted({a if b == before else b for a, b in pairs if before in (a, b)} - {node})
            if near:
                other = draw(st.sampled_from(near))
                pairs.add((min(other, node), max(other, node)))
    if kind == "any" and count > 1:
        every = [(a, b) for b in range(count) for a in range(b)]
        pairs |= set(draw(st.lists(st.sampled_from(every), max_size=12)))
    for a, b in sorted(pairs):
        shape = len(graph.own[a]), len(graph.own[b])
        size = shape[0] * shape[1]
        costs = draw(st.lists(COST, min_size=size, max_size=size))
        graph.add_edge(a, b, np.array(costs).reshape(shape))
    return graph


def least(graph: ChoiceGraph) -> float:
    return min(graph.total(choices) for choices in product(*(range(len(own)) for own in graph.own)))


@given(graphs("tree"))
@settings(max_examples=150)
def test_trees_are_solved_exactly(graph: ChoiceGraph) -> None:
    found = solve(graph)
    assert found.is_exact
    assert found.cost == graph.total(found.choices) == least(graph)


@given(graphs("series-parallel"))
@settings(max_examples=150)
def test_series_parallel_graphs_are_solved_exactly(graph: ChoiceGraph) -> None:
    found = solve(graph)
    assert found.is_exact
    assert found.cost == graph.total(found.choices) == least(graph)


@given(graphs(), st.data())
@settings(max_examples=200)
def test_no_choice_is_worse_than_what_is_known(graph: ChoiceGraph, data: st.DataObject) -> None:
    known = [data.draw(st.integers(0, len(own) - 1)) for own in graph.own]
    found = solve(graph, [known])
    assert found.cost == graph.total(found.choices)
    assert least(graph) <= found.cost <= min(graph.total(known), graph.total(kernel_best(graph)))
    if found.is_exact:
        assert found.cost == least(graph)


def test_a_transform_that_costs_more_than_it_saves_is_left_out() -> None:
    """Three convolutions in a row: the middle one is faster in another layout, but not by two transforms."""
    graph = ChoiceGraph()
    for costs in ([10.0, 11.0], [10.0, 8.0], [10.0, 11.0]):
        graph.add_node(costs)
    for node in range(2):
        graph.add_edge(node, node + 1, [[0.0, 2.0], [2.0, 0.0]])
    assert kernel_best(graph) == (0, 1, 0)
    assert graph.total(kernel_best(graph)) == 32
    found = solve(graph)
    assert found.choices in ((0, 0, 0), (1, 1, 1))
    assert found.cost == 30


def test_edges_of_the_same_nodes_add_up() -> None:
    graph = ChoiceGraph()
    a, b = graph.add_node([0.0, 1.0]), graph.add_node([0.0, 0.0, 5.0])
    graph.add_edge(a, b, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    graph.add_edge(b, a, [[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    assert graph.between[a, b].tolist() == [[2.0, 3.0, 3.0], [4.0, 5.0, 6.0]]


def test_a_large_graph_is_solved_at_once() -> None:
    """300 nodes with 20 alternatives and residual connections: every reduction is needed, none is slow."""
    rng = np.random.default_rng(0)
    graph = ChoiceGraph()
    for _ in range(300):
        graph.add_node(rng.uniform(1, 2, 20))
    for node in range(1, 300):
        graph.add_edge(node - 1, node, rng.uniform(0, 1, (20, 20)))
        if node % 3 == 0:
            graph.add_edge(node - 3, node, rng.uniform(0, 1, (20, 20)))
    found = solve(graph)
    assert found.is_exact
    assert found.cost < graph.total(kernel_best(graph))
