"""What the compiler knows of a machine: instruction set, vector width, registers, caches."""

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache

from mlc.support.errors import UserError
from mlc.targets.host import available_cpus, cache_bytes

# name: (triple, LLVM's CPU, vector bits, vector registers, masked memory, fma, L1, L2 and L3 in KiB)
_LINUX = "x86_64-unknown-linux-gnu"
_ARM = "aarch64-unknown-linux-gnu"
_KNOWN: dict[str, tuple[str, str, int, int, bool, bool, int, int, int]] = {
    "x86-64": (_LINUX, "x86-64", 128, 16, False, False, 32, 256, 2048),
    "x86-64-v2": (_LINUX, "x86-64-v2", 128, 16, False, False, 32, 256, 2048),
    "x86-64-v3": (_LINUX, "x86-64-v3", 256, 16, False, True, 32, 512, 4096),
    "x86-64-v4": (_LINUX, "x86-64-v4", 512, 32, True, True, 32, 1024, 8192),
    "haswell": (_LINUX, "haswell", 256, 16, False, True, 32, 256, 8192),
    "skylake": (_LINUX, "skylake", 256, 16, False, True, 32, 256, 8192),
    "skylake-avx512": (_LINUX, "skylake-avx512", 512, 32, True, True, 32, 1024, 16384),
    "icelake-server": (_LINUX, "icelake-server", 512, 32, True, True, 48, 1280, 32768),
    "sapphirerapids": (_LINUX, "sapphirerapids", 512, 32, True, True, 48, 2048, 65536),
    "znver2": (_LINUX, "znver2", 256, 16, False, True, 32, 512, 16384),
    "znver3": (_LINUX, "znver3", 256, 16, False, True, 32, 512, 32768),
    "znver4": (_LINUX, "znver4", 512, 32, True, True, 32, 1024, 32768),
    "znver5": (_LINUX, "znver5", 512, 32, True, True, 48, 1024, 32768),
    "aarch64": (_ARM, "generic", 128, 32, False, True, 64, 512, 4096),
    "neoverse-n1": (_ARM, "neoverse-n1", 128, 32, False, True, 64, 1024, 32768),
}

_X86 = tuple(name for name, row in _KNOWN.items() if row[0] == _LINUX)
# The name of a dot product, or of another instruction on bytes, LLVM's feature that has it, the CPUs above that have
# the feature, the least vector bits.
_DOT_PRODUCTS: list[tuple[str, str, tuple[str, ...], int]] = [
    ("dpbf16ps", "avx512bf16", ("sapphirerapids", "znver4", "znver5"), 512),
    ("dpbusd", "avx512vnni", ("icelake-server", "sapphirerapids", "znver4", "znver5"), 512),
    ("dpbusd256", "avxvnni", ("sapphirerapids", "znver5"), 256),
    ("pmaddwd", "sse2", _X86, 128),
    ("permi2b", "avx512vbmi", ("icelake-server", "sapphirerapids", "znver4", "znver5"), 512),
]


