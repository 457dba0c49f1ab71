"""
Reuse distances: the level of memory that each operand of a call is read from, if nothing else uses the caches.

The reuse distance of an operand is the number of bytes that the calls have touched since they last touched it (or the
memory that it is in). A model that runs again and again finds its weights at the distance of one whole run.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from mlc.targets.target import dtype_bits

Place = tuple[str, int, int]
"""The storage of a value, and its first and past-the-end byte in it."""


def size_of(value: Mapping[str, Any]) -> int:
    """The bytes of a value."""
    return prod(value["shape"]) * dtype_bits(value["dtype"]) // 8


def place_of(value: Mapping[str, Any]) -> Place:
    """The bytes that a value occupies; each input and output is a storage of its own."""
    start = value.get("offset", 0)
    return f"{value['storage']}{value.get('index', '')}", start, start + size_of(value)


def reuse_distances(graph: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """For each call and each of its operands: (its bytes, the bytes touched since it was touched, itself included)."""
    places = [place_of(value) for value in graph["values"]]
    calls: list[list[Place]] = [[places[i] for i in (*node["inputs"], *node["outputs"])] for node in graph["nodes"]]
    # The run before this one is the history of its first calls.
    history = [place for _ in range(2) for call in calls for place in call]
    position = len(history) // 2
    result: list[list[tuple[int, int]]] = []
    for call in calls:
        result.append([(end - start, _distance((of, start, end), history, position)) for of, start, end in call])
        position += len(call)
    return result


def _distance(place: Place, history: Sequence[Place], position: int) -> int:
    """The bytes of the distinct values used between the last use of a place and a position, its own included."""
    seen: set[Place] = {place}
    distance = place[2] - place[1]
    for index in range(position - 1, position - 1 - len(history) // 2, -1):
        other = history[index]
        if other[0] == place[0] and other[1] < place[2] and place[1] < other[2]:
            return distance
        if other not in seen:
            seen.add(other)
            distance += other[2] - other[1]
    return distance


def memory_seconds(operands: Sequence[tuple[int, int]], level: Callable[[int], Any]) -> dict[str, float]:
    """Seconds that a call's operands (bytes, distance) take to read, by the level of memory that each is in."""
    seconds: dict[str, float] = {}
    for size, distance in operands:
        one = level(distance)
        seconds[one.name] = seconds.get(one.name, 0.0) + size / one.gbytes / 1e9
    return seconds
