"""
The ground: what every room may use, and nothing that knows an IR.

Errors and warnings, limits, files, the weight store, the kernels' calling convention, diagnostics, timing. Modules that
the runtime needs import neither xdsl nor llvmlite.
"""
