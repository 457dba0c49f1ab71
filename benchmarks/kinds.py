"""
Measure mlc beside onnxruntime and OpenVINO over kinds of work; `make bench-kinds` runs this.

    python benchmarks/kinds.py [--seed 0] [--threads 1,2] [--only REGEX] [--quick] [--avx2] [--open] [--json FILE]

A kind of work is an operator or a short chain of operators in one range of sizes; the seed draws its shapes
(benchmarks/workloads). First the results of all programs are compared; then the programs run in turns in one process. A
ratio is our time over a peer's. A kind counts as above a ratio only if the lower end of the 95 % confidence interval of
three paired runs is above it (benchmarks/paired.py). Kinds above 1 are measured a second time after all others, and all
six runs count: on a virtual machine, the CPUs may be far from each other for minutes.

Prints tables sorted by ratio, the slowest first, and writes every figure as JSON. Kinds that run at 90 % of the
measured bandwidth have a table of their own. With --avx2, mlc compiles for x86-64-v3 and is compared with OpenVINO
limited to AVX2; onnxruntime cannot be limited, and is left out. With --open, sizes of the inputs are symbols, in the
model that mlc compiles and in the peers'.
"""

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import onnx
import onnxruntime
from beside import OURS, PEERS, Entry, Settings, measure
from paired import geometric_mean
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from workloads.catalogue import KINDS, Kind
from workloads.open_sizes import open_models

ROOT = Path(__file__).resolve().parents[1]
CONSOLE = Console(width=None if sys.stdout.isatty() else 150)
_SECONDS, _QUICK_SECONDS = 0.12, 0.03


def selected(pattern: str) -> list[Kind]:
    """The kinds whose name the regular expression finds."""
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise SystemExit(f"expected a regular expression after --only, but got '{pattern}': {error}") from None
    found = [kind for kind in KINDS.values() if wanted.search(kind.name)]
    if not found:
        raise SystemExit(f"expected --only to name a kind, but '{pattern}' finds none; --list prints all")
    return found


def thread_counts(text: str) -> list[int]:
    """The counts of "1,2" that the machine has CPUs for."""
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        raise SystemExit(f"expected --threads as in '1,2', but got '{text}'") from None
    cpus = len(os.sched_getaffinity(0))
    if any(count < 1 or count > cpus for count in counts):
        raise SystemExit(f"expected --threads between 1 and {cpus}, the CPUs of this machine, but got '{text}'")
    return counts


def run_kinds(
    kinds: list[Kind], args: argparse.Namespace, threads: int, after_each: Callable[[list[Entry]], None]
) -> list[Entry]:
    """
    Measure each kind, and those above 1 once more; `after_each` is given those measured until then.

    So a run that is stopped leaves some figures.
    """
    entries: list[Entry] = []
    with progress() as bar:
        task = bar.add_task("", total=len(kinds))

        def measured(kind: Kind) -> Entry:
            bar.update(task, description=f"{kind.name}, {threads} thread{'s' * (threads > 1)}")
            entry = measure_kind(kind, args, threads)
            bar.advance(task)
            return entry

        for kind in kinds:
            entries.append(measured(kind))
            after_each(entries)
        again = [index for index, entry in enumerate(entries) if entry.ratio and entry.ratio.above]
        bar.update(task, total=len(kinds) + len(again))
        for index in again:
            entries[index].add(measured(kinds[index]))
            after_each(entries)
    return entries


def measure_kind(kind: Kind, args: argparse.Namespace, threads: int) -> Entry:
    """Draw a kind by the seed, and measure it."""
    drawn = kind.draw(args.seed)
    with tempfile.TemporaryDirectory(prefix="mlc.") as directory:
        path = Path(directory) / "kind.onnx"
        settings = Settings(threads, _QUICK_SECONDS if args.quick else _SECONDS, kind.tolerance, args.avx2)
        if not args.open:
            onnx.save(drawn.model, path)
            return measure(kind.name, drawn.sizes, path, drawn.inputs, settings)
        entry = Entry(kind.name, drawn.sizes, threads, reason="its sizes cannot be open")
        for model in open_models(drawn.model):
            onnx.save(model, path)
            entry = measure(kind.name, drawn.sizes, path, drawn.inputs, settings)
            if entry.ratio is not None:
                break
        return entry


