"""The dominator tree agrees with xDSL's sets of dominators, which take quadratic time and memory."""

import random

from xdsl.dialects import test
from xdsl.ir import Block, Region
from xdsl.irdl.dominance import DominanceInfo

from mlc.passes.dominance import DominatorTree


def drawn_region(seed):
    """A region of a few blocks with random branches, to none of them the entry."""
    chance = random.Random(seed)
    blocks = [Block() for _ in range(chance.randint(1, 9))]
    for block in blocks:
        count = chance.choice([0, 1, 1, 2, 2, 3]) if len(blocks) > 1 else 0
        block.add_op(test.TestTermOp.create(successors=chance.choices(blocks[1:], k=count)))
    return Region(blocks)


def reachable(block):
    found, pending = {block}, [block]
    while pending:
        new = {*pending.pop().last_op.successors} - found
        found |= new
        pending += new
    return found


def test_random_regions():
    """Asked about each pair of blocks whose second one control can reach, as the verifier asks."""
    for seed in range(600):
        region = drawn_region(seed)
        sets, tree = DominanceInfo(region), DominatorTree(region)
        for block in reachable(region.first_block):
            for above in region.blocks:
                assert tree.strictly_dominates(above, block) == sets.strictly_dominates(above, block), seed


def test_blocks_of_other_regions():
    region, other = drawn_region(1), drawn_region(2)
    assert region.first_block in DominatorTree(region)
    assert other.first_block not in DominatorTree(region)
