"""--validate-each on functions of symbolic sizes: each is run at usual sizes and at odd ones, on every level."""

import math
import re

import numpy as np
import pytest
from xdsl.passes import ModulePass

import mlc
from mlc.dialects import loop
from mlc.dialects.graph import SymbolAttr
from mlc.dialects.index import IndexMapAttr, const
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.frontends.common.model import Model
from mlc.interp import loop as interpreter
from mlc.interp.graph import main_function, run_function
from mlc.interp.sizes import sizes_of, symbol_value
from mlc.support.errors import UserError
from mlc.support.weights import WeightStore
from mlc.validation import c_run
from mlc.validation.validate_each import ResultChanged, ValidateInstrument


def image(channels, height, width):
    return f"tensor<1x{channels}x?x?xf32, #graph.dims<[{height}, {width}]>>"


X, Y, Z = image(1, "H * 4", "W * 4"), image(16, "H * 2", "W * 2"), image(16, "H", "W")
NETWORK = f"""
func.func @main(%x: {X}, %w: tensor<16x1x3x3xf32>) -> {Z}
    attributes {{graph.symbols = {{H = #graph.symbol<2 to 4 like 2>, W = #graph.symbol<2 to 100 like 8>}}}} {{
  %0 = graph.conv2d %x, %w {{strides = [2, 2], padding = [1, 1, 1, 1]}} : ({X}, tensor<16x1x3x3xf32>) -> {Y}
  %1 = graph.relu %0 : {Y}
  %2 = graph.max_pool2d %1 {{pool_size = [2, 2], strides = [2, 2]}} : ({Y}) -> {Z}
  %3 = graph.softmax %2 {{axis = 1}} : {Z}
  return %3 : {Z}
}}
"""
ROWS = "tensor<?x6xf32, #graph.dims<[N]>>"
SCAN = f"""
func.func @main(%x: {ROWS}, %h: tensor<6xf32>) -> (tensor<6xf32>, {ROWS}) {{
  %s, %ys = graph.scan carried(%h : tensor<6xf32>) rows(%x : {ROWS}) -> (tensor<6xf32>, {ROWS}) {{
  ^bb0(%a: tensor<6xf32>, %row: tensor<6xf32>):
    %0 = graph.add %a, %row : tensor<6xf32>
    %1 = graph.tanh %0 : tensor<6xf32>
    graph.yield %1, %0 : tensor<6xf32>, tensor<6xf32>
  }}
  %2 = graph.softmax %ys {{axis = 1}} : {ROWS}
  return %s, %2 : tensor<6xf32>, {ROWS}
}}
"""
LEVELS = ["graph-O3", "convert-graph-to-te", "kernel-O3"]


class Watch(ValidateInstrument):
    """Notes what was run at which sizes."""

    def _check(self, executable, text, module_pass):
        super()._check(executable, text, module_pass)
        shape = self.known[executable.name].arrays[0].shape
        run = executable.level, re.split("[_ ]", executable.name)[0], shape
        self.seen = [*getattr(self, "seen", []), run]


def parsed(text):
    return parse_module(text, "<test>")


def test_every_level_runs_at_usual_and_at_odd_sizes():
    watch = Watch()
    run_passes(parsed(NETWORK), make_context(), LEVELS, instruments=[watch])
    assert {("graph", "main", (1, 1, 8, 32)), ("graph", "main", (1, 1, 12, 20))} <= set(watch.seen)
    for level in ("graph", "te", "loop", "llvm"):
        for kernel in ("conv2d", "max"):
            shapes = {shape[2:] for at, name, shape in watch.seen if (at, name) == (level, kernel)}
            assert shapes == {"conv2d": {(8, 32), (12, 20)}, "max": {(4, 16), (6, 10)}}[kernel]
    assert len(watch.known) == 2 * 4  # @main and its kernels, twice


def test_models_are_compiled_validated():
    exe = mlc.compile(Model(parsed(SCAN), WeightStore()), threads=1, cache=False, validate_each=True)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in [(9, 6), (6,)]]
    wanted = run_function(main_function(parsed(SCAN)), arrays)
    got = exe({spec.name: a for spec, a in zip(exe.inputs, arrays, strict=True)})
    for a, b in zip(wanted, got.values(), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5)


class FixedBound(ModulePass):
    """A bug: a loop over a symbol runs as often as it does at the usual size."""

    name = "loop-fix-bound"

    def apply(self, ctx, op):
        for one in op.walk():
            if isinstance(one, loop.ForOp) and not one.upper.is_const:
                one.properties["bounds"] = IndexMapAttr.get([one.lower, const(int(one.upper.evaluate([4])))])
                one.operands = one.iter_args
                return


