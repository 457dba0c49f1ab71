"""What the compiler knows of a machine: instruction set, vector width, registers, caches."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, cast

from mlc.support.errors import UserError
from mlc.targets.cpu_features import used_features
from mlc.targets.host import available_cpus, cache_bytes

if TYPE_CHECKING:
    from mlc.targets.machine import Core

INSTRUCTIONS: dict[str, tuple[str, int]] = {
    "dpbf16ps": ("avx512bf16", 512),
    "dpbusd": ("avx512vnni", 512),
    "dpbusd256": ("avxvnni", 256),
    "pmaddwd": ("sse2", 128),
    "permi2b": ("avx512vbmi", 512),
}
"""A dot product, or another instruction on bytes -> LLVM's feature that has it, the least bits of a vector."""


@dataclass(frozen=True)
class Target:
    """
    A machine to compile for: `Target.parse("native")`, `"x86-64-v3"`, `"znver4,-avx512bf16"`, `"machine.toml"`.

    A name is that of a CPU in `targets/machines/`, or of an entry point in the group `mlc.targets`; a file describes a
    machine of the user's in the same form.
    """

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
    core: "Core"
    """What a core does in a cycle, for the cost model."""
    cpu_instructions: tuple[str, ...] = ()
    """Those of `INSTRUCTIONS` that the CPU's name implies."""
    cores: int = 1
    axes: tuple[str, ...] = ()
    """Thread axes of a device to which a loop can be bound, e.g. `blockIdx.x`; a CPU has none."""

    def lanes(self, dtype: object) -> int:
        """Return how many elements of `dtype` ("f32", an xDSL type, or its bits) fill a native vector."""
        return max(1, self.vector_bits // dtype_bits(dtype))

    @property
    def instructions(self) -> tuple[str, ...]:
        """The dot products of narrow numbers, and other instructions on bytes, that the machine has."""
        return tuple(name for name in INSTRUCTIONS if self._has(name))

    def _has(self, instruction: str) -> bool:
        """Whether the feature string asks for an instruction's feature, or, where that is not named, the CPU has it."""
        feature, bits = INSTRUCTIONS[instruction]
        words = [w for w in self.features.split(",") if w[1:] == feature]
        has = words[-1][0] == "+" if words else instruction in self.cpu_instructions
        return has and self.vector_bits >= bits

    def missing(self, features: Sequence[str]) -> list[str]:
        """Those of LLVM's features that the target lacks."""
        known = used_features(self.architecture, self.cpu, self.features)
        return [feature for feature in features if feature not in known]

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
        from mlc.targets.machine import (  # a saved model asks for no target, and reads no description
            cpu_names,
            installed_names,
        )

        return ["native", *cpu_names(), *installed_names()]

    @staticmethod
    def parse(text: "str | Target") -> "Target":
        """Read `NAME` or `NAME,+feature,-feature,...`; a name that ends in `.toml` is a machine's description."""
        if isinstance(text, Target):
            return text
        return _read(text) if is_file(text) else _parse(text)


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


def is_file(text: str) -> bool:
    """Whether a target is a machine's description, perhaps with features: it may change while a program runs."""
    return text.partition(",")[0].strip().endswith(".toml")


@cache
def _parse(text: str) -> Target:
    return _read(text)


def _read(text: str) -> Target:
    name, *features = [part.strip() for part in text.split(",")]
    for feature in features:
        if not re.fullmatch(r"[+-][\w.-]+", feature):
            raise UserError(f"expected a target feature like +avx2 or -avx512f, but got '{feature}'")
    target = native_target() if name == "native" else _described(name)
    if not features:
        return target
    return _with_features(replace(target, name=text), features)


def _described(name: str) -> Target:
    """The target of a description: one of mlc's by its name, or a file of the user's."""
    from mlc.targets.machine import find_cpu, find_installed, read_machine

    cpu = read_machine(name) if is_file(name) else find_cpu(name) or find_installed(name)
    if cpu is None:
        near = get_close_matches(name, Target.names(), 1)
        hint = f" (did you mean '{near[0]}'?)" if near else ""
        raise UserError(f"expected target to be one of {', '.join(Target.names())}, but got '{name}'{hint}")
    return Target(
        name,
        cpu.triple,
        cpu.llvm_cpu,
        cpu.features,
        cpu.vector_bits,
        cpu.vector_registers,
        cpu.masked_memory,
        cpu.fma,
        cpu.l1_bytes,
        cpu.l2_bytes,
        cpu.l3_bytes,
        cpu.core,
        cpu.instructions,
    )


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
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]  # llvmlite ships none

    from mlc.targets.machine import find_core

    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    host = llvm.get_host_cpu_features()
    has = cast("dict[str, bool]", host)
    features = host.flatten()
    caches = cache_bytes()
    if triple.startswith("x86_64"):
        wide = has.get("avx512f", False) and has.get("avx512vl", False)
        bits = 512 if wide else 256 if has.get("avx2", False) else 128
        registers, fma = (32 if wide else 16), has.get("fma", False)
    else:
        wide, bits, registers, fma = False, 128, 32, True
    core, instructions = find_core(cpu, triple.partition("-")[0])
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
        core,
        instructions,
        available_cpus(),
    )
