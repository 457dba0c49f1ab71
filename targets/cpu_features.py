"""
CPU features that LLVM's code generator may use beyond a machine's baseline, and the CPUID and HWCAP bits of each.

Left out are features whose instructions come from intrinsics that mlc does not call (AES, SHA, ...) and those of
the system (XSAVE, FSGSBASE, ...). Nothing here imports LLVM: the runtime reads it, too.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class X86Feature:
    """A feature of x86-64."""

    flag: str
    """Linux's name of it in /proc/cpuinfo."""
    leaf: int
    """The bit that reports it: CPUID leaf, subleaf, register, and number of the bit."""
    subleaf: int
    register: str
    bit: int
    implies: tuple[str, ...] = ()
    state: int = 0
    """Bits of XCR0 that must be set: the operating system saves the registers that the feature uses."""


@dataclass(frozen=True)
class Aarch64Feature:
    """A feature of AArch64."""

    flag: str
    """Linux's name of it in /proc/cpuinfo."""
    word: int
    """The bit that reports it: word 0 is AT_HWCAP, word 1 AT_HWCAP2."""
    bit: int


_YMM, _ZMM, _EGPR, _TILES = 0x6, 0xE6, 1 << 19, 0x60000
_F, _BW = ("avx512f",), ("avx512bw",)
# LLVM's name of a feature -> how a CPU reports it. Sources: X86.td and Host.cpp of LLVM, asm/cpufeatures.h of Linux.
X86: dict[str, X86Feature] = {
    "sse3": X86Feature("pni", 1, 0, "ecx", 0),
    "ssse3": X86Feature("ssse3", 1, 0, "ecx", 9, ("sse3",)),
    "cx16": X86Feature("cx16", 1, 0, "ecx", 13),
    "sse4.1": X86Feature("sse4_1", 1, 0, "ecx", 19, ("ssse3",)),
    "sse4.2": X86Feature("sse4_2", 1, 0, "ecx", 20, ("sse4.1",)),
    "movbe": X86Feature("movbe", 1, 0, "ecx", 22),
    "popcnt": X86Feature("popcnt", 1, 0, "ecx", 23),
    "sahf": X86Feature("lahf_lm", 0x80000001, 0, "ecx", 0),
    "lzcnt": X86Feature("abm", 0x80000001, 0, "ecx", 5),
    "sse4a": X86Feature("sse4a", 0x80000001, 0, "ecx", 6, ("sse3",)),
    "tbm": X86Feature("tbm", 0x80000001, 0, "ecx", 21),
    "bmi": X86Feature("bmi1", 7, 0, "ebx", 3),
    "bmi2": X86Feature("bmi2", 7, 0, "ebx", 8),
    "avx": X86Feature("avx", 1, 0, "ecx", 28, ("sse4.2",), _YMM),
    "f16c": X86Feature("f16c", 1, 0, "ecx", 29, ("avx",), _YMM),
    "fma": X86Feature("fma", 1, 0, "ecx", 12, ("avx",), _YMM),
    "fma4": X86Feature("fma4", 0x80000001, 0, "ecx", 16, ("avx", "sse4a"), _YMM),
    "xop": X86Feature("xop", 0x80000001, 0, "ecx", 11, ("fma4",), _YMM),
    "avx2": X86Feature("avx2", 7, 0, "ebx", 5, ("avx",), _YMM),
    "gfni": X86Feature("gfni", 7, 0, "ecx", 8),
    "avxvnni": X86Feature("avx_vnni", 7, 1, "eax", 4, ("avx2",), _YMM),
    "avxifma": X86Feature("avx_ifma", 7, 1, "eax", 23, ("avx2",), _YMM),
    "avxvnniint8": X86Feature("avx_vnni_int8", 7, 1, "edx", 4, ("avx2",), _YMM),
    "avxneconvert": X86Feature("avx_ne_convert", 7, 1, "edx", 5, ("avx2",), _YMM),
    "avxvnniint16": X86Feature("avx_vnni_int16", 7, 1, "edx", 10, ("avx2",), _YMM),
    "avx512f": X86Feature("avx512f", 7, 0, "ebx", 16, ("avx2", "f16c", "fma"), _ZMM),
    "avx512dq": X86Feature("avx512dq", 7, 0, "ebx", 17, _F, _ZMM),
    "avx512ifma": X86Feature("avx512ifma", 7, 0, "ebx", 21, _F, _ZMM),
    "avx512cd": X86Feature("avx512cd", 7, 0, "ebx", 28, _F, _ZMM),
    "avx512bw": X86Feature("avx512bw", 7, 0, "ebx", 30, _F, _ZMM),
    "avx512vl": X86Feature("avx512vl", 7, 0, "ebx", 31, _F, _ZMM),
    "avx512vbmi": X86Feature("avx512vbmi", 7, 0, "ecx", 1, _BW, _ZMM),
    "avx512vbmi2": X86Feature("avx512_vbmi2", 7, 0, "ecx", 6, _BW, _ZMM),
    "avx512vnni": X86Feature("avx512_vnni", 7, 0, "ecx", 11, _F, _ZMM),
    "avx512bitalg": X86Feature("avx512_bitalg", 7, 0, "ecx", 12, _BW, _ZMM),
    "avx512vpopcntdq": X86Feature("avx512_vpopcntdq", 7, 0, "ecx", 14, _F, _ZMM),
    "avx512bf16": X86Feature("avx512_bf16", 7, 1, "eax", 5, _BW, _ZMM),
    "avx512fp16": X86Feature("avx512_fp16", 7, 0, "edx", 23, _BW, _ZMM),
    "amx-tile": X86Feature("amx_tile", 7, 0, "edx", 24, (), _TILES),
    "amx-int8": X86Feature("amx_int8", 7, 0, "edx", 25, ("amx-tile",), _TILES),
    "amx-bf16": X86Feature("amx_bf16", 7, 0, "edx", 22, ("amx-tile",), _TILES),
    "egpr": X86Feature("apx", 7, 1, "edx", 21, (), _EGPR),
}
MATRIX_FEATURES = ("amx-tile", "amx-int8", "amx-bf16")
"""Those whose registers a process must ask Linux for: `targets.host.may_multiply_matrices`."""
AARCH64: dict[str, Aarch64Feature] = {
    "lse": Aarch64Feature("atomics", 0, 8),
    "fullfp16": Aarch64Feature("asimdhp", 0, 10),
    "rdm": Aarch64Feature("asimdrdm", 0, 12),
    "jsconv": Aarch64Feature("jscvt", 0, 13),
    "complxnum": Aarch64Feature("fcma", 0, 14),
    "rcpc": Aarch64Feature("lrcpc", 0, 15),
    "dotprod": Aarch64Feature("asimddp", 0, 20),
    "sve": Aarch64Feature("sve", 0, 22),
    "fp16fml": Aarch64Feature("asimdfhm", 0, 23),
    "sve2": Aarch64Feature("sve2", 1, 1),
    "i8mm": Aarch64Feature("i8mm", 1, 13),
    "bf16": Aarch64Feature("bf16", 1, 14),
}
FEATURES: dict[str, dict[str, X86Feature] | dict[str, Aarch64Feature]] = {"x86_64": X86, "aarch64": AARCH64}

