"""
mlc diff: two modules, two models, or one model in two ways, by structure and by values.

    mlc diff A B                                          two files (.mlir, .onnx, .pt2), or two compiled directories
    mlc diff MODEL --pipeline P1 --pipeline P2            a model after two pipelines
    mlc diff MODEL -O0 -O2    mlc diff MODEL --target T1 --target T2      a model compiled in two ways

Exit codes: 0 they are equal; 1 they differ (or the input is wrong: then there is a message on stderr).
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mlc.tools.cli import add_shape_arguments, shapes_of, symbols_of
from mlc.tools.commands.run_ir import add_input_arguments, read_inputs
from mlc.tools.opt.limits import add_limits
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.driver.compare.diff import StructureReport, ValueReport
    from mlc.driver.compare.sides import LoadOptions, Side
    from mlc.validation.compare.value_diff import TensorDifference

NODES = 10
"""Names of source nodes, and differences of weights, that are listed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = (__doc__ or "").strip().partition(": ")[2]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("a", metavar="A", help="a module or model: .mlir, .onnx, .pt2, or a compiled directory")
    parser.add_argument("b", metavar="B", nargs="?", help="another one; without it, A in two ways")
    _add_ways(parser)
    parser.add_argument("--structure", action="store_true", help="compare only as text")
    parser.add_argument("--values", action="store_true", help="compare only values")
    parser.add_argument(
        "--function", metavar="NAME", help="the function to run (default: @main, or all that both have)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=1e-4,
        metavar="X",
        help="difference of floats that counts as equal, relative to the tensor's largest value (default: 1e-4)",
    )
    add_input_arguments(parser)
    add_shape_arguments(parser)
    add_limits(parser)


