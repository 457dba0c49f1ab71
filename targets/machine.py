"""
Descriptions of machines: one TOML file a CPU family, read into `Cpu` and `Core` records.

    triple = "x86_64-unknown-linux-gnu"
    core_from = "zen5"                # the rates of another family, where this one was not measured
    [core]                            # rates of one core; each key ends in its unit
    fmas_per_cycle = 2.0
    [cpus.znver3]                     # a name that Target.parse knows; `llvm_cpu` where LLVM calls it otherwise
    vector_bits = 256

mlc's own files are in `targets/machines/`; `benchmarks/calibrate.py` writes one for the machine at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

from mlc.support.errors import UserError, did_you_mean
from mlc.support.files import read_file
from mlc.support.registered.plugins import entry_points

if TYPE_CHECKING:
    from datetime import date, time

DIRECTORY = Path(__file__).parent / "machines"
_INTEL, _AMD = ("haswell-skylake", "skylake-avx512", "sapphirerapids"), ("zen1", "zen2-3", "zen4", "zen5")
FAMILIES = ("x86-64", *_INTEL, *_AMD, "aarch64")
"""The files of `DIRECTORY`, in the order in which messages list their CPUs."""
GENERIC = {"x86_64": "x86-64", "aarch64": "aarch64"}
"""The first part of a triple -> the family that stands for a CPU which no file describes."""

ENTRY_POINT_GROUP = "mlc.targets"
"""The entry points of installed targets: the target's name -> module:NAME, the path of a TOML file."""

_MOST_BYTES = 1 << 20
NonNegative: TypeAlias = float
"""A rate that may be 0."""
TomlValue: TypeAlias = "str | int | float | bool | date | time | list[TomlValue] | dict[str, TomlValue]"
"""A value of a TOML file."""
FieldValue: TypeAlias = "TomlValue | Core | tuple[str, ...]"
"""A value of a field of `Core` or `Cpu`, before it is checked."""


@dataclass(frozen=True)
class Core:
    """Rates of one core. The unit is the end of each name; sources stand in the files."""

    fmas_per_cycle: float
    """Native vectors that are multiplied and added."""
    loads_per_cycle: float
    """Native vectors, or scalars that are broadcast, loaded from L1."""
    operations_per_cycle: float
    """Vector operations of a register tile that are issued: multiplications, loads and broadcasts."""
    step_cycles: NonNegative
    """What a step of a register tile's reduction takes besides its multiplications."""
    bf16_dots_per_cycle: float
    """Instructions `vdpbf16ps` on native vectors: each adds two products of bf16 to each lane of f32."""
    fma_latency_cycles: float
    """From one sum to the next that depends on it."""
    half_fma_cycles: float
    """An FMA of half a vector: as long as that of a whole one, or half as long where the data path is half as wide."""
    sustained_fmas_per_cycle: float
    """What register tiles of convolutions reach of `fmas_per_cycle`."""
    l1_way_bytes: int
    """The distance of addresses that share a set of L1: its bytes over its ways."""
    l2_bytes_per_cycle: float
    """Reads from L2. The cost model takes them to be hidden behind arithmetic."""
    l3_bytes_per_cycle: float
    """Weights that stream from L3."""
    memory_bytes_per_cycle: float
    """Weights that stream from memory."""
    l3_prefetch_gain_cycles: NonNegative
    """What a loop gains by a line of weights that an instruction fetches ahead from L3; 0 where it loses."""
    input_bytes_per_cycle: float
    """Rows of an operand that tiles read again and again."""
    far_vector_cycles: float
    """One more vector of an operand from beyond L1, in each step of a tile's reduction."""
    copy_bytes_per_cycle: float
    """Bytes read and written by a copy that keeps the order of elements."""
    reorder_bytes_per_cycle: float
    """Bytes read and written by a copy that cuts up blocks of channels."""
    pad_bytes_per_cycle: float
    """Rows copied with their padding into scratch."""
    spill_l3_bytes_per_cycle: float
    """Intermediate results that are written to L3 and read again."""
    spill_memory_bytes_per_cycle: float
    """Intermediate results that are written to memory and read again."""
    transform_cycles_per_vector: float
    """A vector of a tile transformed for Winograd's product."""
    inverse_cycles_per_vector: float
    """A vector of the product transformed back."""
    tile_cycles: float
    """A register tile's start and end, besides the steps of its reduction."""
    pointwise_cycles_per_element: float
    """An element of a pointwise kernel."""
    dispatch_cycles: float
    """Handing a parallel loop to other threads and waiting for them, between CPUs far apart."""
    task_cycles: float
    """A task of a parallel loop, besides its work."""
    foreign_line_cycles: float
    """A cache line that another core has written, when it is read and later written again."""
    call_cycles: float
    """A call of a kernel, besides its work."""


@dataclass(frozen=True)
class Cpu:
    """A CPU by its name: instruction set, registers, caches, and the rates of its family's cores."""

    name: str
    triple: str
    llvm_cpu: str
    vector_bits: int
    vector_registers: int
    masked_memory: bool
    fma: bool
    instructions: tuple[str, ...]
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    core: Core
    features: str = ""
    """LLVM's feature string, on top of what `llvm_cpu` implies."""


R = TypeVar("R", Core, Cpu)


def cpu_names() -> list[str]:
    """The CPUs that mlc's own files describe."""
    return [name for family in FAMILIES for name in read_family(family)]


def find_cpu(name: str) -> Cpu | None:
    """The description of a CPU by its name; only the file that has it is parsed."""
    for family in FAMILIES:
        if f"\n[cpus.{name}]\n" in _text(family):
            return read_family(family).get(name)
    return None


