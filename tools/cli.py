"""
mlc: compile, run, measure and check models from the command line.

    mlc compile model.onnx -o model.so      mlc run model.onnx --input x=x.npy --output-dir out/
    mlc bench model.onnx                    mlc check model.onnx        mlc inspect model.onnx
    mlc tune model.onnx --records r.db      mlc compile model.onnx --records r.db
    mlc new pass my-pass                    a project of your own, with tests
    mlc run-ir kernels.mlir --random 0      mlc diff a.onnx b.onnx

`mlc COMMAND --help` lists the options of a command.

Exit codes: 0 done; 1 the input or the command line is wrong (one diagnostic on stderr); 2 a bug in mlc (a
reproducer, or the traceback in mlc.crash.txt, is written).
"""

# Nothing heavy is imported before a command needs it.
import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from mlc.driver.options import EXECUTORS, PRECISIONS
from mlc.support.collector import skip_last_collection
from mlc.support.display.counts import counted
from mlc.tools.commands.memory import add_memory_arguments, given_memory_option, memory_arguments_of
from mlc.tools.opt.choice import (
    add_choice_arguments,
    add_load_argument,
    add_printing_arguments,
    chooses,
    context_of,
    printing_instrument,
)
from mlc.tools.opt.limits import add_limits, apply_limits
from mlc.tools.reporting import UsageError, is_users, report, report_bug, report_reproducer

if TYPE_CHECKING:
    from mlc.targets.device import Device

# Command -> (its module, one line of help). The module has add_arguments(parser) and run(args) -> exit code.
COMMANDS = {
    "compile": ("mlc.tools.commands.compile", "compile a model to a C library, a directory, or the IR of a level"),
    "package": ("mlc.tools.commands.package", "write a compiled model as a directory that builds with make or CMake"),
    "run": ("mlc.tools.commands.run", "run a model on arrays from .npy files"),
    "tune": ("mlc.tools.commands.tune", "search for faster schedules of a model's kernels, and keep them on record"),
    "bench": ("mlc.tools.commands.bench", "measure a model's latency, and onnxruntime's for comparison"),
    "check": ("mlc.tools.commands.check", "list all errors and unsupported operations of a model"),
    "bisect": ("mlc.tools.commands.bisect", "find the pass, the rewrite and the op that make a model wrong"),
    "reduce": ("mlc.tools.commands.reduce", "make a module small for which a command still succeeds"),
    "records": ("mlc.tools.commands.records", "list, merge, export, import, prune and package records of tuning"),
    "new": ("mlc.tools.commands.new", "write a project of your own: a pass, op, dialect, strategy or backend"),
    "run-ir": ("mlc.tools.commands.run_ir", "run a module of any level in the reference interpreters"),
    "diff": ("mlc.tools.commands.diff", "compare two modules, models, pipelines, levels or targets"),
    "device-scheduler": ("mlc.tools.commands.device_scheduler", "start the scheduler of a cluster of devices"),
    "device-server": ("mlc.tools.commands.device_server", "let a cluster run candidates and models on this machine"),
    "devices": ("mlc.tools.commands.devices", "list a cluster's devices, who has them, and how many wait"),
    "inspect": ("mlc.tools.commands.inspect", "show a compiled model's operations by level, memory and kernels"),
}


def seconds(text: str) -> float:
    """The value of an option that gives a time in seconds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3600:
        raise argparse.ArgumentTypeError(f"expected seconds above 0 and up to 3600, but got '{text}'")
    return value


def output_file(*suffixes: str) -> Callable[[str], Path]:
    """The type of an option that gives a file to write; one that cannot be written is refused before any work."""

    def read(text: str) -> Path:
        path = Path(text)
        if suffixes and path.suffix not in suffixes:
            known = " or ".join(filter(None, (", ".join(suffixes[:-1]), suffixes[-1])))
            raise argparse.ArgumentTypeError(f"expected a FILE that ends in {known}, but got '{text}'")
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"expected a FILE in a directory that exists, but got '{text}'")
        if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
            raise argparse.ArgumentTypeError(f"expected a FILE that can be written, but got '{text}'")
        return path

    return read


class _Parser(argparse.ArgumentParser):
    """Reports as one line, with exit code 1."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see '{self.prog} --help')")


