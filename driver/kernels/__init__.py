"""From kernels to object files: one kernel in a worker, many at once, and the kernels of external compilers."""
