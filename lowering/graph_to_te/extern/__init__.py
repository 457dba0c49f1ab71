"""Kernels that no index expression says, written as loops over scalars: one op each, lowered to a loop.func."""
