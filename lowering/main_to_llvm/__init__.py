"""Lowers @main on buffers to one native function that calls the kernels."""
