"""`mlc package`: a directory that builds with make alone and computes what the model computes."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import onnx_graphs
import pytest
import small_model
from random_graphs import graph_of

import mlc
from mlc.dialects.syntax.source import parse_module
from mlc.driver.export.package import write_package
from mlc.driver.export.package.spec import identifiers, package_name
from mlc.driver.options import Options
from mlc.frontends.common.model import Model
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.tools import cli

LOOP = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>, tensor<4xf32>) {
  %yes = graph.constant dense<true> : tensor<i1>
  %z, %rows, %k = graph.loop at_most 6 while(%yes : tensor<i1>) carried(%x : tensor<4xf32>)
      reads(%x : tensor<4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>, tensor<i64>) {
  ^bb0(%i: tensor<i64>, %a: tensor<4xf32>, %b: tensor<4xf32>):
    %two = graph.constant dense<3> : tensor<i64>
    %more = graph.less %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %1 = graph.add %a, %b : tensor<4xf32>
    graph.yield %more, %1, %a : tensor<i1>, tensor<4xf32>, tensor<4xf32>
  }
  %r = graph.if %yes : tensor<i1> reads(%z, %x : tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    graph.yield %a : tensor<4xf32>
  } else {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = graph.neg %b : tensor<4xf32>
    graph.yield %1 : tensor<4xf32>
  }
  func.return %z, %rows, %r : tensor<4xf32>, tensor<6x4xf32>, tensor<4xf32>
}
"""
ROWS = "tensor<?x8xf32, #graph.dims<[n]>>"
OPEN = f"""
func.func @main(%x: {ROWS} {{graph.name = "x"}}) -> ({ROWS} {{graph.name = "y"}})
    attributes {{graph.symbols = {{n = #graph.symbol<1 to 512>}}}} {{
  %0 = graph.softmax %x : {ROWS}
  func.return %0 : {ROWS}
}}
"""
FORMS = [
    ("a", 2, "embed", True),
    ("a", 1, "beside", False),
    ("so", 2, "beside", True),
    ("c", 1, "embed", False),
    ("c", 2, "beside", True),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_model.write(tmp_path_factory.mktemp("model"))


def package(
    source: Path | Model | onnx.ModelProto, directory: Path, lang: str = "a", threads: int = 1, **options: object
) -> Path:
    write_package(source, directory, Options(threads=threads), name="net", lang=lang, **options)  # pyright: ignore[reportArgumentType] the options of each test
    return directory


def make(directory: Path, *targets: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["make", "-s", "-C", directory, *targets], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("lang", "threads", "weights", "malloc"), FORMS)
def test_the_check_of_every_form_passes(
    model: Path, tmp_path: Path, lang: str, threads: int, weights: str, malloc: bool
):
    package(model, tmp_path / "net", lang, threads, weights=weights, malloc=malloc)
    done = make(tmp_path / "net", "check")
    assert not done.returncode, done.stderr
    assert re.findall(r"(\w+): agrees", done.stdout) == ["hidden", "sum"]
    if not malloc:
        library = next((tmp_path / "net").glob("*/libnet.a"))
        shown = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True).stdout
        assert not {"malloc", "free", "posix_memalign", "pthread_create"} & set(shown.split())


def test_the_check_fails_for_other_values(model: Path, tmp_path: Path):
    package(model, tmp_path / "net")
    recorded = tmp_path / "net" / "test" / "output_1.bin"
    values = np.fromfile(recorded, np.float32)
    values[5] += 0.1
    values.tofile(recorded)
    done = make(tmp_path / "net", "check")
    assert done.returncode
    assert "hidden: agrees" in done.stdout
    assert re.search(r"sum: differs by 0\.1.* at element 5", done.stdout)


