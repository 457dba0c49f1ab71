"""mlc tune: search for faster schedules of a model's kernels, and keep them in a database of records."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.tools.cli import add_model_arguments, devices_of_arguments, output_file, print_table, shapes_of, symbols_of
from mlc.tools.commands.device_scheduler import add_secret_arguments
from mlc.tools.commands.memory import memory_arguments_of
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.tuning.session.report import Report

TUNERS = ("model", "random", "grid", "ga", "evolution")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument("--records", required=True, metavar="FILE", help="database of records; made if it is not there")
    parser.add_argument(
        "--trials", type=_trials, metavar="N", help="candidates to measure (default: 64 a kernel without --seconds)"
    )
    parser.add_argument("--seconds", type=_seconds, metavar="S", help="time to search for")
    parser.add_argument(
        "--tuner", default="model", choices=TUNERS, help="how candidates are chosen (default: model, a learned one)"
    )
    parser.add_argument(
        "--until", metavar="5%", help="stop when the estimate of the model's latency has fallen by that much"
    )
    parser.add_argument(
        "--early-stopping", type=_trials, metavar="N", help="leave a kernel after N candidates without a better one"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the tuner's choices (default: 0)")
    parser.add_argument(
        "--resume", action="store_true", help="count what the database has as trials: go on where a session was killed"
    )
    parser.add_argument(
        "--layouts", action="store_true", help="first choose the layouts of convolutions and dense layers by measuring"
    )
    parser.add_argument(
        "--strategies",
        type=_names,
        metavar="A,B",
        help="search these strategies beside the compiler's choice; sketch: generated schedules; all: every one "
        "(default: all but sketch)",
    )
    _add_cluster_arguments(parser)
    parser.add_argument(
        "--plot",
        type=output_file(".svg"),
        metavar="FILE.svg",
        help="draw the best so far of each kernel, and predicted against measured",
    )
    parser.add_argument(
        "--explain",
        metavar="KERNEL",
        help="measure nothing: show the schedule on record of a kernel as a difference to the default, and what it "
        "changed",
    )


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say on which devices to measure."""
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="measure on the devices of this scheduler, tcp://host:port",
    )
    parser.add_argument("--key", metavar="KEY", help="with --cluster: the key of the devices to measure on")
    add_secret_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.explain is not None:
        return _explain(args)
    if args.cluster is None and (args.key or args.secret or args.insecure):
        raise UsageError("expected --cluster ADDRESS with --key, --secret and --insecure")
    from mlc.tools.tuning_progress import tuning_progress
    from mlc.tuning.tune import tune

    with tuning_progress() as watcher:
        report = tune(
            args.model,
            args.records,
            trials=args.trials,
            seconds=args.seconds,
            tuner=args.tuner,
            target=args.target,
            threads=args.threads,
            seed=args.seed,
            resume=args.resume,
            until=args.until,
            early_stopping=args.early_stopping,
            cluster=args.cluster,
            device=args.key,
            secret=args.secret,
            insecure=args.insecure,
            watcher=watcher,
            cache=not args.no_cache,
            layouts=args.layouts,
            strategies=args.strategies,
            **options_of(args),
        )
    show(report)
    if args.plot:
        report.plot(args.plot)
        print(f"wrote {args.plot}")
    return 130 if report.is_interrupted else 0


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options of mlc.compile that differ from their defaults, which change kernels."""
    given: dict[str, Any] = {
        "opt_level": args.opt_level,
        "shapes": shapes_of(args),
        "symbols": symbols_of(args),
        "schedules": args.schedules,
        "precision": args.precision,
        "error_growth": args.error_growth,
        **memory_arguments_of(args),
        "compilers": tuple(args.compiler),
        "devices": {one.name: one for one in devices_of_arguments(args)} or None,
    }
    from inspect import signature

    from mlc.driver.models.compile import compile

    defaults = {"opt_level": 3, **{name: one.default for name, one in signature(compile).parameters.items()}}
    defaults["opt_level"] = 3
    return {name: value for name, value in given.items() if value != defaults[name]}


def show(report: Report) -> None:
    """Print the table, rich on a terminal, and the conclusion."""
    from mlc.tuning.session.report import COLUMNS

    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
        print_table("", COLUMNS, report.fitting_rows(width, between=3, around=4))  # rich's borders
        print("\n".join(report.conclusion()))
    else:
        print(report)


def _explain(args: argparse.Namespace) -> int:
    from mlc.tuning.records.context import records
    from mlc.tuning.session.explain import explain
    from mlc.tuning.tune import tasks_of

    if not Path(args.records).is_file():
        raise UsageError(f"{args.records}: expected a database of records, which `mlc tune` writes")
    with records(args.records):  # in the layouts that the database holds
        tasks = tasks_of(args.model, args.target, args.threads, **options_of(args))
    text = explain(tasks, args.records, args.explain)
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.syntax import Syntax

        Console().print(Syntax(text, "diff", theme="ansi_dark", background_color="default", word_wrap=True))
    else:
        print(text)
    return 0


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"expected names with commas between them, but got '{text}'")
    return names


def _trials(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of candidates, at least 1, but got '{text}'")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected seconds above 0, but got '{text}'")
    return value
