"""te.extern: loop bodies, C functions and registered functions; interpreted, compiled and printed as C."""

import ctypes
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32

import mlc
from mlc import te
from mlc.codegen.c.emit import print_module
from mlc.driver.models.load import parse_module
from mlc.interp import te as interpreter
from mlc.interp.errors import InterpreterError
from mlc.lowering.te_to_loop.convert import convert_func
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

SCALE = """
int scale(const float *x, float by, long n, float *y) {
  for (long i = 0; i < n; ++i) y[i] = by * x[i];
  return by < 0 ? 7 : 0;
}"""
X = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def _functions() -> Generator[None]:
    yield
    for name in mlc.list_funcs():
        mlc.remove_func(name)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("c")
    (directory / "scale.c").write_text(SCALE)
    command = ["cc", "-shared", "-fPIC", "-o", "libscale.so", "scale.c"]
    subprocess.run(command, check=True, cwd=directory)
    return str(directory / "libscale.so")


def around(body: Any, **options: Any) -> Any:
    """A kernel with a stage before and one behind a te.extern of the row sums of the first."""
    x = te.placeholder((6, 8), name="x")
    doubled = te.compute((6, 8), lambda i, j: x[i, j] * 2, "doubled")
    rows = te.extern((6,), [doubled], body, name="rows", **options)
    return te.func("around", [x], [te.compute((6,), lambda i: rows[i] + 1, "plus")])


def sum_rows(b: Any, ins: Any, outs: Any) -> None:
    """The sums of the rows of a 6x8 matrix, row by row on several threads."""

    def row(i: Any) -> None:
        zero = b.constant(0.0, f32)
        (total,) = b.loop(0, 8, [zero], lambda j, total: [b.arith("addf", total, b.load(ins[0], i, j))])
        b.store(total, outs[0], i)

    b.loop(0, 6, [], row, kind="parallel")


def check(func: Any, expected: Any, *inputs: Any) -> Any:
    """The kernel's text is parsed to the same kernel; the interpreter and the compiled kernel give the results."""
    parsed = parse_module(str(func), "test")
    parsed.verify()
    assert str(parsed.body.block.first_op) == str(func)
    np.testing.assert_allclose(interpreter.run(func, list(inputs))[0], expected, rtol=1e-5)
    op = mlc.build(func, threads=2)
    np.testing.assert_allclose(op(*inputs), expected, rtol=1e-5)
    return op


def test_a_loop_body():
    check(around(sum_rows), (2 * X).sum(1) + 1, X)


def test_stages_around_it_are_scheduled():
    op = mlc.build(around(sum_rows))
    assert "tile (d0" in op.text("loop"), "the stage before is vectorized"


def test_a_registered_function():
    mlc.register_func("test.rows", lambda x, y: y.__setitem__(..., x.sum(1)))
    op = check(around(te.call("test.rows")), (2 * X).sum(1) + 1, X)
    assert op.functions == ("test.rows",)


def test_a_c_function(library: str):
    x = te.placeholder((6, 8), name="x")
    call = te.c_call("scale", x, np.float32(0.5), np.int64(48), te.output(), libraries=[library], status=True)
    func = te.func("scaled", [x], [te.extern((6, 8), [x], call, name="scaled")])
    check(func, X / 2, X)


def test_the_status_of_a_c_function(library: str):
    x = te.placeholder((4,), name="x")
    call = te.c_call("scale", x, np.float32(-1), np.int64(4), te.output(), libraries=[library], status=True)
    op = mlc.build(te.extern((4,), [x], call))
    with pytest.raises(RuntimeError, match="returned error 7"):
        op(np.ones(4, np.float32))