@pytest.mark.parametrize("threads", [1, 2])
def test_control_flow_as_c(tmp_path: Path, threads: int):
    package(Model(parse_module(LOOP), WeightStore()), tmp_path / "net", "c", threads)
    done = make(tmp_path / "net", "check")
    assert not done.returncode, done.stderr + done.stdout
    assert done.stdout.count("agrees") == 3


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_as_c(tmp_path: Path, seed: int):
    case = graph_of(seed)
    package(Model(case.module, case.store), tmp_path / "net", "c", 1 + seed % 2)
    done = make(tmp_path / "net", "check", "CFLAGS=-O1")
    assert not done.returncode, done.stderr + done.stdout


CALLER = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int allocated, released;
static void *allocate(size_t bytes, void *user) { ++*(int *)user, ++allocated; return malloc(bytes); }
static void release(void *memory, void *user) { (void)user, ++released; free(memory); }

int main(void) {
  static float x[4 * 64], y[4 * 32], hidden[4 * 32], sum[2 * 64];
  net_inputs in = {x, y};
  net_outputs out = {hidden, sum};
  net_options options = {0};
  int count = 0;
  if (net_run(&in, &out, NULL)) return 1;
  options.allocate = allocate, options.release = release, options.user = &count;
  if (net_run(&in, &out, &options) || count != 1 || allocated != 1 || released != 1) return 2;
  char *arena = (char *)malloc(NET_WORKSPACE_BYTES(1) + 64);
  options.arena = arena + (64 - (uintptr_t)arena % 64);
  if (net_run(&in, &out, &options) || count != 1) return 3;
  options.arena = (char *)options.arena + 4;
  if (net_run(&in, &out, &options) != NET_INVALID) return 4;
  in.y = NULL;
  if (net_run(&in, &out, NULL) != NET_INVALID) return 5;
  in.y = (const float *)(const void *)((const char *)y + 1);
  if (net_run(&in, &out, NULL) != NET_INVALID || net_run(NULL, &out, NULL) != NET_INVALID) return 6;
  if (!strstr(net_strerror(NET_INVALID), "not aligned") || !strstr(net_strerror(99), "unknown")) return 7;
  free(arena);
  return 0;
}
"""


def build(directory: Path, text: str, compiler: str = "cc", *flags: str) -> Path:
    program, source = directory / "program", directory / "program.c"
    source.write_text(text)
    libraries = [str(path) for path in directory.glob("*/libnet.a")]
    kind = ["-std=c99"] if compiler == "cc" else ["-x", "c++", "-Wno-missing-field-initializers"]
    command = [compiler, *kind, "-Wall", "-Wextra", "-Werror", f"-I{directory}/include", *flags, str(source)]
    link = ["-x", "none", *libraries, "-lm", "-lpthread"]
    subprocess.run([*command, *link, "-o", str(program)], check=True)
    return program


def test_arena_allocator_and_wrong_arguments(model: Path, tmp_path: Path):
    directory = package(model, tmp_path / "net")
    assert subprocess.run([build(directory, CALLER)], check=False).returncode == 0


SIZED = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  net_shapes shapes = {{0}};
  net_sizes sizes;
  net_output_shapes outputs;
  shapes.x[0] = atoi(argv[argc - 1]), shapes.x[1] = 8;
  const int32_t status = net_sizes_of(&shapes, &sizes);
  if (status) return status;
  net_shapes_of(&sizes, &outputs);
  float *x = (float *)calloc(8 * (size_t)sizes.n, 4), *y = (float *)calloc(8 * (size_t)outputs.y[0], 4);
  x[8 * (sizes.n - 1)] = 100;
  net_inputs in = {x};
  net_outputs out = {y};
  if (net_run(&in, &out, &sizes, NULL)) return 1;
  sizes.n = 1000;
  if (net_run(&in, &out, &sizes, NULL) != NET_INVALID) return 2;
  printf("%d %g %g", (int)outputs.y[0], (double)y[0], (double)y[8 * (outputs.y[0] - 1)]);
  free(x), free(y);
  return 0;
}
"""


