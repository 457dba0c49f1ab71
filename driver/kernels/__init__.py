"""Kernels on their way to object files: one in a worker, many at once, those of external compilers."""
