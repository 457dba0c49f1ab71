"""
graph -> te: each kernel function of graph ops becomes one te.func of stages.

In: functions that graph-outline-kernels made. Out: te.func, or loop.func for ops with a loop body (`extern/`). A table
maps an op class to the function that writes its stages; the files hold one op family each.
"""
