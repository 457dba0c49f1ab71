"""Where data that kernels share may begin: a part of the calling convention (support/abi.py)."""

LINE_BYTES = 64
"""A line of the caches, on every machine in targets/machines. Source: the manuals; Linux tells it in
/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size."""
ALIGNMENT = LINE_BYTES
"""Buffers of the workspace, scratch and packed weights begin at multiples of it, so that no 64-byte load of a vector of
AVX-512 crosses a line."""
