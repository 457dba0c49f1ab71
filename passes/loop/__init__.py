"""
The passes of the loop level: applying schedules, and turning loop nests into register tiles.

    directives/      the rewrite of each sched op, and its legality check
    partitioning/    loop-partition: loops are cut until their main part has no predicate
    tiles/           blocks become register tiles, accumulators become values that loops carry
    index_space/     the analyses: index expressions, ranges, regions, dependences

Every pass takes and gives `loop.func`s.
"""
