"""
mlc's own strategies, one file each.

In: a kernel's analysis (`KernelInfo`), a target, threads. Out: a sched.schedule, or None for a kernel of another kind.
The analysis, the builder, the knobs and the order in which strategies are tried lie in the room above.
"""
