"""Which bytes of the workspace hold what: a rectangle of calls by addresses for each value that is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mlc.runtime.reuse import size_of


@dataclass
class Rectangle:
    """Bytes `start` to `end` (past the end), written by call `first` and last read by call `last`."""

    label: str
    start: int
    end: int
    first: int
    last: int
    reads: list[int]
    """The calls that read it; a copy to an output reads behind the last call."""


def rectangles(graph: Mapping[str, Any]) -> list[Rectangle]:
    """
    The lifetimes in the workspace of a model of static sizes, by writes and reads in the order of the calls.

    A write ends the lifetime of what it covers; a read may touch several values (the operands of a concatenate).
    """
    values, nodes = graph["values"], graph["nodes"]
    found: list[Rectangle] = []
    alive: list[Rectangle] = []
    for step, node in enumerate(nodes):
        for place in _places(values, node["inputs"]):
            _read(alive, place, step)
        for number in dict.fromkeys(node["outputs"]):
            for start, end in _places(values, [number]):
                label = f"{'x'.join(map(str, values[number]['shape']))} {values[number]['dtype']}"
                alive = [one for one in alive if one.end <= start or end <= one.start]
                one = Rectangle(label, start, end, step, step, [])
                alive.append(one)
                found.append(one)
    for source, _, _ in graph["copies"]:
        for place in _places(values, [source]):
            _read(alive, place, len(nodes))
    return found


def _places(values: Sequence[Mapping[str, Any]], numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The bytes of the values that are in the workspace."""
    inside = [values[n] for n in numbers if values[n]["storage"] == "workspace"]
    return [(value["offset"], value["offset"] + size_of(value)) for value in inside]


def _read(alive: Sequence[Rectangle], place: tuple[int, int], step: int) -> None:
    for one in alive:
        if one.start < place[1] and place[0] < one.end:
            one.last = step
            if step not in one.reads:
                one.reads.append(step)


def memory_facts(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The plan as JSON: its figures, the rectangles, the bytes in use at each call."""
    found = rectangles(graph)
    steps = len(graph["nodes"])
    used = [sum(one.end - one.start for one in found if one.first <= step <= one.last) for step in range(steps)]
    return {
        **graph["plan"],
        "steps": steps,
        "rectangles": [asdict(one) for one in found],
        "used": used,
        "control_flow": bool(graph.get("control_flow")),
    }
