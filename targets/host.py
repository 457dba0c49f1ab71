"""What the operating system says of the machine at hand, without LLVM."""

import os
import re
from pathlib import Path

USUAL_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 4 << 20}
"""Bytes of L1, L2 and L3 where the operating system does not tell: those of a small server core."""


def available_cpus() -> int:
    """Return how many CPUs this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def cache_bytes() -> dict[int, int]:
    """Return the bytes of the data caches of the first CPU, by level (1, 2, 3); usual sizes where Linux tells none."""
    sizes = dict(USUAL_CACHES)
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            size = re.fullmatch(r"(\d+)([KMG]?)\s*", (index / "size").read_text())
            level = int((index / "level").read_text())
        except (OSError, ValueError):
            continue
        if size is not None:
            sizes[level] = int(size[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[size[2]]
    return sizes
