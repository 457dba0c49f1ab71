"""The layered drawing: boxes apart, edges downwards."""

import random
from itertools import pairwise

import pytest

from mlc.tools.html.layers import BEND, Box, draw


def random_graph(seed: int):
    rng = random.Random(seed)
    count = rng.randint(1, 40)
    boxes = [Box(rng.randint(40, 260), rng.randint(20, 120)) for _ in range(count)]
    edges = {(rng.randrange(max(0, k - 9), k), k) for k in range(1, count) for _ in range(rng.randint(0, 3))}
    return boxes, sorted(edges)


@pytest.mark.parametrize("seed", range(30))
def test_boxes_are_apart_and_edges_go_down(seed):
    boxes, edges = random_graph(seed)
    drawing = draw(boxes, edges)
    for k, one in enumerate(drawing.boxes):
        assert one.x >= -1e-6
        assert one.x + one.width <= drawing.width + 1e-6
        assert one.y + one.height <= drawing.height + 1e-6
        for other in drawing.boxes[:k]:
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    for (source, target), points in zip(edges, drawing.edges, strict=True):
        a, b = drawing.boxes[source], drawing.boxes[target]
        assert points[0] == (a.x + a.width / 2, a.y + a.height)
        assert points[-1] == (b.x + b.width / 2, b.y)
        assert all(p[1] < q[1] for p, q in pairwise(points))
        for (x, y), (other, below) in pairwise(points):
            for box in drawing.boxes:
                crossed = x != other and box.y < below and y < box.y + box.height
                assert not crossed, "an edge leaves its column beside a box"


def test_an_edge_bends_past_the_boxes_of_the_rows_between():
    drawing = draw([Box(100, 20) for _ in range(3)], [(0, 1), (1, 2), (0, 2)])
    (x, above), (other, below) = drawing.edges[2][1:3]
    box = drawing.boxes[1]
    assert (x, above, below) == (other, box.y, box.y + box.height)
    assert x + BEND / 2 <= box.x or box.x + box.width <= x - BEND / 2


def test_nothing_is_drawn_of_nothing():
    drawing = draw([], [])
    assert (drawing.boxes, drawing.edges, drawing.width, drawing.height) == ([], [], 0.0, 0.0)