@dataclass(frozen=True)
class Target:
    """A machine to compile for: `Target.parse("native")`, `Target.parse("x86-64-v3")`, `"znver4,-avx512bf16"`."""

    name: str
    triple: str
    cpu: str
    features: str
    """LLVM's feature string, e.g. `+avx2,-avx512f`, on top of what the CPU's name implies."""
    vector_bits: int
    vector_registers: int
    masked_memory: bool
    """Masked loads and stores of a vector cost about as much as plain ones."""
    fma: bool
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: int = 1

    def lanes(self, dtype: object) -> int:
        """Return how many elements of `dtype` ("f32", an xDSL type, or its bits) fill a native vector."""
        return max(1, self.vector_bits // dtype_bits(dtype))

    @property
    def instructions(self) -> tuple[str, ...]:
        """The dot products of narrow numbers, and other instructions on bytes, that the machine has."""
        names = [name for name, feature, cpus, bits in _DOT_PRODUCTS if self._has(feature, cpus, bits)]
        return tuple(dict.fromkeys(names))

    def _has(self, feature: str, cpus: tuple[str, ...], bits: int) -> bool:
        """Whether the feature string asks for a feature, or, where it does not name it, the CPU has it."""
        words = [w for w in self.features.split(",") if w[1:] == feature]
        has = words[-1][0] == "+" if words else self.cpu in cpus
        return has and self.vector_bits >= bits

    @property
    def architecture(self) -> str:
        """The first part of the triple, e.g. x86_64."""
        return self.triple.partition("-")[0]

    @property
    def pause(self) -> str:
        """The LLVM IR call that tells the CPU that a loop is spinning; empty where there is none."""
        return {
            "x86_64": "call void @llvm.x86.sse2.pause()",
            "aarch64": "call void @llvm.aarch64.hint(i32 1)",
        }.get(self.architecture, "")

    @staticmethod
    def names() -> list[str]:
        """The names that `parse` knows."""
        return ["native", *_KNOWN]

    @staticmethod
    def parse(text: "str | Target") -> "Target":
        """Read `NAME` or `NAME,+feature,-feature,...`."""
        if isinstance(text, Target):
            return text
        return _parse(text)


def baseline(target: Target) -> Target:
    """The target without what only some CPUs of its machine have: for code that runs before the CPU is checked."""
    cpu = {"x86_64": "x86-64", "aarch64": "generic"}.get(target.architecture)
    if cpu is None:
        return target
    return replace(target, cpu=cpu, features="", vector_bits=128, vector_registers=16, masked_memory=False, fma=False)


def dtype_bits(dtype: object) -> int:
    """Return the bits of one element: of "f32", "bf16", "i8", "index", an xDSL type, or a number of bits."""
    text = str(dtype)
    if text == "index":
        return 64
    if (match := re.search(r"(\d+)$", text)) is None:
        raise UserError(f"expected a type like f32, bf16, i8 or index, but got '{text}'")
    return max(8, int(match.group(1)))


@cache
def _parse(text: str) -> Target:
    name, *features = [part.strip() for part in text.split(",")]
    for feature in features:
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise UserError(f"expected a target feature like +avx2 or -avx512f, but got '{feature}'")
    target = native_target() if name == "native" else _known(name)
    if not features:
        return target
    return _with_features(replace(target, name=text), features)


def _known(name: str) -> Target:
    if name not in _KNOWN:
        near = get_close_matches(name, Target.names(), 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UserError(f"expected target to be one of {', '.join(Target.names())}, but got '{name}'{hint}")
    triple, cpu, bits, registers, masked, fma, l1, l2, l3 = _KNOWN[name]
    return Target(name, triple, cpu, "", bits, registers, masked, fma, l1 << 10, l2 << 10, l3 << 10)


def _with_features(target: Target, features: list[str]) -> Target:
    joined = ",".join(filter(None, [target.features, *features]))
    target = replace(target, features=joined)
    for feature in features:
        if feature in ("-avx512f", "-avx512vl") and target.vector_bits > 256:
            target = replace(target, vector_bits=256, vector_registers=16, masked_memory=False)
        elif feature in ("-avx", "-avx2"):
            target = replace(target, vector_bits=128, vector_registers=16, masked_memory=False, fma=False)
        elif feature == "-fma":
            target = replace(target, fma=False)
    return target


@cache
def native_target() -> Target:
    """Describe the machine that this process runs on."""
    import llvmlite.binding as llvm

    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    has = llvm.get_host_cpu_features()
    features = has.flatten()
    caches = cache_bytes()
    if triple.startswith("x86_64"):
        wide = has.get("avx512f", False) and has.get("avx512vl", False)
        bits = 512 if wide else 256 if has.get("avx2", False) else 128
        registers, fma = (32 if wide else 16), has.get("fma", False)
    else:
        wide, bits, registers, fma = False, 128, 32, True
    return Target(
        "native",
        triple,
        cpu,
        features,
        bits,
        registers,
        wide,
        fma,
        caches[1],
        caches[2],
        caches[3],
        available_cpus(),
    )
