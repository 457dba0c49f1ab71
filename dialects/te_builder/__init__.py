"""
Builds te functions in Python: tensors, index expressions and scalars whose operators append IR.

In: Python functions of indices. Out: a te.func op. `builder` is the engine of `mlc.te` and of the lowering from graph
ops; `indices` holds index expressions, `scalars` the arithmetic of a stage's body.
"""
