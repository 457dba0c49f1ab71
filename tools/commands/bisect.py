"""
mlc bisect: find the pass, the rewrite and the op that make a compiled model wrong, and reduce the module.

    mlc bisect model.onnx -O3                       mlc bisect model.onnx --input x=x.npy
    mlc bisect kernel.mlir -p te-inline,mine --load mine.py

Exit codes: 0 nothing is wrong; 1 the input or the command line is wrong; 2 something is, and is described.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.tools.cli import add_model_arguments, add_records_arguments, devices_of_arguments, shapes_of, symbols_of
from mlc.tools.commands.memory import memory_of
from mlc.tools.reporting import UsageError
from mlc.tools.waiting import progress

if TYPE_CHECKING:
    from mlc.driver.options import Options
    from mlc.validation.bisection.oracle import Oracle
    from mlc.validation.bisection.search import Culprit
    from mlc.validation.reduction.subject import Subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_model_arguments(parser)
    add_records_arguments(parser)
    help = "run these passes (default: the compiler's at the level -O, from the level of the file down to llvm)"
    add_pipeline_argument(parser, help)
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="array of an input; may be repeated (default: random values)",
    )
    parser.add_argument(
        "--reference",
        default="interpreter",
        choices=("interpreter", "onnxruntime", "outputs"),
        help="what is right: each function before a pass (interpreter), onnxruntime's outputs, or the model's outputs "
        "before the passes (default: interpreter)",
    )
    add_output_arguments(parser)
    parser.add_argument("--no-reduce", action="store_true", help="do not reduce the module to a small one")


def add_pipeline_argument(parser: argparse.ArgumentParser, help: str) -> None:
    """Add the argument that names the passes to run."""
    parser.add_argument("-p", "--pass-pipeline", dest="pipeline", metavar="PIPELINE", help=help)


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the commands that write a reduced module."""
    parser.add_argument("-o", "--output", metavar="FILE.mlir", help="the reduced module")
    parser.add_argument("--lit-test", metavar="FILE.mlir", help="write the reduced module as a lit test that fails")
    parser.add_argument(
        "--seconds", type=float, default=120.0, metavar="N", help="time for the reduction in seconds (default: 120)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from mlc.validation.bisection.search import Bisection

    options = options_of(args)
    subject = subject_of_arguments(args)
    from mlc.driver.compare.bisection import passes_of

    passes = passes_of(subject, options, args.pipeline)
    oracle = _oracle(args, subject)
    if isinstance(oracle, str):
        print(oracle)
        return 2
    with progress() as show:
        bisection = Bisection(oracle, args.seconds, lambda text: show(text, 0, 0))
        culprit = bisection.run(subject, passes, reduce=not args.no_reduce)
    if culprit is not None:
        return tell(args, culprit, len(passes))
    print(f"{len(passes)} passes, each function before and after each: nothing is wrong")
    for text in bisection.unsure:
        print(f"not validated: {text}")
    wrong = "" if args.pipeline is not None else _program(args, subject, options)
    if wrong:
        print(f"but the compiled program is: {wrong}\nno pass is to blame: look at the memory plan, at")
        print("'mlc compile --emit llvm-ir' of @main, and at the code that LLVM makes of it")
    return 2 if wrong else 0


def options_of(args: argparse.Namespace) -> "Options":
    """The options of the compilation."""
    from mlc.driver.options import Options, current_context
    from mlc.support.threads import thread_count
    from mlc.tools.opt.choice import chooses

    if args.schedules is not None:
        raise UsageError("expected no --schedules: mlc bisect runs with the schedules of the strategies")
    if args.pipeline is not None and chooses(args):
        raise UsageError("expected either -p or options that change the compiler's passes, but got both")
    return Options(
        args.target,
        args.opt_level,
        thread_count(args.threads),
        precision=args.precision,
        error_growth=args.error_growth,
        context=current_context(),
        memory=memory_of(args),
        compilers=tuple(args.compiler),
        devices=devices_of_arguments(args),
    )


def subject_of_arguments(args: argparse.Namespace) -> "Subject":
    """The model that the arguments name, with the arrays of --input."""
    from mlc.driver.compare.bisection import inputs_of
    from mlc.tools.commands.run import read_inputs

    subject = model_of_arguments(args)
    subject.inputs = inputs_of(subject, read_inputs(args.input))
    return subject


def model_of_arguments(args: argparse.Namespace) -> "Subject":
    """The model that the arguments name, without inputs."""
    from mlc.driver.compare.bisection import load_subject

    if Path(args.model).is_dir():
        raise UsageError(f"expected a model or an .mlir file, but got the directory {args.model}")
    return load_subject(args.model, shapes_of(args), symbols_of(args))


def _oracle(args: argparse.Namespace, subject: "Subject") -> "Oracle | str":
    """What says whether a run of passes is right; a text if the imported model is wrong already."""
    from mlc.driver.pipeline.manager import make_context
    from mlc.validation.bisection.oracle import Compared, Validated

    if args.reference == "interpreter":
        return Validated(make_context())
    if args.reference == "outputs":
        return Compared(make_context())
    from mlc.tools.onnx_reference import first_wrong_node, reference_outputs

    expected = reference_outputs(args.model, subject)
    wrong = first_wrong_node(args.model, subject)
    return wrong or Compared(make_context(), expected=expected)


def _program(args: argparse.Namespace, subject: "Subject", options: "Options") -> str:
    """How the compiled program's outputs differ from the interpreter's; empty if they do not."""
    from xdsl.dialects.func import FuncOp

    from mlc.driver.models.compile import compile
    from mlc.frontends.common.model import Model
    from mlc.support.weights import WeightStore
    from mlc.validation.bisection.oracle import (
        counts_of,
        first_difference,
        inputs_or_random,
        run_program,
        shown_outputs,
    )
    from mlc.validation.isolated import isolated, quiet

    function = subject.entry_function
    if not isinstance(function, FuncOp) or (inputs := inputs_or_random(subject)) is None:
        return ""
    if subject.weights is None and "graph.param" in subject.text:
        return ""

    def compare() -> str:
        copy = subject.copy()
        with quiet():
            executable = compile(
                Model(copy.module, copy.weights or WeightStore()),
                options.target,
                options.opt_level,
                options.threads,
                cache=False,
                precision=options.precision,
                error_growth=options.error_growth,
            )
            got = executable({spec.name: a for spec, a in zip(executable.inputs, inputs, strict=True)})
            expected = shown_outputs(run_program(subject), counts_of(subject))
            return first_difference(expected, list(got.values()))

    outcome = isolated(compare, 600.0)
    return f"the process died of {outcome.died}" if outcome.died else outcome.value or ""


def tell(args: argparse.Namespace, culprit: "Culprit", count: int) -> int:
    """Print who is wrong, and what to run; write the files."""
    from mlc.tools.culprits import lines_of, write_reduced

    print("\n".join(lines_of(culprit, count)))
    if culprit.reduced is not None:
        print("\n".join(write_reduced(args, culprit)))
    for note in culprit.notes:
        print(f"note: {note}")
    return 2
