"""
The passes of the loop level: applying schedules, and turning loop nests into register tiles.

`directives/` holds one rewrite for each sched op with its legality check. In and out: loop functions.
"""
