"""
mlc reduce: make a module or a model small for which a command still succeeds.

    mlc reduce big.mlir --check './bug.sh'            bug.sh FILE exits with 0 while the bug is there
    mlc reduce big.mlir --check '! mlc-opt {} -p my-pass --load mine.py'
    mlc reduce model.onnx --as-onnx --check 'python compare.py {}'
    mlc reduce big.mlir -p my-pass --load mine.py     while the pass is wrong, as mlc bisect finds

Exit codes: 0 done; 1 the input or the command line is wrong, or the command does not succeed for the input itself.
"""

import argparse
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mlc.tools.cli import add_model_arguments
from mlc.tools.commands.bisect import add_output_arguments, add_pipeline_argument, model_of_arguments
from mlc.tools.reporting import UsageError
from mlc.tools.waiting import progress

if TYPE_CHECKING:
    from mlc.validation.reduction.subject import Subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser)
    parser.add_argument(
        "--check",
        "--test",
        metavar="COMMAND",
        help="a shell command that exits with 0 while the file is interesting; {} stands for the file",
    )
    parser.add_argument(
        "--check-seconds",
        type=float,
        default=300.0,
        metavar="N",
        help="time after which a run of the command counts as not interesting (default: 300)",
    )
    add_pipeline_argument(parser, "without --check: passes that are wrong")
    parser.add_argument("--as-onnx", action="store_true", help="remove nodes of an .onnx model, and write an .onnx")
    add_output_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    if args.check is None:
        return _from_failure(args)
    if args.as_onnx:
        return _reduce_onnx(args)
    from mlc.driver.pipeline.manager import make_context
    from mlc.support.scratch import scratch_directory
    from mlc.tools.culprits import write_module, write_text
    from mlc.tools.lit_test import check_line, lit_text
    from mlc.validation.reduction.reduce import Reducer

    subject = model_of_arguments(args)
    total = subject.size[0]
    with scratch_directory() as folder, progress() as show:
        path = folder / f"{Path(args.model).stem}.mlir"
        check = Check(args.check, args.check_seconds)

        def is_interesting(candidate: "Subject") -> bool:
            write_module(candidate, path)
            return check.succeeds(path)

        def report(phase: str, candidate: "Subject", checks: int) -> None:
            count = candidate.size[0]
            show(f"{count} of {total} operations, {checks} candidates ({phase})", total - count, total)

        reducer = Reducer(make_context(), is_interesting, args.seconds, report)
        reduced = reducer.reduce(subject)
    output = Path(args.output or f"{Path(args.model).stem}.reduced.mlir")
    write_module(reduced, output)
    print(f"reduced {total} to {reduced.size[0]} operations by {reducer.checks} candidates: {output}")
    print(f"run: {command_for(args.check, output)}")
    if args.lit_test:
        why = f"Reduced by mlc reduce from {Path(args.model).name}."
        write_text(Path(args.lit_test), lit_text(check_line(args.check), why, reduced.text))
        print(f"lit test: {args.lit_test}, which fails until the bug is mended")
    return 0


def command_for(check: str, path: Path) -> str:
    """The shell command for a file."""
    name = shlex.quote(str(path))
    return check.replace("{}", name) if "{}" in check else f"{check} {name}"


@dataclass
class Check:
    """The command of --check, and how many seconds it has."""

    command: str
    seconds: float
    has_run: bool = False

    def succeeds(self, path: Path) -> bool:
        """Whether the command exits with 0 for the file; UsageError where it cannot even be started the first time."""
        command = ["bash", "-c", command_for(self.command, path)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=self.seconds)
        except subprocess.TimeoutExpired:
            return False
        except FileNotFoundError as error:
            raise UsageError("expected bash, which runs the command of --check") from error
        if done.returncode in _NOT_STARTED and not self.has_run:
            said = (done.stderr.decode(errors="replace").strip().splitlines() or ["it cannot be started"])[-1]
            raise UsageError(f"expected a --check COMMAND that can be run, but got '{self.command}': {said}")
        self.has_run = True
        return done.returncode == 0


_NOT_STARTED = (126, 127)
"""Exit codes by which a shell says that a command cannot be executed, or does not exist."""


def _from_failure(args: argparse.Namespace) -> int:
    """Reduce what mlc bisect finds."""
    if args.as_onnx:
        raise UsageError("expected --check COMMAND with --as-onnx, whose command reads the .onnx file")
    from mlc.tools.commands import bisect as cli_bisect

    args.input, args.reference, args.no_reduce = [], "interpreter", False
    args.output = args.output or f"{Path(args.model).stem}.reduced.mlir"
    return 0 if cli_bisect.run(args) == 2 else _nothing_wrong(args)


def _nothing_wrong(args: argparse.Namespace) -> int:
    raise UsageError(f"expected passes that are wrong on {args.model}, or --check COMMAND")


def _reduce_onnx(args: argparse.Namespace) -> int:
    """Reduce an ONNX model node by node."""
    if not args.model.endswith(".onnx"):
        raise UsageError(f"expected an .onnx file with --as-onnx, but got '{args.model}'")
    if args.lit_test:
        raise UsageError("expected no --lit-test with --as-onnx: lit tests are .mlir files")
    import onnx

    from mlc.frontends.onnx.shrink import reduce_model
    from mlc.support.scratch import scratch_directory

    try:
        model = cast("Any", onnx).load(args.model)
    except Exception as error:  # protobuf's and the system's
        raise UsageError(f"{args.model}: cannot be read: {error}") from error
    total = len(model.graph.node)
    with scratch_directory() as folder, progress() as show:
        path = folder / Path(args.model).name
        check = Check(args.check, args.check_seconds)

        def is_interesting(candidate: onnx.ModelProto) -> bool:
            path.write_bytes(candidate.SerializeToString())
            count = len(candidate.graph.node)
            show(f"{count} of {total} nodes", total - count, total)
            return check.succeeds(path)

        reduced = reduce_model(model, is_interesting, args.seconds)
    output = Path(args.output or f"{Path(args.model).stem}.reduced.onnx")
    output.write_bytes(reduced.SerializeToString())
    print(f"reduced {total} to {len(reduced.graph.node)} nodes: {output}")
    print(f"run: {command_for(args.check, output)}")
    return 0
