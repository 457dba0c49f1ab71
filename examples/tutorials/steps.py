"""
The steps of a tutorial: each is an operator that computes the same as numpy. `run` compares them with numpy and, with
`--plot FILE.svg` on the command line, measures them and draws the times beside numpy's.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np

Step = Callable[[], Any]
"""Makes the operator of a step, which takes the inputs."""
REPEATS = 9
LEFT, WIDTH, ROW, TOP = 230, 760, 26, 56


def run(title: str, steps: Mapping[str, Step], inputs: Sequence[Any], reference: Callable[..., Any]) -> None:
    """Check each step against numpy; the plot, if it is asked for."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--plot", metavar="FILE.svg", help="measure the steps and draw their times")
    plot = parser.parse_args().plot
    expected = reference(*inputs)
    times = {"numpy": fastest(lambda: reference(*inputs))} if plot else {}
    for name, step in steps.items():
        operator = step()
        np.testing.assert_allclose(operator(*inputs), expected, rtol=1e-3, atol=1e-3, err_msg=name)
        print(f"{name}: as numpy")
        if plot:
            times[name] = fastest(lambda operator=operator: operator(*inputs))
    if plot:
        Path(plot).write_text(draw(title, times))


def fastest(call: Callable[[], Any]) -> float:
    """The least time of several calls, in seconds."""
    call()
    times: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def draw(title: str, times: Mapping[str, float]) -> str:
    """Bars on a logarithmic axis, with numpy's time as a line."""
    low = min(times.values()) / 2
    span = np.log10(max(times.values()) * 2 / low)

    def x(seconds: float) -> float:
        return LEFT + float(np.log10(seconds / low) / span) * (WIDTH - LEFT - 90)

    height = TOP + ROW * len(times) + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="13" fill="#222222">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="24" font-size="17" font-weight="bold">{escape(title)}</text>',
        '<text x="12" y="43" fill="#555555">least time of several calls, on a logarithmic axis</text>',
    ]
    for k, (name, seconds) in enumerate(times.items()):
        y = TOP + k * ROW
        colour = "#b0b0b0" if name == "numpy" else "#2f6fb0"
        parts += [
            f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>',
            f'<rect x="{LEFT}" y="{y + 3}" width="{x(seconds) - LEFT:.1f}" height="{ROW - 8}" fill="{colour}"/>',
            f'<text x="{x(seconds) + 6:.1f}" y="{y + 16}">{duration(seconds)}</text>',
        ]
    line = x(times["numpy"])
    parts.append(
        f'<line x1="{line:.1f}" y1="{TOP}" x2="{line:.1f}" y2="{height - 16}" stroke="#c04040" stroke-dasharray="4 3"/>'
    )
    return "\n".join([*parts, "</svg>"]) + "\n"


def duration(seconds: float) -> str:
    """A time as people read it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
