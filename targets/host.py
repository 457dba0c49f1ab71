"""The CPUs and caches of this machine, as the operating system reports them."""

import re
from pathlib import Path

from mlc.support.threads import available_cpus

USUAL_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 4 << 20}
"""Bytes of L1, L2 and L3 of a small server core, for systems that do not report them."""


def cache_bytes() -> dict[int, int]:
    """The bytes of the data caches of the first CPU by level (1, 2, 3); `USUAL_CACHES` where Linux reports none."""
    sizes = dict(USUAL_CACHES)
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            number, unit = re.fullmatch(r"(\d+)([KMG]?)\s*", (index / "size").read_text()).groups()  # type: ignore[union-attr]
            level = int((index / "level").read_text())
            sizes[level] = int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit]
        except (OSError, AttributeError, ValueError):
            continue
    return sizes


__all__ = ["USUAL_CACHES", "available_cpus", "cache_bytes"]
