"""The arena over time as an SVG picture: a rectangle for each intermediate, from its first to its last call."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mlc.tools.html.memory import memory_facts

WIDTH, HEIGHT = 1200, 560
"""The size of the plot without margins, in pixels."""
LEFT, TOP, RIGHT, BOTTOM = 90, 60, 20, 190
LINE = 14
"""The height of a line of text, in pixels."""
CHARACTER = 6.2
"""The width of a character of a label, in pixels."""
MOST_NAMES = 80
"""Kernel names that fit under the plot side by side."""
COLOURS = ("#8ecae6", "#ffd166", "#a7d129", "#f4a261", "#cdb4db", "#90be6d", "#f28482", "#84a59d")


def picture_of(model: str, graph: Mapping[str, Any], pools: Sequence[Mapping[str, Any]] = ()) -> str:
    """
    The SVG text for the description of a compiled program of static sizes; `pools` are those of model.json.

    To the right goes time, a call of a kernel a column; upwards the offset in the arena, in bytes.
    """
    facts = memory_facts(graph)
    names = [re.sub(r"_[0-9a-f]{8}$", "", str(node["kernel"])) for node in graph["nodes"]]
    plot = _Plot(len(names), max(facts["bytes"], facts["bound"], 1))
    parts = [plot.rectangle(one, number, names) for number, one in enumerate(facts["rectangles"])]
    parts += plot.axes(names)
    bound = f"lower bound {_bytes(facts['bound'])}: the most bytes alive at once"
    near = plot.y(facts["bound"]) - plot.y(facts["bytes"]) < 2 * LINE
    parts += plot.line(facts["bound"], bound, "#c1121f", -5 - LINE * near)
    parts += plot.line(facts["bytes"], f"peak {_bytes(facts['bytes'])}", "#003049", -5)
    for pool in pools:
        if pool["kind"] == "workspace" and pool["offset"]:
            parts += plot.line(pool["offset"], f"pool {pool['name']} from here", "#6a4c93", -5)
    share = f"{_bytes(facts['sum'])} one after another; {len(facts['rectangles'])} intermediates"
    note = "; with control flow: the order of the calls in the program" if facts["control_flow"] else ""
    title = f"{model}: the arena over time"
    head = [
        f'<text x="{LEFT}" y="24" font-size="16">{escape(title)}</text>',
        f'<text x="{LEFT}" y="43" fill="#555">{escape(share + note)}</text>',
    ]
    width, height = LEFT + WIDTH + RIGHT, TOP + HEIGHT + BOTTOM
    style = 'font-family="Helvetica, Arial, sans-serif" font-size="11"'
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    back = f'<rect width="{width}" height="{height}" fill="white"/>'
    body = "\n".join([back, *head, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} {style}>\n{body}\n</svg>\n'


class _Plot:
    """The scales of the plot."""

    def __init__(self, steps: int, size: int) -> None:
        self.steps, self.size = max(steps, 1), size

    def x(self, step: float) -> float:
        """The left edge of a call's column."""
        return round(LEFT + WIDTH * step / self.steps, 2)

    def y(self, offset: float) -> float:
        """The height of an offset."""
        return round(TOP + HEIGHT * (1 - offset / self.size), 2)

    def rectangle(self, one: Mapping[str, Any], number: int, names: Sequence[str]) -> str:
        """An intermediate: its bytes from the call that writes it to the end of the last that reads it."""
        x, right = self.x(one["first"]), self.x(min(one["last"] + 1, self.steps))
        y, low = self.y(one["end"]), self.y(one["start"])
        label = f"{names[one['first']]} {one['label']}"
        span = f"bytes {one['start']} to {one['end']}, calls {one['first']} to {one['last']}"
        text = ""
        room = int((right - x - 6) / CHARACTER)
        if low - y >= 13 and room >= 4:
            shown = label if len(label) <= room else f"{label[: room - 1]}…"
            text = f'<text x="{x + 3}" y="{round((y + low) / 2 + 4, 2)}">{escape(shown)}</text>'
        shape = f'x="{x}" y="{y}" width="{round(right - x, 2)}" height="{round(low - y, 2)}"'
        fill = COLOURS[number % len(COLOURS)]
        tip = f"<title>{escape(f'{label}: {span}')}</title>"
        return f'<g>{tip}<rect {shape} fill="{fill}" stroke="#333" stroke-width="0.6"/>{text}</g>'

    def line(self, offset: int, text: str, colour: str, above: int) -> list[str]:
        """A dashed line at an offset, with its meaning at the right end; `above` moves the text, in pixels."""
        y, right = self.y(offset), LEFT + WIDTH
        place = f'x="{right - 4}" y="{y + above}" text-anchor="end" fill="{colour}"'
        halo = 'paint-order="stroke" stroke="white" stroke-width="3"'
        return [
            f'<path d="M{LEFT} {y}H{right}" stroke="{colour}" stroke-dasharray="6 3" fill="none"/>',
            f'<text {place} {halo} font-weight="bold">{escape(text)}</text>',
        ]

    def axes(self, names: Sequence[str]) -> list[str]:
        """Offsets at the left, calls below: their kernels' names where there is room, else numbers."""
        bottom = TOP + HEIGHT
        found = [f'<path d="M{LEFT} {TOP}V{bottom}H{LEFT + WIDTH}" stroke="#333" fill="none"/>']
        for k in range(5):
            offset = self.size * k // 4
            found.append(f'<text x="{LEFT - 6}" y="{self.y(offset) + 4}" text-anchor="end">{_bytes(offset)}</text>')
        every = 1 if len(names) <= MOST_NAMES else -(-len(names) // 40)
        for step in range(0, len(names), every):
            x = round((self.x(step) + self.x(step + 1)) / 2 + 4, 2)
            name = names[step] if every == 1 else str(step)
            shown = name if len(name) <= 28 else f"{name[:27]}…"
            found.append(
                f'<text x="{x}" y="{bottom + 8}" transform="rotate(-90 {x} {bottom + 8})" text-anchor="end">'
                f"{escape(shown)}</text>"
            )
        return found


def _bytes(size: float) -> str:
    """`3.75 MiB`."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


__all__ = ["picture_of"]
