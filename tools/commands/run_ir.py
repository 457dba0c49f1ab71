"""mlc run-ir: a module of any level on arrays from files, with every value that it computes."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.tools.opt.limits import add_limits
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.validation.compare.trace import ValueSummary, ValueTrace


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("file", help="an .mlir file of any level, or a model: .onnx, .pt2")
    add_input_arguments(parser)
    parser.add_argument("-p", "--pipeline", metavar="PASSES", help="passes to run over the module first")
    parser.add_argument("--function", metavar="NAME", help="the function to run (default: @main, or the only one)")
    parser.add_argument("--wide", action="store_true", help="compute floats in f64")
    parser.add_argument("--trace", action="store_true", help="print what each operation computes")
    parser.add_argument("-o", dest="output", metavar="OUT.npz", help="write the outputs, by name, to an .npz file")
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="FILE.py",
        help="run a Python file that defines ops and dialects; may be repeated",
    )
    add_limits(parser)


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say what a function is run on."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="an input from a .npy file, or of its name in an .npz; FILE.npz alone gives all in it; may be repeated",
    )
    parser.add_argument(
        "--random", type=_seed, metavar="SEED", help="random values for the inputs and weights that are not given"
    )
    parser.add_argument(
        "--weights", metavar="FILE.safetensors", help="the weights (default: the .safetensors beside the file)"
    )


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a seed, a number from 0 on, but got '{text}'")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.driver.compare.interpret import after_pipeline, load_module, run_loaded
    from mlc.validation.compare.trace import ArraySummary, ValueTrace

    if args.output is not None and Path(args.output).suffix != ".npz":
        raise UsageError(f"expected -o to end in .npz, but got '{args.output}'")
    given = read_inputs(args.input)
    loaded = load_module(Path(args.file))
    if args.pipeline is not None:
        loaded = after_pipeline(loaded, args.pipeline, args.weights)
        args.weights = None
    trace = ValueTrace(loaded.positions) if args.trace else None
    try:
        outputs = run_loaded(loaded, given, args.function, args.weights, args.wide, trace, args.random)
    finally:
        if trace is not None:
            print_trace(trace)
    for name, array in outputs.items():
        shape = "x".join(map(str, array.shape)) or "scalar"
        summary = ArraySummary()
        summary.add(array)
        print(f"{name}: {shape} {array.dtype}: {summary.text()}")
    if args.output is not None:
        _write(Path(args.output), outputs)
    return 0


def read_inputs(texts: list[str]) -> dict[str, Any]:
    """The arrays that --input names."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        name, path = (name, path) if equals else ("", text)
        if (
            not path
            or (equals and not name)
            or not path.endswith((".npy", ".npz"))
            or (not name and "npy" in path[-3:])
        ):
            raise UsageError(f"expected --input NAME=FILE.npy, NAME=FILE.npz or FILE.npz, but got '{text}'")
        arrays = _arrays_of(Path(path), name)
        for one, array in arrays.items():
            if one in found:
                raise UsageError(f"expected one array for input '{one}', but got a second: '{text}'")
            found[one] = array
    return found


def _arrays_of(path: Path, name: str) -> dict[str, Any]:
    """The array of a .npy file under this name, or that of this name (all without one) in an .npz file."""
    import zipfile

    import numpy as np

    from mlc.tools.commands.run import read_array

    if path.suffix == ".npy":
        return {name: read_array(path)}
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, Any] = {key: file[key] for key in file.files}
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        reason = str(error).rstrip(".").partition("\n")[0]
        raise UsageError(f"{path}: expected arrays in numpy's .npz format, but {reason}") from error
    if name and name not in arrays:
        raise UsageError(f"{path}: expected an array '{name}', but the file has {', '.join(arrays)}")
    return {name: arrays[name]} if name else arrays


def _write(path: Path, outputs: dict[str, Any]) -> None:
    import numpy as np

    try:
        np.savez(path, **outputs)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def print_trace(trace: "ValueTrace") -> None:
    """Print each value: as a table in a terminal, as lines elsewhere."""
    rows = list(trace.values.values())
    if sys.stdout.isatty():
        _print_table(trace, rows)
        return
    from mlc.validation.compare.trace import node_of

    for row in rows:
        place, node = trace.place(row.op), node_of(row.op)
        at = f"{place}: " if place else ""
        source = f' from "{node}"' if node else ""
        print(f"{at}{row.title}{source}: {row.type}: {row.text()}; first {' '.join(row.first)}".rstrip())


def _print_table(trace: "ValueTrace", rows: "list[ValueSummary]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from mlc.validation.compare.trace import node_of

    table = Table(show_lines=False)
    for column in ("place", "operation", "values"):
        table.add_column(column, overflow="fold")
    for row in rows:
        where = "\n".join(filter(None, (trace.place(row.op).rpartition("/")[2], node_of(row.op))))
        style = "" if row.is_finite else "red"
        values = f"{row.text()}\n{' '.join(row.first)}".rstrip()
        table.add_row(escape(where), escape(f"{row.title}\n{row.type}"), escape(values), style=style)
    Console().print(table, highlight=False)
