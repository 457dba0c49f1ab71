"""
The passes of the te level: inlining stages, factoring reductions, reading schedules that a person wrote.

In and out: te functions, with the sched.schedule ops beside them.
"""
