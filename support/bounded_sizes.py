"""Values of open sizes by which a model is tried: the more sizes are open, the smaller they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

MOST_ELEMENTS = 1 << 20
"""Elements of an input, above which open sizes get smaller values."""


def bounded_sizes(
    values: Mapping[str, int], ranges: Mapping[str, tuple[int, int]], elements: Callable[[Mapping[str, int]], int]
) -> dict[str, int]:
    """
    Values of open sizes at which no input has more than MOST_ELEMENTS `elements`, where their ranges allow that.

    The largest become smaller first. `ranges` has the lowest value and the step of each size.
    """

    def below(name: str, limit: int) -> int:
        low, step = ranges[name]
        return min(values[name], max(-(-low // step) * step, limit // step * step))

    found, limit = dict(values), max(values.values(), default=0)
    while limit > 1 and elements(found) > MOST_ELEMENTS:
        limit = limit * 3 // 4
        found = {name: below(name, limit) for name in values}
    return found


__all__ = ["MOST_ELEMENTS", "bounded_sizes"]
