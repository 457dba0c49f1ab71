"""Exported libraries: a C program links them and runs without Python."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import small_model

import mlc
from mlc.codegen.weights_object import write_weights_object
from mlc.support.errors import UserError
from mlc.tools import cli

PROGRAM = Path(__file__).parents[4] / "examples" / "run_model.c"


@pytest.fixture(scope="module")
def exe(tmp_path_factory: pytest.TempPathFactory) -> mlc.Executable:
    return mlc.compile(small_model.write(tmp_path_factory.mktemp("model"), small_model.ONE_TEXT), threads=2)


def build(directory: Path, library: str, name: str = "model") -> Path:
    program = directory / "run_model"
    flags = [f'-DMODEL_HEADER="{name}.h"', f"-DMODEL=mlc_{name}", f"-DMODEL_CAPS=MLC_{name.upper()}"]
    link = [library, "-lm", "-lpthread", f"-Wl,-rpath,{directory}"]
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", *flags, f"-I{directory}", str(PROGRAM), *link]
    subprocess.run([*command, "-o", str(program)], check=True, cwd=directory)
    return program


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_a_c_program_runs_the_model(exe: mlc.Executable, tmp_path: Path, suffix: str):
    x = small_model.inputs()["x"]
    x.tofile(tmp_path / "in.bin")
    written = exe.export(tmp_path / f"model{suffix}")
    assert [p.name for p in written] == [f"model{suffix}", "model.h"]
    program = build(tmp_path, f"./model{suffix}")
    for threads in ("1", "2"):
        subprocess.run([program, "in.bin", "out.bin", threads], check=True, cwd=tmp_path)
        result = np.fromfile(tmp_path / "out.bin", np.float32).reshape(4, 32)
        assert np.array_equal(result, exe({"x": x})["out"])


def test_a_shared_library_shows_only_its_interface(exe: mlc.Executable, tmp_path: Path):
    exe.export(tmp_path / "libnet.so")
    done = subprocess.run(["nm", "-D", "--defined-only", tmp_path / "libnet.so"], capture_output=True, text=True)
    names = {line.split()[-1] for line in done.stdout.splitlines()}
    assert {"mlc_net_run", "mlc_net_run_in", "mlc_net_check_cpu", "mlc_runtime_create"} <= names
    assert all(name.startswith(("mlc_net_", "mlc_runtime_", "mlc_parallel_for", "mlc_process_pool")) for name in names)


def test_two_models_in_one_program(exe: mlc.Executable, tmp_path: Path):
    source = """
    #include "first.h"
    #include "second.h"
    int main(void) {
      static float x[MLC_FIRST_INPUT_0_ELEMENTS], a[MLC_FIRST_OUTPUT_0_ELEMENTS], b[MLC_SECOND_OUTPUT_0_ELEMENTS];
      for (int i = 0; i < MLC_FIRST_INPUT_0_ELEMENTS; ++i) x[i] = (float)(i % 7) - 3;
      const void *in[] = {x};
      void *to_a[] = {a}, *to_b[] = {b};
      mlc_runtime *rt = mlc_runtime_create(2);
      if (mlc_first_run(in, to_a, rt) || mlc_second_run(in, to_b, rt)) return 1;
      mlc_runtime_destroy(rt);
      float sum = 0;
      for (int i = 0; i < MLC_FIRST_OUTPUT_0_ELEMENTS; ++i) { if (a[i] != b[i]) return 2; sum += a[i]; }
      return sum > 0 ? 0 : 3;
    }"""
    (tmp_path / "main.c").write_text(source)
    for suffix in (".a", ".so"):
        exe.export(tmp_path / f"first{suffix}")
        exe.export(tmp_path / f"second{suffix}")
        libraries = [f"./first{suffix}", f"./second{suffix}", "-lm", "-lpthread", f"-Wl,-rpath,{tmp_path}"]
        subprocess.run(["cc", "-I.", "main.c", *libraries, "-o", "main"], check=True, cwd=tmp_path)
        assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_the_header_alone(exe: mlc.Executable, tmp_path: Path):
    assert exe.export(tmp_path / "my-net.h") == [tmp_path / "my-net.h"]
    text = (tmp_path / "my-net.h").read_text()
    for line in (
        "#define MLC_MY_NET_INPUTS 1",
        '#define MLC_MY_NET_INPUT_0_NAME "x"',
        "#define MLC_MY_NET_INPUT_0_SHAPE {4, 64}",
        "#define MLC_MY_NET_OUTPUT_0_BYTES 512",
        "#define MLC_MY_NET_OUTPUT_0_TYPE float",
    ):
        assert line in text
    if shutil.which("c++"):
        (tmp_path / "t.cc").write_text(
            '#include "my-net.h"\nauto run = mlc_my_net_run;\nint main() { return run == nullptr; }\n'
        )
        subprocess.run(["c++", "-Wall", "-Werror", "-fsyntax-only", "t.cc"], check=True, cwd=tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [("model.dll", "expected a file that ends in .so, .a, .o, .h"), ("nowhere/model.so", "no such directory")],
)
def test_wrong_paths(exe: mlc.Executable, tmp_path: Path, name: str, message: str):
    with pytest.raises(UserError, match=message):
        exe.export(tmp_path / name)


def test_no_binutils(exe: mlc.Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install gcc and binutils"):
        exe.export(tmp_path / "model.so")


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "X86-64"), ("aarch64", "AArch64")])
def test_weights_are_an_object(tmp_path: Path, machine: str, name: str):
    (tmp_path / "weights.bin").write_bytes(bytes(range(200)))
    write_weights_object(tmp_path / "weights.bin", "mlc_net_weights", machine, tmp_path / "w.o")
    shown = subprocess.run(["readelf", "-hsSW", tmp_path / "w.o"], capture_output=True, text=True, check=True)
    assert not shown.stderr
    assert name in shown.stdout
    symbol = next(line.split() for line in shown.stdout.splitlines() if line.endswith("mlc_net_weights"))
    assert symbol[1:7] == ["0" * 16, "200", "OBJECT", "GLOBAL", "HIDDEN", "1"]
    assert (tmp_path / "w.o").read_bytes()[64:264] == bytes(range(200))
    flags = next(line.split()[8] for line in shown.stdout.splitlines() if "rodata.mlc_weights" in line)
    assert flags == {"x86_64": "Al", "aarch64": "A"}[machine]


def test_weights_that_code_does_not_reach(tmp_path: Path):
    with (tmp_path / "weights.bin").open("wb") as file:
        file.truncate((3 << 30) + 1)  # no block of it is on the disk
    with pytest.raises(UserError, match="expected weights of at most 3221225472 bytes in a library for aarch64"):
        write_weights_object(tmp_path / "weights.bin", "w", "aarch64", tmp_path / "w.o")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="other machines have no large sections")
@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_weights_lie_behind_all_that_code_reaches(exe: mlc.Executable, tmp_path: Path, suffix: str):
    library = exe.export(tmp_path / f"model{suffix}")[0]
    linked = library if suffix == ".so" else build(tmp_path, f"./model{suffix}")
    shown = subprocess.run(["readelf", "-SW", linked], capture_output=True, text=True, check=True).stdout
    rows = [line.partition("]")[2].split() for line in shown.splitlines() if re.match(r" +\[ *\d", line)]
    allocated = {row[0]: int(row[2], 16) for row in rows if len(row) > 3 and row[2].strip("0")}
    assert max(allocated, key=lambda name: allocated[name]) == ".lrodata"
    assert next(row[6] for row in rows if row and row[0] == ".lrodata") == "Al"
    if suffix != ".so":
        shown = subprocess.run(["readelf", "-rW", library], capture_output=True, text=True, check=True).stdout
        assert re.findall(r"(R_X86_64_\w+) .* mlc_model_weights\b", shown) == ["R_X86_64_64"]


def test_weights_of_another_machine(tmp_path: Path):
    with pytest.raises(UserError, match="expected a machine of x86_64, aarch64 to export a library, but got riscv64"):
        write_weights_object(tmp_path / "weights.bin", "w", "riscv64", tmp_path / "w.o")


def test_an_export_that_is_refused_leaves_nothing(tmp_path: Path):
    path = small_model.write(tmp_path, small_model.ONE_TEXT)
    before = sorted(tmp_path.iterdir())
    words = ["compile", path, "--target", "aarch64", "--threads", 1, "-o", tmp_path / "net.so"]
    assert cli.run([str(word) for word in words]) == 1
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_an_export_that_fails_leaves_what_was_there(
    exe: mlc.Executable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
):
    for name in (f"net{suffix}", "net.h"):
        (tmp_path / name).write_text("before")
    (tmp_path / "objcopy").write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    (tmp_path / "objcopy").chmod(0o755)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UserError, match="objcopy said: no room"):
        exe.export(tmp_path / f"net{suffix}")
    assert sorted(tmp_path.iterdir()) == before
    assert all((tmp_path / name).read_text() == "before" for name in (f"net{suffix}", "net.h"))


def test_an_export_onto_a_directory(exe: mlc.Executable, tmp_path: Path):
    (tmp_path / "net.h").mkdir()
    with pytest.raises(UserError, match=r"expected a file to write at .*net\.h, but there is a directory"):
        exe.export(tmp_path / "net.so")
    assert [p.name for p in tmp_path.iterdir()] == ["net.h"]
