"""The spaces of mlc's strategies: any values of their knobs give what the default computes, or are refused."""

from random import Random

import numpy as np
import pytest
import strategy_cases as cases
from random_te import STRATEGIES, random_arrays, random_task, random_values

import mlc
from mlc.schedules.registry import BUILTIN_MODULES, strategies
from mlc.support.errors import UserError
from mlc.tuning.extract import candidate_module, task_of
from mlc.tuning.task import Task

QUICK = [name for name in STRATEGIES if name != "winograd"]
"""Those whose kernels compile in a fraction of a second."""


def test_every_strategy_is_drawn():
    own = {one.name for one in strategies() if one.write.__module__ in BUILTIN_MODULES}
    assert own == set(STRATEGIES)


def computed(task: Task, values: dict, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What the kernel with these values gives; UserError where they are refused."""
    module = candidate_module(task, values)
    found = mlc.build(module, target=task.compiled_for, threads=task.threads, cache=False)(*arrays)
    return list(found) if isinstance(found, tuple | list) else [found]


def check(strategy: str, seed: int, candidates: int, target: str = "native") -> tuple[int, int]:
    """Compare random candidates of a random operator with the default; the numbers compared and refused."""
    rng = Random(f"{strategy} {seed}")
    task = next(found for _ in range(20) if (found := random_task(strategy, rng, target)) is not None)
    arrays = random_arrays(task, seed)
    expected = computed(task, task.space.default, arrays)
    compared, refused = 0, list[str]()
    for _ in range(candidates):
        values = random_values(strategy, task, rng)
        try:
            found = computed(task, values, arrays)
        except UserError as error:
            refused.append(str(error))
            continue
        compared += 1
        for got, want in zip(found, expected, strict=True):
            scale = max(1.0, np.abs(want).max(initial=0.0))
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale, err_msg=f"{values}\n{task.kernel}")
    assert all("expected" in text for text in refused), refused
    return compared, len(refused)


@pytest.mark.parametrize("strategy", [*QUICK, pytest.param("winograd", marks=pytest.mark.ci)])
def test_candidates_compute_what_the_default_computes(strategy: str) -> None:
    compared, _ = check(strategy, 0, 3)
    assert compared


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "x86-64-v3"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_candidates_compute_what_the_default_computes(strategy: str, target: str) -> None:
    counts = [check(strategy, seed, 6, target) for seed in range(1, 9)]
    assert sum(compared for compared, _ in counts) > sum(refused for _, refused in counts)


def test_a_quotient_of_several_ragged_values_is_versioned_once() -> None:
    """Five pieces of two rows, four at a time, under a fused loop: `p floordiv 8` has two ragged values."""
    task = task_of(cases.grouped(2, 1, 4, 11, 5), threads=2, strategies=["contraction"])
    values = {"strategy": "contraction", "tile_columns": 2, "grid_columns": 4, "columns_first": "on"}
    arrays = random_arrays(task, 1)
    (expected,) = computed(task, task.space.default, arrays)
    (found,) = computed(task, values, arrays)
    np.testing.assert_array_equal(found, expected)
