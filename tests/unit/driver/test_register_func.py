"""Registered functions: called by operators and models, after save and export, from several threads."""

import ctypes
import subprocess
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Dialect

import mlc
from mlc import te
from mlc.dialects import own_ops
from mlc.dialects.graph.base import ELEMENTWISE, OPAQUE, GraphOp, Sample
from mlc.dialects.graph.types import Tensor, tensor
from mlc.lowering.graph_to_te.table import LOWERINGS, lowering
from mlc.support.abi import FUNCTION, FUNCTION_MISSING
from mlc.support.errors import UserError

X = np.random.default_rng(0).standard_normal((4, 64)).astype(np.float32)
MODEL = """
func.func @main(%x: tensor<4x64xf32> {graph.name = "x"}) -> (tensor<4x64xf32> {graph.name = "y"}) {
  %0 = graph.exp %x : tensor<4x64xf32>
  %1 = test_fn.cumsum %0 : tensor<4x64xf32>
  %2 = graph.relu %1 : tensor<4x64xf32>
  return %2 : tensor<4x64xf32>
}
"""


class CumulativeSumOp(GraphOp):
    """The sums along the last axis."""

    name = "test_fn.cumsum"
    kind = OPAQUE

    def infer_types(self) -> list[Tensor]:
        return [self.input_types[0]]

    def evaluate(self, np: Any, x: Any) -> tuple[Any, ...]:
        return (np.cumsum(x, axis=-1, dtype=x.dtype),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 8)),))]


def cumsum(x: Any, y: Any) -> None:
    np.cumsum(x, axis=-1, out=y)


@pytest.fixture(autouse=True)
def _functions() -> Generator[None]:
    yield
    for name in mlc.list_funcs():
        mlc.remove_func(name)


@pytest.fixture(scope="module", autouse=True)
def _own_op() -> Generator[None]:
    lowering(CumulativeSumOp)(lambda op, x: te.extern(x.shape, [x], te.call("test.cumsum"), name="cumsum"))
    yield
    LOWERINGS.pop(CumulativeSumOp)
    own_ops.USER_OPS.pop(CumulativeSumOp.name, None)


@pytest.fixture(scope="module")
def exe(tmp_path_factory: pytest.TempPathFactory, _own_op: None) -> mlc.Executable:
    path = tmp_path_factory.mktemp("model") / "net.mlir"
    path.write_text(MODEL)
    return mlc.compile(path, threads=2)


def expected(x: Any) -> Any:
    return np.cumsum(np.exp(x), axis=-1)


def operator(name: str = "test.f") -> Any:
    x = te.placeholder((4, 64), name="x")
    return mlc.build(te.extern((4, 64), [x], te.call(name), name="f"))


def test_a_model_calls_it(exe: mlc.Executable):
    assert exe.functions == ("test.cumsum",)
    with pytest.raises(UserError, match=r"the model calls 'test.cumsum': register it first"):
        exe({"x": X})
    mlc.register_func("test.cumsum", cumsum)
    np.testing.assert_allclose(exe({"x": X})["y"], expected(X), rtol=1e-5)
    assert any("cumsum" in row.kernel for row in exe.profile({"x": X}, repeat=1))


def test_after_save_and_with_the_graph_executor(exe: mlc.Executable, tmp_path: Path):
    exe.save(tmp_path / "saved")
    mlc.register_func("test.cumsum", cumsum)
    for executor in ("aot", "steps", "graph", "vm"):
        loaded = mlc.load_executable(tmp_path / "saved", executor=executor)
        assert loaded.functions == ("test.cumsum",)
        np.testing.assert_allclose(loaded({"x": X})["y"], expected(X), rtol=1e-5)


@pytest.mark.parametrize("executor", ["graph", "vm"])
def test_with_other_executors(executor: str, tmp_path: Path):
    path = tmp_path / "net.mlir"
    path.write_text(MODEL)
    exe = mlc.compile(path, threads=1, executor=executor)
    assert exe.functions == ("test.cumsum",)
    with pytest.raises(UserError, match=r"calls 'test.cumsum': register it first"):
        exe({"x": X})
    mlc.register_func("test.cumsum", cumsum)
    np.testing.assert_allclose(exe({"x": X})["y"], expected(X), rtol=1e-5)
    mlc.register_func("test.cumsum", lambda x, y: 1 / 0, override=True)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: division by zero"):
        exe({"x": X})


