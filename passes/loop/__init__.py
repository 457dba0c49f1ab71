"""
The passes of the loop level: applying schedules, and turning loop nests into register tiles.

`directives/` holds the rewrite of each sched op and its legality check. Every pass takes and gives `loop.func`s.
"""
