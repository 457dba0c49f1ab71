"""mlc check: everything in a model that is wrong or unsupported, at once."""

import argparse
from typing import Any

from mlc.tools.cli import print_table, shapes_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("model", help="an .onnx or .mlir file")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1x3x48x320", help="the shape of an input")


def run(args: argparse.Namespace) -> int:
    """Do it; 1 if something is wrong."""
    from mlc.driver.compile import load_model
    from mlc.driver.errors import UnsupportedOps

    try:
        model = load_model(args.model, shapes_of(args))
    except UnsupportedOps as error:
        rows = [(path, kind, why or "no counterpart in mlc") for path, kind, why in error.ops]
        print_table(f"{args.model}: {len(rows)} nodes are not supported", ("node", "op", "why"), rows)
        return 1
    print(f"{args.model}: all {_count(model)} operations are supported")
    for kind, names, types in (
        ("input", model.inputs, model.main.function_type.inputs),
        ("output", model.outputs, model.main.function_type.outputs),
    ):
        for name, type_ in zip(names, types, strict=True):
            print(f"  {kind} {name}: {type_}")
    return 0


def _count(model: Any) -> int:
    """The operations of @main that compute."""
    sources = ("graph.param", "graph.constant", "func.return")
    return sum(op.name not in sources for op in model.main.body.block.ops)
