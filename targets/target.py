"""What the compiler knows of a machine: instruction set, vector width, registers, caches."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from mlc.support.errors import UserError
from mlc.targets.cpu_features import MATRIX_FEATURES, described_cpu, implied, used_features
from mlc.targets.host import available_cpus, cache_bytes, may_multiply_matrices

if TYPE_CHECKING:
    from mlc.targets.machine import Core

INSTRUCTIONS: dict[str, tuple[str, int]] = {
    "tdpbf16ps": ("amx-bf16", 512),
    "tdpbusd": ("amx-int8", 512),
    "dpbf16ps": ("avx512bf16", 512),
    "dpbusd": ("avx512vnni", 512),
    "dpbusd256": ("avxvnni", 256),
    "pmaddwd": ("sse2", 128),
    "pmaddubsw": ("ssse3", 128),
    "permi2b": ("avx512vbmi", 512),
}
"""A product of matrices, a dot product, or another instruction on bytes -> LLVM's feature, least bits of a vector."""


C = "c"
"""The target of kernels that the C compiler compiles, for this machine."""


@dataclass(frozen=True, init=False, repr=False)
class Target:
    """
    A machine to compile for: `Target("native")`, `"x86-64-v3"`, `"znver4,-avx512bf16"`, `"machine.toml"`.

    A name stands for a CPU in `targets/machines/`, or for an entry point in the group `mlc.targets`; a file describes a
    machine of the user's in the same form. TVM's forms are read too: `"llvm -mcpu=znver4 -mattr=-avx512bf16"`, and
    `{"kind": "llvm", "mcpu": "znver4", "mattr": ["-avx512bf16"]}`. `str(target)` is the short form, which
    gives an equal target. `host` is the target of what calls the kernels; by default it is the target itself.

    Raises UserError for anything else.
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
    host: "Target | None" = None
    """The target of @main and the thread pool; None where that is this one."""

    def __init__(
        self,
        target: "str | Target | Mapping[str, Any]" = "native",
        host: "str | Target | Mapping[str, Any] | None" = None,
        **facts: Any,  # the fields, by name
    ) -> None:
        if not facts:
            found = Target.parse(target)
            facts = {one.name: getattr(found, one.name) for one in fields(found)}
        if host is not None:
            facts["host"] = Target.parse(host)
        for one in fields(self):
            object.__setattr__(self, one.name, facts[one.name] if one.name in facts else one.default)

    def __str__(self) -> str:
        return self.name if self.host is None else f"{self.name}{_HOST}{self.host}"

    def __repr__(self) -> str:
        return f"mlc.Target({str(self)!r})"

    @property
    def splits_vectors(self) -> bool:
        """Whether vectors of 512 bits are computed in halves, so that an FMA of half a vector takes half the time."""
        return self.vector_bits == 512 and self.has_half_path

    @property
    def has_half_path(self) -> bool:
        """Whether the data path is half a vector wide: an operation on a vector is two on its halves."""
        return self.core.half_fma_cycles * self.core.fmas_per_cycle < 1

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
        words = [
            w for w in self.features.split(",") if w[1:] == feature or (w[:1] == "-" and w[1:] in implied(feature))
        ]
        has = words[-1][0] == "+" if words else instruction in self.cpu_instructions
        return has and self.vector_bits >= bits

    def missing(self, features: Sequence[str]) -> list[str]:
        """Those of LLVM's features that the target lacks."""
        known = used_features(self.architecture, self.cpu, self.features)
        return [feature for feature in features if feature not in known]

    @property
    def multiplies_bytes_by_pairs(self) -> bool:
        """Whether products of bytes are summed two at a time, for want of a dot product of four."""
        return "pmaddwd" in self.instructions and not {"dpbusd", "dpbusd256"} & set(self.instructions)

    @property
    def is_c(self) -> bool:
        """Whether kernels are printed as C99 and compiled by the C compiler, rather than by LLVM."""
        return self.name == C

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

        return ["native", C, *cpu_names(), *installed_names()]

    @staticmethod
    def parse(text: "str | Target | Mapping[str, Any]") -> "Target":
        """Read `NAME` or `NAME,+feature,-feature,...`; a name that ends in `.toml` is a machine's description."""
        if isinstance(text, Target):
            return text
        name, _, host = target_text(text).partition(_HOST)
        target = _read(name) if is_file(name) else _parse(name)
        return replace(target, host=Target.parse(host)) if host else target


