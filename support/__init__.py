"""
Foundations that every room may use; nothing here knows a dialect of mlc.

Errors and warnings, limits, files, element types, the weight store, the kernels' calling convention, diagnostics,
timing. Modules that the runtime needs import neither xdsl nor llvmlite.
"""