def add_model_arguments(parser: argparse.ArgumentParser, compiled: str = "") -> None:
    """Add the arguments of every command that compiles; `compiled` is the help for directories, if it takes them."""
    parser.add_argument("model", help=f"an .onnx, .mlir or .pt2 file{compiled}")
    add_shape_arguments(parser)
    add_pass_arguments(parser)
    _add_target_arguments(parser)
    _add_precision_arguments(parser)
    parser.add_argument(
        "--schedules",
        metavar="DIR",
        help="take the kernels' schedules from the files in DIR, which --dump-schedules writes",
    )
    add_memory_arguments(parser)
    parser.add_argument(
        "--compiler",
        action="append",
        default=[],
        metavar="NAME",
        help="let an external compiler, which --load registers, take over what it can; several: the first is preferred",
    )
    parser.add_argument("--no-cache", action="store_true", help="neither read nor write the cache of compiled models")
    add_limits(parser)


def _add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """The machines for which a model is compiled."""
    parser.add_argument(
        "--target", default="native", help="the CPU to compile for: native, x86-64-v3, znver4, ... (default: native)"
    )
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="NAME=TARGET[@MEMORY][:COMPILER]",
        help="a further device, on which graph.on_device places values, e.g. little=x86-64-v2, or with a memory and an "
        "external compiler of its own npu=native@sram:toy; may be repeated",
    )
    parser.add_argument(
        "--threads", type=int, default=None, metavar="N", help="number of threads (default: one for each CPU)"
    )


def _add_precision_arguments(parser: argparse.ArgumentParser) -> None:
    """How much is optimised, and how exact the results stay."""
    parser.add_argument(
        "-O", dest="opt_level", type=int, default=3, choices=range(5), help="optimisation level (default: 3)"
    )
    parser.add_argument(
        "--error-growth",
        type=float,
        default=16.0,
        metavar="X",
        help="factor by which fast convolution algorithms may enlarge the rounding error; 0 allows none (default: 16)",
    )
    parser.add_argument(
        "--precision",
        default="f32",
        choices=PRECISIONS,
        help="type in which convolutions and dense layers multiply; f16 for weights only; sums are f32 (default: f32)",
    )


def add_records_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say which records are in force."""
    parser.add_argument(
        "--records",
        action="append",
        default=[],
        metavar="DB",
        help="use the schedules that `mlc tune` found to be faster; may be repeated, the last one is asked first",
    )
    parser.add_argument(
        "--no-records", action="store_true", help="use no records, not those of installed packages either"
    )


def add_executor_argument(parser: argparse.ArgumentParser, choices: Sequence[str] = EXECUTORS) -> None:
    """Add the argument of every command that makes an executable."""
    one_by_one = ", kernels one by one (graph, steps)" if "graph" in choices else ""
    parser.add_argument(
        "--executor",
        default="auto",
        choices=choices,
        help=f"what runs the model: native code of the whole (aot){one_by_one}, or bytecode that may compile what only "
        "the data decides (vm); auto is aot, or vm where aot cannot (default: auto)",
    )


COMPILED = ", or a directory that `mlc compile -o DIR` wrote"


def add_shape_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that loads a model."""
    parser.add_argument(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=1x3x48x320",
        help="shape of an input; names stand for sizes that stay open (x=1,3,H,W); may be repeated",
    )
    parser.add_argument(
        "--symbol",
        action="append",
        default=[],
        metavar="H=32:2048:32",
        help="range of an open size: lowest, highest, step (optional); may be repeated",
    )
    add_load_argument(parser)