def test_a_model_of_open_sizes(tmp_path: Path):
    """One compiled program calls the function on arrays of each size, and its C print does."""
    path = tmp_path / "net.mlir"
    path.write_text(MODEL.replace("tensor<4x64xf32>", "tensor<?x64xf32, #graph.dims<[n]>>"))
    mlc.register_func("test.cumsum", cumsum)
    exe = mlc.compile(path, threads=2)
    exe.save(tmp_path / "saved")
    loaded = mlc.load_executable(tmp_path / "saved", executor="steps")
    for rows in (1, 4, 100):
        x = np.resize(X, (rows, 64))
        for program in (exe, loaded):
            np.testing.assert_allclose(program({"x": x})["y"], expected(x), rtol=1e-4)


def test_an_exception_crosses(exe: mlc.Executable):
    def broken(x: Any, y: Any) -> None:
        raise KeyError("no such row")

    mlc.register_func("test.cumsum", broken)
    with pytest.raises(RuntimeError, match=r"KeyError: 'no such row'") as caught:
        exe({"x": X})
    assert isinstance(caught.value.__cause__, KeyError)
    mlc.register_func("test.cumsum", cumsum, override=True)
    np.testing.assert_allclose(exe({"x": X})["y"], expected(X), rtol=1e-5)


def test_an_interrupt_stays_one():
    def interrupted(x: Any, y: Any) -> None:
        raise KeyboardInterrupt

    mlc.register_func("test.f", interrupted)
    with pytest.raises(KeyboardInterrupt):
        operator()(X)


def test_inputs_cannot_be_written_and_outputs_are_not_returned():
    op = operator()
    mlc.register_func("test.f", lambda x, y: x.fill(0))
    with pytest.raises(RuntimeError, match="read-only"):
        op(X)
    mlc.register_func("test.f", lambda x, y: x + y, override=True)
    with pytest.raises(RuntimeError, match="to write its outputs and return None"):
        op(X)


def test_it_follows_the_registry():
    op = operator()
    mlc.register_func("test.f", lambda x, y: np.negative(x, out=y) is None or None)
    assert np.array_equal(op(X), -X)
    mlc.register_func("test.f", lambda x, y: y.fill(3), override=True)
    assert np.array_equal(op(X), np.full_like(X, 3))
    mlc.remove_func("test.f")
    with pytest.raises(UserError, match=r"'f' calls 'test.f': register it first"):
        op(X)


def test_a_c_pointer(tmp_path: Path):
    (tmp_path / "twice.c").write_text("""
    #include <stdint.h>
    #include <stdio.h>
    typedef struct { void *data; int32_t device, id, rank; uint8_t code, bits; uint16_t lanes;
                     const int64_t *shape, *strides; uint64_t offset; } tensor;
    int32_t twice(void *context, const tensor *t, int32_t inputs, int32_t outputs, char *error) {
      const float *x = t[0].data; float *y = t[1].data;
      if (context || inputs != 1 || outputs != 1 || t[0].code != 2 || t[0].bits != 32) return 1;
      if (x[0] < 0) { snprintf(error, 256, "the first element is %g", x[0]); return 5; }
      for (int64_t i = 0; i < t[0].shape[0] * t[0].shape[1]; ++i) y[i] = 2 * x[i];
      return 0;
    }""")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "twice.so", "twice.c"], check=True, cwd=tmp_path)
    mlc.register_func("test.f", ctypes.CDLL(str(tmp_path / "twice.so")).twice)
    op = operator()
    assert np.array_equal(op(abs(X)), 2 * abs(X))
    with pytest.raises(RuntimeError, match="called a function that failed: the first element is -1"):
        op(np.full_like(X, -1))
    mlc.register_func("test.f", FUNCTION(lambda *args: 9), override=True)
    with pytest.raises(RuntimeError, match="returned error 9"):
        op(X)


def test_several_threads_at_once():
    ops = [operator() for _ in range(3)]
    mlc.register_func("test.f", lambda x, y: np.multiply(x, 2, out=y) is None or None)
    wrong: list[int] = []

    def work(index: int) -> None:
        for turn in range(20):
            x = X + np.float32(index * 100 + turn)
            if not np.array_equal(ops[index](x), 2 * x):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_in_a_parallel_loop():
    """Each thread of the pool calls Python; the call of one that fails ends the program."""
    x = te.placeholder((8,), name="x")

    def body(b: Any, ins: Any, outs: Any) -> None:
        b.loop(0, 8, [], lambda i: b.call(te.call("test.count").callee, [], []), kind="parallel")
        b.loop(0, 8, [], lambda i: b.store(b.load(ins[0], i), outs[0], i))

    calls: list[int] = []
    mlc.register_func("test.count", lambda: calls.append(1))
    op = mlc.build(te.extern((8,), [x], body), threads=2)
    assert np.array_equal(op(X[0, :8]), X[0, :8])
    assert len(calls) == 8


