"""
Random graphs, compiled at every opt level and by different pipelines, agree with the graph interpreter.

`make fuzz` (tests/fuzz.py) runs many more.
"""

import json

import fuzz_oracle as oracle
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from random_graphs import DRAWN, STYLES, graph_of, graphs
from xdsl.dialects.builtin import bf16

from mlc.dialects import graph as g
from mlc.dialects.syntax.source import parse_module

# Failures are made smaller op by op (fuzz_oracle), so hypothesis need not.
SETTINGS = settings(database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module", autouse=True)
def _warm():
    oracle.warm()


@settings(SETTINGS, max_examples=50)
@given(graphs(), st.integers(0, 4), st.sampled_from([1, 2]))
def test_compiled_graphs_agree_with_the_interpreter(case, level, threads):
    oracle.check(case, oracle.Compiled(level, threads))


@settings(SETTINGS, max_examples=12)
@given(graphs(), st.lists(st.sampled_from(oracle.OPTIONAL), min_size=1, max_size=8, unique=True))
def test_compiled_without_some_passes(case, disabled):
    oracle.check(case, oracle.Compiled(4, 1, tuple(disabled)))


@settings(SETTINGS, max_examples=60)
@given(graphs(), st.permutations(oracle.ANY_ORDER), st.integers(0, 4))
def test_graph_passes_in_any_order(case, order, level):
    oracle.check(case, oracle.Passed((f"graph-O{level}",)))
    oracle.check(case, oracle.Passed((*order, "graph-fuse-ops", "graph-outline-kernels")))


def test_every_op_is_drawn():
    seen = {op.name for seed in range(400) for op in graph_of(seed).main.walk()}
    assert {cls.name for cls in DRAWN} | {"graph.if", "graph.loop", "graph.scan"} <= seen


def test_every_op_that_runs_is_drawn():
    """But what passes make for weights that they have chosen."""
    sources = {"graph.param", "graph.constant", "graph.full"}
    assert set(g.OPS) - {cls.name for cls in DRAWN} - sources == {"graph.winograd_weight", "graph.conv2d_winograd"}


@pytest.mark.parametrize("style", STYLES)
def test_every_style_gives_valid_graphs(style):
    kinds = {"empty": lambda r: 0 in r.type.get_shape(), "types": lambda r: r.type.element_type == bf16}
    found = [op for seed in range(12) for op in graph_of(seed, 2, 6, STYLES[style]).main.walk()]
    assert all(op.verify_() is None for op in found)
    if style in kinds:
        assert any(kinds[style](result) for op in found for result in op.results)
    assert style != "control" or any(op.regions for op in found if op.name != "func.func")


def test_graphs_are_valid_and_print():
    for seed in range(20):
        module = graph_of(seed).module
        module.verify()
        assert str(parse_module(str(module))) == str(module)


class Wrong:
    """A compiler that takes every relu for an identity."""

    passes = ()

    def problem(self, case, expected):
        work = case.copy()
        for op in list(work.main.walk()):
            if isinstance(op, g.ReluOp):
                op.results[0].replace_all_uses_with(op.operands[0])
        return oracle.difference(expected, oracle.Interpreter(work.store).run(work.main, work.inputs))


def test_a_wrong_compiler_is_noticed_and_the_graph_made_small(tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_FUZZ_DIR", str(tmp_path))
    found = []
    for seed in range(200):
        case = graph_of(seed)
        try:
            oracle.check(case, Wrong())
        except AssertionError as error:
            found.append((case, str(error)))
        if len(found) == 3:
            break
    assert len(found) == 3
    for case, message in found:
        directory = message.rpartition("reproducer: ")[2]
        text = (tmp_path / directory / "model.mlir").read_text()
        assert text.count("graph.relu") == 1
        assert text.count(" = graph.") <= 3 < case.size() + 3


@pytest.mark.parametrize("style", ["default", "types"])
def test_a_saved_case_is_loaded_again(style, tmp_path, monkeypatch):
    monkeypatch.setenv("MLC_FUZZ_DIR", str(tmp_path))
    case, way = graph_of(3, style=STYLES[style]), oracle.Compiled(2, 1, ("graph-canonicalize",))
    again, how = oracle.load(oracle.save(case, way, "output 0"))
    assert str(again.module) == str(case.module)
    assert how == way
    for a, b in zip(again.inputs, case.inputs, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
    assert json.loads(next(tmp_path.glob("**/way.json")).read_text())["level"] == 2


def test_a_process_that_dies_is_a_failure():
    assert oracle.isolated(lambda: "fine") == "fine"
    assert oracle.isolated(lambda: 1 // 0).startswith("ZeroDivisionError")
    assert oracle.isolated(lambda: oracle.os.kill(oracle.os.getpid(), 9)) == "the process died: Killed"


@pytest.mark.parametrize("wrong", [np.nan, 1e9, 0.5])
def test_differences_are_found(wrong):
    expected = oracle.Expected([np.zeros(3), np.arange(2)], [1e-6, 0.0])
    assert oracle.difference(expected, [np.zeros(3, np.float32), np.arange(2)]) == ""
    found = oracle.difference(expected, [np.array([0, wrong, 0], np.float32), np.arange(2)])
    assert found.startswith("output 0 at [1]: expected 0.0, but got ")
    assert oracle.difference(expected, [np.zeros(3, np.float32), np.ones(2)]).startswith("output 1 at [0]")
