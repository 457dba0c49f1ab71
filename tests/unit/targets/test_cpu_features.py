"""The features that code needs of a CPU: what they are, how a CPU tells, and that code is not run without them."""

import ctypes
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_model
from cpu_probes import PROBES

import mlc
from mlc.codegen.native import Library, assemble, emit_object
from mlc.driver.export.cpu_check import ENOTSUP, check_text
from mlc.driver.export.library import export
from mlc.driver.toolchain import pool_object
from mlc.runtime import cpu
from mlc.runtime.artifact import Artifact
from mlc.support.errors import UserError
from mlc.targets.cpu_features import AARCH64, CPUS, FEATURES, X86, described_cpu, used_features
from mlc.targets.target import Target, native_target
from mlc.tools import cli

ON_X86 = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine is not an x86-64")
OPEN_TEXT = re.sub(r"<4x(\d+)xf32>", r"<?x\1xf32, #graph.dims<[n]>>", small_model.ONE_TEXT)
OPERATOR = """
te.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = te.compute "y" (%i : 4) {
    %0 = te.read %x[%i] : f32
    te.yield %0 : f32
  } : tensor<4xf32>
  te.return %y : tensor<4xf32>
}
"""
X86_CPUS = [name for name in CPUS if name not in ("generic", "neoverse-n1")]


@pytest.mark.parametrize("name", X86_CPUS)
def test_the_table_has_what_llvm_uses(name: str):
    for feature, (text, word) in PROBES.items():
        code = assemble(text, name)
        assert (word in code) == (feature in CPUS[name]), f"{feature}:\n{code}"


def test_every_target_has_a_row():
    for name in Target.names()[1:]:
        assert Target.parse(name).cpu in CPUS


@pytest.mark.parametrize(
    ("cpu", "own", "more", "wanted"),
    [
        ("znver1", "znver3", "", "znver1"),
        ("a-zen-of-tomorrow", "znver1", "", "znver3"),  # the newest of several that have as many
        ("rocketlake", "sapphirerapids", "prefetchi", "sapphirerapids"),  # as a hypervisor may present a server
        ("rocketlake", "icelake-server", "avx512fp16", "icelake-server"),
        ("znver9", "znver5", "movdiri", "znver5"),
        ("alderlake", "x86-64-v3", "avxvnni", "skylake"),
        ("znver3", "sapphirerapids", "", "znver3"),
        ("athlon", "x86-64-v2", "", "athlon"),
    ],
)
def test_features_decide_what_stands_for_a_cpu(cpu: str, own: str, more: str, wanted: str):
    assert described_cpu("x86_64", cpu, {*CPUS[own], *more.split()}) == wanted
    assert described_cpu("aarch64", cpu, CPUS[own]) == cpu


@pytest.mark.parametrize(
    ("cpu", "features", "wanted"),
    [
        ("x86-64", "", ""),
        ("x86-64", "+avx512vbmi,-avx512bw,+not-ours", "avx avx2 avx512f f16c fma sse3 sse4.1 sse4.2 ssse3"),
        ("x86-64-v4", "-avx2", "avx bmi bmi2 cx16 f16c fma lzcnt movbe popcnt sahf sse3 sse4.1 sse4.2 ssse3"),
        ("a-cpu-of-tomorrow", "+sse4a,+popcnt", "popcnt sse3 sse4a"),
    ],
)
def test_features_on_top_of_a_cpu(cpu: str, features: str, wanted: str):
    assert used_features("x86_64", cpu, features) == wanted.split()


def test_features_of_an_arm_cpu():
    assert used_features("aarch64", "neoverse-n1", "-lse,+sve") == ["dotprod", "fullfp16", "rcpc", "rdm", "sve"]


def test_this_machine_runs_its_own_code():
    target = native_target()
    assert (
        cpu.missing_features(used_features(target.architecture, target.cpu, target.features), target.architecture)
        is None
    )


@ON_X86
def test_the_cpu_tells_what_linux_lists():
    listed = cpu.features_by_linux("x86_64")
    assert listed is not None
    assert listed <= cpu.features_by_cpuid()  # an old Linux does not know the newest


def test_where_no_code_may_be_made_linux_tells(monkeypatch: pytest.MonkeyPatch):
    def refused(*args: Any, **options: Any) -> None:
        raise PermissionError

    monkeypatch.setattr("mmap.mmap", refused)
    assert cpu.host_features.__wrapped__() == cpu.features_by_linux(os.uname().machine)


def told(text: str, prefix: str, size: int = 1000) -> tuple[int, str]:
    """What the compiled check answers on this machine."""
    library = Library.load([emit_object(text, "x86-64")])
    check = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t)(library.address(f"{prefix}_check_cpu"))
    buffer = ctypes.create_string_buffer(b"#" * size, size + 1)
    statuses = {check(buffer, size), check(None, 0), check(buffer, size)}
    assert len(statuses) == 1
    assert buffer.raw[size] == 0
    return statuses.pop(), buffer.value.decode()