def test_what_is_wrong_at_odd_sizes_only_is_found():
    kernel = f"""func.func private @exp(%x: {ROWS}) -> {ROWS} attributes {{graph.kernel,
        graph.symbols = {{N = #graph.symbol<1 to 100 like 4>}}}} {{
      %0 = graph.exp %x : {ROWS}
      return %0 : {ROWS}
    }}"""
    passes = ["convert-graph-to-te", "te-add-schedule", "convert-te-to-loop", FixedBound()]
    with pytest.raises(ResultChanged, match=r"'loop-fix-bound' changed @exp #1 \(loop, at \(7,\)\)"):
        run_passes(parsed(kernel), make_context(), passes, instruments=[ValidateInstrument()])


def test_kernels_first_met_below_the_graph_level_run_at_their_typical_sizes():
    text = f"""func.func private @exp(%x: {ROWS}) -> {ROWS} attributes {{graph.kernel,
        graph.symbols = {{N = #graph.symbol<1 to 100 like 9>}}}} {{
      %0 = graph.exp %x : {ROWS}
      return %0 : {ROWS}
    }}"""
    for above, below in [
        ("convert-graph-to-te", "kernel-O3"),
        ("convert-graph-to-te,te-add-schedule", "convert-te-to-loop"),
    ]:
        module, watch = parsed(text), Watch()
        run_passes(module, make_context(), [above])
        run_passes(module, make_context(), [below], instruments=[watch])
        assert {shape for _, _, shape in watch.seen} == {(9, 6)}
        assert len({level for level, _, _ in watch.seen}) > 1


def test_kernels_of_symbolic_sizes_as_c():
    """A buffer of a symbolic size, and operands whose strides are computed."""
    text = """loop.func @k(%x: memref<?x?xf32>, %y: memref<?x?xf32>, %n: index, %m: index)
        attributes {outputs = 1 : i64, sizes = [#te.map<"%0, %1">, #te.map<"%0, %1">]} {
      %t = loop.alloc "shared" (%m + 1) : memref<?xf32>
      loop.for %i = 0 to %n {
        loop.for %j = 0 to %m {
          %a = loop.load %x[%i, %j] : f32
          loop.store %a, %t[%m - %j] : f32
        }
        loop.for %j = 0 to %m {
          %b = loop.load %t[%j + 1] : f32
          loop.store %b, %y[%i, %j] : f32
        }
      }
    }"""
    (func,) = parsed(text).body.block.ops
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    for run in (interpreter.run, c_run.run):
        (y,) = run(func, [x, np.zeros_like(x), 3, 5])
        np.testing.assert_array_equal(y, x[:, ::-1])
    (func,) = parsed(text.replace("%j + 1", "%j + 2")).body.block.ops
    with pytest.raises(interpreter.InterpreterError, match="out of bounds"):
        c_run.run(func, [x, np.zeros_like(x), 3, 5])
    del func.attributes["sizes"]
    with pytest.raises(UserError, match="or the kernel's attribute sizes, but got memref<\\?x\\?xf32>"):
        c_run.run(func, [x, np.zeros_like(x), 3, 5])


def test_the_interpreter_finds_the_sizes():
    func = main_function(parsed(NETWORK))
    weights = np.ones((16, 1, 3, 3), np.float32)
    (y,) = run_function(func, [np.ones((1, 1, 8, 16), np.float32), weights])
    assert y.shape == (1, 16, 2, 4)
    with pytest.raises(ValueError, match="expected a size of an input of @main to be 8, but got 10"):
        run_function(func, [np.ones((1, 1, 10, 16), np.float32), weights])
    with pytest.raises(ValueError, match=r"expected inputs of @main of rank 4, but got \(8, 16\)"):
        run_function(func, [np.ones((8, 16), np.float32), weights])


def test_many_open_sizes_are_small_together():
    t = "tensor<?x?x?x?x?xf32, #graph.dims<[a, b, c, d, e]>>"
    ranges = "a = #graph.symbol<64 to 256 step 64>, b = #graph.symbol<1 to 4>"
    text = f"func.func @main(%x: {t}) -> {t} attributes {{graph.symbols = {{{ranges}}}}} {{\n  return %x : {t}\n}}\n"
    sizes = sizes_of(main_function(parse_module(text)), 0)
    assert (sizes["a"], sizes["b"]) == (64, 1)
    assert 2**19 < math.prod(sizes.values()) <= 2**20


def test_sizes_of_the_cases_are_possible():
    for span in (
        SymbolAttr(32, 2048, 32),
        SymbolAttr(1, 4),
        SymbolAttr(100, 4000),
        SymbolAttr(9, 9),
        SymbolAttr(1, 99, 1, 7),
    ):
        for case in (0, 1):
            value = symbol_value(span, case)
            assert span.low.data <= value <= max(span.high.data, 71)
            assert value % span.step.data == 0
    assert symbol_value(SymbolAttr(1, 10_000), 0) == 71
    assert [symbol_value(SymbolAttr(1, 10_000), 1, which) for which in range(4)] == [7, 5, 3, 7]
