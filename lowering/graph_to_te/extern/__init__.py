"""Kernels that te cannot express (sorting, scatters, suppression): each is one op, lowered directly to a loop.func."""
