"""Random schedules: values never change, and a directive that is refused leaves everything as it was."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from random_schedules import OPEN_SIZES, OPERATORS, RandomSchedule, arguments_of_calls, check_values, expected

import mlc
from mlc.dialects.loop import FuncOp
from mlc.dialects.syntax.source import parse_module
from mlc.driver.pipeline.manager import make_context, parse_pipeline
from mlc.support.errors import UserError, collected_warnings

COMPILED = 40
"""One schedule in so many is compiled."""


def run_schedules(count: int, *, fixed: bool) -> Counter[tuple[str, bool]]:
    """Apply and check random schedules; how often each directive was legal and not."""
    drawn: Counter[tuple[str, bool]] = Counter()
    checked = Counter[str]()

    @settings(max_examples=count, suppress_health_check=list(HealthCheck), derandomize=fixed, database=None)
    @given(st.sampled_from(sorted(OPERATORS)), st.integers(0, 2**32), st.integers(5, 15))
    def schedules(name: str, seed: int, steps: int) -> None:
        import random

        run = RandomSchedule(name, random.Random(seed))
        for _ in range(steps):
            run.step()
        note(str(run.schedule))
        func = run.schedule.lowered()
        note(str(func))
        check_values(name, func, seed)
        checked["all"] += 1
        drawn.update(run.drawn)
        if checked["all"] % COMPILED == 0:
            check_replay(run)
            check_compiled(run)

    schedules()
    return drawn


def check_replay(run: RandomSchedule) -> None:
    """The printed schedule applied by mlc-opt's passes gives the loops."""
    module = parse_module("".join(str(op) for op in run.schedule.module.body.block.ops))
    for one in parse_pipeline("convert-te-to-loop,loop-apply-schedule"):
        one.apply(make_context(), module)
    (func,) = module.body.block.ops
    assert isinstance(func, FuncOp)
    assert str(func) == run.schedule.text("loop")


def check_compiled(run: RandomSchedule) -> None:
    with collected_warnings():
        op = mlc.build(run.schedule, threads=1, cache=False)
    for size in OPEN_SIZES if run.name == "open" else OPEN_SIZES[:1]:
        out = op(*arguments_of_calls(run.name, size))
        for got, want in zip(out if isinstance(out, tuple) else [out], expected(run.name, size), strict=True):
            np.testing.assert_array_equal(got, want)


def share_of_legal(drawn: Counter[tuple[str, bool]]) -> float:
    return sum(n for (_, legal), n in drawn.items() if legal) / drawn.total()


def test_random_schedules_keep_values():
    drawn = run_schedules(200, fixed=True)
    assert share_of_legal(drawn) >= 0.3
    never = {action for action, _ in drawn} - {action for action, legal in drawn if legal}
    assert never <= {"bind", "tensorize"}, f"never legal: {never}"


def test_a_read_of_a_tile_takes_no_value():
    """Found by random schedules: the instruction reads four elements of the copy."""
    s = mlc.Schedule(OPERATORS["dense"])
    i, _, k = s.loops(s["dense"])
    _, inner = s.split(k, [None, 4])
    _, update = s.decompose_reduction(s["dense"], i)
    s.tensorize(inner, "dot_accumulate")
    copy = s.cache_read(update, 1, "shared")
    with pytest.raises(UserError, match=r"a read of a tile of %w_shared cannot take its value"):
        s.compute_inline(copy)


@pytest.mark.slow
def test_many_random_schedules_keep_values():
    assert share_of_legal(run_schedules(2000, fixed=False)) >= 0.3