def test_several_outputs_of_own_dtypes():
    def best(x: Any, value: Any, index: Any) -> None:
        value[...], index[...] = x.max(1), x.argmax(1)

    mlc.register_func("test.best", best)
    x = te.placeholder((6, 8), name="x")
    value, index = te.extern([(6,), (6,)], [x], te.call("test.best"), dtype=["float32", "int64"])
    op = mlc.build([x, value, index])
    found, where = op(X)
    assert np.array_equal(found, X.max(1))
    assert np.array_equal(where, X.argmax(1))
    assert where.dtype == np.int64


def test_element_types_and_scalars():
    seen: list[Any] = []
    mlc.register_func("test.note", lambda *arrays: seen.extend((a.dtype.name, a.shape) for a in arrays))
    dtypes = ["bfloat16", "float16", "float64", "int8", "uint8", "bool", "int32"]
    inputs = [te.placeholder((2, k), dtype, name=f"x{k}") for k, dtype in enumerate(dtypes, 1)]
    func = te.func("note", inputs, [te.extern((), inputs, te.call("test.note"), dtype="uint16")])
    assert str(parse_module(str(func), "test").body.block.first_op) == str(func)
    arrays = [np.zeros((2, k), dtype_of(d)) for k, d in enumerate(dtypes, 1)]
    expected = [*((d, (2, k)) for k, d in enumerate(dtypes, 1)), ("uint16", ())]
    mlc.build(func)(*arrays)
    assert seen == expected
    seen.clear()
    # te's integers have no sign, so that the interpreter takes signed ones
    signed = [a.view(np.int8) if a.dtype == np.uint8 else a for a in arrays]
    interpreter.run(func, signed)
    assert seen == expected


