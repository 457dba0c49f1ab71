"""Generated schedules: random candidates give the interpreter's values, values outside the candidates are refused."""

import random

import numpy as np
import pytest
from sketch_kernels import KERNELS

import mlc
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.registry import strategies
from mlc.schedules.selection import implementation_of, knobs_of, select_implementation
from mlc.schedules.sketches.candidates import MOST_CANDIDATES, factor_lists
from mlc.support.errors import UserError
from mlc.targets.target import Target
from mlc.tuning.extract import task_of

TARGET = Target.parse("native")


def schedule(name: str, values: dict) -> tuple:
    """A kernel, and its generated schedule for these values."""
    func = KERNELS[name]()
    found = implementation_of(KernelInfo(func), TARGET, 2, {"strategy": "sketch"} | values)
    assert found is not None
    return func, found.schedule


def random_array(spec, rng: np.random.Generator) -> np.ndarray:
    if "float" in spec.dtype:
        return rng.standard_normal(spec.shape).astype(spec.dtype)
    return rng.integers(0, 4, spec.shape).astype(spec.dtype)


@pytest.mark.parametrize("name", KERNELS)
def test_random_candidates_compute_what_the_interpreter_does(name: str) -> None:
    rng = random.Random(name)
    candidates = {knob: op.values for knob, op in knobs_of(schedule(name, {})[1]).items()}
    for values in ({}, {knob: rng.choice(known) for knob, known in candidates.items()}):
        func, own = schedule(name, values)
        kernel = mlc.build(func.clone(), str(own), threads=2, cache=False)
        arrays = [random_array(spec, np.random.default_rng(0)) for spec in kernel.inputs]
        found = kernel(*arrays)
        for one, wanted in zip(
            found if isinstance(found, tuple) else (found,), mlc.interpret(str(func), arrays).values(), strict=True
        ):
            np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-4, err_msg=str(values))


def test_a_kernel_that_no_other_strategy_accepts_gets_a_sketch() -> None:
    func = KERNELS["guarded"]()
    found = select_implementation(KernelInfo(func), TARGET, 1)
    assert found is not None
    assert found.strategy == "sketch"
    first = select_implementation(KernelInfo(KERNELS["dense"]()), TARGET, 1)
    assert first is not None
    assert first.strategy != "sketch"
    assert strategies()[-1].name == "sketch"


def test_a_sketch_is_the_space_of_a_kernel_that_no_other_strategy_accepts() -> None:
    parts = {name: [part.strategy for part in task_of(KERNELS[name]()).space.parts] for name in ("guarded", "dense")}
    assert parts["guarded"] == ["sketch"]
    assert "sketch" not in parts["dense"]


def test_a_value_outside_of_the_candidates_is_refused() -> None:
    with pytest.raises(UserError, match=r"expected knob 'dense_tile_0' among .*, but got \[99, 1, 1\]"):
        schedule("dense", {"dense_tile_0": (99, 1, 1)})


@pytest.mark.parametrize("extent", [2, 13, 64, 1000])
def test_factor_lists_cover_no_more_than_the_axis(extent: int) -> None:
    lists = factor_lists(extent, 3, (1, 1, 1), 16)
    assert (1, 1, 1) in lists
    assert 1 < len(lists) <= MOST_CANDIDATES + 1
    assert all(np.prod(one) <= extent for one in lists)
