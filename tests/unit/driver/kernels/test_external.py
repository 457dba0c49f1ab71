"""External compilers: the toy accelerator takes over parts of a model; compiled, saved, exported, validated."""

import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import toy_accelerator

import mlc
from mlc.byoc import (
    ExternalKernel,
    Pattern,
    PatternMatch,
    Region,
    is_constant,
    is_op,
    register_compiler,
    remove_compiler,
    wildcard,
)
from mlc.codegen.external import compile_c
from mlc.driver.export.package.write import write_package
from mlc.driver.options import Options
from mlc.support.errors import UserError
from mlc.support.registered import registrations
from mlc.support.weights import WeightStore
from mlc.tools import cli

ADD = """
func.func @main(%x: tensor<2x4xf32> {graph.name = "x"}) -> (tensor<2x4xf32> {graph.name = "y"}) {
  %w = graph.param "w" : tensor<2x4xf32>
  %0 = graph.add %x, %w : tensor<2x4xf32>
  %1 = graph.softmax %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
"""

ADD_C = """
#include "mlc_runtime.h"
static const float *w;
int32_t INIT(void **constants, mlc_runtime *rt) { (void)rt; w = constants[0]; return 0; }
int32_t NAME(void **args, mlc_runtime *rt) {
  (void)rt;
  for (int k = 0; k < 8; ++k) ((float *)args[1])[k] = ((const float *)args[0])[k] + w[k];
  return 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_accelerator.build(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def toy(library: Path) -> Generator[Any]:
    module = toy_accelerator.load()
    module.register(str(library))
    yield module
    remove_compiler("toy")
    registrations.REGISTERED.pop(("compiler", "toy"))


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_accelerator.write_model(tmp_path_factory.mktemp("net") / "net.onnx")


@pytest.fixture(scope="module")
def expected(net: Path) -> Any:
    return mlc.compile(net, threads=1)(toy_accelerator.inputs())["y"]


@pytest.fixture(scope="module")
def exe(toy: Any, net: Path) -> mlc.Executable:
    return mlc.compile(net, threads=2, compilers=["toy"])


@pytest.fixture
def add(tmp_path: Path) -> Generator[Path]:
    """A model with a sum, for compilers of the tests' own."""
    path = tmp_path / "add.mlir"
    path.write_text(ADD)
    store = WeightStore()
    store.add("w", np.arange(8, dtype=np.float32).reshape(2, 4))
    store.save(path.with_suffix(".safetensors"))
    yield path
    if ("compiler", "mine") in registrations.REGISTERED:
        remove_compiler("mine")
        registrations.REGISTERED.pop(("compiler", "mine"))


def mine(kernel: Any, **options: Any) -> None:
    """Register a compiler of sums whose codegen is this function, or returns this."""
    pattern = Pattern("add", is_op("graph.add")(wildcard(), is_constant()))
    codegen = kernel if callable(kernel) else lambda region: kernel
    register_compiler("mine", [pattern], codegen, **options)


def summing(region: Region, by: str = "c[i]") -> ExternalKernel:
    """x + w, with w from init, where a counter is raised."""
    (weights,) = region.constants.values()
    source = f"""
    #include "mlc_runtime.h"
    static const float *c; static int times;
    int32_t {region.init}(void **constants, mlc_runtime *rt) {{
      c = constants[0];
      return ++times > 1 || rt->threads < 1 ? 99 : 0;
    }}
    int32_t {region.name}(void **args, mlc_runtime *rt) {{
      const float *x = args[0]; float *y = args[1];
      (void)rt;
      for (int i = 0; i < 8; ++i) y[i] = x[i] + {by};
      return x[0] > 1000 ? 42 : 0;
    }}"""
    return ExternalKernel(c_source=source, constants=[weights], init=True)


def test_results_are_equal(exe: mlc.Executable, expected: Any, library: Path):
    before = toy_accelerator.cycles(library)
    np.testing.assert_allclose(exe(toy_accelerator.inputs())["y"], expected, rtol=1e-4, atol=1e-5)
    assert toy_accelerator.cycles(library) > before, "the device has run"


