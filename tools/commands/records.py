"""mlc records: list, merge, export, import, prune and package what tuning measured."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.support.display.counts import counted
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.tuning.records.database import Database
    from mlc.tuning.records.record import Record

EPILOG = """\
    mlc records list r.db                          every measurement
    mlc records best r.db                          the winner of each kernel, with its speed-up over the default
    mlc records merge r.db other.db                add the records of other databases
    mlc records export r.db -o r.jsonl             JSON lines; --kept: the winners alone
    mlc records import r.db r.jsonl                JSON lines back; logs of AutoTVM 0.2 become hints for the tuner
    mlc records prune r.db --keep 50               drop failures, records of older strategies, and slow ones
    mlc records package r.db -o dir --name NAME    a distribution that mlc.compile uses when it is installed

Off a terminal, list and best print one line a record and nothing else, with tabs between the columns.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, text: str) -> argparse.ArgumentParser:
        sub = actions.add_parser(name, help=text, description=text)
        sub.add_argument("database", metavar="DB", help="a database of records")
        return sub

    for name, text in (("list", "print every measurement"), ("best", "print the winner of each kernel")):
        sub = action(name, text)
        sub.add_argument("--kernel", metavar="NAME", help="only kernels whose name begins with NAME")
    sub = action("merge", "add the records of other databases")
    sub.add_argument("others", metavar="OTHER", nargs="+", help="a database whose records are added")
    sub = action("export", "write records as JSON lines, or as a log of AutoTVM")
    sub.add_argument("-o", dest="output", metavar="FILE", help="the file to write (default: standard output)")
    sub.add_argument("--kept", action="store_true", help="only winners: what passed the check against the default")
    sub.add_argument(
        "--tvm", metavar="TARGET", help="AutoTVM 0.2 lines for TVM's TARGET of its four x86 templates, e.g. 'llvm'"
    )
    sub = action("import", "add records from JSON lines, or hints from logs of AutoTVM")
    sub.add_argument("files", metavar="FILE", nargs="+", help="a file that `mlc records export` wrote, or AutoTVM")
    sub.add_argument("--target", default="native", help="the CPU that the hints of AutoTVM's logs are for")
    sub.add_argument("--threads", type=_count, default=1, metavar="N", help="their number of threads (default: 1)")
    sub = action("prune", "remove failed measurements and those of older strategies")
    sub.add_argument(
        "--keep", type=_count, default=0, metavar="N", help="keep the fastest N of a kernel (default: all)"
    )
    sub = action("package", "write a distribution that mlc.compile uses when it is installed")
    sub.add_argument("-o", dest="output", metavar="DIR", required=True, help="the directory to write, new or empty")
    sub.add_argument("--name", required=True, help="the name of the distribution, e.g. my-records")


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    return ACTIONS[args.action](args)


def _list(args: argparse.Namespace) -> int:
    with _opened(args.database) as database:
        rows = [_row(one) for one in database.records() if one.name.startswith(args.kernel or "")]
    _print(("kernel", "threads", "strategy", "seconds", "speed-up", "values"), rows)
    return 0


def _row(one: Record) -> list[str]:
    failed = "" if one.result.error == 0 else one.result.error.name.lower().replace("_", " ")
    seconds = "" if failed else f"{one.result.cost:.4g}"
    return [one.name, str(one.threads), one.strategy, seconds, failed or _speedup(one), _values(one)]


def _best(args: argparse.Namespace) -> int:
    rows: list[list[str]] = []
    with _opened(args.database) as database:
        for task in database.tasks():
            one = database.best(task) or database.fastest(task)
            if one is not None and one.name.startswith(args.kernel or ""):
                gflops = f"{task.flops / one.result.cost / 1e9:.1f}"
                cells = [one.name, str(one.threads), one.strategy, f"{one.result.cost:.4g}", gflops]
                rows.append([*cells, _speedup(one) or "not checked", _values(one)])
        notes = list(database.notes)
    _print(("kernel", "threads", "strategy", "seconds", "GFLOP/s", "speed-up", "values"), rows)
    for note in notes:
        print(f"mlc: note: {note}", file=sys.stderr)
    return 0