@ON_X86
def test_the_compiled_check_agrees():
    here = cpu.features_by_cpuid()
    lacks = [name for name in X86 if name not in here]
    status, message = told(check_text("all", "x86_64", X86), "all")
    assert status == ENOTSUP
    assert message == (
        f"expected a CPU with {', '.join(lacks)}, which this one lacks; "
        f"compile for --target {cpu.architecture_level('x86_64')}"
    )
    assert told(check_text("here", "x86_64", here), "here") == (0, "#" * 1000)
    assert told(check_text("none", "x86_64", []), "none")[0] == 0


@ON_X86
@pytest.mark.parametrize("size", [1, 2, 19, 20, 30])
def test_a_message_is_cut_to_its_room(size: int):
    whole, text = check_text("whole", "x86_64", X86), check_text("few", "x86_64", X86)
    assert told(text, "few", size) == (ENOTSUP, told(whole, "whole")[1][: size - 1])


@ON_X86
def test_a_cpu_that_has_nothing():
    # CPUID answers with zeros; XGETBV, which then is no instruction, must not be reached
    zeros = "; ".join(f"xorl %{register}, %{register}" for register in ("eax", "ebx", "ecx", "edx"))
    text = check_text("old", "x86_64", CPUS["x86-64-v3"])
    text = text.replace('"cpuid"', f'"{zeros}"').replace('"xgetbv"', '"ud2"')
    status, message = told(text, "old")
    assert status == ENOTSUP
    assert message.endswith("which this one lacks; compile for --target x86-64")
    assert all(name in message for name in CPUS["x86-64-v3"])


def test_the_check_of_an_arm_cpu():
    code = assemble(f'target triple = "aarch64-unknown-linux-gnu"\n{check_text("net", "aarch64", AARCH64)}', "aarch64")
    assert code.count("getauxval") >= 2
    assert "net_check_cpu:" in code


@ON_X86
def test_a_runtime_is_made_on_any_cpu():
    assert pool_object(Target.parse("znver5"), None) == pool_object(Target.parse("x86-64"), None)


# --- artifacts ---


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    mlc.compile(small_model.write(tmp_path), threads=1).save(tmp_path / "saved")
    return tmp_path / "saved"


def foreign() -> str:
    """A feature that this CPU lacks."""
    return next(name for name in FEATURES[os.uname().machine] if name not in (cpu.host_features() or ()))


def edit(directory: Path, **target: Any) -> None:
    """Change what a saved model says of its machine; None takes a fact out, format included."""
    model = json.loads((directory / "model.json").read_text())
    model["format"] = target.pop("format", model["format"])
    model["target"] = {k: v for k, v in {**model["target"], **target}.items() if v is not None}
    text = json.dumps(model).encode()
    (directory / "model.json").write_bytes(text)
    (directory / "model.sum").write_text(hashlib.sha256(text).hexdigest())


def test_a_saved_model_names_what_it_needs(saved: Path):
    target = native_target()
    needed = json.loads((saved / "model.json").read_text())["target"]["cpu_features"]
    assert needed == used_features(target.architecture, target.cpu, target.features)


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_a_saved_model_is_refused_where_features_are_missing(saved: Path, executor: str):
    edit(saved, cpu_features=[foreign()])
    wanted = f"expected a CPU with {foreign()}, which this one lacks; compile for --target "
    with pytest.raises(UserError, match=wanted + cpu.architecture_level(os.uname().machine)):
        mlc.load_executable(saved, executor=executor)


def test_the_command_refuses_it_too(saved: Path, capsys: pytest.CaptureFixture[str]):
    edit(saved, cpu_features=[foreign()])
    assert cli.run(["run", str(saved)]) == 1
    assert f"expected a CPU with {foreign()}, which this one lacks" in capsys.readouterr().err


def test_a_saved_model_of_an_older_mlc(saved: Path):
    given = small_model.inputs()
    wanted = mlc.load_executable(saved)(given)
    edit(saved, format=1, cpu_features=None, cpu={"x86_64": "x86-64", "aarch64": "generic"}[os.uname().machine])
    for name, array in mlc.load_executable(saved)(given).items():
        assert np.array_equal(array, wanted[name])
    edit(saved, format=1, cpu="a-cpu-of-tomorrow")
    with pytest.raises(UserError, match="was made by an older mlc; compile it again"):
        mlc.load_executable(saved)
    edit(saved, format=4)
    with pytest.raises(UserError, match="expected format 1 to 3, but got 4, which a newer mlc wrote; update mlc"):
        mlc.load_executable(saved)


