"""mlc bench: the latency of a model, in turns with onnxruntime where that is asked for."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlc.runtime.report.roofline import FORMATS
from mlc.tools.cli import (
    COMPILED,
    add_executor_argument,
    add_model_arguments,
    add_records_arguments,
    executable_of,
    output_file,
    print_table,
    seconds,
    shapes_of,
)
from mlc.tools.commands.run import add_at_argument, random_inputs
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.runtime.executable import Executable
    from mlc.runtime.profile import Profile

PEERS = ("onnxruntime",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser, COMPILED)
    add_records_arguments(parser)
    add_executor_argument(parser)
    add_at_argument(parser)
    parser.add_argument(
        "--compare", action="append", default=[], choices=PEERS, help="measure this runtime, too, in turns with mlc"
    )
    parser.add_argument("--json", type=output_file(), metavar="FILE", help="write the measurements as JSON")
    parser.add_argument("--seconds", type=seconds, default=2.0, help="time to measure each runtime for (default: 2)")
    parser.add_argument(
        "--profile", action="store_true", help="print each kernel's time, work, and share of the machine's peaks"
    )
    parser.add_argument(
        "--roofline",
        metavar="FILE",
        nargs="?",
        const=False,  # the table alone
        type=output_file(*FORMATS),
        help="as --profile; with a FILE (.svg, .png, .pdf) also draw the roofline plot",
    )
    parser.add_argument(
        "--trace",
        type=output_file(),
        metavar="FILE",
        help="write the time line of one run as a Chrome trace (.json, for ui.perfetto.dev)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    executable = executable_of(args)
    inputs = random_inputs(executable, shapes_of(args, "at"))
    try:
        executable(inputs)
    except ValueError as error:  # sizes that do not fit
        raise UsageError(str(error)) from error
    runs: dict[str, Callable[[], Any]] = {"mlc": lambda: executable(inputs)}
    if "onnxruntime" in args.compare:
        runs["onnxruntime"] = _onnxruntime(args.model, inputs, executable.threads)
    times = measure(runs, args.seconds)
    figures = {name: figures_of(values) for name, values in times.items()}
    record: dict[str, Any] = {"model": args.model, "threads": executable.threads, "latency_ms": figures}
    if "onnxruntime" in runs:
        record["max_error"] = _difference(runs["mlc"](), runs["onnxruntime"](), executable)
    if executable.threads > 1:
        record["handover_ns"] = _handover()
    _print(record)
    if args.profile or args.roofline is not None or args.trace:
        record["profile"] = _report(args, executable.profile(inputs, repeat=30))
    if args.json:
        _write(args.json, lambda path: path.write_text(json.dumps(record, indent=1) + "\n"))
    return 0


def _report(args: argparse.Namespace, profile: "Profile") -> dict[str, Any]:
    """Print and write the reports that the options ask for; return the profile as data."""
    from rich.console import Console

    from mlc.runtime.report.table import show

    if args.profile or args.roofline is not None:
        show(profile, Console())
    if args.roofline:
        title = f"{args.model}, {'1 thread' if profile.machine.threads == 1 else f'{profile.machine.threads} threads'}"
        _write(args.roofline, lambda path: profile.plot(path, title))
    if args.trace:
        _write(args.trace, profile.save_trace)
    return profile.facts()


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a file, and say so."""
    write(path)
    print(f"wrote {path}")


def measure(runs: dict[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """The times of each in milliseconds: blocks of calls, in turns, for about `seconds` each."""
    single: dict[str, float] = {}
    for name, function in runs.items():
        function()
        start = time.perf_counter()
        function()
        single[name] = time.perf_counter() - start
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(10):
        for name, function in runs.items():
            function()
            for _ in range(max(1, min(500, int(seconds / 10 / max(single[name], 1e-7))))):
                start = time.perf_counter()
                function()
                times[name].append(1e3 * (time.perf_counter() - start))
    return times


def figures_of(times: list[float]) -> dict[str, float]:
    """Median, quartiles and least of some times."""
    quarters = statistics.quantiles(times, n=4) if len(times) > 1 else [times[0]] * 3
    return {"median": statistics.median(times), "q1": quarters[0], "q3": quarters[2], "min": min(times)}


def _print(record: dict[str, Any]) -> None:
    figures = record["latency_ms"]
    own = figures["mlc"]["median"]
    rows = [
        (name, *(f"{f[key]:.3f}" for key in ("median", "q1", "q3", "min")), f"{own / f['median']:.2f}")
        for name, f in figures.items()
    ]
    title = f"{record['model']}, {record['threads']} threads, milliseconds"
    print_table(title, ("", "median", "q1", "q3", "min", "mlc is x"), rows)
    if "handover_ns" in record:
        print(f"a cache line goes from one CPU to the other in {record['handover_ns']:.0f} ns")
    if "max_error" in record:
        print(f"greatest difference / greatest magnitude: {record['max_error']:.2e}")


def _handover() -> float:
    from mlc.driver.host import measure_handover_ns

    return measure_handover_ns()


def _onnxruntime(path: str, inputs: dict[str, Any], threads: int) -> Callable[[], Any]:
    """The same model in onnxruntime, at the same number of threads."""
    try:
        import onnxruntime  # pyright: ignore[reportMissingTypeStubs] it has none
    except ImportError as error:
        raise UsageError("expected onnxruntime to be installed for --compare onnxruntime") from error
    if not path.endswith(".onnx"):
        raise UsageError(f"expected an .onnx file for --compare onnxruntime, but got '{path}'")
    options: Any = cast("Any", onnxruntime).SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    try:
        session: Any = cast("Any", onnxruntime).InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its own exception classes have no common base
        raise UsageError(f"onnxruntime refuses the model: {error}") from error
    return lambda: session.run(None, inputs)


def _difference(ours: dict[str, Any], theirs: list[Any], executable: "Executable") -> float:
    """The greatest difference of any output, relative to that output's greatest magnitude."""
    import numpy as np

    worst = 0.0
    for spec, other in zip(executable.outputs, theirs, strict=True):
        mine = np.asarray(ours[spec.name], np.float64)
        error = np.max(np.abs(mine - other), initial=0.0)
        worst = max(worst, float(error / max(1e-30, np.max(np.abs(other), initial=0.0))))
    return worst