def test_the_c_print_calls_both(library: str, tmp_path: Path):
    x = te.placeholder((6, 8), name="x")
    call = te.c_call("scale", x, np.float32(0.5), np.int64(48), te.output(), libraries=[library], status=True)
    half = te.extern((6, 8), [x], call, name="half")
    rows = te.extern((6,), [half], te.call("test.rows"), name="rows")
    module = parse_module(str(convert_func(te.func("both", [x], [rows]))), "test")
    stub = """
    int32_t mlc_call_test_drows(void *rt, const mlc_tensor *t, int32_t inputs, int32_t outputs) {
      if (inputs != 1 || outputs != 1 || t[0].rank != 2 || t[0].bits != 32) return 1;
      for (int64_t i = 0; i < t[0].shape[0]; ++i) {
        float sum = 0;
        for (int64_t j = 0; j < t[0].shape[1]; ++j) sum += ((float *)t[0].data)[i * t[0].shape[1] + j];
        ((float *)t[1].data)[i] = sum;
      }
      return rt != 0;
    }"""
    (tmp_path / "both.c").write_text(print_module(module) + stub)
    flags = ["-std=c99", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
    link = [library, f"-Wl,-rpath,{Path(library).parent}", "-lm"]
    subprocess.run(["cc", *flags, "-o", "both.so", "both.c", *link], check=True, cwd=tmp_path)
    y = np.zeros(6, np.float32)
    args = (ctypes.c_void_p * 2)(X.ctypes.data, y.ctypes.data)
    assert ctypes.CDLL(str(tmp_path / "both.so")).both(args, None) == 0
    np.testing.assert_allclose(y, X.sum(1) / 2, rtol=1e-5, atol=1e-6)


N, M = te.var("n", 1, 4096), te.var("m", 1, 100)


def open_rows(body: Any) -> Any:
    """`around` with any number of rows."""
    x = te.placeholder((N, 8), name="x")
    doubled = te.compute((N, 8), lambda i, j: x[i, j] * 2, "doubled")
    rows = te.extern((N,), [doubled], body, name="rows")
    return te.func("open_rows", [x], [te.compute((N,), lambda i: rows[i] + 1, "plus")])


def sum_open_rows(b: Any, ins: Any, outs: Any) -> None:
    """As `sum_rows`, through a temporary of an open size."""
    made = b.buffer((N,), element=f32)

    def row(i: Any) -> None:
        zero = b.constant(0.0, f32)
        (total,) = b.loop(0, 8, [zero], lambda j, total: [b.arith("addf", total, b.load(ins[0], i, j))])
        b.store(total, made, i)

    b.loop(0, N, [], row, kind="parallel")
    b.loop(0, N, [], lambda i: b.store(b.load(made, i), outs[0], i))


def call_from_loops(b: Any, ins: Any, outs: Any) -> None:
    b.call(te.call("test.rows").callee, ins, outs)


@pytest.mark.parametrize("body", [te.call("test.rows"), sum_open_rows, call_from_loops])
def test_open_sizes(body: Any):
    mlc.register_func("test.rows", lambda x, y: y.__setitem__(..., x.sum(1)))
    func = open_rows(body)
    assert str(parse_module(str(func), "test").body.block.first_op) == str(func)
    op = mlc.build(func, threads=2)
    assert "tile (d0" in op.text("loop"), "the stage before is vectorized"
    for rows in (1, 7, 300):
        x = np.resize(X, (rows, 8))
        np.testing.assert_allclose(op(x), (2 * x).sum(1) + 1, rtol=1e-4)
        np.testing.assert_allclose(interpreter.run(func, [x, rows])[0], (2 * x).sum(1) + 1, rtol=1e-4)


def scaled(library: str) -> Any:
    """A product of two open sizes as the argument of a C function, between two stages."""
    x = te.placeholder((N, M), name="x")
    doubled = te.compute((N, M), lambda i, j: x[i, j] * 2, "doubled")
    call = te.c_call("scale", doubled, np.float32(0.5), te.c_size(N * M), te.output(), libraries=[library], status=True)
    half = te.extern((N, M), [doubled], call, name="half")
    return te.func("scaled", [x], [te.compute((N, M), lambda i, j: half[i, j] - 1, "minus")])


def test_open_sizes_of_a_c_function(library: str):
    func = scaled(library)
    assert str(parse_module(str(func), "test").body.block.first_op) == str(func)
    op = mlc.build(func, threads=2)
    for shape in ((1, 1), (7, 9), (300, 100)):
        x = np.resize(X, shape)
        np.testing.assert_allclose(op(x), x - 1, rtol=1e-5)
        sizes = {"n": shape[0], "m": shape[1], "m_x_n": shape[0] * shape[1]}
        given = [sizes[str(arg.name_hint)] for arg in func.args[1:]]
        np.testing.assert_allclose(interpreter.run(func, [x, *given])[0], x - 1, rtol=1e-5)


def test_a_size_as_an_int(tmp_path: Path):
    (tmp_path / "fill.c").write_text("void fill(int n, float *y) { for (int i = 0; i < n; ++i) y[i] = n; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libfill.so", "fill.c"], check=True, cwd=tmp_path)
    x = te.placeholder((N,), name="x")
    call = te.c_call("fill", N + 1, te.output(), libraries=[str(tmp_path / "libfill.so")])
    op = mlc.build(te.func("f", [x], [te.extern((N + 1,), [x], call)]))
    for n in (1, 5, 4096):
        assert np.array_equal(op(np.zeros(n, np.float32)), np.full(n + 1, n + 1, np.float32))


