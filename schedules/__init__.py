"""
Strategies: for a kernel and a target, each writes a sched.schedule.

In: a te.func. Out: the same function with a schedule beside it. The first strategy that accepts a kernel writes its
schedule; costs come from the model in `mlc.targets`.
"""
