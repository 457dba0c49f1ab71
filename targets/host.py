"""The CPUs and caches of this machine, as the operating system reports them."""

import ctypes
import platform
import re
import sys
from functools import cache
from pathlib import Path

from mlc.support.threads import available_cpus

USUAL_CACHES = {1: 32 << 10, 2: 512 << 10, 3: 4 << 20}
"""Bytes of L1, L2 and L3 of a small server core, for systems that do not report them."""


MATRIX_PERMISSION = (158, 0x1023, 18)
"""The arguments of Linux's `syscall` that ask for the registers of x86's matrix unit."""


def cache_bytes() -> dict[int, int]:
    """The bytes of the data caches of the first CPU by level (1, 2, 3); `USUAL_CACHES` where Linux reports none."""
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


@cache
def may_multiply_matrices() -> bool:
    """
    Ask Linux for the registers of x86's matrix unit (AMX), as a process must before it uses them; False where refused.

    `arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`: Documentation/arch/x86/xstate.rst of Linux. Threads and child
    processes inherit the permission.
    """
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(*MATRIX_PERMISSION) == 0


__all__ = ["MATRIX_PERMISSION", "USUAL_CACHES", "available_cpus", "cache_bytes", "may_multiply_matrices"]
