"""Descriptions of machines: mlc's own files, a file of the user's, what is wrong in one."""

from dataclasses import fields, replace
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from mlc.support.errors import UserError
from mlc.targets.host import cache_bytes
from mlc.targets.machine import DIRECTORY, FAMILIES, Core, cpu_names, find_core, parse_machine, read_family
from mlc.targets.target import Target, native_target

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
PAIRS = ("pmaddwd", "pmaddubsw")
VNNI = ("dpbusd", *PAIRS, "permi2b")
BF16 = ("dpbf16ps", "dpbusd", *PAIRS, "permi2b")
MATRICES = ("tdpbf16ps", "tdpbusd")
ALL = ("dpbf16ps", "dpbusd", "dpbusd256", *PAIRS, "permi2b")
# name: triple, LLVM's CPU, vector bits, registers, masked memory, fma, KiB of L1, L2 and L3, instructions
FACTS = {
    "x86-64": (X86, "x86-64", 128, 16, False, False, 32, 256, 2048, ("pmaddwd",)),
    "x86-64-v2": (X86, "x86-64-v2", 128, 16, False, False, 32, 256, 2048, PAIRS),
    "x86-64-v3": (X86, "x86-64-v3", 256, 16, False, True, 32, 512, 4096, PAIRS),
    "x86-64-v4": (X86, "x86-64-v4", 512, 32, True, True, 32, 1024, 8192, PAIRS),
    "haswell": (X86, "haswell", 256, 16, False, True, 32, 256, 8192, PAIRS),
    "skylake": (X86, "skylake", 256, 16, False, True, 32, 256, 8192, PAIRS),
    "skylake-avx512": (X86, "skylake-avx512", 512, 32, True, True, 32, 1024, 16384, PAIRS),
    "icelake-server": (X86, "icelake-server", 512, 32, True, True, 48, 1280, 32768, VNNI),
    "sapphirerapids": (X86, "sapphirerapids", 512, 32, True, True, 48, 2048, 65536, MATRICES + ALL),
    "znver1": (X86, "znver1", 256, 16, False, True, 32, 512, 8192, PAIRS),
    "znver2": (X86, "znver2", 256, 16, False, True, 32, 512, 16384, PAIRS),
    "znver3": (X86, "znver3", 256, 16, False, True, 32, 512, 32768, PAIRS),
    "znver4": (X86, "znver4", 512, 32, True, True, 32, 1024, 32768, BF16),
    "znver5": (X86, "znver5", 512, 32, True, True, 48, 1024, 32768, ALL),
    "aarch64": (ARM, "generic", 128, 32, False, True, 64, 512, 4096, ()),
    "neoverse-n1": (ARM, "neoverse-n1", 128, 32, False, True, 64, 1024, 32768, ()),
}
UNITS = ("_bytes", "_cycles", "_per_cycle", "_per_vector", "_per_element")
MINE = """\
triple = "x86_64-unknown-linux-gnu"
core_from = "zen4"
[core]
dispatch_cycles = 500
[cpus.mine]
llvm_cpu = "znver4"
vector_bits = 512
vector_registers = 32
masked_memory = true
fma = true
instructions = ["pmaddwd"]
l1_bytes = 32_768
l2_bytes = 1_048_576
l3_bytes = 33_554_432
"""


def test_every_file_is_a_family() -> None:
    assert sorted(path.stem for path in DIRECTORY.glob("*.toml")) == sorted(FAMILIES)
    assert list(FACTS) == list(cpu_names())
    assert Target.names() == ["native", "c", *FACTS]


@pytest.mark.parametrize("name", FACTS)
def test_what_a_name_stands_for(name: str) -> None:
    t = Target.parse(name)
    caches = [t.l1_bytes >> 10, t.l2_bytes >> 10, t.l3_bytes >> 10]
    found = (t.triple, t.cpu, t.vector_bits, t.vector_registers, t.masked_memory, t.fma, *caches, t.instructions)
    assert found == FACTS[name]
    assert (t.name, t.features, t.cores) == (name, "", 1)
    assert all(size % 1024 == 0 for size in (t.l1_bytes, t.l2_bytes, t.l3_bytes))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_rate_has_a_unit_and_every_file_a_source(family: str) -> None:
    assert all(field.name.endswith(UNITS) for field in fields(Core))
    core = next(iter(read_family(family).values())).core
    least = {"step_cycles": 0.0, "l3_prefetch_gain_cycles": 0.0}
    assert all(value > 0 or value == least.get(name) for name, value in vars(core).items())
    text = (DIRECTORY / f"{family}.toml").read_text()
    assert ("Source: " in text and "Measured" in text) or 'core_from = "' in text


