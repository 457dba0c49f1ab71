"""The roofline plot as SVG text; hovering over a dot shows all that is known of its kernel."""

from math import atan2, ceil, degrees, floor, log10
from xml.sax.saxutils import escape

from mlc.runtime.report.roofline import COLOURS, Dot, Roofline

WIDTH, HEIGHT = 960, 640
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 24, 62, 56
_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"
     font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222222">
<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>
"""


def draw(roofline: Roofline, title: str) -> str:
    """The whole picture."""
    canvas = _Canvas(roofline)
    parts = [
        *canvas.axes(),
        *(canvas.roof(*roof) for roof in roofline.roofs()),
        *canvas.key(roofline),
        *(canvas.dot(dot) for dot in roofline.dots),
        *(canvas.number(dot, number) for number, dot in enumerate(roofline.labelled(), 1)),
        svg_text(_LEFT, 24, title, 'font-size="17" font-weight="bold"'),
        svg_text(_LEFT, 44, str(roofline.machine), 'fill="#555555"'),
    ]
    return _HEAD + "\n".join(parts) + "\n</svg>\n"


def svg_text(x: float, y: float, content: str, style: str = "") -> str:
    """A text that begins at a place, or stands there as its style says."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(content)}</text>'


def svg_line(x0: float, y0: float, x1: float, y1: float, style: str) -> str:
    """A line between two places."""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" {style}/>'


class _Canvas:
    """Logarithmic axes, and what stands between them."""

    def __init__(self, roofline: Roofline) -> None:
        self.x_range, self.y_range = roofline.x_range, roofline.y_range

    def x(self, value: float) -> float:
        """The place of a number of flops a byte."""
        low, high = map(log10, self.x_range)
        return _LEFT + (log10(value) - low) / (high - low) * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """The place of a number of GFLOP/s."""
        low, high = map(log10, self.y_range)
        return HEIGHT - _BOTTOM - (log10(value) - low) / (high - low) * (HEIGHT - _TOP - _BOTTOM)

    def axes(self) -> list[str]:
        """The grid, a line for each decade, and the names of the axes."""
        left, right, top, bottom = _LEFT, WIDTH - _RIGHT, _TOP, HEIGHT - _BOTTOM
        grid = 'stroke="#e4e4e4"'
        parts: list[str] = []
        for tick in _ticks(*self.x_range):
            parts.append(svg_line(self.x(tick), top, self.x(tick), bottom, grid))
            parts.append(svg_text(self.x(tick), bottom + 18, f"{tick:g}", 'text-anchor="middle"'))
        for tick in _ticks(*self.y_range):
            parts.append(svg_line(left, self.y(tick), right, self.y(tick), grid))
            parts.append(svg_text(left - 8, self.y(tick) + 4, f"{tick:g}", 'text-anchor="end"'))
        parts.append(svg_line(left, bottom, right, bottom, 'stroke="#222222"'))
        parts.append(svg_line(left, top, left, bottom, 'stroke="#222222"'))
        parts.append(svg_text((left + right) / 2, HEIGHT - 16, "flops a byte", 'text-anchor="middle"'))
        turned = f'text-anchor="middle" transform="rotate(-90 18 {(top + bottom) / 2:.1f})"'
        return [*parts, svg_text(18, (top + bottom) / 2, "GFLOP/s", turned)]

    def roof(self, name: str, colour: str, start: tuple[float, float], end: tuple[float, float]) -> str:
        """One roof, its name along it."""
        x0, y0, x1, y1 = self.x(start[0]), self.y(start[1]), self.x(end[0]), self.y(end[1])
        line = svg_line(x0, y0, x1, y1, f'stroke="{colour}" stroke-width="1.6"')
        if y0 == y1:
            return line + svg_text(x1 - 4, y1 - 6, name, f'fill="{colour}" text-anchor="end"')
        angle = degrees(atan2(y1 - y0, x1 - x0))
        x, y = x0 + 0.12 * (x1 - x0), y0 + 0.12 * (y1 - y0) - 5
        return line + svg_text(x, y, name, f'fill="{colour}" transform="rotate({angle:.1f} {x:.1f} {y:.1f})"')

    def dot(self, dot: Dot) -> str:
        """One kernel."""
        fill = "#ffffff" if dot.is_ring else dot.colour
        return (
            f'<circle cx="{self.x(dot.x):.1f}" cy="{self.y(dot.y):.1f}" r="{dot.radius:.1f}" fill="{fill}" '
            f'fill-opacity="0.55" stroke="{dot.colour}"><title>{escape(dot.tooltip)}</title></circle>'
        )

    def number(self, dot: Dot, number: int) -> str:
        """The number by which the key names a kernel."""
        style = 'text-anchor="middle" font-weight="bold"'
        return svg_text(self.x(dot.x), self.y(dot.y) + 4, str(number), style)

    def key(self, roofline: Roofline) -> list[str]:
        """The names of the numbered kernels, and what the colours mean."""
        lines = [(dot.colour, f"{number}  {dot.name}") for number, dot in enumerate(roofline.labelled(), 1)]
        lines += [(COLOURS[name], f"bound by {name}") for name in roofline.bounds()]
        width = 6.3 * max(len(what) for _, what in lines) + 24
        left, top = WIDTH - _RIGHT - width, HEIGHT - _BOTTOM - 8 - 17 * len(lines)
        size = f'width="{width:.0f}" height="{17 * len(lines) + 4}"'
        parts = [f'<rect x="{left:.0f}" y="{top:.0f}" {size} fill="#ffffff" fill-opacity="0.8"/>']
        for index, (colour, what) in enumerate(lines):
            y = top + 15 + 17 * index
            parts.append(f'<circle cx="{left + 10:.0f}" cy="{y - 4:.0f}" r="5" fill="{colour}" fill-opacity="0.55"/>')
            parts.append(svg_text(left + 20, y, what, 'font-size="11"'))
        return parts


def _ticks(low: float, high: float) -> list[float]:
    """The powers of ten in a range."""
    return [10.0**k for k in range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)]