def add_pass_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of every command that runs passes: which ones run, and what is printed around them."""
    add_choice_arguments(parser)
    add_printing_arguments(parser)


def load_files(args: argparse.Namespace) -> None:
    """Run the files of --load."""
    for path in getattr(args, "load", ()):
        from mlc.dialects.syntax.input import InputError
        from mlc.tools.opt.load import load_user_file

        try:
            load_user_file(path)
        except InputError as error:
            raise UsageError(error.diagnostic.message, str(error.diagnostic.place)) from error


def passes_of(args: argparse.Namespace) -> AbstractContextManager[object]:
    """The PassContext that the options describe, to enter around the command; nothing where they say nothing."""
    if not hasattr(args, "insert"):
        return nullcontext()
    printing = printing_instrument(args, str)
    if not chooses(args) and printing is None:
        return nullcontext()
    if os.path.isdir(args.model):
        raise UsageError(f"expected a model file to choose the passes for, but got the directory {args.model}")
    return context_of(args, getattr(args, "opt_level", 3), [] if printing is None else [printing])


def records_of(args: argparse.Namespace) -> AbstractContextManager[object]:
    """The records that the options put in force, to enter around the command; nothing where they say nothing."""
    if getattr(args, "no_records", False):
        if args.records:
            raise UsageError("expected --records or --no-records, but got both")
        from mlc.support.records import answering

        return answering(None)
    given = getattr(args, "records", None)
    if not isinstance(given, list) or not given:  # another command's argument may have the name
        return nullcontext()
    if os.path.isdir(args.model):
        raise UsageError(f"expected a model file to compile with --records, but got the directory {args.model}")
    from mlc.tuning.records.context import records

    return records(*reversed(cast("list[str]", given)))


def shapes_of(args: argparse.Namespace, option: str = "shape") -> "dict[str, tuple[int | str, ...]] | None":
    """The shapes that --shape gives."""
    shapes: dict[str, tuple[int | str, ...]] = {}
    for text in getattr(args, option):
        name, equals, sizes = text.rpartition("=")
        parts = sizes.split("," if "," in sizes else "x")
        if not equals or not name or not all(part.isdecimal() or part.isidentifier() for part in parts):
            raise UsageError(f"expected --{option} NAME=1x3x48x320, but got '{text}'")
        if name in shapes:
            raise UsageError(f"expected one --{option} for '{name}', but got a second: '{text}'")
        shapes[name] = tuple(int(part) if part.isdecimal() else part for part in parts)
    return shapes or None


def symbols_of(args: argparse.Namespace) -> "dict[str, tuple[int, ...]] | None":
    """The ranges that --symbol gives."""
    symbols: dict[str, tuple[int, ...]] = {}
    for text in args.symbol:
        name, equals, span = text.partition("=")
        parts = span.split(":")
        if not equals or not name or not all(part.isdecimal() for part in parts) or len(parts) not in (2, 3):
            raise UsageError(f"expected --symbol NAME=LOW:HIGH or NAME=LOW:HIGH:STEP, but got '{text}'")
        if name in symbols:
            raise UsageError(f"expected one --symbol for '{name}', but got a second: '{text}'")
        symbols[name] = tuple(map(int, parts))
    return symbols or None


def devices_of_arguments(args: argparse.Namespace) -> "tuple[Device, ...]":
    """The devices that --device names."""
    from mlc.targets.device import devices_of, parse_device

    return devices_of(dict(map(parse_device, getattr(args, "device", ()))))


def given_compile_option(args: argparse.Namespace) -> str:
    """The first option of the compilation that differs from its default; empty where none does."""
    defaults: dict[str, tuple[str, object]] = {
        "shape": ("--shape", []),
        "symbol": ("--symbol", []),
        "target": ("--target", "native"),
        "device": ("--device", []),
        "opt_level": ("-O", 3),
        "precision": ("--precision", "f32"),
        "error_growth": ("--error-growth", 16.0),
        "schedules": ("--schedules", None),
        "compiler": ("--compiler", []),
    }
    given = (flag for name, (flag, value) in defaults.items() if getattr(args, name, value) != value)
    return next(given, "") or given_memory_option(args)


def executable_of(args: argparse.Namespace):
    """The executable that the arguments describe: compiled, from the cache, or loaded from a directory."""
    if os.path.isdir(args.model):
        from mlc.runtime.executable import load_executable

        if option := given_compile_option(args):
            raise UsageError(
                f"expected a model file to compile with {option}, but got the directory {args.model}; "
                "a saved model is compiled already"
            )
        from mlc.runtime.vm.saved import is_saved_vm

        executor = "aot" if args.executor == "auto" else args.executor
        if is_saved_vm(args.model):  # it may have to compile what it meets
            if args.executor not in ("auto", "vm"):
                raise UsageError(
                    f"expected --executor vm for {args.model}, a program of the vm, but got {args.executor}"
                )
            from mlc.driver import toolchain

            return toolchain.load_executable(args.model, args.threads, executor)
        return load_executable(args.model, args.threads, executor)
    from mlc.driver.models.compile import compile

    return compile(
        args.model,
        target=args.target,
        executor=args.executor,
        opt_level=args.opt_level,
        threads=args.threads,
        shapes=shapes_of(args),
        symbols=symbols_of(args),
        cache=not args.no_cache,
        schedules=args.schedules,
        precision=args.precision,
        error_growth=args.error_growth,
        **memory_arguments_of(args),
        compilers=args.compiler,
        devices={one.name: one for one in devices_of_arguments(args)},
    )


def make_parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only the command that is run adds its arguments."""
    parser = _Parser(
        prog="mlc", description=(__doc__ or "").strip(), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, (module, help_text) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_text, description=help_text)
        if name == command:
            import_module(module).add_arguments(sub)
    return parser


