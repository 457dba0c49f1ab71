"""Packages of programs that call other people's C: registered functions, C functions of libraries."""

import ctypes
import re
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import te
from mlc.dialects import own_ops
from mlc.dialects.graph.base import OPAQUE, GraphOp, Sample
from mlc.dialects.graph.types import Tensor, tensor
from mlc.driver.export.package import write_package
from mlc.driver.options import Options
from mlc.lowering.graph_to_te.table import LOWERINGS, lowering
from mlc.support.abi import FUNCTION
from mlc.support.errors import UserError

MODEL = """
func.func @main(%x: tensor<4x64xf32> {graph.name = "x"}) -> (tensor<4x64xf32> {graph.name = "y"}) {
  %0 = graph.abs %x : tensor<4x64xf32>
  %1 = test_pack.scaled %0 : tensor<4x64xf32>
  %2 = test_pack.scaled %1 : tensor<4x64xf32>
  %3 = graph.sqrt %2 : tensor<4x64xf32>
  return %3 : tensor<4x64xf32>
}
"""
LIBRARY = """
#include <stdint.h>
#include <string.h>
typedef struct tensor {
  void *data; int32_t device_type, device_id, rank; uint8_t code, bits; uint16_t lanes;
  const int64_t *shape, *strides; uint64_t byte_offset;
} tensor;
int32_t times_three(void *context, const tensor *t, int32_t inputs, int32_t outputs, char *error) {
  const float *x = (const float *)t[0].data;
  const float by = context ? *(const float *)context : 3;
  if (inputs != 1 || outputs != 1 || t[1].rank != 2 || t[1].bits != 32) return 7;
  if (by < 0) { strcpy(error, "a negative factor"); return 9; }
  for (int64_t k = 0; k < t[0].shape[0] * t[0].shape[1]; ++k) ((float *)t[1].data)[k] = by * x[k];
  return 0;
}
int scale_by(const float *x, float *y, int count, float by) {
  for (int k = 0; k < count; ++k) y[k] = by * x[k];
  return 0;
}
"""


class ScaledOp(GraphOp):
    """Three times the input."""

    name = "test_pack.scaled"
    kind = OPAQUE

    def infer_types(self) -> list[Tensor]:
        return [self.input_types[0]]

    def evaluate(self, np: Any, x: Any) -> tuple[Any, ...]:
        return (3 * x,)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 8)),))]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("library")
    (directory / "scale.c").write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "scale.c", "-o", "libscale.so"], check=True, cwd=directory)
    return directory / "libscale.so"


@pytest.fixture(autouse=True)
def _functions() -> Generator[None]:
    yield
    for name in mlc.list_funcs():
        mlc.remove_func(name)
    LOWERINGS.pop(ScaledOp)


@pytest.fixture(scope="module", autouse=True)
def _own_op() -> Generator[None]:
    yield
    own_ops.USER_OPS.pop(ScaledOp.name, None)


@pytest.fixture
def registered(library: Path) -> None:
    lowering(ScaledOp)(lambda op, x: te.extern(x.shape, [x], te.call("test.scaled"), name="scaled"))
    mlc.register_func("test.scaled", ctypes.CDLL(str(library)).times_three)


def package(directory: Path, lang: str, threads: int = 1) -> Path:
    (directory / "net.mlir").write_text(MODEL)
    options = Options(threads=threads)
    write_package(directory / "net.mlir", directory / "net", options, name="net", lang=lang)
    return directory / "net"


def make(directory: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["make", "-s", "-C", directory, *words], capture_output=True, text=True, check=False)


CALLER = """
#include "net.h"
#include <string.h>
int32_t times_three(void *, const mlc_tensor *, int32_t, int32_t, char *);
int main(void) {
  static float x[4 * 64], y[4 * 64];
  char error[256] = "";
  float by = 4;
  net_inputs in = {x};
  net_outputs out = {y};
  net_options options = {0};
  net_functions functions = {{0, 0}};
  options.error = error;
  x[7] = -25;
  if (net_run(&in, &out, &options) != NET_MISSING_FUNCTION) return 1;
  options.functions = &functions;
  if (net_run(&in, &out, &options) != NET_MISSING_FUNCTION) return 2;
  if (!strstr(net_strerror(NET_MISSING_FUNCTION), "lacks a function")) return 3;
  functions.test_scaled.call = times_three;
  if (net_run(&in, &out, &options) || y[7] != 15) return 4;
  functions.test_scaled.context = &by;
  if (net_run(&in, &out, &options) || y[7] != 20 || y[8] != 0) return 5;
  by = -1;
  if (net_run(&in, &out, &options) != 9 || strcmp(error, "a negative factor")) return 6;
  return 0;
}
"""


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("lang", ["a", "so", "c"])
def test_a_registered_c_function_is_a_pointer_of_the_caller(tmp_path: Path, library: Path, lang: str):
    directory = package(tmp_path, lang)
    done = make(directory, "check")
    assert not done.returncode, done.stderr + done.stdout
    assert "y: agrees" in done.stdout
    (directory / "program.c").write_text(CALLER)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{directory}/include", "program.c"]
    link = [str(next(directory.glob("*/libnet.*"))), str(library), "-lm"]
    subprocess.run(
        ["cc", *flags, *link, f"-Wl,-rpath,{library.parent}:{directory}/lib", "-o", "program"],
        check=True,
        cwd=directory,
    )
    assert subprocess.run([directory / "program"], check=False).returncode == 0


@pytest.mark.parametrize(("lang", "threads"), [("a", 1), ("c", 1), ("c", 2)])
def test_c_functions_of_a_library(tmp_path: Path, library: Path, lang: str, threads: int):
    def scaled(op: Any, x: Any) -> Any:
        count, by = np.int32(x.shape[0] * x.shape[1]), np.float32(3)
        copied = te.extern(x.shape, [x], te.c_call("memcpy", te.output(), x, np.int64(4 * count)), name="copied")
        call = te.c_call("scale_by", copied, te.output(), int(count), by, libraries=[str(library)], status=True)
        return te.extern(x.shape, [copied], call, name="scaled")

    lowering(ScaledOp)(scaled)
    directory = package(tmp_path, lang, threads)
    done = make(directory, "check")
    assert not done.returncode, done.stderr + done.stdout
    assert "y: agrees" in done.stdout
    config = (directory / "net.pc").read_text()
    assert re.search(rf"^Libs.private: .*{re.escape(str(library))}", config, re.MULTILINE)
    assert str(library) in (directory / "CMakeLists.txt").read_text()


@pytest.mark.usefixtures("registered")
def test_functions_that_are_no_symbols_are_refused(tmp_path: Path):
    mlc.register_func("test.scaled", lambda x, y: np.multiply(x, 3, out=y), override=True)
    with pytest.raises(UserError, match=r"but 'test\.scaled', which the program calls, is a Python function; register"):
        package(tmp_path, "a")
    mlc.register_func("test.scaled", FUNCTION(lambda *_: 0), override=True)
    with pytest.raises(UserError, match=r"'test\.scaled', which the program calls, to be a symbol of a library"):
        package(tmp_path, "c")
    mlc.remove_func("test.scaled")
    with pytest.raises(UserError, match=r"expected a registered function 'test\.scaled'"):
        package(tmp_path, "a")
    assert not (tmp_path / "net").exists()
