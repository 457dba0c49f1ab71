"""
The reference interpreters of the graph, te and loop dialects: what the IRs mean, in numpy.

In: a function of one level and arrays. Out: arrays. They are slow and plain on purpose; passes and generated code are
compared with them.
"""
