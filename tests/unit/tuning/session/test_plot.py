"""The picture of a session."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from tuning_records import some_task

from mlc.support.errors import UserError
from mlc.tuning.session.plot import best_so_far, drawn, predicted_pairs
from mlc.tuning.session.report import Report, TaskReport
from mlc.tuning.session.watch import Point

INF = float("inf")
POINTS = [Point(1, 10e-6), Point(2, INF), Point(4, 5e-6, 0.9), Point(5, 8e-6, 0.2), Point(9, 20e-6, 0.5)]
FIRST = TaskReport(some_task("conv<2d>_a"), 10e-6, 5e-6, None, 5, POINTS)
SECOND = TaskReport(replace(some_task("dense_b"), weight=1), INF, INF, None, 1, [Point(3, INF)])


def report(*tasks):
    return Report(tasks, "r.db", 6, 2.0, "all trials are done")


def test_the_best_so_far_starts_at_the_default():
    assert best_so_far(FIRST) == [1.0, 1.0, 2.0, 2.0, 2.0]
    assert best_so_far(SECOND) == [0.0]


def test_predictions_are_ranks_beside_measured_speeds():
    """The tuner put 8 us last, 20 us in the middle and 5 us, the best, first."""
    ranks, speeds = zip(*predicted_pairs(FIRST), strict=True)
    assert ranks == (0.0, 0.5, 1.0)
    assert speeds == pytest.approx((5 / 8, 5 / 20, 1.0))


def test_the_picture_has_a_curve_for_each_task_and_a_dot_for_each_prediction(tmp_path):
    report(FIRST, SECOND).plot(tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    svg = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{svg}polyline")) == 2
    assert len(root.findall(f"{svg}circle")) == 3
    assert [line.find(f"{svg}title").text for line in root.findall(f"{svg}polyline")] == ["dense_b", "conv<2d>_a"]
    width, height = float(root.get("width")), float(root.get("height"))
    for line in root.findall(f"{svg}polyline"):
        for pair in line.get("points").split():
            x, y = map(float, pair.split(","))
            assert 0 < x < width
            assert 0 < y < height


def test_a_tuner_without_predictions_is_told():
    assert "the tuner predicted nothing" in drawn(report(SECOND))
    assert "<polyline" not in drawn(report())


def test_other_formats_and_places_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"expected the name of a plot to end in \.svg, but got '.*p\.jpg'"):
        report(FIRST).plot(tmp_path / "p.jpg")
    with pytest.raises(UserError, match="No such file"):
        report(FIRST).plot(tmp_path / "none" / "p.svg")
