"""
graph-combine-parallel-{conv2d,dense,batch-matmul}: contractions of the same data become one.

`branches` finds and merges parallel branches, `costs` decides whether that pays; each of the three passes is a file.
"""