@pytest.mark.parametrize(("lang", "threads"), [("a", 1), ("c", 1), ("c", 2)])
def test_open_sizes(tmp_path: Path, lang: str, threads: int):
    source = Model(parse_module(OPEN), WeightStore())
    directory = package(source, tmp_path / "net", lang, threads)
    assert not make(directory, "check").returncode
    program = build(directory, SIZED)
    done = subprocess.run([program, "300"], capture_output=True, text=True, check=True)
    assert done.stdout == "300 0.125 1"
    assert subprocess.run([program, "513"], check=False).returncode == 22


def test_many_open_sizes_are_recorded_small(tmp_path: Path):
    t = "tensor<?x?x?x?x?xi8, #graph.dims<[a, b, c, d, e]>>"
    text = f"func.func @main(%x: {t}) -> {t} {{\n  %0 = graph.relu %x : {t}\n  return %0 : {t}\n}}\n"
    directory = package(Model(parse_module(text), WeightStore()), tmp_path / "net", "c")
    assert 2**19 < (directory / "test" / "input_0.bin").stat().st_size <= 2**20
    assert not make(directory, "check").returncode


@pytest.mark.parametrize("lang", ["a", "c"])
@pytest.mark.parametrize("kind", ["NonZero", "Unique"])
def test_outputs_of_a_data_dependent_length(tmp_path: Path, kind: str, lang: str):
    source = onnx_graphs.one_node(kind, {"x": np.ones((3, 2), np.int32)})
    directory = package(source, tmp_path / "net", lang)  # of values 0 and 1
    done = make(directory, "check")
    assert (done.returncode, done.stdout) == (0, "y: agrees exactly\ny_count: agrees exactly\n"), done.stderr
    recorded = np.fromfile(directory / "test" / "output_0.bin", np.int32 if kind == "Unique" else np.int64)
    recorded[0] += 1
    recorded.tofile(directory / "test" / "output_0.bin")
    assert make(directory, "check").returncode


PICTURE, ROW, SQUARE = (
    f"tensor<{sizes}xf32, #graph.dims<[{names}]>>"
    for sizes, names in (("1x4x?x?", "n, m"), ("?x?", "n, m"), ("?x?", "n, n"))
)
BUFFERS = f"""
func.func @main(%x: {ROW} {{graph.name = "x"}}, %p: {PICTURE} {{graph.name = "p"}})
    -> ({SQUARE} {{graph.name = "y"}}, {PICTURE} {{graph.name = "z"}})
    attributes {{graph.symbols = {{n = #graph.symbol<1 to 512>, m = #graph.symbol<1 to 512>}}}} {{
  %0 = graph.softmax %x {{axis = 1}} : {ROW}
  %1 = graph.dense %0, %x : ({ROW}, {ROW}) -> {SQUARE}
  %2 = graph.softmax %1 {{axis = 0}} : {SQUARE}
  %w = graph.full {{value = 0.5}} : tensor<4x4x3x3xf32>
  %3 = graph.conv2d %p, %w {{padding = [1, 1, 1, 1]}} : ({PICTURE}, tensor<4x4x3x3xf32>) -> {PICTURE}
  func.return %2, %3 : {SQUARE}, {PICTURE}
}}
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_buffers_of_open_sizes_as_c(threads: int):
    """Shared buffers, and those of each thread, of which the sizes tell how large they are."""
    one, other = (
        mlc.compile(Model(parse_module(BUFFERS), WeightStore()), target=target, threads=threads, cache=False)
        for target in ("c", "native")
    )
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (5, 300), (130, 33)):
        inputs = {name: rng.standard_normal(s).astype(np.float32) for name, s in (("x", (n, m)), ("p", (1, 4, n, m)))}
        expected = other(inputs)
        for name, values in one(inputs).items():
            np.testing.assert_allclose(values, expected[name], rtol=1e-5, atol=1e-5)


def test_wrong_options(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UserError, match="expected a new or empty directory"):
        package(model, tmp_path / "full")
    with pytest.raises(UserError, match="expected --threads 1 with --no-malloc"):
        package(model, tmp_path / "net", threads=2, malloc=False)
    assert cli.run(["package", str(model), "-o", str(tmp_path / "net"), "--name", "7up"]) == 1
    assert "expected a name that C functions may begin with, but got '7up'" in capsys.readouterr().err
    assert not (tmp_path / "net").exists()


def test_names_of_tensors_become_fields():
    assert identifiers(["x:0", "x/0", "class", "1", "*", "größe"], "input") == [
        "x_0", "x_0_", "input_class", "input_1", "input_4", "gr__e",
    ]  # fmt: skip
    assert package_name("My-Net.v2") == "my_net_v2"


@pytest.mark.tools
@pytest.mark.parametrize("lang", ["a", "c"])
def test_sanitizers_from_cpp(model: Path, tmp_path: Path, lang: str):
    if shutil.which("c++") is None:
        pytest.skip("c++ is missing")
    directory = package(model, tmp_path / "net", lang)
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
    if lang == "c":
        assert not make(directory, "all", f"CFLAGS=-O1 {' '.join(flags)}").returncode
    assert subprocess.run([build(directory, CALLER, "c++", *flags)], check=False).returncode == 0


THREADS = """
#include "net.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static float x[4 * 64], y[4 * 32], hidden[4 * 32], sum[2 * 64];
static mlc_runtime *pool;