@ON_X86
def test_validating_for_another_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The program is not run: that this CPU cannot is no error of the compiler."""
    path = small_model.write(tmp_path, small_model.ONE_TEXT)
    monkeypatch.setattr(cpu, "host_features", lambda: CPUS["x86-64-v2"])
    assert (
        cli.run(["compile", str(path), "--target", "x86-64-v3", "--validate-each", "-o", str(tmp_path / "m.so")]) == 0
    )
    said = capsys.readouterr().out
    assert ": 1 call of 1 kernel, compiled in " in said
    assert " comparisons; 1 not validated\nnot validated: the program as a whole: it is for x86-64-v3, and " in said


@ON_X86
@pytest.mark.parametrize("text", [small_model.ONE_TEXT, OPEN_TEXT])
def test_compiling_for_another_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str):
    path = small_model.write(tmp_path, text)
    given = {"x": small_model.inputs()["x"]}
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "host_features", lambda: CPUS["x86-64-v2"])
        exe = mlc.compile(path, target="x86-64-v3", threads=1)
        message = "with avx, avx2, bmi, bmi2, f16c, fma, lzcnt, movbe, which this one lacks; .* --target x86-64-v2"
        for use in (exe, exe.profile):
            with pytest.raises(UserError, match=message):
                use(given)
        assert [spec.name for spec in (*exe.inputs, *exe.outputs)] == ["x", "out"]
        assert exe.report["kernels"] >= 1
        exe.save(tmp_path / "saved")
        assert [file.name for file in exe.export(tmp_path / "net.so")] == ["net.so", "net.h"]
        with pytest.raises(UserError, match=message):
            mlc.load_executable(tmp_path / "saved")
        with pytest.raises(UserError, match=message):
            mlc.build(OPERATOR, target="x86-64-v3")
    if CPUS["x86-64-v3"] <= cpu.features_by_cpuid():
        w = small_model.weights()["w"]
        result = mlc.load_executable(tmp_path / "saved")(given)["out"]
        np.testing.assert_allclose(result, np.maximum(given["x"] @ w.T, 0), rtol=1e-5, atol=1e-5)


PROGRAM = """
#include "net.h"
#include <stdio.h>
int main(void) {
  static float x[MLC_NET_INPUT_0_ELEMENTS], y[MLC_NET_OUTPUT_0_ELEMENTS];
  const void *in[] = {x};
  void *out[] = {y};
  char message[200];
  mlc_runtime *rt = mlc_runtime_create(2);
  if (!rt || mlc_net_check_cpu(message, sizeof message) != MLC_NET_UNFIT_CPU) return 1;
  if (mlc_net_run(in, out, rt) != MLC_NET_UNFIT_CPU) return 2;
  mlc_runtime_destroy(rt);
  puts(message);
  return 0;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_an_exported_library_refuses_to_run(tmp_path: Path, suffix: str):
    mlc.compile(small_model.write(tmp_path, small_model.ONE_TEXT), threads=1).save(tmp_path / "saved")
    edit(tmp_path / "saved", cpu_features=[foreign()])
    export(Artifact.open(tmp_path / "saved"), tmp_path / f"net{suffix}")
    (tmp_path / "main.c").write_text(PROGRAM)
    link = [f"./net{suffix}", "-lm", "-lpthread", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["cc", "-Wall", "-Werror", "-I.", "main.c", *link, "-o", "main"], check=True, cwd=tmp_path)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith(f"expected a CPU with {foreign()}, which this one lacks; compile for --target ")


def test_the_check_imports_no_compiler():
    code = "import sys, mlc.runtime.cpu as c; c.host_features(); print({'llvmlite', 'xdsl'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@ON_X86
@pytest.mark.parametrize(("call", "granted"), [(39, False), (24, True)])  # getpid, sched_yield: above 0, and 0
def test_a_system_may_refuse_the_matrix_unit(call: int, granted: bool):
    # a CPU that has everything
    ones = "; ".join(f"movl $$-1, %{register}" for register in ("eax", "ebx", "ecx", "edx"))
    text = check_text(f"asks{call}", "x86_64", ["amx-bf16", "amx-tile", "avx2"])
    text = text.replace('"cpuid"', f'"{ones}"').replace('"xgetbv"', '"movl $$-1, %eax; movl $$-1, %edx"')
    status, message = told(text.replace("i64 158,", f"i64 {call},"), f"asks{call}")
    assert status == (0 if granted else ENOTSUP)
    assert message.startswith("#" if granted else "expected a CPU with amx-tile, amx-bf16, which this one lacks;")


@pytest.mark.parametrize("granted", [False, True])
def test_code_for_the_matrix_unit_is_loaded_where_the_system_grants_it(granted: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpu, "host_features", lambda: frozenset(X86))
    monkeypatch.setattr(cpu, "may_multiply_matrices", lambda: granted)
    reason = cpu.missing_features(["amx-bf16", "amx-tile", "avx2"], "x86_64")
    assert reason is None if granted else "with amx-bf16, amx-tile, which" in str(reason)
    assert cpu.missing_features(["avx2"], "x86_64") is None


@pytest.mark.parametrize(
    ("target", "instructions"),
    [
        ("sapphirerapids", {"tdpbf16ps", "tdpbusd"}),
        ("sapphirerapids,-amx-bf16", {"tdpbusd"}),
        ("sapphirerapids,-amx-tile", set()),
        ("icelake-server,+amx-tile,+amx-int8", {"tdpbusd"}),
    ],
)
def test_a_target_with_a_matrix_unit(target: str, instructions: set[str]):
    assert {i for i in Target.parse(target).instructions if i.startswith("tdp")} == instructions
