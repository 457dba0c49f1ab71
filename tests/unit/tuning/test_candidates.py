"""
A candidate's number, its values, JSON, IR and a tuner's digits name the same candidate, in spaces of every kind.

The way round: number -> values -> JSON -> values -> number, values -> te.func and schedule -> text -> values -> number,
number -> digits -> number. A schedule may have knobs that the compiler's choice does not ask for; they are no part of
the space, and have their defaults.
"""

from __future__ import annotations

import json
from functools import cache
from random import Random

import pytest
import strategy_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from random_te import OPERATORS, STRATEGIES, random_task
from tuning_templates import gemm
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.parser import Parser

from mlc.dialects import sched, te
from mlc.dialects.attributes import KERNEL_KNOBS, SCHEDULE_STRATEGY
from mlc.driver.pipeline.manager import make_context
from mlc.schedules.knobs import values_attribute, values_of
from mlc.schedules.selection import knobs_of
from mlc.support.errors import UserError
from mlc.support.records import json_values
from mlc.tuning.extract import ALL, candidate_module, task_of
from mlc.tuning.records.record import space_of, space_text, values_text
from mlc.tuning.records.record import values_of as values_of_text
from mlc.tuning.space import STRATEGY, Knob, KnobValue, Part, Space, Values, from_json
from mlc.tuning.task import Task
from mlc.tuning.tuners.genes import Genes

KINDS = [*STRATEGIES, "template", "all"]
"""A strategy beside the compiler's choice (of "winograd": three algorithms), a template, and all strategies."""


@cache
def task_of_kind(kind: str) -> Task:
    """A task whose space is of that kind."""
    if kind == "template":
        return gemm.task(24, 32, 16, threads=1)
    if kind == "all":
        return task_of(cases.dense(12, 40, 16), threads=1, strategies=[ALL])
    rng = Random(f"candidates {kind}")
    return next(found for _ in range(20) if (found := random_task(kind, rng)) is not None)


def in_ir(values: Values) -> dict[str, object]:
    """The values as the attribute of a te.func, printed and parsed."""
    text = str(values_attribute(values))
    attribute = Parser(make_context(), text).parse_attribute()
    assert isinstance(attribute, DictionaryAttr)
    return dict(values_of(attribute))


def parsed(module: ModuleOp) -> ModuleOp:
    """A module after printing and parsing."""
    return Parser(make_context(), str(module)).parse_module()


def values_in(module: ModuleOp, part: Part) -> dict[str, KnobValue]:
    """The values that a candidate's IR holds: the schedule's knobs, and those on the te.func."""
    known = {knob.name for knob in part.knobs}
    found: dict[str, KnobValue] = {}
    for op in module.body.block.ops:
        if isinstance(op, sched.ScheduleOp):
            if isinstance(name := op.attributes.get(SCHEDULE_STRATEGY), StringAttr):
                found[STRATEGY] = name.data
            knobs = knobs_of(op)
            found |= {name: knob.value for name, knob in knobs.items() if name in known}
            assert all(knob.value == knob.default_value for name, knob in knobs.items() if name not in known)
        if isinstance(op, te.FuncOp) and isinstance(values := op.attributes.get(KERNEL_KNOBS), DictionaryAttr):
            found |= values_of(values)
    return found


def walk(task: Task, index: int) -> bool:
    """Walk all ways round from a number; whether the candidate is a schedule, and not refused."""
    space = task.space
    values = space[index]
    assert space.index_of(values) == index
    assert from_json(json.loads(json.dumps(json_values(values)))) == values
    assert dict(values_of_text(values_text(values))) == values
    assert in_ir(values) == values
    genes = Genes(space)
    assert genes.index(genes.digits(index)) == index
    try:
        module = candidate_module(task, values)
    except UserError:
        return False
    part = space.part(values)
    once, again = values_in(module, part), values_in(parsed(module), part)
    assert once == again
    assert space.index_of({STRATEGY: values[STRATEGY], **again}) == index
    return True


@settings(max_examples=12)
@given(data=st.data())
@pytest.mark.parametrize("kind", KINDS)
def test_number_values_json_and_ir_are_the_same_candidate(kind: str, data: st.DataObject) -> None:
    task = task_of_kind(kind)
    part = data.draw(st.sampled_from(task.space.parts))
    first = sum(one.size for one in task.space.parts[: task.space.parts.index(part)])
    walk(task, first + data.draw(st.integers(0, part.size - 1)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_is_a_schedule(kind: str) -> None:
    task = task_of_kind(kind)
    assert walk(task, task.space.index_of(task.space.default))
    assert task.space.is_default(task.space.default)
    assert space_of(space_text(task.space)) == task.space


def test_spaces_of_all_kinds_are_walked() -> None:
    assert {part.algorithm for part in task_of_kind("winograd").space.parts} == {"direct", "winograd2", "winograd4"}
    assert "sketch" in {part.strategy for part in task_of_kind("all").space.parts}
    assert set(OPERATORS) < set(KINDS)


VALUES = st.one_of(
    st.lists(st.integers(-5, 100), min_size=1, max_size=4, unique=True),
    st.lists(st.sampled_from(["auto", "on", "off", "a b", 'q"']), min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4, unique=True),
)
KNOBS = VALUES.flatmap(lambda found: st.tuples(st.just(tuple(found)), st.sampled_from(found)))


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    """Any space: parts of two strategies and two algorithms."""
    heads = draw(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy")), min_size=1, max_size=4, unique=True))
    parts = [
        Part(strategy, tuple(Knob(f"k{n}", *one) for n, one in enumerate(draw(st.lists(KNOBS, max_size=3)))), algorithm)
        for strategy, algorithm in heads
    ]
    return Space(tuple(parts))


@given(spaces(), st.data())
def test_any_space_round_trips(space: Space, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, space.size - 1))
    values = space[index]
    assert space.index_of(values) == index
    assert in_ir(values) == values
    assert dict(values_of_text(values_text(values))) == values
    assert space_of(space_text(space)) == space
    assert Genes(space).index(Genes(space).digits(index)) == index
    assert len({str(one) for one in space.choices}) == len({part.algorithm for part in space.parts})