_HOST = " -host="
"""Between a target and its host, in text."""
_OPTIONS = ("mcpu", "mattr", "mtriple", "host")
"""The options of a target in TVM's form."""


def target_text(given: object) -> str:
    """
    The short text of a target, `NAME,+feature -host=NAME`, from any form; whether the name is known is not asked.

    Raises UserError for what has no such form.
    """
    if isinstance(given, Target):
        return str(given)
    if isinstance(given, Mapping):
        return _from_options(dict(cast("Mapping[str, Any]", given)))
    if not isinstance(given, str):
        raise UserError(f"expected target to be a name like 'native' or 'x86-64-v3', but got {given!r}")
    kind, _, rest = given.strip().partition(" ")
    if kind == "llvm" or (kind == C and rest):
        return _from_options({"kind": kind, **_words(rest, given)})
    name, found, host = given.strip().partition(_HOST)
    return f"{name.strip()}{_HOST}{target_text(host)}" if found else name


def _words(text: str, whole: str) -> dict[str, str]:
    """The options of `-mcpu=znver4 -mattr=+avx512f`; the host, which may have options of its own, is the last."""
    before, found, host = f" {text}".partition(_HOST)
    options: dict[str, str] = {}
    for word in before.split():
        name, equals, value = word.partition("=")
        if not name.startswith("-") or not equals:
            raise UserError(f"expected options like -mcpu=znver4 in a target, but got '{word}' in '{whole}'")
        options[name.lstrip("-")] = value
    return {**options, "host": host} if found else options


def _from_options(options: dict[str, Any]) -> str:
    """The short text of `{"kind": "llvm", "mcpu": .., "mattr": .., "mtriple": .., "host": ..}`."""
    kind = options.pop("kind", None)
    if kind == C and not options:
        return C
    if kind != "llvm":
        raise UserError(
            'expected a target like {"kind": "llvm", "mcpu": "znver4"} or {"kind": "c"}, '
            f"but got kind {kind!r}{' with options' if kind == C else ''}"
        )
    for name in options:
        if name not in _OPTIONS:
            raise UserError(f"expected options of a target among {', '.join(_OPTIONS)}, but got '{name}'")
    triple = options.get("mtriple")
    cpu = _cpu_of(options.get("mcpu") or "generic", triple)
    attributes: Any = options.get("mattr") or []
    given = attributes.split(",") if isinstance(attributes, str) else attributes
    text = ",".join([cpu, *(str(one).strip() for one in given)])
    if triple is not None and triple != (known := Target.parse(cpu).triple) and not _same_machine(triple, known):
        raise UserError(f"expected the triple of target '{cpu}' to be {known}, but got '{triple}'")
    host = options.get("host")
    return f"{text}{_HOST}{target_text(host)}" if host is not None else text


def _same_machine(first: str, second: str) -> bool:
    """Whether two triples name one architecture and system; `x86_64-linux-gnu` leaves out the vendor."""
    one, other = first.split("-"), second.split("-")
    return one[0] == other[0] and ("linux" in one) == ("linux" in other)


