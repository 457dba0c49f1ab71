"""
graph -> te: each kernel function of graph ops becomes one te.func of stages.

In: functions that graph-outline-kernels made. Out: te.func, or loop.func for extern ops (`extern/`). The table
`LOWERINGS` maps an op class to the function that builds its stages; each file holds one op family.
"""
