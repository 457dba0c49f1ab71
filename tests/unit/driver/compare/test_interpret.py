"""`mlc.interpret`: functions of every level on one's own inputs, and what it says of wrong ones."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import symbolic_models
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.driver.models.load import load_mlir
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore

MODEL = """
func.func @main(%x: tensor<3x8xf32>, %w: tensor<4x8xf32>) -> tensor<3x4xf32> {
  %0 = graph.dense %x, %w : (tensor<3x8xf32>, tensor<4x8xf32>) -> tensor<3x4xf32> loc("fc")
  %1 = graph.relu %0 : tensor<3x4xf32> loc("act")
  %2 = graph.softmax %1 {axis = 1} : tensor<3x4xf32> loc("prob")
  func.return %2 : tensor<3x4xf32>
}
"""
KERNELS = "convert-graph-to-te,te-factor-reductions,te-inline,te-add-schedule"
LEVELS = {
    "graph": [],
    "kernels": ["graph-O3"],
    "main": ["graph-O3", "main"],
    "te": ["graph-O3", "main", "convert-graph-to-te"],
    "sched": ["graph-O3", "main", KERNELS],
    "loop": ["graph-O3", "main", KERNELS, "convert-te-to-loop,loop-apply-schedule"],
    "tiles": ["graph-O3", "main", KERNELS, "convert-te-to-loop,loop-apply-schedule,loop-tiles"],
    "native": ["graph-O3", "main", "kernel-O3", "convert-graph-to-te,kernel-O3"],
}
LEVELS["native"] = [*LEVELS["tiles"], "convert-loop-to-llvm"]


def drawn(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def lowered(text: str, passes: list[str]) -> str:
    """The text of a module after some passes."""
    context = make_context()
    loaded = mlc.driver.models.load.parse_module(text)
    run_passes(loaded, context, passes, verify=True)
    return str(loaded)


def expected(x: Any, w: Any) -> Any:
    return symbolic_models.softmax(np.maximum(x @ w.T, 0))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_computes_the_same(level: str):
    x, w = drawn(3, 8), drawn(4, 8, seed=1)
    (got,) = mlc.interpret(lowered(MODEL, LEVELS[level]), [x, w]).values()
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected(x, w), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("level", ["te", "sched", "loop", "tiles", "native"])
def test_one_kernel_of_a_level(level: str):
    text = lowered(MODEL, LEVELS[level])
    name = next(line.split("@")[1].split("(")[0] for line in text.splitlines() if "func @softmax" in line)
    x = drawn(3, 4)
    (got,) = mlc.interpret(text, {"input0": x}, function=name).values()
    np.testing.assert_allclose(got, symbolic_models.softmax(x), rtol=1e-5)


def test_wide_is_f64():
    x, w = drawn(3, 8), drawn(4, 8, seed=1)
    for level in ("graph", "kernels"):
        (got,) = mlc.interpret(lowered(MODEL, LEVELS[level]), [x, w], wide=True).values()
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, expected(x.astype(np.float64), w.astype(np.float64)), rtol=1e-12)
    text = lowered(MODEL, LEVELS["sched"])
    name = next(line.split("@")[1].split("(")[0] for line in text.splitlines() if "func @softmax" in line)
    (got,) = mlc.interpret(text, [x[:, :4]], function=name, wide=True).values()
    np.testing.assert_allclose(got, symbolic_models.softmax(x[:, :4].astype(np.float64)), rtol=1e-12)
    with pytest.raises(UserError, match=r"expected a function without fixed memory for wide floats, but got @main"):
        mlc.interpret(text, [x, w], wide=True)


@pytest.mark.parametrize("passes", [[], LEVELS["main"], LEVELS["te"], LEVELS["sched"]])
@pytest.mark.parametrize("rows", [1, 7])
def test_open_sizes_are_those_of_the_arrays(passes: list[str], rows: int):
    text = lowered(symbolic_models.SOFTMAX, passes)
    x = drawn(rows, 70)
    (got,) = mlc.interpret(text, [x]).values()
    np.testing.assert_allclose(got, symbolic_models.softmax(x), rtol=1e-5)


V = "tensor<4xf32>"
CONTROL = f"""
func.func @main(%x: tensor<5x4xf32>, %h: {V}, %c: tensor<i1>, %n: tensor<i64>)
    -> (tensor<5x4xf32>, {V}, tensor<10x4xf32>, tensor<i64>, {V}) {{
  %s, %ys = graph.scan carried(%h : {V}) rows(%x : tensor<5x4xf32>) -> ({V}, tensor<5x4xf32>) {{
  ^bb0(%a: {V}, %row: {V}):
    %1 = graph.add %a, %row : {V}
    graph.yield %1, %1 : {V}, {V}
  }}
  %z, %rows, %k = graph.loop at_most 10 limit(%n : tensor<i64>) while(%c : tensor<i1>) carried(%s : {V})
      reads(%h : {V}) -> ({V}, tensor<10x4xf32>, tensor<i64>) {{
  ^bb0(%i: tensor<i64>, %a: {V}, %b: {V}):
    %1 = graph.add %a, %b : {V}
    %two = graph.constant dense<3> : tensor<i64>
    %more = graph.less %i, %two : (tensor<i64>, tensor<i64>) -> tensor<i1>
    graph.yield %more, %1, %a : tensor<i1>, {V}, {V}
  }}
  %r = graph.if %c : tensor<i1> reads(%z : {V}) -> ({V}) {{
  ^bb0(%a: {V}):
    graph.yield %a : {V}
  }} else {{
  ^bb0(%a: {V}):
    %1 = graph.neg %a : {V}
    graph.yield %1 : {V}
  }}
  func.return %ys, %z, %rows, %k, %r : tensor<5x4xf32>, {V}, tensor<10x4xf32>, tensor<i64>, {V}
}}
"""


@pytest.mark.parametrize("level", ["graph", "main", "sched"])
@pytest.mark.parametrize(("goes_on", "limit", "count"), [(True, 2, 2), (True, 9, 4), (False, 9, 0)])
def test_control_flow(level: str, goes_on: bool, limit: int, count: int):
    x, h = drawn(5, 4), np.ones(4, np.float32)
    inputs = [x, h, np.array(goes_on), np.array(limit)]
    ys, z, rows, k, r = mlc.interpret(lowered(CONTROL, LEVELS[level]), inputs).values()
    sums = 1 + np.cumsum(x, 0)
    np.testing.assert_allclose(ys, sums, rtol=1e-5)
    assert k == count
    np.testing.assert_allclose(z, sums[-1] + count, rtol=1e-5)
    np.testing.assert_allclose(rows[:count], [sums[-1] + n for n in range(count)] or rows[:0], rtol=1e-5)
    assert not rows[count:].any()
    np.testing.assert_allclose(r, z if goes_on else -z)


def test_trace_sees_each_value():
    seen: dict[str, Any] = {}
    x, w = drawn(3, 8), drawn(4, 8, seed=1)
    out = mlc.interpret(MODEL, [x, w], trace=lambda op, results: seen.update({op.name: results[0]}))
    assert list(seen) == ["graph.dense", "graph.relu", "graph.softmax"]
    np.testing.assert_allclose(seen["graph.dense"], x @ w.T, rtol=1e-5)
    np.testing.assert_array_equal(seen["graph.softmax"], out["output0"])


def test_trace_sees_what_loops_store():
    text = lowered(MODEL, LEVELS["loop"])
    stored: list[float] = []
    calls: list[Any] = []

    def trace(op: Any, results: Any) -> None:
        if op.name == "loop.store" and op.buffer.name_hint == "relu":
            stored.append(float(results[0]))
        if op.name == "runtime.call":
            calls.append(results[0])

    x, w = drawn(3, 8), drawn(4, 8, seed=1)
    mlc.interpret(text, [x, w], trace=trace)
    np.testing.assert_allclose(np.reshape(stored, (3, 4)), np.maximum(x @ w.T, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(calls[0], np.reshape(stored, (3, 4)))
    assert len(calls) == 2


WEIGHTED = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %w = graph.param "scale" : tensor<2x3xf32>
  %0 = graph.multiply %x, %w : tensor<2x3xf32>
  func.return %0 : tensor<2x3xf32>
}
"""