def test_a_c_program_registers_its_own(exe: mlc.Executable, tmp_path: Path):
    (tmp_path / "main.c").write_text("""
    #include <stdio.h>
    #include <string.h>
    #include "net.h"
    static int32_t cumsum(void *context, const mlc_tensor *t, int32_t inputs, int32_t outputs, char *error) {
      const float *x = t[0].data; float *y = t[1].data;
      int64_t n = t[0].shape[1];
      if (x[0] > 1000) { strcpy(error, "too large"); return 3; }
      for (int64_t i = 0; i < t[0].shape[0]; ++i)
        for (int64_t j = 0; j < n; ++j) y[i * n + j] = x[i * n + j] + (j ? y[i * n + j - 1] : 0);
      return (context != 0) + (inputs != 1) + (outputs != 1);
    }
    int main(void) {
      static float x[MLC_NET_INPUT_0_ELEMENTS], y[MLC_NET_OUTPUT_0_ELEMENTS];
      const void *in[] = {x};
      void *out[] = {y};
      mlc_runtime *rt = mlc_runtime_create(2);
      if (mlc_net_run(in, out, rt) != MISSING) return 1;
      if (mlc_net_register("other", cumsum) == 0 || mlc_net_register("test.cumsum", cumsum)) return 2;
      if (mlc_net_run(in, out, rt)) return 3;
      if (y[0] != 1 || y[63] != 64) return 4;
      x[0] = 50;
      if (mlc_net_run(in, out, rt) != 3 || strcmp(rt->error, "too large")) return 5;
      mlc_runtime_destroy(rt);
      return 0;
    }""")
    for name in ("net.so", "net.a"):
        exe.export(tmp_path / name)
        command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", f"-DMISSING={FUNCTION_MISSING}", "-I.", "main.c"]
        subprocess.run(
            [*command, f"./{name}", f"-Wl,-rpath,{tmp_path}", "-lm", "-lpthread", "-o", "main"],
            check=True,
            cwd=tmp_path,
        )
        assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_the_registry():
    @mlc.register_func
    def plain() -> None: ...

    @mlc.register_func("test.named")
    def named() -> None: ...

    assert mlc.list_funcs() == ["plain", "test.named"]
    assert mlc.get_func("plain") is plain
    with pytest.raises(UserError, match="'plain' is registered; override=True replaces it"):
        mlc.register_func("plain", named)
    with pytest.raises(UserError, match=r"did you mean 'test.named'"):
        mlc.get_func("test.name")
    with pytest.raises(UserError, match=r"expected the name of a function like 'my.function', but got 'a b'"):
        mlc.register_func("a b", named)
    with pytest.raises(UserError, match="expected 'x' to be a function, but got 3"):
        mlc.register_func("x", 3)  # pyright: ignore[reportArgumentType,reportCallIssue]
    mlc.remove_func("plain")
    with pytest.raises(UserError, match="expected a registered function 'plain'"):
        mlc.remove_func("plain")


def test_validated_each(tmp_path: Path):
    """Every pass is compared while the function is called, native code included; an unregistered one is refused."""
    path = tmp_path / "net.mlir"
    path.write_text(MODEL)
    mlc.register_func("test.cumsum", cumsum)
    exe = mlc.compile(path, validate_each=True)
    assert exe.report["validated"]["comparisons"] > 10
    assert not exe.report["validated"]["unsure"]


def test_a_pointwise_op_may_not_call():
    class WrongOp(CumulativeSumOp):
        """Says that it is elementwise."""

        name = "test_fn.wrong"
        kind = ELEMENTWISE

    Dialect("test_fn2", [WrongOp])
    with pytest.raises(UserError, match=r"expected kind = OPAQUE of test_fn.wrong, whose te has a te.extern"):
        lowering(WrongOp)(lambda op, x: te.extern(x.shape, [x], te.call("test.cumsum")))
