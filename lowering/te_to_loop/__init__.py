"""
te -> loop: each stage becomes a loop nest around one block, in the order of the stages.

In: te.func. Out: loop.func on buffers, not yet scheduled; sched.schedule ops are left for loop-apply-schedule.
"""