def _cpu_of(name: object, triple: str | None) -> str:
    """mlc's name of a CPU from LLVM's; "generic" is the least CPU of the triple's machine, or of this one."""
    from mlc.targets.machine import FAMILIES, GENERIC, cpu_names, find_cpu, read_family

    if isinstance(name, str) and (name == "native" or is_file(name)):
        return name
    if name == "generic":
        import platform

        machine = triple.partition("-")[0] if triple else platform.machine()
        if machine not in GENERIC:
            raise UserError(f"expected a triple of {' or '.join(GENERIC)}, but got '{triple or machine}'")
        return GENERIC[machine]
    if isinstance(name, str) and find_cpu(name) is not None:
        return name
    for family in FAMILIES:
        for cpu in read_family(family).values():
            if cpu.llvm_cpu == name:
                return cpu.name
    known = ["native", "generic", *cpu_names()]
    near = get_close_matches(str(name), known, 1)
    hint = f" (did you mean '{near[0]}'?)" if near else ""
    raise UserError(f"expected mcpu to be one of {', '.join(known)}, but got '{name}'{hint}")


TargetLike: TypeAlias = "str | Target | Mapping[str, Any]"
"""What a `target=` takes."""


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
    if name == C and features:
        raise UserError(f"expected no features of target 'c', which is this machine, but got '{text}'")
    if name == C:
        return replace(native_target(), name=C)
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
        name=name,
        triple=cpu.triple,
        cpu=cpu.llvm_cpu,
        features=cpu.features,
        vector_bits=cpu.vector_bits,
        vector_registers=cpu.vector_registers,
        masked_memory=cpu.masked_memory,
        fma=cpu.fma,
        l1_bytes=cpu.l1_bytes,
        l2_bytes=cpu.l2_bytes,
        l3_bytes=cpu.l3_bytes,
        core=cpu.core,
        cpu_instructions=cpu.instructions,
    )


def _with_features(target: Target, features: list[str]) -> Target:
    joined = ",".join(filter(None, [target.features, *features]))
    target = replace(target, features=joined)
    for feature in features:
        if feature in ("-avx512f", "-avx512vl") and target.vector_bits > 256:
            target = _with_shorter_vectors(target, 256)
        elif feature in ("-avx", "-avx2"):
            target = replace(_with_shorter_vectors(target, 128), fma=False)
        elif feature == "-fma":
            target = replace(target, fma=False)
    return target


def _with_shorter_vectors(target: Target, bits: int) -> Target:
    """The target with vectors of fewer bits."""
    core = _of_shorter_vectors(target.core)
    return replace(target, vector_bits=bits, vector_registers=16, masked_memory=False, core=core)


def _of_shorter_vectors(core: "Core") -> "Core":
    """A core's rates for vectors of fewer bits: one fills a data path that is half as wide as the CPU's longest."""
    return replace(core, half_fma_cycles=1 / core.fmas_per_cycle)


@cache
def native_target() -> Target:
    """Describe the machine that this process runs on."""
    import llvmlite.binding as llvm  # pyright: ignore[reportMissingTypeStubs]  # llvmlite ships none

    from mlc.targets.machine import find_core, find_cpu

    triple, cpu = llvm.get_process_triple(), llvm.get_host_cpu_name()
    host = llvm.get_host_cpu_features()
    has = cast("dict[str, bool]", host)
    architecture = triple.partition("-")[0]
    cpu = described_cpu(architecture, cpu, {name for name, there in has.items() if there})
    features = host.flatten()
    if has.get("amx-tile", False) and not may_multiply_matrices():
        features = ",".join([features, *(f"-{name}" for name in MATRIX_FEATURES)])
    caches = cache_bytes()
    if triple.startswith("x86_64"):
        wide = has.get("avx512f", False) and has.get("avx512vl", False)
        bits = 512 if wide else 256 if has.get("avx2", False) else 128
        registers, fma = (32 if wide else 16), has.get("fma", False)
    else:
        wide, bits, registers, fma = False, 128, 32, True
    core, instructions = find_core(cpu, architecture)
    described = find_cpu(cpu)
    if described is not None and bits < described.vector_bits:
        core = _of_shorter_vectors(core)
    return Target(
        name="native",
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bits=bits,
        vector_registers=registers,
        masked_memory=wide,
        fma=fma,
        l1_bytes=caches[1],
        l2_bytes=caches[2],
        l3_bytes=caches[3],
        core=core,
        cpu_instructions=instructions,
        cores=available_cpus(),
    )
