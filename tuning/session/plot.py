"""
A session as a picture: the best so far of each task, and what the tuner predicted against what was measured.

    speed against the default's            measured, GFLOP/s of the best of the task
    |        ______----                    |            . ..:
    |   __---                              |       . .:..
    |_--                                   |  ..:.
    +------------- trials of a task        +------------- predicted, rank in its task
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import ceil, inf
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from mlc.runtime.report.svg import svg_line, svg_text
from mlc.support.errors import UserError
from mlc.tuning.session.watch import Point

if TYPE_CHECKING:
    from mlc.tuning.session.report import Report, TaskReport

WIDTH, HEIGHT = 1080, 520
COLOURS = ("#30638e", "#d1495b", "#2a9d8f", "#8d6a9f", "#edae49", "#6c757d", "#003d5b", "#c06c84")
"""One for each of the tasks in which most time is spent; the others are drawn in GREY."""
GREY = "#c4c4c4"
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 590, 64, 470
_PANEL = 440
_NAMED = len(COLOURS)


def write_plot(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the picture; UserError for a suffix other than .svg, and where the file cannot be written."""
    if Path(path).suffix != ".svg":
        raise UserError(f"expected the name of a plot to end in .svg, but got '{path}'")
    try:
        Path(path).write_text(drawn(report))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def drawn(report: Report) -> str:
    """The picture as SVG text."""
    tasks = sorted((t for t in report.tasks if t.points), key=lambda one: -one.spent)
    colours = {id(one): COLOURS[number] if number < _NAMED else GREY for number, one in enumerate(tasks)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222222">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        svg_text(
            _LEFT, 24, f"{report.trials} trials of {len(report.tasks)} tasks", 'font-size="17" font-weight="bold"'
        ),
        *_progress(tasks, colours),
        *_predictions(tasks, colours),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def best_so_far(one: TaskReport) -> list[float]:
    """The speed of the best of a task after each trial, as a multiple of the default's; 0 before the first one ran."""
    least, found = inf, list[float]()
    default = one.default_seconds if one.default_seconds < inf else one.best_seconds
    for point in one.points:
        least = min(least, point.cost)
        found.append(default / least if least < inf else 0.0)
    return found


def predicted_pairs(one: TaskReport) -> list[tuple[float, float]]:
    """
    The candidates of a task that were predicted and ran: the prediction's rank in the task from 0 to 1, and the speed
    as a part of the best one's.
    """
    ran = [point for point in one.points if point.predicted is not None and point.cost < inf]
    ordered = sorted(ran, key=_score)
    least = min((point.cost for point in one.points), default=inf)
    return [(rank / max(1, len(ordered) - 1), least / point.cost) for rank, point in enumerate(ordered)]


def _score(point: Point) -> float:
    assert point.predicted is not None
    return point.predicted


def _progress(tasks: Sequence[TaskReport], colours: dict[int, str]) -> list[str]:
    curves = [(one, best_so_far(one)) for one in tasks]
    most = max((len(curve) for _, curve in curves), default=1)
    highest = _ceiling(max((max(curve) for _, curve in curves), default=1.0))
    panel = _Panel(_LEFT, most, highest)
    parts = panel.frame("trials of a task", "best so far, times the default's speed", max(1, ceil(most / 8)))
    parts.append(svg_line(_LEFT, panel.y(1), _LEFT + _PANEL, panel.y(1), 'stroke="#888888" stroke-dasharray="4 3"'))
    for one, curve in reversed(curves):
        path = " ".join(f"{panel.x(n):.1f},{panel.y(speed):.1f}" for n, speed in enumerate(curve, 1))
        style = f'fill="none" stroke="{colours[id(one)]}" stroke-width="1.6"'
        parts.append(f'<polyline points="{path}" {style}><title>{escape(one.task.name)}</title></polyline>')
    for number, (one, _) in enumerate(curves[:_NAMED]):
        y = _BOTTOM - 8 - 14 * (min(len(curves), _NAMED) - 1 - number)
        style = f'font-size="10" text-anchor="end" fill="{colours[id(one)]}"'
        parts.append(svg_text(_LEFT + _PANEL - 6, y, one.task.name, style))
    return parts


def _predictions(tasks: Sequence[TaskReport], colours: dict[int, str]) -> list[str]:
    panel = _Panel(_RIGHT, 1, 1)
    parts = panel.frame("predicted: rank among the task's trials", "measured, of the task's best speed", 0)
    pairs = [(one, predicted_pairs(one)) for one in reversed(tasks)]
    if not any(found for _, found in pairs):
        middle = f'text-anchor="middle" fill="{GREY}"'
        return [*parts, svg_text(_RIGHT + _PANEL / 2, (_TOP + _BOTTOM) / 2, "the tuner predicted nothing", middle)]
    for one, found in pairs:
        for rank, speed in found:
            style = f'r="2.6" fill="{colours[id(one)]}" fill-opacity="0.7"'
            title = f"<title>{escape(one.task.name)}</title>"
            parts.append(f'<circle cx="{panel.x(rank):.1f}" cy="{panel.y(speed):.1f}" {style}>{title}</circle>')
    return parts


class _Panel:
    """Linear axes from 0."""

    def __init__(self, left: float, most: float, highest: float) -> None:
        self.left, self.most, self.highest = left, most, highest

    def x(self, value: float) -> float:
        return self.left + value / self.most * _PANEL

    def y(self, value: float) -> float:
        return _BOTTOM - value / self.highest * (_BOTTOM - _TOP)

    def frame(self, below: str, beside: str, step: int) -> list[str]:
        """The grid and the names; `step` trials are between two numbers below (0: quarters of 1)."""
        right, middle = self.left + _PANEL, self.left + _PANEL / 2
        parts = [svg_text(self.left, _TOP - 12, beside), svg_text(middle, _BOTTOM + 36, below, 'text-anchor="middle"')]
        for part in range(5):
            value = self.highest * part / 4
            parts.append(svg_line(self.left, self.y(value), right, self.y(value), 'stroke="#e4e4e4"'))
            parts.append(svg_text(self.left - 6, self.y(value) + 4, f"{value:.4g}", 'text-anchor="end"'))
        ticks = [n / 4 for n in range(5)] if step == 0 else range(0, int(self.most) + 1, step)
        parts += [svg_text(self.x(n), _BOTTOM + 18, f"{n:.4g}", 'text-anchor="middle"') for n in ticks]
        return parts


def _ceiling(value: float) -> float:
    """The next of the multiples of 0.4 above a value, so that the quarters are round."""
    return max(1.2, ceil((value + 0.05) / 0.4) * 0.4)


__all__ = ["best_so_far", "drawn", "predicted_pairs", "write_plot"]
