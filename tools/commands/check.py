"""
mlc check: everything in a model that is wrong or unsupported, at once.

With options that choose passes (`--insert`, `--disable`, ...) the model is compiled, too: a pass that refuses it or
breaks its IR is an error.
"""

import argparse
import json
from typing import TYPE_CHECKING

from mlc.support.display.counts import counted
from mlc.support.errors import UserError, located
from mlc.tools.cli import add_pass_arguments, add_shape_arguments, shapes_of, symbols_of
from mlc.tools.opt.choice import chooses
from mlc.tools.opt.limits import add_limits

if TYPE_CHECKING:
    from mlc.frontends.common.model import Model
    from mlc.frontends.onnx.check import CheckReport


TAKEN = ("func.call", "func.return")
"""The operations of other dialects that a model may have."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("model", help="an .onnx, .mlir or .pt2 file")
    add_shape_arguments(parser)
    add_pass_arguments(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help="print the problems as JSON, or the inputs and outputs of a model without any",
    )
    add_limits(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command; exit code 1 if the model has problems."""
    shapes = shapes_of(args)
    if args.model.endswith(".onnx"):
        from mlc.frontends.onnx.check import check_onnx

        report = check_onnx(args.model, shapes, symbols_of(args))
        if report.problems:
            return _refuse(args, report)
    from mlc.driver.models.compile import load_model

    model = load_model(args.model, shapes, symbols_of(args), mapped=True)
    if chooses(args):
        _compile(model)
    else:
        _check_ops(model)
    return _accept(args, model)


@located()
def _check_ops(model: "Model") -> None:
    """UserError for an operation of @main that the compiler does not take."""
    from mlc.dialects.graph import GraphOp
    from mlc.lowering.graph_to_main.convert import remedy_of

    for op in model.main.body.block.ops:
        if not isinstance(op, GraphOp) and op.name not in TAKEN:
            raise UserError(f"expected only operations of the dialect graph in @main; {remedy_of(op)}", op)


def _compile(model: "Model") -> None:
    """Run the passes that the command line chooses. Raises UserError if one refuses the model or breaks its IR."""
    from mlc.driver.models.compile import build_artifact
    from mlc.driver.options import Options, current_context
    from mlc.support.scratch import remove_scratch

    artifact, _ = build_artifact(model, Options(context=current_context()), None, None)
    remove_scratch(artifact.path)


def _refuse(args: argparse.Namespace, report: "CheckReport") -> int:
    """Print the problems of the model."""
    if args.json:
        record = {"problems": [p.record() for p in report.problems], "checked": report.checked}
        print(json.dumps(record | {"not_checked": report.unknown}, indent=1))
        return 1
    print(f"{args.model}: {counted(len(report.problems), 'problem')}")
    for problem in report.problems:
        called = f": {problem.op}({', '.join(problem.inputs)})" if problem.op else ""
        print(f"  {problem.node}{called}\n      {problem.message}")
        if problem.instead:
            print(f"      instead: {problem.instead}")
    if report.unknown:
        what = (
            "node more was not checked: it reads" if report.unknown == 1 else "nodes more were not checked: they read"
        )
        print(f"  {report.unknown} {what} what has no known shape")
    return 1


def _accept(args: argparse.Namespace, model: "Model") -> int:
    """Print the inputs and outputs of the model."""
    specs = {
        "inputs": dict(zip(model.inputs, map(str, model.main.function_type.inputs), strict=True)),
        "outputs": dict(zip(model.outputs, map(str, model.main.function_type.outputs), strict=True)),
    }
    if args.json:
        print(json.dumps({"problems": [], "operations": _count(model), **specs}, indent=1))
        return 0
    print(f"{args.model}: all {_count(model)} operations are supported")
    for kind, types in specs.items():
        for name, type_ in types.items():
            print(f"  {kind[:-1]} {name}: {type_}")
    return 0


def _count(model: "Model") -> int:
    """The operations of @main that compute."""
    sources = ("graph.param", "graph.constant", "func.return")
    return sum(op.name not in sources for op in model.main.body.block.ops)