def test_each_rate_of_a_file_of_rates_is_said_once_with_a_comment() -> None:
    lines = (DIRECTORY / "zen5.toml").read_text().partition("\n[core]\n")[2].partition("[cpus.")[0].splitlines()
    keys = [line.partition(" ")[0] for line in lines if line and not line.startswith("#")]
    assert sorted(keys) == sorted(field.name for field in fields(Core))


def test_the_machine_at_hand_has_its_own_caches_and_its_family_s_rates() -> None:
    native, caches = native_target(), cache_bytes()
    assert [native.l1_bytes, native.l2_bytes, native.l3_bytes] == [caches[1], caches[2], caches[3]]
    core = find_core(native.cpu, native.architecture)[0]
    assert replace(native.core, half_fma_cycles=core.half_fma_cycles) == core


def test_a_cpu_whose_longest_vectors_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hypervisor may show a Zen 4 without AVX-512: a vector of 256 bits fills its data path."""
    native_target.cache_clear()
    features = llvm.get_host_cpu_features()
    for name in [one for one in features if one.startswith("avx512")]:
        features[name] = False
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: features)
    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "znver4")
    try:
        native = native_target()
    finally:
        native_target.cache_clear()
    assert native.vector_bits < 512
    assert not native.has_half_path


def test_a_cpu_that_no_file_describes() -> None:
    core, instructions = find_core("i9000", "x86_64")
    assert (core, instructions) == (Target.parse("x86-64").core, ())
    assert find_core("m7", "aarch64")[0] == Target.parse("aarch64").core


def test_halves_of_vectors_cost_half_where_the_data_path_is_half_as_wide() -> None:
    split = {name: Target.parse(name).splits_vectors for name in FACTS}
    assert [name for name, splits in split.items() if splits] == ["znver4"]
    assert not Target.parse("znver4,-avx512f").splits_vectors  # its data path has 256 bits
    assert [name for name in FACTS if Target.parse(name).has_half_path] == ["znver1", "znver4"]
    assert not any(Target.parse(name).has_half_path for name in ("znver4,-avx512f", "znver1,-avx2"))


def test_a_file_of_the_user_s_is_a_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(MINE)
    target, zen4 = Target.parse("mine.toml"), Target.parse("znver4")
    assert target == replace(
        zen4, name="mine.toml", core=replace(zen4.core, dispatch_cycles=500.0), cpu_instructions=("pmaddwd",)
    )
    assert Target.parse("mine.toml,-avx512f").vector_bits == 256
    Path("mine.toml").write_text(MINE.replace("= 500", "= 600"))
    assert Target.parse("mine.toml").core.dispatch_cycles == 600.0  # read again after an edit


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dispatch_cycles", "dispatch_cycle", "core: expected a known key, but got 'dispatch_cycle'; did you mean"),
        ("= 500", '= "500"', "core: dispatch_cycles: expected a number above 0, but got '500'"),
        ("= 500", "= nan", "dispatch_cycles: expected a number above 0, but got nan"),
        ("dispatch_cycles = 500", "step_cycles = -1", "step_cycles: expected a number of at least 0, but got -1"),
        ("l2_bytes = 1_048_576", "l2_bytes = 1e6", r"cpus\.mine: l2_bytes: expected a whole number above 0"),
        ("fma = true", "fma = 1", "fma: expected true or false, but got 1"),
        ("l1_bytes = 32_768\n", "", r"cpus\.mine: expected l1_bytes, but it is not there"),
        ('["pmaddwd"]', '"pmaddwd"', "expected instructions to be a list of names"),
        ('"zen4"', '"zen9"', "expected core_from to be one of x86-64, .*, but got 'zen9'"),
        ('core_from = "zen4"\n', "", "core: expected fmas_per_cycle, but it is not there"),
        ("triple =", "tripel =", "expected triple, core_from, core and cpus"),
        ("[cpus.mine]", "[cpus.mine", r"Expected ']'"),
        ("[cpus.mine]\n", "[cpus]\n", r"cpus\.llvm_cpu: expected a table, but got 'znver4'"),
    ],
)
def test_a_wrong_file_says_where_it_is_wrong(old: str, new: str, message: str) -> None:
    assert old in MINE
    with pytest.raises(UserError, match=f"mine.toml: .*{message}"):
        parse_machine(MINE.replace(old, new), "mine.toml")


def test_a_file_that_is_not_there_or_has_two_machines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"absent\.toml: No such file"):
        Target.parse(str(tmp_path / "absent.toml"))
    path = tmp_path / "two.toml"
    path.write_text(MINE + MINE.partition("[cpus.mine]")[2].join(["[cpus.other]", ""]))
    with pytest.raises(UserError, match=r"expected a description of one CPU, but got 2: mine, other"):
        Target.parse(str(path))
