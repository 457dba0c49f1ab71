"""
Whether a rewriting kept the meaning: `--validate-each`, and the independent check of a memory plan.

In: a module before and after a pass, or @main on buffers. Out: nothing, or an error that names the pass, the function
and the values. Kernels are run by the interpreters, by their C print or as machine code (`execute`).
"""
