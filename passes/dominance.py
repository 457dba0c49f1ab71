"""
Which blocks of a region dominate which: the dominator tree, found in almost linear time, numbered for O(1) questions.

Algorithm: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm". A block without predecessors is a root beside
the entry, so what only it leads to is dominated by nothing but itself.
"""

from collections.abc import Sequence

from xdsl.ir import Block, Region


class DominatorTree:
    """The dominator tree of a region."""

    def __init__(self, region: Region) -> None:
        self._blocks = [*region.blocks]
        self._number = {block: number for number, block in enumerate(self._blocks)}
        successors = [self._successors(block) for block in self._blocks]
        order = _reverse_postorder(successors, self._roots(successors))
        self._enter: list[int] = [-1] * len(successors)
        self._leave: list[int] = [-1] * len(successors)
        self._count(_immediate_dominators(successors, order))

    def strictly_dominates(self, above: Block, block: Block) -> bool:
        """Whether every way to `block` leads through another block, `above`; both are blocks of the region."""
        a, b = self._number[above], self._number[block]
        return a != b and 0 <= self._enter[a] < self._enter[b] and self._leave[b] <= self._leave[a]

    def __contains__(self, block: Block) -> bool:
        return block in self._number

    def _successors(self, block: Block) -> list[int]:
        last = block.last_op
        return [] if last is None else [self._number[s] for s in last.successors if s in self._number]

    @staticmethod
    def _roots(successors: Sequence[Sequence[int]]) -> list[int]:
        led_to = {successor for several in successors for successor in several}
        return [number for number in range(len(successors)) if number == 0 or number not in led_to]

    def _count(self, above: Sequence[int]) -> None:
        """Number the blocks of the tree on entering and leaving them."""
        below: list[list[int]] = [[] for _ in range(len(above) + 1)]
        for block, dominator in enumerate(above):
            if dominator != _UNKNOWN:
                below[dominator].append(block)
        pending, time = [*below[_ROOT]], 0
        while pending:
            block = pending.pop()
            time += 1
            if block < 0:
                self._leave[~block] = time
            else:
                self._enter[block] = time
                pending += (~block, *below[block])


_ROOT, _UNKNOWN = -1, -2
"""The node above all roots (the last item of a list), and that of a block to which no way leads."""


def _reverse_postorder(successors: Sequence[Sequence[int]], roots: Sequence[int]) -> list[int]:
    found, order = set(roots), list[int]()
    for root in roots:
        pending = [(root, iter(successors[root]))]
        while pending:
            block, rest = pending[-1]
            following = next((s for s in rest if s not in found), None)
            if following is None:
                order.append(block)
                pending.pop()
            else:
                found.add(following)
                pending.append((following, iter(successors[following])))
    return order[::-1]


def _immediate_dominators(successors: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """For each block the nearest one that strictly dominates it, _ROOT above the roots."""
    place = {_ROOT: -1, **{block: number for number, block in enumerate(order)}}
    predecessors: list[list[int]] = [[] for _ in successors]
    for block in order:
        for successor in successors[block]:
            predecessors[successor].append(block)
    above = [_UNKNOWN] * len(successors)
    changed = True
    while changed:
        changed = False
        for block in order:
            nearest = _UNKNOWN if predecessors[block] and block != 0 else _ROOT
            for predecessor in predecessors[block] if nearest == _UNKNOWN else ():
                if above[predecessor] != _UNKNOWN:
                    nearest = predecessor if nearest == _UNKNOWN else _meet(above, place, nearest, predecessor)
            changed |= above[block] != nearest
            above[block] = nearest
    return above


def _meet(above: Sequence[int], place: dict[int, int], one: int, other: int) -> int:
    """The nearest block that dominates both."""
    while one != other:
        if place[one] > place[other]:
            one = above[one]
        else:
            other = above[other]
    return one
