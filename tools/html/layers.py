"""
A layered drawing of a directed acyclic graph: boxes in rows, edges downwards.

Rows by the longest path from the sources; an edge over several rows passes each of them straight down; the order in a
row by the mean of the neighbours' places, swept down and up; then boxes are moved towards their neighbours without
overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

GAP = 28.0
"""Between two boxes of a row, in pixels."""
ROW_GAP = 38.0
"""Between two rows, in pixels."""
BEND = 14.0
"""Width that an edge takes where it passes a row, in pixels."""
SWEEPS = 8


@dataclass
class Box:
    """Something to draw: its size, and, once placed, its left upper corner, in pixels."""

    width: float
    height: float
    x: float = 0.0
    y: float = 0.0
    row: int = 0


@dataclass
class Drawing:
    """Placed boxes, and the points of each edge."""

    boxes: list[Box]
    edges: list[list[tuple[float, float]]]
    width: float
    height: float


@dataclass
class _Layout:
    boxes: list[Box]
    rows: list[list[int]] = field(default_factory=list[list[int]])
    above: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    below: dict[int, list[int]] = field(default_factory=dict[int, list[int]])

    def link(self, source: int, target: int) -> None:
        self.below.setdefault(source, []).append(target)
        self.above.setdefault(target, []).append(source)


def draw(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> Drawing:
    """Place the boxes; an edge (a, b) goes from box a to box b, and a < b: the boxes are in topological order."""
    layout = _Layout(list(boxes))
    for box in layout.boxes:
        box.row = 0
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layout.boxes[target].row = max(layout.boxes[target].row, layout.boxes[source].row + 1)
    _pull_down(layout.boxes, edges)
    chains = [_chain(layout, source, target) for source, target in edges]
    layout.rows = [[] for _ in range(1 + max((box.row for box in layout.boxes), default=0))]
    for number, box in enumerate(layout.boxes):
        layout.rows[box.row].append(number)
    _order(layout)
    _place(layout)
    return _finished(layout, chains, len(boxes))


def _pull_down(boxes: list[Box], edges: Sequence[tuple[int, int]]) -> None:
    """Move sources down to the row above their first user, so that their edges are short."""
    has_source = {target for _, target in edges}
    lowest: dict[int, int] = {}
    for source, target in edges:
        lowest[source] = min(lowest.get(source, boxes[target].row), boxes[target].row)
    for number, row in lowest.items():
        if number not in has_source:
            boxes[number].row = row - 1


def _chain(layout: _Layout, source: int, target: int) -> list[int]:
    """The boxes of an edge: both ends, and a bend in each row between them."""
    chain = [source]
    for row in range(layout.boxes[source].row + 1, layout.boxes[target].row):
        layout.boxes.append(Box(BEND, 0.0, row=row))
        chain.append(len(layout.boxes) - 1)
    chain.append(target)
    for a, b in pairwise(chain):
        layout.link(a, b)
    return chain


def _order(layout: _Layout) -> None:
    """Order each row by the mean place of the neighbours, from above and from below in turn."""
    place = {number: k for row in layout.rows for k, number in enumerate(row)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        near = layout.above if down else layout.below
        for row in layout.rows if down else reversed(layout.rows):
            means = {n: _mean([place[m] for m in near.get(n, ())], place[n]) for n in row}
            row.sort(key=lambda n, means=means: means[n])
            place |= {number: k for k, number in enumerate(row)}


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _place(layout: _Layout) -> None:
    """Horizontal places: packed first, then each row moves towards the neighbours' centres without overlap."""
    centre: dict[int, float] = {}
    for row in layout.rows:
        at = -sum(layout.boxes[n].width + GAP for n in row) / 2
        for number in row:
            width = layout.boxes[number].width
            centre[number] = at + width / 2
            at += width + GAP
    for sweep in range(2 * SWEEPS):
        down = sweep % 2 == 0
        near = layout.above if down else layout.below
        for row in layout.rows if down else reversed(layout.rows):
            wanted = [_mean([centre[m] for m in near.get(n, ())], centre[n]) for n in row]
            centre |= zip(row, _apart(wanted, [layout.boxes[n].width for n in row]), strict=True)
    for number, box in enumerate(layout.boxes):
        box.x = centre[number] - box.width / 2


def _apart(wanted: Sequence[float], widths: Sequence[float]) -> list[float]:
    """Centres near the wanted ones, in the same order, without overlap: blocks that collide share their shift."""
    blocks: list[tuple[float, float, list[float]]] = []  # left edge of the first, total width, offsets of centres
    for want, width in zip(wanted, widths, strict=True):
        left, total, offsets, count = want - width / 2, width + GAP, [width / 2], 1
        while blocks and blocks[-1][0] + blocks[-1][1] > left:
            before, before_total, before_offsets = blocks.pop()
            n = len(before_offsets)
            left = (before * n + (left - before_total) * count) / (n + count)
            offsets = [*before_offsets, *(before_total + offset for offset in offsets)]
            total, count = before_total + total, n + count
        blocks.append((left, total, offsets))
    return [left + offset for left, _, offsets in blocks for offset in offsets]


def _finished(layout: _Layout, chains: Sequence[Sequence[int]], count: int) -> Drawing:
    """Vertical places, the points of the edges, and everything moved to start at 0."""
    boxes = layout.boxes
    spans: list[tuple[float, float]] = []
    top = 0.0
    for row in layout.rows:
        height = max((boxes[n].height for n in row), default=0.0)
        for number in row:
            boxes[number].y = top + (height - boxes[number].height) / 2
        spans.append((top, top + height))
        top += height + ROW_GAP
    left = min((box.x for box in boxes), default=0.0)
    for box in boxes:
        box.x -= left
    edges = [_points([boxes[n] for n in chain], spans) for chain in chains]
    width = max((box.x + box.width for box in boxes), default=0.0)
    return Drawing(list(boxes[:count]), edges, width, max(top - ROW_GAP, 0.0))


def _points(chain: Sequence[Box], spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points of an edge: upright within the rows, so that it leaves its column only between them."""
    first, *bends, last = chain
    start, end = first.x + first.width / 2, last.x + last.width / 2
    points = [(start, first.y + first.height), (start, spans[first.row][1])]
    points += [(box.x + BEND / 2, y) for box in bends for y in spans[box.row]]
    points += [(end, spans[last.row][0]), (end, last.y)]
    return list(dict.fromkeys(points))