def test_the_c_print_of_open_sizes(library: str, tmp_path: Path):
    rows = "{ for (int64_t i = 0; i < t[1].shape[0]; ++i) ((float *)t[1].data)[i] = t[0].shape[0] + t[0].rank; }"
    stub = f"int32_t mlc_call_test_drows(void *rt, const mlc_tensor *t, int32_t i, int32_t o) {rows[:-1]} return 0; }}"
    texts = [print_module(parse_module(str(convert_func(f)), "test")) for f in (open_rows(te.call("test.rows")),)]
    texts.append(print_module(parse_module(str(convert_func(scaled(library))), "test")))
    flags = ["-std=c99", "-Wall", "-Werror", "-Wno-unused-function", "-shared", "-fPIC"]
    link = [library, f"-Wl,-rpath,{Path(library).parent}", "-lm"]
    for name, text in zip(("rows", "scaled"), (texts[0] + stub, texts[1]), strict=True):
        (tmp_path / f"{name}.c").write_text(text)
        subprocess.run(["cc", *flags, "-o", f"{name}.so", f"{name}.c", *link], check=True, cwd=tmp_path)
    for n in (1, 6):
        x, y = np.resize(X, (n, 8)), np.zeros(n, np.float32)
        args = (ctypes.c_void_p * 3)(x.ctypes.data, y.ctypes.data, n)
        assert ctypes.CDLL(str(tmp_path / "rows.so")).open_rows(args, None) == 0
        assert np.array_equal(y, np.full(n, n + 2 + 1, np.float32))
        y = np.zeros_like(x)
        args = (ctypes.c_void_p * 5)(x.ctypes.data, y.ctypes.data, n, 8, 8 * n)
        assert ctypes.CDLL(str(tmp_path / "scaled.so")).scaled(args, None) == 0
        np.testing.assert_allclose(y, x - 1, rtol=1e-5)


def test_an_array_with_strides_of_its_own_is_not_passed_on():
    mlc.register_func("test.rows", lambda x, y: y.__setitem__(..., x.sum(1)))
    x = te.placeholder((6, 8), name="x")
    func = te.func("f", [x], [te.extern((6,), [x], te.call("test.rows"), name="rows")])
    with pytest.raises(UserError, match="expects 'x' row by row, but binds gives its strides"):
        mlc.build(func, binds={x: te.buffer(strides=("ldx", 1))})


def test_a_c_function_that_is_nowhere():
    x = te.placeholder((4,), name="x")
    func = te.func("f", [x], [te.extern((4,), [x], te.c_call("no_such_function"))])
    with pytest.raises(InterpreterError, match=r"cannot interpret a call of the C function 'no_such_function'"):
        interpreter.run(func, [np.ones(4, np.float32)])
    with pytest.raises(UserError, match=r"expected the compiled code to load, but got: .*no_such_function"):
        mlc.build(func)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: te.extern((4,), [x], 3), "expected a te.c_call, a te.call or a function as the body"),
        (lambda x: te.extern((4,), [3], te.call("f")), "to be a list of tensors"),
        (lambda x: te.extern((4,), [], te.call("f")), "expected dtype= of te.extern, since there are no inputs"),
        (lambda x: te.extern((4,), [x], te.call("f f")), "to be an identifier, but got 'f f'"),
        (lambda x: te.extern((4,), [x], te.c_call("f", "x")), "expected a tensor, te.output, a number or a size"),
        (lambda x: te.extern((4,), [x], te.c_call("f", te.var("v"))), "expected a size that C's int holds, but v has"),
        (lambda x: te.extern((4,), [x], te.c_call("f", te.c_size(N, "int8"))), "of dtype int32 or int64, but got"),
        (lambda x: te.extern((4,), [x], te.c_call("f", te.c_size("n"))), "expected a te.var, arithmetic of them"),
        (lambda x: te.extern((4,), [x], te.c_call("f", te.output(1))), r"expected te.output of 0..0, but got 1"),
        (lambda x: te.extern((4,), [x], te.c_call("f", libraries="m")), 'list of names, but got "m"'),
        (lambda x: te.extern((4,), [x], te.call("f"), dtype=["int8", "int8"]), "expected 1 dtypes"),
        (lambda x: te.extern((-4,), [x], te.call("f")), "expected a shape of sizes >= 0"),
        (lambda x: te.extern((4,), [x], lambda b, i, o: b.arith("sum", 1, 2)), "expected a binary operation of arith"),
    ],
)
def test_wrong_arguments(make: Any, message: str):
    with pytest.raises(UserError, match=message):
        make(te.placeholder((4,), name="x"))
