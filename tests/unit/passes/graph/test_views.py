"""Concatenations, slices and splits that cost nothing: which they are, and what a model with them computes."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects import memref
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

import mlc
from mlc.dialects import runtime
from mlc.driver.pipeline.manager import make_context, run_passes
from mlc.lowering.graph_to_main.convert import find_function
from mlc.validation.plans.plan_check import check_plan

ROW = "tensor<1x2x16xf32>"
HEAD = 'func.func @main(%x: tensor<1x4x8xf32> {graph.name = "x"}, %y: tensor<1x2x8xf32> {graph.name = "y"})'
T, U = "tensor<1x4x8xf32>", "tensor<1x2x8xf32>"
CASES = {
    # name -> (body, kernels left, memory-moving kernels among them, numpy)
    "both operands are computed": (
        f"""%0 = graph.exp %x : {T}
        %1 = graph.relu %y : {U}
        %2 = graph.concatenate %0, %1 {{axis = 1}} : ({T}, {U}) -> tensor<1x6x8xf32>
        %3 = graph.softmax %2 : tensor<1x6x8xf32>""",
        ("%3", "tensor<1x6x8xf32>", 3, 0),
    ),
    "the concatenation is the output": (
        f"""%0 = graph.softmax %x : {T}
        %1 = graph.softmax %y : {U}
        %2 = graph.concatenate %1, %0 {{axis = 1}} : ({U}, {T}) -> tensor<1x6x8xf32>""",
        ("%2", "tensor<1x6x8xf32>", 2, 0),
    ),
    "a small operand is an input": (
        f"""%0 = graph.softmax %x : {T}
        %2 = graph.concatenate %0, %y {{axis = 1}} : ({T}, {U}) -> tensor<1x6x8xf32>
        %3 = graph.softmax %2 : tensor<1x6x8xf32>""",
        ("%3", "tensor<1x6x8xf32>", 3, 1),
    ),
    "the large operand is an input": (
        f"""%0 = graph.softmax %y : {U}
        %2 = graph.concatenate %0, %x {{axis = 1}} : ({U}, {T}) -> tensor<1x6x8xf32>
        %3 = graph.softmax %2 : tensor<1x6x8xf32>""",
        ("%3", "tensor<1x6x8xf32>", 3, 1),
    ),
    "twice the same": (
        f"""%0 = graph.softmax %y : {U}
        %2 = graph.concatenate %0, %0 {{axis = 1}} : ({U}, {U}) -> {T}
        %3 = graph.softmax %2 : {T}""",
        ("%3", T, 3, 1),
    ),
    "an operand is in two, and a prefix of one": (
        f"""%0 = graph.softmax %x : {T}
        %1 = graph.softmax %y : {U}
        %2 = graph.concatenate %0, %1 {{axis = 1}} : ({T}, {U}) -> tensor<1x6x8xf32>
        %3 = graph.softmax %2 : tensor<1x6x8xf32>
        %4 = graph.concatenate %0, %1, %3 {{axis = 1}} : ({T}, {U}, tensor<1x6x8xf32>) -> tensor<1x12x8xf32>
        %5 = graph.softmax %4 : tensor<1x12x8xf32>""",
        ("%5", "tensor<1x12x8xf32>", 4, 0),
    ),
    "an axis inside of another": (
        f"""%0 = graph.softmax %x : {T}
        %1 = graph.exp %0 : {T}
        %2 = graph.concatenate %0, %1 {{axis = 2}} : ({T}, {T}) -> tensor<1x4x16xf32>
        %3 = graph.softmax %2 : tensor<1x4x16xf32>""",
        ("%3", "tensor<1x4x16xf32>", 4, 1),
    ),
    "parts of a split, one of an input": (
        f"""%0 = graph.softmax %x : {T}
        %a, %b = graph.split %0 {{axis = 1, sections = [2, 2]}} : ({T}) -> ({U}, {U})
        %c, %d = graph.split %x {{axis = 1, sections = [2, 2]}} : ({T}) -> ({U}, {U})
        %1 = graph.softmax %b : {U}
        %2 = graph.softmax %d : {U}
        %3 = graph.concatenate %a, %1, %2 {{axis = 1}} : ({U}, {U}, {U}) -> tensor<1x6x8xf32>
        %4 = graph.softmax %3 : tensor<1x6x8xf32>""",
        ("%4", "tensor<1x6x8xf32>", 5, 1),
    ),
    "all parts of a split, and more": (
        f"""%0 = graph.softmax %x : {T}
        %a, %b = graph.split %0 {{axis = 1, sections = [2, 2]}} : ({T}) -> ({U}, {U})
        %1 = graph.softmax %b : {U}
        %3 = graph.concatenate %a, %b, %1 {{axis = 1}} : ({U}, {U}, {U}) -> tensor<1x6x8xf32>
        %4 = graph.softmax %3 : tensor<1x6x8xf32>""",
        ("%4", "tensor<1x6x8xf32>", 3, 0),
    ),
    "a reshaped operand, a sliced output": (
        f"""%0 = graph.softmax %x : {T}
        %1 = graph.reshape %0 : ({T}) -> tensor<1x2x16xf32>
        %z = graph.reshape %y : ({U}) -> tensor<1x1x16xf32>
        %w = graph.softmax %z : tensor<1x1x16xf32>
        %2 = graph.concatenate %1, %w {{axis = 1}} : ({ROW}, tensor<1x1x16xf32>) -> tensor<1x3x16xf32>
        %3 = graph.slice %2 {{begin = [0, 1, 0], end = [1, 3, 16], strides = [1, 1, 1]}}
            : (tensor<1x3x16xf32>) -> {ROW}""",
        ("%3", "tensor<1x2x16xf32>", 2, 0),
    ),
}  # fmt: skip


def text_of(name: str) -> str:
    body, (result, type_, _, _) = CASES[name]
    return f'{HEAD} -> ({type_} {{graph.name = "out"}}) {{\n{body}\nreturn {result} : {type_}\n}}'


def on_buffers(name: str) -> tuple[ModuleOp, list[str]]:
    """The module of a case with @main on buffers, and the kernels that it calls."""
    module = Parser(make_context(), text_of(name)).parse_module()
    run_passes(module, make_context(), ["graph-O3", "convert-graph-to-main"], verify=True)
    main = find_function(module, "main")
    return module, [op.callee.string_value() for op in main.body.walk() if isinstance(op, runtime.CallOp)]


@pytest.mark.parametrize("name", CASES)
def test_what_is_a_view_needs_no_kernel(name: str):
    module, called = on_buffers(name)
    kernels, movers = CASES[name][1][2:]
    assert len(called) == kernels
    assert sum(k.startswith(("copy", "concatenate", "split", "slice")) for k in called) == movers
    assert check_plan(find_function(module, "main")) == kernels


def test_only_an_output_that_is_a_part_is_copied():
    copies = {name: sum(isinstance(op, memref.CopyOp) for op in on_buffers(name)[0].walk()) for name in CASES}
    assert {name for name, count in copies.items() if count} == {"a reshaped operand, a sliced output"}


@pytest.mark.parametrize("executor", ["aot", "steps", "graph"])
def test_views_compute_what_the_interpreter_does(tmp_path: Path, executor: str):
    from mlc.interp.graph import Interpreter

    rng = np.random.default_rng(3)
    inputs = {name: rng.standard_normal((1, n, 8)).astype(np.float32) for name, n in (("x", 4), ("y", 2))}
    for name in CASES:
        path = tmp_path / "model.mlir"
        path.write_text(text_of(name))
        main = find_function(Parser(make_context(), text_of(name)).parse_module(), "main")
        (expected,) = Interpreter({}).run(main, list(inputs.values()))
        exe = mlc.compile(path, threads=2, executor=executor)
        np.testing.assert_allclose(exe(inputs)["out"], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_every_pass_over_views_is_validated(tmp_path: Path):
    path = tmp_path / "model.mlir"
    path.write_text(text_of("an operand is in two, and a prefix of one"))
    inputs = {"x": np.ones((1, 4, 8), np.float32), "y": np.ones((1, 2, 8), np.float32)}
    exe = mlc.compile(path, threads=1, cache=False, validate_each=True)
    np.testing.assert_allclose(exe(inputs)["out"], np.full((1, 12, 8), 1 / 8), rtol=1e-6)
