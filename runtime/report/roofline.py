"""
A profile as a roofline plot: how much a kernel computes for each byte, and how fast, under the machine's roofs.

    GFLOP/s |            _______________  FMA peak        a dot is a kernel, its area the time that it takes;
            |    L2  / L3 / DRAM /                        a ring at the left edge computes nothing: its height is
            |      /    /     /    o                      the bandwidth that it reaches
            +-------------------------- flops a byte

An .svg is written here; .png and .pdf are drawn by matplotlib.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from math import ceil, floor, log10, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.support.errors import UserError

if TYPE_CHECKING:
    from mlc.runtime.profile import KernelProfile, Profile

FORMATS = (".svg", ".png", ".pdf")
COLOURS = {"compute": "#d1495b", "L2": "#30638e", "L3": "#2a9d8f", "DRAM": "#8d6a9f"}
GREY = "#555555"
_LABELS = 8
_AREA = 7000.0  # square points of all dots together


@dataclass(frozen=True)
class Dot:
    """A kernel in the plot; `radius` in points."""

    x: float
    y: float
    radius: float
    row: "KernelProfile"

    @property
    def colour(self) -> str:
        """By what bounds the kernel."""
        return COLOURS.get(self.row.bound, GREY)

    @property
    def is_ring(self) -> bool:
        """Whether the kernel computes nothing."""
        return not self.row.flops

    @property
    def name(self) -> str:
        """The kernel, and how much of its bound it reaches."""
        count = f" x{self.row.count}" if self.row.count > 1 else ""
        return f"{self.row.kernel}{count}: {self.row.seconds * 1e6:.0f} us, {self.row.percent_of_roof:.0f}%"

    @property
    def tooltip(self) -> str:
        """All that the table says of the kernel."""
        row = self.row
        return (
            f"{row.kernel} x{row.count}: {row.seconds * 1e6:.1f} us, {row.gflops:.1f} GFLOP/s "
            f"({row.percent_of_peak:.0f}% of peak), {row.gbytes:.1f} GB/s "
            f"({row.percent_of_bandwidth:.0f}% of bandwidth), bound by {row.bound}\n"
            f"{row.schedule}\n{', '.join(row.origins)}"
        )


class Roofline:
    """What is to be drawn, in the units of the axes: flops a byte, and GFLOP/s."""

    def __init__(self, profile: "Profile") -> None:
        self.profile = profile
        self.machine = profile.machine

    @cached_property
    def kernels(self) -> "list[KernelProfile]":
        """The rows to draw, the longest first."""
        return [row for row in self.profile.kernels if row.bytes]

    @cached_property
    def x_range(self) -> tuple[float, float]:
        """Whole decades round the kernels and the ridges of the roofs."""
        ridges = [self.machine.gflops / level.gbytes for level in self.machine.levels]
        found = [row.intensity for row in self.kernels if row.flops] + ridges
        return _decades(min(found) / 2, max(found) * 2)

    @cached_property
    def y_range(self) -> tuple[float, float]:
        """Whole decades round the kernels and the peak."""
        found = [dot.y for dot in self._placed(self.x_range[0])] + [self.machine.gflops]
        return _decades(min(found) / 1.5, max(found) * 1.5)

    @cached_property
    def dots(self) -> list[Dot]:
        """The kernels, the longest first, so that small dots stand before large ones."""
        return self._placed(self.x_range[0])

    def _placed(self, edge: float) -> list[Dot]:
        total = self.profile.seconds or 1.0
        dots: list[Dot] = []
        for row in self.kernels:
            radius = max(2.5, sqrt(_AREA * row.seconds / total / 3.14159))
            x, y = (row.intensity, row.gflops) if row.flops else (edge, row.gbytes * edge)
            dots.append(Dot(x, y, radius, row))
        return dots

    def roofs(self) -> list[tuple[str, str, tuple[float, float], tuple[float, float]]]:
        """Name, colour and ends of each roof."""
        peak, (left, right) = self.machine.gflops, self.x_range
        lines = [(f"FMA peak {peak:.0f} GFLOP/s", COLOURS["compute"], (left, peak), (right, peak))]
        bottom = self.y_range[0]
        for level in self.machine.levels:
            start = max(left, bottom / level.gbytes)
            end = (peak / level.gbytes, peak)
            name, colour = f"{level.name} {level.gbytes:.0f} GB/s", COLOURS.get(level.name, GREY)
            lines.append((name, colour, (start, start * level.gbytes), end))
        return lines

    def labelled(self) -> list[Dot]:
        """The dots that get a number: those that take most of the time."""
        return self.dots[:_LABELS]

    def bounds(self) -> list[str]:
        """What bounds the kernels, for the legend."""
        found = {dot.row.bound for dot in self.dots}
        return [name for name in COLOURS if name in found]


def plot(profile: "Profile", path: Path, title: str = "") -> None:
    """Write the plot to an .svg, .png or .pdf file."""
    if path.suffix not in FORMATS:
        raise UserError(
            f"expected a plot's file to end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}, but got '{path}'"
        )
    if not any(row.bytes for row in profile):
        raise UserError("expected a profile with at least one kernel to plot, but got none")
    title = title or "roofline"
    if path.suffix == ".svg":
        from mlc.runtime.report.svg import draw

        path.write_text(draw(Roofline(profile), title))
    else:
        _with_matplotlib(Roofline(profile), path, title)


def _with_matplotlib(roofline: Roofline, path: Path, title: str) -> None:
    """Draw the plot with matplotlib."""
    try:
        backend, figures = map(import_module, ("matplotlib.backends.backend_agg", "matplotlib.figure"))
    except ImportError:
        raise UserError(
            f"expected matplotlib to draw '{path}'; pip install 'mlc[plot]', or write an .svg, which needs nothing"
        ) from None
    figure = figures.Figure(figsize=(9.5, 6.5), dpi=150)
    backend.FigureCanvasAgg(figure)
    axes = figure.add_subplot(title=f"{title}\n{roofline.machine}", xscale="log", yscale="log")
    axes.set(xlim=roofline.x_range, ylim=roofline.y_range, xlabel="flops a byte", ylabel="GFLOP/s")
    axes.grid(which="major", color="#e4e4e4")
    for name, colour, (x0, y0), (x1, y1) in roofline.roofs():
        axes.plot([x0, x1], [y0, y1], color=colour, linewidth=1.3, label=name)
    for dot in roofline.dots:
        face = "none" if dot.is_ring else dot.colour
        axes.scatter([dot.x], [dot.y], s=4 * dot.radius**2, c=face, edgecolors=dot.colour, alpha=0.6, clip_on=False)
    for number, dot in enumerate(roofline.labelled(), 1):
        axes.annotate(str(number), (dot.x, dot.y), ha="center", va="center", fontsize=8, weight="bold")
        axes.plot([], [], "o", color=dot.colour, label=f"{number}  {dot.name}")
    for name in roofline.bounds():
        axes.plot([], [], "o", color=COLOURS[name], alpha=0.6, label=f"bound by {name}")
    axes.legend(loc="lower right", fontsize=7)
    figure.tight_layout()
    figure.savefig(path)


def _decades(low: float, high: float) -> tuple[float, float]:
    """The powers of ten, or halves of them, round a range."""
    return 10 ** (floor(2 * log10(low)) / 2), 10 ** (ceil(2 * log10(high)) / 2)
