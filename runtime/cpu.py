"""The features of this machine's CPU, compared with those that compiled code needs."""

import ctypes
import mmap
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mlc.targets.cpu_features import CPUS, FEATURES, LEVELS, MATRIX_FEATURES, X86, used_features
from mlc.targets.host import may_multiply_matrices

_CPUID = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")
"""
void f(uint32_t leaf, uint32_t subleaf, uint32_t *out): push rbx; mov r8, rdx; mov eax, edi; mov ecx, esi; cpuid;
mov [r8], eax; mov [r8 + 4], ebx; mov [r8 + 8], ecx; mov [r8 + 12], edx; pop rbx; ret
"""
_XGETBV = bytes.fromhex("31c9 0f01d0 c3")
"""uint32_t f(void), the lower half of XCR0: xor ecx, ecx; xgetbv; ret"""
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_OSXSAVE = 27


def refusal(model: Mapping[str, Any]) -> str | None:
    """The reason why this machine cannot run a compiled model, as a message; None if it can."""
    target = model["target"]
    machine = target["triple"].partition("-")[0]
    if machine != os.uname().machine:
        return (
            f"expected code for {os.uname().machine} to run here, but got target '{target['name']}' "
            f"({target['triple']}); its text can be had with `mlc compile --emit`"
        )
    needed = needed_features(model)
    if needed is None:
        return (
            f"expected a compiled model that tells which CPU it needs, but this one for '{target['cpu']}' was made by "
            "an older mlc; compile it again"
        )
    return missing_features(needed, machine)


def needed_features(model: Mapping[str, Any]) -> list[str] | None:
    """The CPU features that a compiled model needs, by LLVM's names; None if its model.json does not tell."""
    target = model["target"]
    if "cpu_features" in target:
        return target["cpu_features"]
    cpu = target["cpu"]  # before format 2 only the name was kept
    return used_features(target["triple"].partition("-")[0], cpu, "") if cpu in CPUS else None


def missing_features(needed: Iterable[str], machine: str) -> str | None:
    """A message that names the features that this CPU lacks; None if it has all, or its features are unknown."""
    here = host_features()
    if here is None:
        return None
    matrices = here.intersection(needed, MATRIX_FEATURES)
    if matrices and not may_multiply_matrices():
        here -= matrices
    missing = sorted(set(needed) - here)
    if not missing:
        return None
    remedy = f"compile for --target {architecture_level(machine)}"
    return f"expected a CPU with {', '.join(missing)}, which this one lacks; {remedy}"


def architecture_level(machine: str) -> str:
    """The most demanding architecture level, such as `x86-64-v3`, that this CPU meets; `native` if none is known."""
    here = host_features() or frozenset()
    return next((name for name in LEVELS.get(machine, ()) if CPUS.get(name, frozenset()) <= here), "native")


@cache
def host_features() -> frozenset[str] | None:
    """
    The features of this CPU that the system lets programs use, by LLVM's names; None if they cannot be found out.

    CPUID comes first: an old Linux does not list newer features. /proc/cpuinfo is read on other machines than x86-64,
    and where the system lets no program make executable memory.
    """
    machine = os.uname().machine
    if machine == "x86_64":
        try:
            return features_by_cpuid()
        except OSError:
            pass
    return features_by_linux(machine)


def features_by_linux(machine: str) -> frozenset[str] | None:
    """The features that /proc/cpuinfo lists; None without it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return None
    listed = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    flags = frozenset(listed.partition(":")[2].split())
    return frozenset(name for name, feature in FEATURES.get(machine, {}).items() if feature.flag in flags)


def features_by_cpuid() -> frozenset[str]:
    """The features that CPUID reports; OSError where the system lets no program make executable memory."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as memory:
        memory.write(_CPUID + _XGETBV)
        anchor = ctypes.c_char.from_buffer(memory)
        start = ctypes.addressof(anchor)
        cpuid = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)(start)
        xgetbv = ctypes.CFUNCTYPE(ctypes.c_uint32)(start + len(_CPUID))

        def read(leaf: int, subleaf: int = 0) -> dict[str, int]:
            out = (ctypes.c_uint32 * 4)()
            cpuid(leaf, subleaf, ctypes.addressof(out))
            return dict(zip(_REGISTERS, out, strict=True))

        found = {(1, 0): read(1)}
        if read(0)["eax"] >= 7:
            found[7, 0] = read(7)
            if found[7, 0]["eax"] >= 1:
                found[7, 1] = read(7, 1)
        if read(0x80000000)["eax"] >= 0x80000001:
            found[0x80000001, 0] = read(0x80000001)
        saved = xgetbv() if found[1, 0]["ecx"] >> _OSXSAVE & 1 else 0
        del anchor
    return frozenset(
        name
        for name, f in X86.items()
        if (registers := found.get((f.leaf, f.subleaf)))
        and registers[f.register] >> f.bit & 1
        and saved & f.state == f.state
    )