def _add_ways(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that compare one model in two ways."""
    parser.add_argument(
        "-p", "--pipeline", action="append", default=[], metavar="PASSES", help="passes to run over A; give two"
    )
    parser.add_argument(
        "-O",
        dest="levels",
        action="append",
        default=[],
        type=int,
        choices=range(5),
        help="optimisation level to compile A at; one or two",
    )
    parser.add_argument(
        "--target", action="append", default=[], metavar="CPU", help="target to compile A for; one or two"
    )
    parser.add_argument(
        "--emit",
        choices=("graph", "te", "loop", "llvm"),
        default="te",
        help="level at which two compilations are compared as text (default: te)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.driver.compare.diff import StructureReport, structure, values

    if not args.tolerance >= 0:
        raise UsageError(f"expected --tolerance to be at least 0, but got {args.tolerance:g}")
    if args.structure and args.values:
        raise UsageError("expected one of --structure and --values, but got both; leave both out to compare both")
    given = read_inputs(args.input)
    a, b = sides(args)
    differs = False
    aligned = StructureReport()
    if not args.values or (a.module is not None and b.module is not None):
        aligned = structure(a, b)
    if not args.values:
        print_structure(aligned, a, b)
        differs = aligned.differs
    if not args.structure:
        reports = values(a, b, aligned.functions, given, args.function, args.tolerance)
        for report in reports:
            print_values(report, args.tolerance)
        differs = differs or any(report.differs for report in reports)
    return int(differs)


def sides(args: argparse.Namespace) -> "tuple[Side, Side]":
    """The two sides that the arguments name."""
    from mlc.driver.compare.sides import LoadOptions, file_side, pipeline_side

    options = LoadOptions(shapes_of(args), symbols_of(args), args.weights, args.random or 0)
    if args.b is not None:
        if args.pipeline or args.levels or args.target:
            raise UsageError("expected one model with two of --pipeline, -O or --target, but got two models")
        one, other = (file_side(path, options) for path in (args.a, args.b))
        return one, other
    if args.pipeline:
        if len(args.pipeline) != 2 or args.levels or args.target:
            raise UsageError(f"expected --pipeline twice and neither -O nor --target, but got {_given(args)}")
        one, other = (pipeline_side(args.a, p, options) for p in args.pipeline)
        return one, other
    return _compilations(args, options)


def _given(args: argparse.Namespace) -> str:
    parts = [f"--pipeline {p}" for p in args.pipeline] + [f"-O{n}" for n in args.levels]
    return ", ".join([*parts, *(f"--target {t}" for t in args.target)]) or "neither"


def _compilations(args: argparse.Namespace, load_options: "LoadOptions") -> "tuple[Side, Side]":
    """A model compiled in two ways."""
    from pathlib import Path

    from mlc.driver.compare.sides import compiled_side
    from mlc.driver.options import Options
    from mlc.support.threads import thread_count

    if 2 not in (len(args.levels), len(args.target)) or max(len(args.levels), len(args.target)) > 2:
        raise UsageError(f"expected a second model, or two of --pipeline, -O or --target, but got {_given(args)}")
    if Path(args.a).is_dir():
        raise UsageError(f"expected a model file to compile, but got the directory {args.a}")
    if args.weights is not None:
        raise UsageError("expected --weights only where modules are interpreted; a model to compile has its own")
    found: list[Side] = []
    for k in (0, 1):
        level, target = _one(args.levels, k, 3), _one(args.target, k, "native")
        parts = [f"-O{level}"] * bool(args.levels) + [f"--target {target}"] * bool(args.target)
        options = Options(target, level, thread_count(None), frozenset({args.emit}))
        name = f"{args.a} {' '.join(parts)}"
        found.append(compiled_side(args.a, name, options, args.emit, load_options))
    return found[0], found[1]


def _one(given: Sequence[Any], k: int, default: Any) -> Any:
    """The k-th of two, the only one, or the default."""
    return given[min(k, len(given) - 1)] if given else default


# --- what is printed ---------------------------------------------------------------------------------------------


def print_structure(report: "StructureReport", a: "Side", b: "Side") -> None:
    """Print how the sides differ as text."""
    _line(f"--- {a.name}", "bold")
    _line(f"+++ {b.name}", "bold")
    if not report.differs:
        _line("structure: equal")
        return
    equal = report.functions.same
    same = f", {equal} {'is' if equal == 1 else 'are'} equal"
    count = len(report.functions.functions)
    parts = [f"{count} function{'s differ' if count != 1 else ' differs'}{same}"] if a.module is not None else []
    parts += ["the calls of kernels differ"] * bool(report.calls)
    parts += [f"{len(report.weights)} weight{'s differ' if len(report.weights) != 1 else ' differs'}"] * bool(
        report.weights
    )
    _line(f"structure: {', '.join(parts)}")
    for one in report.functions.functions:
        _line(str(one), "bold")
        _print_diff(one.lines)
    for where, nodes in zip(("first", "second"), report.functions.nodes, strict=True):
        if nodes:
            _line(f"nodes only in the {where}: {', '.join(nodes[:NODES])}{' and others' * (len(nodes) > NODES)}")
    _print_diff(report.calls)
    for text in report.weights[:NODES]:
        _line(text)
    if len(report.weights) > NODES:
        _line(f"... and {len(report.weights) - NODES} weights more")


def _print_diff(lines: Sequence[str]) -> None:
    for line in lines:
        _line(f"  {line}", {"-": "red", "+": "green"}.get(line[:1], ""))


def _line(text: str, style: str = "") -> None:
    """Print a line, in colour on a terminal."""
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style), soft_wrap=True)


def print_values(report: "ValueReport", tolerance: float) -> None:
    """Print the differences of values, node by node."""
    compared = [one for one in report.tensors if one.other_shape is None]
    others = len(report.tensors) - len(compared)
    wrong = [one for one in compared if one.differs]
    what = f"values of @{report.function}: {len(compared)} tensor{'s' * (len(compared) != 1)} inside, "
    what += f"{len(wrong)} differ{'s' * (len(wrong) == 1)} by more than {tolerance:g} of their largest value; "
    what += "outputs differ" if report.differs else "outputs are equal"
    _line(what, "bold")
    if others:
        _line(f"  {others} {'have' if others > 1 else 'has'} another shape on the other side, and are not compared")
    rows = [*compared, *report.outputs]
    first = next((one for one in rows if one.differs), None)
    (_print_rows if sys.stdout.isatty() else _print_plain)(rows, first)


def _cells(one: "TensorDifference", first: "TensorDifference | None") -> tuple[str, ...]:
    shape = "x".join(map(str, one.shape)) or "scalar"
    if one.other_shape is not None:
        shape += f" and {'x'.join(map(str, one.other_shape)) or 'scalar'}"
    note = "first that differs" if one is first else "differs" if one.differs else ""
    return one.label, shape, f"{one.error:.3g}", f"{one.relative:.3g}", note


_COLUMNS = ("tensor", "shape", "max |a-b|", "relative", "")


def _print_plain(rows: "Sequence[TensorDifference]", first: "TensorDifference | None") -> None:
    cells = [_COLUMNS, *(_cells(one, first) for one in rows)]
    widths = [max(len(row[k]) for row in cells) for k in range(len(_COLUMNS))]
    for row in cells:
        text = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:4], widths[1:4], strict=True)), row[4]]
        print(f"  {'  '.join(text)}".rstrip())


def _print_rows(rows: "Sequence[TensorDifference]", first: "TensorDifference | None") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for k, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if k in (2, 3) else "left", overflow="fold")
    for one in rows:
        style = "bold red" if one is first else "yellow" if one.differs else ""
        table.add_row(*map(escape, _cells(one, first)), style=style)
    Console().print(table, highlight=False)