@pytest.mark.parametrize("level", ["graph", "main", "sched"])
def test_weights(level: str, tmp_path: Path):
    x, w = drawn(2, 3), drawn(2, 3, seed=2)
    text = lowered(WEIGHTED, LEVELS[level])
    (got,) = mlc.interpret(text, [x], weights={"scale": w}).values()
    np.testing.assert_allclose(got, x * w)
    store = WeightStore()
    store.add("scale", w)
    store.save(tmp_path / "m.safetensors")
    (tmp_path / "m.mlir").write_text(text)
    (got,) = mlc.interpret(tmp_path / "m.mlir", [x]).values()
    np.testing.assert_allclose(got, x * w)
    (tmp_path / "other.mlir").write_text(text)
    (got,) = mlc.interpret(tmp_path / "other.mlir", [x], weights=tmp_path / "m.safetensors").values()
    np.testing.assert_allclose(got, x * w)
    with pytest.raises(UserError, match="scale"):
        mlc.interpret(text, [x])
    with pytest.raises(UserError, match="expected a weight 'scale', but got bias"):
        mlc.interpret(text, [x], weights={"bias": w})


def test_a_model_and_a_module_in_memory(tmp_path: Path):
    (tmp_path / "m.mlir").write_text(MODEL)
    model = load_mlir(tmp_path / "m.mlir")
    x, w = drawn(3, 8), drawn(4, 8, seed=1)
    for source in (model, model.module, str(tmp_path / "m.mlir")):
        (got,) = mlc.interpret(source, {"x": x, "w": w}).values()
        np.testing.assert_allclose(got, expected(x, w), rtol=1e-5)


