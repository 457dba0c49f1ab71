"""A profile as a table, a row for each kernel: the same on a terminal, in colours, and as plain text."""

from io import StringIO
from typing import TYPE_CHECKING

from mlc.support.display.counts import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mlc.runtime.profile import KernelProfile, Profile

MERGED_SHARE = 0.002
"""Kernels that take less than this share of the time are one line."""
_FIGURES = ("us", "%", "GFLOP/s", "of peak", "GB/s", "of bw", "bound")
_NARROW = 90
"""Columns of a terminal below which the rates are left out, and the percentages stay."""
_RATES = ("GFLOP/s", "GB/s")
_GOOD, _FAIR = 75, 40


def show(profile: "Profile", console: "Console", small: float = MERGED_SHARE) -> None:
    """Print the table; kernels that take less than the part `small` of the time are one line."""
    console.print(f"{profile.machine}", highlight=False, soft_wrap=True)
    console.print(_table(profile, console.width, small))


def text(profile: "Profile", width: int) -> str:
    """The whole table as plain text."""
    from rich.console import Console

    out = StringIO()
    show(profile, Console(file=out, width=width, color_system=None), small=0.0)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _table(profile: "Profile", width: int, small: float) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, expand=True, padding=(0, 1, 0, 0))
    columns = [name for name in _FIGURES if width >= _NARROW or name not in _RATES]
    for name in columns:
        table.add_column(name, justify="left" if name == "bound" else "right", no_wrap=True)
    table.add_column("kernel: schedule (source nodes)", ratio=1, no_wrap=True, overflow="ellipsis")
    total, kernels = profile.seconds or 1.0, profile.kernels
    shown = [row for row in kernels if row.seconds >= small * total]
    figures = [[_figures(row, total)[name] for name in columns] for row in shown]
    used = [max(map(len, column)) for column in zip(columns, *figures, strict=True)]
    room = max(24, width - sum(used) - len(used) - 1)
    for row, cells in zip(shown, figures, strict=True):
        table.add_row(*cells, _description(row, room))
    if rest := kernels[len(shown) :]:
        _add_total(table, columns, sum(row.seconds for row in rest), total, f"{len(rest)} more kernels")
    calls = counted(sum(row.count for row in profile), "call")
    _add_total(table, columns, total, total, f"all: {calls} of {counted(len(kernels), 'kernel')}")
    return table


def _add_total(table: "Table", columns: list[str], seconds: float, total: float, what: str) -> None:
    cells = {"us": f"{seconds * 1e6:.1f}", "%": f"{100 * seconds / total:.1f}"}
    table.add_row(*(cells.get(name, "") for name in columns), what, style="bold")


def _figures(row: "KernelProfile", total: float) -> "dict[str, str | Text]":
    """The cells of a kernel by column; the part of its bound is in colour."""
    from rich.text import Text

    part = row.percent_of_roof
    colour = "green" if part >= _GOOD else "yellow" if part >= _FAIR else "red"
    is_compute = row.bound == "compute"
    return {
        "us": f"{row.seconds * 1e6:.1f}",
        "%": f"{100 * row.seconds / total:.1f}",
        "GFLOP/s": f"{row.gflops:.1f}",
        "of peak": Text(f"{row.percent_of_peak:.0f}%", style=colour if is_compute else ""),
        "GB/s": f"{row.gbytes:.1f}",
        "of bw": Text(f"{row.percent_of_bandwidth:.0f}%", style="" if is_compute else colour),
        "bound": row.bound,
    }


def _description(row: "KernelProfile", room: int) -> "Text":
    """Number of calls and kernel name, cut in its middle if it is long; below it, its schedule and source nodes."""
    from rich.text import Text

    calls = f"{row.count} x " if row.count > 1 else ""
    name, room = row.kernel, room - len(calls)
    if len(name) > room:
        name = f"{name[: room - 10]}…{name[-9:]}"
    nodes = f" ({', '.join(row.origins)})" if row.origins else ""
    device = f"on {row.device}: " if row.device else ""
    return Text.assemble(f"{calls}{name}\n", (f"  {device}{row.schedule}{nodes}", "dim"))
