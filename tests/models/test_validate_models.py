"""
Every model, at a reduced size, function by function on inputs recorded from the level above, at five points:

    graph --passes--> graph -> te -> loops as scheduled -> tiles -> native code
              (1)             (2)          (3)             (4)        (5)
"""

from dataclasses import dataclass
from typing import Any

import pytest
import zoo
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import mlc
from mlc.dialects.graph.store import attach_store
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.validation.execute import RunnableFunction, types_of
from mlc.validation.validate_each import ValidateInstrument

POINTS = {
    "graph-outline-kernels": "graph",
    "te-inline": "te",
    "loop-apply-schedule": "loop",
    "loop-promote-tiles": "loop",
    "convert-loop-to-llvm": "llvm",
}
"""The pass at whose end each point is, and the level that the kernels are on."""


@dataclass
class FivePoints(ValidateInstrument):
    """Runs the functions at the five points only, and counts those on each level that it found there."""

    def __post_init__(self) -> None:
        self.levels: list[str] = []
        self.at: dict[str, list[str]] = {}

    def after(self, module_pass: ModulePass, module: ModuleOp) -> None:
        if module_pass.name in POINTS:
            self.levels = []
            super().after(module_pass, module)
            self.at[module_pass.name] = self.levels

    def _check(self, executable: RunnableFunction, text: str, module_pass: Any) -> None:
        self.levels.append(executable.level)
        super()._check(executable, text, module_pass)


FAST = ("magika", "rec")
"""The models that CI validates, in about a minute; those of the others are slow tests."""


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in zoo.MODELS])
def test_no_level_changes_what_a_model_computes(name: str) -> None:
    model = mlc.load(zoo.model(name, zoo.MODELS[name].small))
    attach_store(model.module, model.weights)
    specs = [zoo.Spec("", shape, dtype) for shape, dtype in types_of(model.main.function_type.inputs.data) or ()]
    points = FivePoints(inputs={"main": list(zoo.random_inputs(specs).values())})
    passes = ["graph-O3", "convert-graph-to-te", "kernel-O3"]
    run_passes(model.module, make_context(), passes, instruments=[points])
    kernels = len(points.known) - 1  # and @main
    assert kernels >= 5
    assert list(points.at) == list(POINTS)
    assert [found.count(level) for found, level in zip(points.at.values(), POINTS.values(), strict=True)] == [
        kernels + 1,
        *[kernels] * 4,
    ]
