"""Rectangles of the memory view: who writes which bytes, and until when they are read."""

from pathlib import Path

import html_reports
import small_model

from mlc.tools.html.memory import memory_facts, rectangles


def value(offset, count, storage="workspace"):
    return {"storage": storage, "offset": offset, "shape": [count], "dtype": "f32"}


def graph(values, nodes, copies=()):
    plan = {"bytes": 64, "sum": 128, "bound": 64}
    nodes = [{"inputs": ins, "outputs": outs} for ins, outs in nodes]
    return {"values": values, "nodes": nodes, "copies": list(copies), "plan": plan}


def test_a_value_lives_until_its_last_read():
    values = [value(0, 4, "input"), value(0, 4), value(16, 4), value(0, 4)]
    found = rectangles(graph(values, [([0], [1]), ([1], [2]), ([1, 2], [3])], [[3, 0, 16]]))
    assert [(one.start, one.end, one.first, one.last, one.reads) for one in found] == [
        (0, 16, 0, 2, [1, 2]),
        (16, 32, 1, 2, [2]),
        (0, 16, 2, 3, [3]),
    ]


def test_the_operands_of_a_join_are_read_with_the_whole():
    whole = value(0, 8)
    found = rectangles(graph([value(0, 4), value(16, 4), whole], [([], [0]), ([], [1]), ([2], [])]))
    assert [(one.first, one.last) for one in found] == [(0, 2), (1, 2)]


def test_the_plan_of_a_model_fits_its_workspace(tmp_path: Path):
    memory = html_reports.report(small_model.write(tmp_path)).memory
    assert memory["steps"] == len(memory["used"])
    assert max(memory["used"]) <= memory["bytes"]
    for k, one in enumerate(memory["rectangles"]):
        assert 0 <= one["start"] < one["end"] <= memory["bytes"]
        for other in memory["rectangles"][:k]:
            meet = one["first"] <= other["last"] and other["first"] <= one["last"]
            assert not meet or one["end"] <= other["start"] or other["end"] <= one["start"]


def test_bytes_in_use():
    facts = memory_facts(graph([value(0, 4), value(16, 4)], [([], [0]), ([0], [1]), ([1], [])]))
    assert facts["used"] == [16, 32, 16]