def test_what_it_takes(exe: mlc.Executable):
    rows = {row.origins: row.schedule for row in exe.profile(toy_accelerator.inputs(), repeat=1)}
    assert rows["conv1", "relu1", "conv2"] == "external: toy", "one region, since the sum reads both"
    assert rows[("fc",)] == "external: toy"
    assert all("toy" not in schedule for origins, schedule in rows.items() if "add" in origins)


def test_its_weights_are_bound(exe: mlc.Executable):
    assert exe.artifact.model["weights_bytes"] == 0
    assert [Path(name).name for name in exe.artifact.model["libraries"]] == ["libtoy.so"]


def test_saved_and_loaded(exe: mlc.Executable, expected: Any, tmp_path: Path):
    exe.save(tmp_path / "saved")
    for executor in ("aot", "steps"):
        loaded = mlc.load_executable(tmp_path / "saved", executor=executor)
        np.testing.assert_allclose(loaded(toy_accelerator.inputs())["y"], expected, rtol=1e-4, atol=1e-5)


def test_exported(exe: mlc.Executable, expected: Any, library: Path, tmp_path: Path):
    (tmp_path / "main.c").write_text("""
    #include <stdio.h>
    #include "net.h"
    int main(void) {
      static float x[MLC_NET_INPUT_0_ELEMENTS], y[MLC_NET_OUTPUT_0_ELEMENTS];
      const void *in[] = {x};
      void *out[] = {y};
      mlc_runtime *rt = mlc_runtime_create(1);
      if (fread(x, sizeof x, 1, stdin) != 1 || mlc_net_run(in, out, rt) || mlc_net_run(in, out, rt)) return 1;
      fwrite(y, sizeof y, 1, stdout);
      mlc_runtime_destroy(rt);
      return 0;
    }""")
    for name, more in (("net.so", []), ("net.a", [str(library)])):
        exe.export(tmp_path / name)
        paths = [f"-Wl,-rpath,{tmp_path}", f"-Wl,-rpath,{library.parent}"]
        command = [
            "cc",
            "-std=c99",
            "-Wall",
            "-Werror",
            "-I.",
            "main.c",
            f"./{name}",
            *more,
            *paths,
            "-lm",
            "-lpthread",
        ]
        subprocess.run([*command, "-o", "main"], check=True, cwd=tmp_path)
        done = subprocess.run([tmp_path / "main"], input=toy_accelerator.inputs()["x"].tobytes(), capture_output=True)
        assert done.returncode == 0
        result = np.frombuffer(done.stdout, np.float32).reshape(expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_packaged(toy: Any, net: Path, tmp_path: Path):
    options = Options(threads=1, compilers=("toy",))
    write_package(net, tmp_path / "a", options, name="net", lang="a")
    subprocess.run(["make", "-s", "check"], check=True, cwd=tmp_path / "a")


@pytest.mark.parametrize("threads", [1, 2])
def test_in_a_package_of_c_source(toy: Any, net: Path, library: Path, tmp_path: Path, threads: int):
    options = Options(threads=threads, compilers=("toy",))
    write_package(net, tmp_path / "net", options, name="net", lang="c")
    assert not any(str(toy_accelerator.HERE) in path.read_text() for path in (tmp_path / "net").glob("[!t]*/**/*.[ch]"))
    assert str(toy_accelerator.HERE) not in (tmp_path / "net" / "Makefile").read_text()
    assert (tmp_path / "net" / "src" / "external" / "accelerator.h").is_file()
    done = subprocess.run(["make", "-s", "check"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert not done.returncode, done.stderr + done.stdout
    assert "y: agrees" in done.stdout
    assert str(library) in (tmp_path / "net" / "net.pc").read_text().partition("Libs.private:")[2]
    if shutil.which("cmake"):
        for command in (["cmake", "-S", "net", "-B", "cmake"], ["cmake", "--build", "cmake"]):
            subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
        subprocess.run(["ctest", "--test-dir", "cmake"], check=True, cwd=tmp_path, capture_output=True)


def test_an_object_in_a_package_of_c_source(add: Path, tmp_path: Path):
    def codegen(region: Region) -> ExternalKernel:
        array = next(iter(region.constants.values()))
        source = ADD_C.replace("NAME", region.name).replace("INIT", region.init)
        return ExternalKernel(object=compile_c(source, ["-O1"], "mine"), constants=[array], init=True)

    register_compiler("mine", [Pattern("add", is_op("graph.add")(wildcard(), is_constant()))], codegen, version="1")
    write_package(add, tmp_path / "net", Options(threads=1, compilers=("mine",)), name="net", lang="c")
    done = subprocess.run(["make", "-s", "check"], cwd=tmp_path / "net", capture_output=True, text=True)
    assert not done.returncode, done.stderr + done.stdout
    x = np.fromfile(tmp_path / "net" / "test" / "input_0.bin", np.float32).reshape(2, 4)
    y = np.fromfile(tmp_path / "net" / "test" / "output_0.bin", np.float32).reshape(2, 4)
    expected = np.exp(x + np.arange(8).reshape(2, 4))
    np.testing.assert_allclose(y, expected / expected.sum(1, keepdims=True), rtol=1e-4)


def test_through_the_context_and_the_command(toy: Any, net: Path, library: Path, tmp_path: Path, capsys: Any):
    with mlc.PassContext(config={"graph-annotate.compiler": "toy"}):
        exe = mlc.compile(net)
    assert any("external: toy" in row.schedule for row in exe.profile(toy_accelerator.inputs(), repeat=1))
    text = (
        f"import sys\nsys.path.insert(0, {str(toy_accelerator.HERE)!r})\nimport toy\ntoy.register({str(library)!r})\n"
    )
    (tmp_path / "load_toy.py").write_text(text)
    out = tmp_path / "net.so"
    given = ["--load", str(tmp_path / "load_toy.py"), "--compiler", "toy", "-o", str(out)]
    assert cli.run(["compile", str(net), *given]) == 0
    assert cli.run(["compile", str(net), *given, "--emit", "graph"]) == 0
    assert 'compiler = "toy"' in out.read_text()
    assert cli.run(["compile", str(net), "--compiler", "toys", "-o", str(out)]) == 1
    assert "expected a registered compiler, but got 'toys'; did you mean 'toy'?" in capsys.readouterr().err


def test_init_runs_once_and_statuses_are_returned(add: Path):
    mine(summing, version="1")
    exe = mlc.compile(add, compilers=["mine"], threads=2, cache=False)
    x = np.ones((2, 4), np.float32)
    first = exe({"x": x})["y"]
    assert np.array_equal(exe({"x": x})["y"], first)
    np.testing.assert_allclose(first, mlc.compile(add)({"x": x})["y"], rtol=1e-5)
    with pytest.raises(RuntimeError, match="returned error 42"):
        exe({"x": x * 2000})


def test_a_wrong_kernel_is_found(add: Path):
    mine(lambda region: summing(region, "c[7 - i]"), version="1")
    with pytest.raises(Exception, match=r"by compiler 'mine': output 0 at \[0, 0\]"):
        mlc.compile(add, compilers=["mine"], validate_each=True)


def test_a_right_kernel_is_validated(add: Path):
    mine(summing, version="1")
    report = mlc.compile(add, compilers=["mine"], validate_each=True).report
    assert report["validated"]["comparisons"] > 5


def test_an_object_of_another_compiler(add: Path, tmp_path: Path):
    def codegen(region: Region) -> ExternalKernel:
        code = f"int {region.name}(void **a, void *rt) {{ float *x = a[0], *y = a[1], *t = a[2];"
        code += " for (int i = 0; i < 8; ++i) t[i] = x[i] + i; for (int i = 0; i < 8; ++i) y[i] = t[i];"
        (tmp_path / "own.c").write_text(code + " return rt == 0; }")
        subprocess.run(["cc", "-c", "-fPIC", "own.c"], check=True, cwd=tmp_path)
        return ExternalKernel(object=(tmp_path / "own.o").read_bytes(), workspace_bytes=32)

    mine(codegen)
    x = np.ones((2, 4), np.float32)
    found = mlc.compile(add, compilers=["mine"])({"x": x})["y"]
    np.testing.assert_allclose(found, mlc.compile(add)({"x": x})["y"], rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (None, r"expected the codegen of 'mine_\w+' by compiler 'mine' to return an ExternalKernel, but got None"),
        (ExternalKernel(), "expected either an object or C source"),
        (ExternalKernel(c_source="int x", constants=[1]), "expected init=True"),
        (ExternalKernel(c_source="int x"), r"the C code of 'mine_\w+' by compiler 'mine' to compile, but got"),
        (ExternalKernel(c_source="int x;"), r"to define 'mine_\w+_body', but it defines x"),
        (lambda region: region.nothing, "the codegen of .* raised AttributeError"),
    ],
)
def test_wrong_code(add: Path, kernel: Any, message: str):
    mine(kernel)
    with pytest.raises(UserError, match=message):
        mlc.compile(add, compilers=["mine"], threads=1)


def test_the_cache_depends_on_the_compiler(add: Path):
    x = np.ones((2, 4), np.float32)
    plain = mlc.compile(add)({"x": x})["y"]
    mine(lambda region: summing(region, "0 * c[i]"), version="a")
    zero = mlc.compile(add, compilers=["mine"])({"x": x})["y"]
    mine(lambda region: summing(region, "-c[i]"), version="b", override=True)
    minus = mlc.compile(add, compilers=["mine"])({"x": x})["y"]
    assert not np.allclose(plain, zero)
    assert not np.allclose(zero, minus)


def test_wrong_registrations():
    def codegen(region: Region) -> ExternalKernel:
        return ExternalKernel()

    with pytest.raises(UserError, match="to be an identifier, but got 'a b'"):
        register_compiler("a b", [], codegen)
    with pytest.raises(UserError, match="expected patterns to be a list of Pattern"):
        register_compiler("other", ["graph.add"], codegen)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match=r"call is_op\(...\) on the operands' shapes, or on nothing"):
        Pattern("add", is_op("graph.add"))  # pyright: ignore[reportArgumentType]
    with pytest.raises(UserError, match="expected compilers as a list of names, but got 'toy'"):
        mlc.compile("net.onnx", compilers="toy")
    with pytest.raises(UserError, match="expected a registered compiler, but got 'none'"):
        remove_compiler("none")


def test_patterns():
    """Alternatives, optional ops, and a condition."""
    from mlc.driver.models.load import parse_module

    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = graph.constant dense<1.0> : tensor<1xf32>
      %0 = graph.exp %x : tensor<4xf32>
      %1 = graph.add %0, %c : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
      %2 = graph.tanh %1 : tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    ops = list(next(parse_module(text, "test").walk()).body.block.first_op.body.block.ops)
    order = {op: k for k, op in enumerate(ops)}
    either = is_op("graph.log")(wildcard()) | is_op("graph.exp")(wildcard())
    added = either.optional(lambda one: is_op("graph.add")(one, is_constant()))
    pattern = Pattern("p", is_op("graph.tanh")(added))
    match = pattern.match(ops[3], order)
    assert match == PatternMatch("p", tuple(ops[1:4]))
    assert match.find("graph.exp") is ops[1]
    assert match.find("graph.log") is None
    assert Pattern("p", is_op("graph.tanh")(added), lambda match: False).match(ops[3], order) is None
    assert pattern.match(ops[2], order) is None
    assert Pattern("p", is_op("graph.add")(wildcard())).match(ops[2], order) is None, "another number of operands"