static void *calls(void *unused) {
  float mine[4 * 32], total[2 * 64];
  net_inputs in = {x, y};
  net_outputs out = {mine, total};
  net_options options = {0};
  (void)unused;
  options.runtime = pool;
  for (int k = 0; k < 50; ++k)
    if (net_run(&in, &out, &options) || memcmp(mine, hidden, sizeof mine) || memcmp(total, sum, sizeof sum)) exit(1);
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  net_inputs in = {x, y};
  net_outputs out = {hidden, sum};
  for (int k = 0; k < 4 * 64; ++k) x[k] = (float)(k % 13) - 6;
  if (net_run(&in, &out, NULL)) return 2;
  pool = mlc_runtime_create(3);
  for (int k = 0; k < 4; ++k) pthread_create(&threads[k], NULL, calls, NULL);
  for (int k = 0; k < 4; ++k) pthread_join(threads[k], NULL);
  mlc_runtime_destroy(pool);
  return 0;
}
"""


@pytest.mark.parametrize("lang", ["a", "c"])
def test_calls_from_many_threads_share_a_pool(model: Path, tmp_path: Path, lang: str):
    directory = package(model, tmp_path / "net", lang, 2)
    assert not make(directory, "all").returncode
    assert subprocess.run([build(directory, THREADS)], check=False).returncode == 0


@pytest.mark.tools
def test_the_thread_sanitizer_finds_no_race_in_the_c_form(model: Path, tmp_path: Path):
    directory = package(model, tmp_path / "net", "c", 2)
    flags = ["-fsanitize=thread", "-g"]
    assert not make(directory, "all", f"CFLAGS=-O1 {' '.join(flags)}").returncode
    assert subprocess.run([build(directory, THREADS, "cc", *flags)], check=False).returncode == 0


def test_the_program_is_the_models(model: Path, tmp_path: Path):
    directory = package(model, tmp_path / "net", "c", 1)
    inputs = {
        "x": np.fromfile(directory / "test" / "input_0.bin", np.float32).reshape(4, 64),
        "y": np.fromfile(directory / "test" / "input_1.bin", np.float32).reshape(4, 32),
    }
    expected = mlc.compile(model, threads=1)(inputs)
    recorded = np.fromfile(directory / "test" / "output_0.bin", np.float32).reshape(4, 32)
    np.testing.assert_allclose(recorded, expected["hidden"], rtol=1e-5, atol=1e-5)