def test_a_seed_gives_what_is_missing():
    x = drawn(3, 8)
    first, again = (mlc.interpret(MODEL, {"x": x}, seed=3)["output0"] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, mlc.interpret(MODEL, {"x": x}, seed=4)["output0"])
    assert mlc.interpret(WEIGHTED, {}, seed=0)["output0"].any()


def test_bf16():
    text = MODEL.replace("f32", "bf16")
    x, w = (a.astype(ml_dtypes.bfloat16) for a in (drawn(3, 8), drawn(4, 8, seed=1)))
    (got,) = mlc.interpret(text, [x, w]).values()
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(got.astype(np.float32), expected(x.astype(np.float32), w.astype(np.float32)), atol=0.02)


X, W = np.zeros((3, 8), np.float32), np.zeros((4, 8), np.float32)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": X}, "expected an array for each input of @main, but got none for w: 4x8 float32"),
        ({"x": X, "w": W, "wx": W}, "expected inputs of @main, but got an unknown input 'wx'; did you mean 'x'?"),
        ({"x": X, "w": X}, "expected input w: 4x8 float32 of @main, but got shape 3x8"),
        ({"x": X, "input0": X, "w": W}, "expected one array for input 'x', but got two (the other as 'input0')"),
        ([X], "expected 2 (x, w) inputs of @main, but got 1"),
        (
            [X, W.astype(np.float64)],
            "expected input w: 4x8 float32 of @main, but got float64; convert it with .astype('float32')",
        ),
    ],
)
def test_wrong_inputs(inputs: Any, message: str):
    with pytest.raises(UserError) as error:
        mlc.interpret(MODEL, inputs)
    assert str(error.value) == message


def test_wrong_functions(tmp_path: Path):
    with pytest.raises(UserError, match=r"expected a function @mian in the module; did you mean 'main'\?"):
        mlc.interpret(MODEL, [X, W], function="mian")
    two = "func.func @a() {\n  func.return\n}\nfunc.func @b() {\n  func.return\n}"
    with pytest.raises(UserError, match=r"expected a function @main or a single function .* 2; name one of @a, @b"):
        mlc.interpret(two, [])
    upstream = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %0 = arith.addf %x, %x : tensor<4xf32>\n"
    upstream += "  func.return %0 : tensor<4xf32>\n}"
    with pytest.raises(UserError, match=r"^<text>:2:8: @f cannot be run: .* no meaning for arith\.addf$"):
        mlc.interpret(upstream, [np.zeros(4, np.float32)])
    with pytest.raises(UserError, match="expected a function @main or a single function in the module, but got 0"):
        mlc.interpret("llvm.mlir.global internal @g() : i32 {\n}", [])
    with pytest.raises(UserError, match=r"missing\.mlir: "):
        mlc.interpret(tmp_path / "missing.mlir", [])
    with pytest.raises(UserError, match=r"^<text>:1:10: expected the name of a symbol, @name, but got '\{'$"):
        mlc.interpret("func.func{", [])
    with pytest.raises(UserError, match="expected a module, a model, text or a path, but got int"):
        mlc.interpret(3, [])  # type: ignore[arg-type]
    assert isinstance(mlc.driver.models.load.parse_module(MODEL), ModuleOp)


def test_out_of_bounds_says_where():
    text = """
loop.func @f(%x: memref<4xf32>, %at: memref<1xi64>, %y: memref<4xf32>) attributes {outputs = 1 : i64} {
  loop.for %i = 0 to 4 {
    %0 = loop.load %at[0] : i64
    %1 = arith.index_cast %0 : i64 to index
    %2 = loop.load %x[%1] : f32
    loop.store %2, %y[%i] : f32
  }
}
"""
    with pytest.raises(UserError, match=r"@f cannot be run: 'loop.load' reads %x\[4\], out of bounds of memref<4xf32>"):
        mlc.interpret(text, [np.zeros(4, np.float32), np.array([4])])


@pytest.mark.parametrize("level", ["te", "sched", "loop", "tiles", "native"])
@pytest.mark.parametrize("rows", [1, 37])
def test_a_kernel_of_open_sizes_takes_them_from_the_arrays(level: str, rows: int):
    text = lowered(symbolic_models.SOFTMAX, LEVELS[level])
    name = next(line.split("@")[1].split("(")[0] for line in text.splitlines() if "func @softmax" in line)
    x = drawn(rows, 70)
    (got,) = mlc.interpret(text, [x], function=name).values()
    np.testing.assert_allclose(got, symbolic_models.softmax(x), rtol=1e-5)