def find_core(llvm_cpu: str, architecture: str) -> tuple[Core, tuple[str, ...]]:
    """(rates, instructions) of a CPU by LLVM's name; if no file describes it, a generic CPU's rates."""
    cpu = find_cpu(llvm_cpu)
    if cpu is not None and cpu.llvm_cpu == llvm_cpu:
        return cpu.core, cpu.instructions
    generic = read_family(GENERIC.get(architecture, GENERIC["x86_64"]))
    return next(iter(generic.values())).core, ()


@cache
def read_family(family: str) -> dict[str, Cpu]:
    """The CPUs of one of mlc's own files, by name."""
    return parse_machine(_text(family), f"{family}.toml")


def read_machine(path: str) -> Cpu:
    """The CPU that a file of the user's describes, e.g. one that `benchmarks/calibrate.py` wrote."""
    try:
        text = read_file(path, _MOST_BYTES).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}") from error
    cpus = parse_machine(text, path)
    if len(cpus) != 1:
        raise UserError(f"{path}: expected a description of one CPU, but got {len(cpus)}: {', '.join(cpus)}")
    return next(iter(cpus.values()))


def installed_names() -> list[str]:
    """The targets that installed distributions and loaded projects describe."""
    return list(entry_points(ENTRY_POINT_GROUP))


def find_installed(name: str) -> Cpu | None:
    """The CPU that an entry point in the group `mlc.targets` describes: it names the path of a TOML file."""
    point = entry_points(ENTRY_POINT_GROUP).get(name)
    if point is None:
        return None
    try:
        path = point.load()
    except Exception as error:
        raise UserError(f"target '{name}' cannot be imported: {error}") from error
    if not isinstance(path, str | Path):
        raise UserError(f"target '{name}': expected {point.value} to be the path of a TOML file, but got {path!r}")
    return read_machine(str(path))


def parse_machine(text: str, place: str) -> dict[str, Cpu]:
    """The CPUs that a TOML text describes, by name; `place` is the file that errors name."""
    import tomllib  # here, as a saved model that runs without the compiler reads no description

    try:
        content: dict[str, TomlValue] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{place}: {error}") from error
    triple = content.pop("triple", None)
    core = _core(content.pop("core_from", None), content.pop("core", {}), place)
    cpus = content.pop("cpus", {})
    if content or not isinstance(triple, str) or not isinstance(cpus, dict):
        raise UserError(f"{place}: expected triple, core_from, core and cpus, but got {', '.join(content) or 'others'}")
    shared: dict[str, FieldValue] = {"triple": triple, "core": core}
    return {name: _cpu(name, values, shared, f"{place}: cpus.{name}") for name, values in cpus.items()}


def _core(other: TomlValue | None, own: TomlValue, place: str) -> Core:
    """The rates of a file: its own, and for the others the rates of the family that `core_from` names."""
    values: dict[str, FieldValue] = {}
    if other is not None:
        if other not in FAMILIES:
            raise UserError(f"{place}: expected core_from to be one of {', '.join(FAMILIES)}, but got {other!r}")
        values = vars(next(iter(read_family(other).values())).core)
    if not isinstance(own, dict):
        raise UserError(f"{place}: expected a table of rates in core, but got {own!r}")
    return _record(Core, {**values, **own}, f"{place}: core")


def _cpu(name: str, values: TomlValue, shared: Mapping[str, FieldValue], place: str) -> Cpu:
    if not isinstance(values, dict):
        raise UserError(f"{place}: expected a table, but got {values!r}")
    found = values.get("instructions")
    names = [x for x in found if isinstance(x, str)] if isinstance(found, list) else []
    if names != found:
        raise UserError(f"{place}: expected instructions to be a list of names, but got {found!r}")
    given: dict[str, FieldValue] = {"llvm_cpu": name, **values, "name": name, "instructions": tuple(names), **shared}
    return _record(Cpu, given, place)


def _record(kind: type[R], values: Mapping[str, FieldValue], place: str) -> R:
    """A record of these values; a sentence about the first that is unknown, missing, or of another kind."""
    known = {f.name: f for f in fields(kind)}
    for name in values:
        if name not in known:
            raise UserError(f"{place}: expected a known key, but got '{name}'{did_you_mean(name, known)}")
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            raise UserError(f"{place}: expected {name}, but it is not there")
    return kind(**{name: _value(str(known[name].type), value, f"{place}: {name}") for name, value in values.items()})


def _is_number(value: FieldValue) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[str, tuple[str, Callable[[FieldValue], bool]]] = {
    "float": ("a number above 0", lambda x: _is_number(x) and 0 < x < inf),
    "NonNegative": ("a number of at least 0", lambda x: _is_number(x) and 0 <= x < inf),
    "int": ("a whole number above 0", lambda x: type(x) is int and x > 0),
    "bool": ("true or false", lambda x: type(x) is bool),
    "str": ("a text", lambda x: type(x) is str),
}


def _value(kind: str, value: FieldValue, place: str) -> Any:  # the field's own type: its name alone is known
    """A value of a field's type."""
    if kind not in _KINDS:
        return value
    what, fits = _KINDS[kind]
    if not fits(value):
        raise UserError(f"{place}: expected {what}, but got {value!r}")
    return float(value) if _is_number(value) and kind in ("float", "NonNegative") else value


@cache
def _text(family: str) -> str:
    return (DIRECTORY / f"{family}.toml").read_text()