def run(argv: Sequence[str]) -> int:
    """Run one command; return the exit code."""
    command = next((word for word in argv if word in COMMANDS), None)
    try:
        parser = make_parser(command)
        args = parser.parse_args(argv)
        if args.version:
            from mlc.support.version import __version__

            print(f"mlc {__version__}")
            return 0
        if args.command is None:
            parser.print_help()
            return 0
        apply_limits(args)
        load_files(args)
        with passes_of(args), records_of(args):
            return import_module(COMMANDS[args.command][0]).run(args)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if is_users(error):
            report(error)
            if hasattr(error, "reproducer"):
                report_reproducer(error, _loaded(argv))
            return 1
        return report_bug(error, _loaded(argv))


def _loaded(argv: Sequence[str]) -> list[str]:
    """The files of --load on a command line."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--load", action="append", default=[])
    return parser.parse_known_args(list(argv))[0].load


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: rich on a terminal, plain columns elsewhere. The first column is text, the rest numbers."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        table = Table()
        for index, column in enumerate(columns):
            table.add_column(column, justify="right" if index else "left")
        for row in rows:
            table.add_row(*row)
        Console().print(title, table, sep="\n", highlight=False)
        return
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    print(title)
    for row in [columns, *rows]:
        first = row[0].ljust(widths[0])
        print("  ".join(["  " + first, *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]).rstrip())


def human_bytes(count: int) -> str:
    """`1536 -> 1.5 KiB`."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"


def summary(report: Mapping[str, object]) -> str:
    """`120 calls of 31 kernels, compiled in 4.2 s`."""
    calls, kernels = counted(cast("int", report["calls"]), "call"), counted(cast("int", report["kernels"]), "kernel")
    return f"{calls} of {kernels}, compiled in {report['seconds']:.2f} s"


def main() -> None:
    """The command `mlc`."""
    code = run(sys.argv[1:])
    skip_last_collection()
    if code:
        sys.exit(code)


if __name__ == "__main__":
    import_module("mlc.tools.cli").main()  # the module of that name: its UsageError is the one that commands raise
