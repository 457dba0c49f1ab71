"""
Reads and writes of buffers: addresses, masked and strided vectors, squares transposed in registers, prefetches.

In: tiled loads, stores and prefetches of a loop function. Out: llvm loads, stores and shuffles of native vectors.
"""