def progress() -> Progress:
    """A bar with the name of what is measured."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )


def _by_ratio(entries: Iterable[Entry]) -> list[Entry]:
    return sorted((one for one in entries if one.ratio), key=lambda one: -(one.ratio.mean if one.ratio else 0.0))


def _cells(entry: Entry) -> list[str]:
    assert entry.ratio is not None
    times = [f"{min(one[name] for one in entry.runs):.3f}" if name in entry.runs[0] else "-" for name in (OURS, *PEERS)]
    interval = f"{entry.ratio.low:.2f}..{entry.ratio.high:.2f}"
    shares = [f"{100 * entry.of_peak:.0f} %", f"{100 * entry.of_bandwidth:.0f} %"]
    return [entry.name, entry.sizes, f"{entry.ratio.mean:.2f}", interval, *times, *shares, entry.kernel]


COLUMNS = ("kind", "drawn", "ratio", "95 %", *(f"{name} ms" for name in (OURS, *PEERS)), "FMA", "memory", "kernel")


def print_tables(entries: list[Entry]) -> None:
    """Print the kinds sorted by ratio; those at the limit of memory apart; what has no figures; the summary."""
    measured = _by_ratio(entries)
    for title, rows in _parts(measured):
        table = Table(title=title, title_justify="left", title_style="bold")
        for index, column in enumerate(COLUMNS):
            table.add_column(column, justify="right" if 2 <= index < len(COLUMNS) - 1 else "left", overflow="fold")
        for entry in rows:
            table.add_row(*_cells(entry))
        if rows:
            CONSOLE.print(table)
    for line in (*failures(entries), summary(entries)):
        CONSOLE.print(line, markup=False, highlight=False, soft_wrap=True)


def _parts(measured: list[Entry]) -> list[tuple[str, list[Entry]]]:
    return [
        ("mlc / best peer", [one for one in measured if not one.bound]),
        ("at 90 % of the measured bandwidth", [one for one in measured if one.bound]),
    ]


def failures(entries: list[Entry]) -> list[str]:
    """One line for each that has no figures, or other values, or a peer that fails."""
    reasons = [f"{one.name} ({one.sizes}): {one.reason}" for one in entries if one.reason]
    peers = [f"{one.name}: {name} is left out: {why}" for one in entries for name, why in one.left_out.items()]
    return [*reasons, *peers]


def summary(entries: list[Entry]) -> str:
    """The geometric mean, and how many are above 1."""
    ratios = [one.ratio for one in entries if one.ratio and not one.bound]
    above = sum(one.above for one in ratios)
    clearly = sum(one.low > 1.1 for one in ratios)
    mean = geometric_mean([one.mean for one in ratios])
    return f"{len(ratios)} measured: geometric mean {mean:.2f}; above 1.0: {above}, above 1.1: {clearly}"


def markdown(entries: list[Entry]) -> str:
    """The tables as Markdown."""
    lines: list[str] = []
    for title, rows in _parts(_by_ratio(entries)):
        head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
        lines += ["", f"## {title}", "", *head, *("| " + " | ".join(_cells(one)) + " |" for one in rows)]
    return "\n".join([summary(entries), *lines, "", *(f"- {line}" for line in failures(entries))]) + "\n"


def write(
    args: argparse.Namespace, results: dict[int, list[Entry]], facts: dict[str, object], quiet: bool = False
) -> None:
    """Write the record as JSON, and as Markdown if that was asked for."""
    args.json.parent.mkdir(parents=True, exist_ok=True)
    record = facts | {f"threads={threads}": [one.facts() for one in some] for threads, some in results.items()}
    args.json.write_text(json.dumps(record, indent=1) + "\n")
    if quiet:
        return
    CONSOLE.print(f"wrote {args.json}", highlight=False)
    if args.markdown:
        parts = [f"# {threads} thread{'s' * (threads > 1)}\n\n{markdown(some)}" for threads, some in results.items()]
        args.markdown.write_text("\n".join(parts))
        CONSOLE.print(f"wrote {args.markdown}", highlight=False)


def add_options(parser: argparse.ArgumentParser, record: str) -> None:
    """The options that the benchmarks of this sort share."""
    parser.add_argument("--seed", type=int, default=0, help="what is drawn follows from it (default: 0)")
    parser.add_argument("--threads", default="1", metavar="N,N", help="counts of threads, as in 1,2 (default: 1)")
    parser.add_argument("--quick", action="store_true", help="less time for each figure")
    parser.add_argument("--avx2", action="store_true", help="mlc for x86-64-v3 beside OpenVINO limited to AVX2")
    path = ROOT / "build" / record
    parser.add_argument("--json", type=Path, default=path, metavar="FILE", help=f"default: build/{record}")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, too")


def main() -> None:
    """Measure the kinds that are asked for; print and write the figures."""
    parser = argparse.ArgumentParser(description="measure mlc beside onnxruntime and OpenVINO over kinds of work")
    add_options(parser, "kinds.json")
    parser.add_argument("--only", default="", metavar="REGEX", help="kinds whose name it finds (default: all)")
    parser.add_argument("--open", action="store_true", help="sizes of the inputs are symbols")
    parser.add_argument("--list", action="store_true", help="print the names of the kinds")
    args = parser.parse_args()
    kinds, counts = selected(args.only), thread_counts(args.threads)
    if args.list:
        print("\n".join(kind.name for kind in kinds))
        return
    onnxruntime.set_default_logger_severity(3)
    results: dict[int, list[Entry]] = {}
    for threads in counts:

        def keep(entries: list[Entry], threads: int = threads) -> None:
            results[threads] = entries
            write(args, results, {"seed": args.seed}, quiet=True)

        print_tables(run_kinds(kinds, args, threads, keep))
        write(args, results, {"seed": args.seed})


if __name__ == "__main__":
    main()
