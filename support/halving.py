"""Delta debugging: apply as many edits as possible while a test still holds, in halves first, then in smaller parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

State = TypeVar("State")
Item = TypeVar("Item")


def shrink(
    state: State,
    items: Callable[[State], Sequence[Item]],
    attempt: Callable[[State, Sequence[Item]], State | None],
    largest: int | None = None,
) -> State:
    """
    The state after as many edits as can be applied.

    `items` lists the edits that a state allows. `attempt` applies some of them and returns the new state, or None if
    the result is not accepted. Parts of all sizes are tried, from all edits at once (at most `largest`) down to one.
    After an accepted attempt the edits are listed anew.
    """
    size = len(items(state))
    size = size if largest is None else min(size, largest)
    while size > 0:
        start, found = 0, items(state)
        while start < len(found):
            smaller = attempt(state, found[start : start + size])
            if smaller is None:
                start += size
            else:
                state, before = smaller, len(found)
                found = items(state)
                start = max(0, start - max(0, before - len(found) - size))
        size = min(size // 2, len(found)) if size > 1 else 0
    return state


def first_bad(count: int, is_bad: Callable[[int], bool]) -> int:
    """A number n in 1..count with `is_bad(n)` and not `is_bad(n - 1)`, where 0 is good and `count` is bad."""
    good, bad = 0, count
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_bad(middle):
            bad = middle
        else:
            good = middle
    return bad