def _speedup(one: Record) -> str:
    """`1.25 (1.21 to 1.29)`: over the default, and the confidence interval."""
    check = one.comparison
    return "" if check is None else f"{check.speedup:.2f} ({check.low:.2f} to {check.high:.2f})"


def _values(one: Record) -> str:
    return " ".join(
        f"{name}={'x'.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in one.values.items()
        if name != "strategy"
    )


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; elsewhere one line a record, with tabs between the columns, and nothing else."""
    if not sys.stdout.isatty():
        for row in rows:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for column in columns:
        numbers = column in ("threads", "seconds", "GFLOP/s")
        table.add_column(column, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table, highlight=False)


def _merge(args: argparse.Namespace) -> int:
    with _opened(args.database, write=True) as database:
        for other in args.others:
            print(f"{other}: {counted(database.merge(other), 'record')} new")
    return 0


def _export(args: argparse.Namespace) -> int:
    with _opened(args.database) as database:
        lines = list(database.lines(args.kept)) if args.tvm is None else _tvm_lines(database, args.tvm, args.kept)
    text = "".join(f"{line}\n" for line in lines)
    if args.output in (None, "-"):
        sys.stdout.write(text)
        return 0
    Path(args.output).write_text(text)
    count = sum('"result"' in line for line in lines)
    print(f"wrote {args.output}: {counted(count, 'record')}")
    return 0


def _tvm_lines(database: Database, target: str, kept: bool) -> list[str]:
    """The candidates of kernels that AutoTVM has templates for, as its lines."""
    from mlc.tuning.records.tvm.tasks import record_of_task

    found: list[str] = []
    for task in database.tasks():
        best = database.best(task)
        for one in database.records(task.key):
            if one.result.is_foreign or (kept and (best is None or one.values != best.values)):
                continue
            if (record := record_of_task(task, one.values, one.result, target)) is not None:
                found.append(record.text)
    return found


def _import(args: argparse.Namespace) -> int:
    from mlc.support.files import read_file

    texts = {file: read_file(file).decode(errors="replace") for file in args.files}
    with _opened(args.database, write=True) as database:
        for file, text in texts.items():
            is_tvm = _is_tvm(text)
            count = _add_tvm(database, text, file, args) if is_tvm else database.add_lines(text.splitlines(), file)
            print(f"{file}: {counted(count, 'record')} new")
    return 0


def _is_tvm(text: str) -> bool:
    """Whether the first line is one of AutoTVM's."""
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return '"input"' in next(lines, "")


def _add_tvm(database: Database, text: str, file: str, args: argparse.Namespace) -> int:
    """Add a log of AutoTVM as hints; templates that mlc does not map are left out, with a note."""
    from mlc.tuning.records.tvm.log import parse_log
    from mlc.tuning.records.tvm.tasks import task_of_record

    before = len(database.records())
    unknown: set[str] = set()
    for record in parse_log(text, file):
        found = task_of_record(record, args.target, args.threads)
        if found is None:
            unknown.add(record.task)
        else:
            database.add(*found, record.result)
    for name in sorted(unknown):
        print(f"mlc: note: {file}: records of {name} are left out; mlc has no knobs for it", file=sys.stderr)
    return len(database.records()) - before


def _prune(args: argparse.Namespace) -> int:
    with _opened(args.database) as _:
        pass  # a name that is wrong makes no new database
    with _opened(args.database, write=True) as database:
        gone = database.prune(args.keep)
        print(f"{args.database}: removed {counted(gone, 'record')}, {len(database.records())} left")
    return 0


def _package(args: argparse.Namespace) -> int:
    from mlc.tuning.records.package import write_package

    for file in write_package(args.database, args.output, args.name):
        print(f"wrote {file}")
    print(f"install it with: pip install {args.output}")
    return 0


def _opened(path: str, write: bool = False) -> Database:
    from mlc.tuning.records.database import Database

    if os.path.isdir(path):
        raise UsageError(f"expected a database of records, but got the directory {path}")
    return Database(path, readonly=not write)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1, but got '{text}'")
    return int(text)


ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "list": _list,
    "best": _best,
    "merge": _merge,
    "export": _export,
    "import": _import,
    "prune": _prune,
    "package": _package,
}
