"""A profile as a table, a row for each kernel: the same on a terminal, in colours, and as plain text."""

from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mlc.runtime.profile import KernelProfile, Profile

# Kernels below this part of the time share one line.
SMALL = 0.002
_FIGURES = ("us", "%", "GFLOP/s", "of peak", "GB/s", "of bw", "bound")
_NARROW = 90
"""Below this width the rates are left out, and the parts of what the machine reaches stay."""
_RATES = ("GFLOP/s", "GB/s")
_GOOD, _FAIR = 75, 40


def show(profile: "Profile", console: "Console", small: float = SMALL) -> None:
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
    total, rest = profile.seconds or 1.0, 0
    kernels = profile.kernels
    for row in kernels:
        if row.seconds < small * total:
            rest += 1
            continue
        figures = _figures(row, total)
        table.add_row(*(figures[name] for name in columns), _description(row))
    if rest:
        seconds = sum(row.seconds for row in kernels[-rest:])
        _add_total(table, columns, seconds, total, f"{rest} more kernels")
    _add_total(table, columns, total, total, f"all {len(profile)} calls of {len(kernels)} kernels")
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


def _description(row: "KernelProfile") -> "Text":
    """The kernel's name and calls; under it, its schedule and the source nodes."""
    from rich.text import Text

    calls = f" x{row.count}" if row.count > 1 else ""
    nodes = f" ({', '.join(row.origins)})" if row.origins else ""
    return Text.assemble(f"{row.kernel}{calls}\n", (f"  {row.schedule}{nodes}", "dim"))
