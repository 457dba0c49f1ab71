"""What the features say of scheduled loops, against numbers computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tuning_spaces import made_up_task
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc import te
from mlc.support.errors import UserError
from mlc.targets.description import describe
from mlc.targets.target import Target
from mlc.tuning.space import Knob, Part, Space, Values
from mlc.tuning.task import Task
from mlc.tuning.tuners.loop_features import NAMES, cycles, loop_features
from mlc.tuning.tuners.loop_nest import statements
from mlc.tuning.tuners.lowered import LoweredFeatures
from mlc.tuning.tuners.protocol import make_tuner

TARGET = Target.parse("x86-64-v4")
ROWS, COLUMNS, DEPTH = 48, 128, 64


def matmul() -> Any:
    a, b = te.placeholder((ROWS, DEPTH), name="A"), te.placeholder((DEPTH, COLUMNS), name="B")
    k = te.reduce_axis(DEPTH, "k")
    c = te.compute((ROWS, COLUMNS), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    return te.func("matmul", [a, b], [c])


def tiled(rows: int, columns: int, order: str = "ijk") -> Any:
    s: Any = mlc.Schedule(matmul(), TARGET)
    i, j, k = s.loops(s["C"])
    i_out, i_in = s.split(i, [None, rows])
    j_out, j_in = s.split(j, [None, columns])
    loops = {"i": i_out, "j": j_out, "k": k}
    s.reorder(*(loops[name] for name in order), i_in, j_in)
    init, _ = s.decompose_reduction(s["C"], k)
    s.vectorize(i_in, j_in)
    s.vectorize(*s.loops(init)[-2:])
    return s


def feature(schedule: Any, name: str) -> float:
    return loop_features(schedule.lowered(), TARGET)[NAMES.index(name)]


def test_what_loops_touch() -> None:
    one = statements(tiled(6, 32).lowered())[0]
    assert (one.name, one.extents, one.tile) == ("C", (8, 4, 64, 6, 32), 3)
    assert one.reduces == (False, False, True, False, False)
    a, b = (access for access in one.accesses if not access.is_store and access.shape != (ROWS, COLUMNS))
    assert a.uses == (True, False, True, True, False)
    assert a.steps == (6 * DEPTH, 0, 1, DEPTH, 0)
    assert b.steps == (0, 32, COLUMNS, 0, 1)
    assert b.bytes(0) == DEPTH * COLUMNS * 4  # all of B
    assert b.bytes(2) == DEPTH * 32 * 4  # a panel of it
    assert a.bytes(3) == 6 * 64  # a line in each of six rows
    # The whole working set is loaded once where it fits; with room for a panel, B comes again for each block of rows.
    assert one.moved(1e9) == 4 * (ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS)
    # A cache that holds one step of the tile (A: 6 lines, B: 2 lines, C: 6 x 2 lines) streams through the reduction:
    # each tile takes six rows of A, a panel of B and itself once.
    assert one.moved(20 * 64) == 8 * 4 * 4 * (6 * DEPTH + DEPTH * 32 + 6 * 32)


def test_the_register_tile() -> None:
    s = tiled(6, 32)
    assert 2 ** feature(s, "block0/vectors") == 6 * 2
    assert 2 ** feature(s, "block0/steps") == 8 * 4 * 64
    assert 2 ** feature(s, "block0/carried") == 64
    assert feature(s, "block0/spills") == 0
    assert 2 ** feature(s, "block0/arithmetic") - 1 == pytest.approx(12 / TARGET.core.fmas_per_cycle)
    assert 2 ** feature(tiled(6, 32, "kij"), "block0/carried") == 1  # the tile goes to memory in each step
    assert feature(tiled(16, 64), "block0/spills") > 30


def test_estimates_prefer_tiles_that_stay_in_registers() -> None:
    def cost(schedule: Any) -> float:
        return sum(cycles(one, TARGET) for one in statements(schedule.lowered()))

    good = cost(tiled(6, 64))
    assert cost(tiled(1, 8)) > 3 * good
    assert cost(tiled(6, 64, "kij")) > 1.5 * good
    assert cost(tiled(24, 64)) > 1.5 * good
    peak = ROWS * COLUMNS * DEPTH / TARGET.lanes("f32") / TARGET.core.fmas_per_cycle
    assert peak <= good < 2 * peak


def candidate(_: Task, values: Values) -> ModuleOp:
    if values["rows"] == 5:
        raise UserError("five rows are refused")
    return tiled(int(str(values["rows"])), int(str(values["columns"]))).module


def test_features_of_candidates_and_the_tuner_that_begins_with_them() -> None:
    space = Space((Part("tiled", (Knob("rows", (1, 2, 5, 6, 24), 1), Knob("columns", (8, 16, 64), 8))),))
    flops = 2 * ROWS * COLUMNS * DEPTH
    task = Task("matmul_1", "text", describe(TARGET), 1, space, flops, compiled_for=str(TARGET))
    features = LoweredFeatures(task, candidate)(range(space.size))
    assert features.shape == (space.size, len(NAMES))
    refused = [index for index in range(space.size) if space[index]["rows"] == 5]
    assert np.flatnonzero(np.isinf(features[:, 0])).tolist() == refused
    assert space[int(np.argmin(features[:, 0]))] == {"strategy": "tiled", "rows": 6, "columns": 64}
    tuner = make_tuner("model", task, 0, lower=candidate)
    assert tuner.propose(2) == [space.index_of(space.default), int(np.argmin(features[:, 0]))]


def test_tuners_without_a_cost_model_do_not_lower() -> None:
    def never(task: Task, values: Values) -> ModuleOp:
        raise AssertionError("lowered")

    task = made_up_task(Space((Part("s", (Knob("a", (1, 2, 3), 1),)),)))
    for kind in ("random", "grid", "ga"):
        assert len(make_tuner(kind, task, 0, lower=never).propose(9)) == 3