_V2 = "cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2"
_V3 = f"{_V2} avx avx2 bmi bmi2 f16c fma lzcnt movbe"
_V4 = f"{_V3} avx512f avx512bw avx512cd avx512dq avx512vl"
_ICELAKE = f"{_V4} avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq avx512vnni gfni"
# LLVM's name of a CPU -> the features above that the CPU has.
CPUS: dict[str, frozenset[str]] = {
    cpu: frozenset(features.split())
    for cpu, features in {
        "x86-64": "",
        "x86-64-v2": _V2,
        "x86-64-v3": _V3,
        "x86-64-v4": _V4,
        "haswell": _V3,
        "skylake": _V3,
        "skylake-avx512": _V4,
        "icelake-server": _ICELAKE,
        "sapphirerapids": f"{_ICELAKE} avx512bf16 avx512fp16 avxvnni amx-tile amx-int8 amx-bf16",
        "znver1": f"{_V3} sse4a",
        "znver2": f"{_V3} sse4a",
        "znver3": f"{_V3} sse4a",
        "znver4": f"{_ICELAKE} avx512bf16 sse4a",
        "znver5": f"{_ICELAKE} avx512bf16 avxvnni sse4a",
        "generic": "",
        "neoverse-n1": "lse rdm fullfp16 dotprod rcpc",
    }.items()
}
LEVELS: dict[str, tuple[str, ...]] = {
    "x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
    "aarch64": ("aarch64",),
}
"""Machine -> its architecture levels, the most demanding first; any CPU of the machine meets the last."""


def used_features(architecture: str, cpu: str, features: str) -> list[str]:
    """
    The features that code for a CPU may use, sorted: what its name implies, and `+avx2,-avx512f` on top of that.

    For a CPU that `CPUS` lacks only the string counts; that of the native target names every feature.
    """
    known = FEATURES.get(architecture, {})
    found = set(CPUS.get(cpu, ()))
    for word in filter(None, features.split(",")):
        if word[1:] not in known:
            continue
        if word[0] == "+":
            found |= implied(word[1:])
        else:
            found -= {name for name in known if word[1:] in implied(name)}
    return sorted(found)


def described_cpu(architecture: str, cpu: str, features: Collection[str]) -> str:
    """
    LLVM's name of the CPU in `CPUS` that stands for a CPU of x86 with these features: itself, if it is there.

    A hypervisor may report a model number that LLVM takes for another CPU; features decide. It is the CPU that has most
    of them, and none that the CPU lacks; of several the last in `CPUS`, which is the newest; `cpu` if there is none but
    architecture levels.
    """
    if architecture != "x86_64" or cpu in CPUS:
        return cpu
    levels = LEVELS[architecture]
    known = [name for name in CPUS if CPUS[name] and CPUS[name].issubset(features) and name not in levels]
    return max(reversed(known), key=lambda name: len(CPUS[name]), default=cpu)


@cache
def implied(name: str) -> frozenset[str]:
    """A feature and all that it implies, directly or not."""
    if name not in X86:
        return frozenset((name,))
    return frozenset((name,)).union(*map(implied, X86[name].implies))
