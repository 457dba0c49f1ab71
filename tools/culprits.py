"""The words of `mlc bisect`: who is wrong, and what to run."""

import argparse
import os
import shlex
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.tools.lit_test import fails, lit_text, opt_arguments, run_line
from mlc.tools.reporting import UsageError

if TYPE_CHECKING:
    from mlc.validation.bisection.search import Culprit
    from mlc.validation.reduction.subject import Subject

_KINDS = {
    "values": "wrong values",
    "invalid": "invalid IR",
    "exception": "an exception",
    "crash": "a crash",
}


def lines_of(culprit: "Culprit", count: int) -> list[str]:
    """Who is wrong, one fact a line."""
    from mlc.driver.pipeline.registry import is_users_own

    failure = culprit.failure
    if failure.kind == "crash":
        where = "in the code of a kernel, after" if failure.running else "in"
        message = f"{failure.message} {where} pass '{failure.pass_name}'"
    else:
        message = failure.message
    owner = ", which is your own" if is_users_own(culprit.module_pass) else ""
    facts = [("pass", f"{failure.pass_name}, number {failure.index + 1} of {count}{owner}")]
    if failure.function:
        nodes = nodes_of(culprit.before, failure.function)
        facts.append(("function", f"@{failure.function}" + (f", from {nodes}" if nodes else "")))
    if (rule := culprit.rule) is not None:
        facts.append(("rewrite", f"{rule.rule}, application {rule.number} of {rule.count}"))
    elif failure.rule:
        facts.append(("rewrite", f"{failure.rule}, while it was tried"))
    if culprit.op is not None:
        facts.append(("op", str(culprit.op)))
        if culprit.op.text:
            facts.append(("", textwrap.shorten(culprit.op.text, 160, placeholder=" ...")))
    first = f"{_KINDS[failure.kind]}: {message}"
    return [first, *(f"  {name:<9} {text}" for name, text in facts)]


def nodes_of(subject: "Subject", function: str) -> str:
    """The model's nodes, or the places in the text, of the calls of a function."""
    from mlc.support.diagnostics import place_of_location
    from mlc.validation.bisection.failure import node_of

    found: dict[str, None] = {}
    for op in subject.module.walk():
        if str(op.properties.get("callee", "")) == f"@{function}":
            place = place_of_location(op.location)
            node = node_of(op.location)
            if node or place is not None:
                found[f"node '{node}'" if node else str(place)] = None
    shown = list(found)
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} others" if len(shown) > 3 else "")


def write_reduced(args: argparse.Namespace, culprit: "Culprit") -> list[str]:
    """Write the reduced module and its lit test; the lines that say so."""
    from mlc.driver.pipeline.text import pass_text

    assert culprit.reduced is not None
    path = Path(args.output or "bisect.mlir")
    write_module(culprit.reduced, path)
    operations = culprit.reduced.size[0]
    lines = [f"  reduced   to {operations} operation{'s' if operations != 1 else ''}, in {path}"]
    pipeline = ",".join(map(pass_text, culprit.passes))
    arguments = opt_arguments(pipeline, culprit.failure.kind in ("values", "crash"), args.load, path.parent)
    if not (culprit.plain and fails(arguments, path)):
        options = "".join(f" --load {shlex.quote(file)}" for file in args.load)
        given = "" if culprit.plain else " --reference outputs" if args.reference != "interpreter" else ""
        lines.append(f"  run       mlc bisect {path} -p {shlex.quote(pipeline)}{options}{given} --no-reduce")
        if args.lit_test:
            lines.append("  no lit test: the reduced module fails only with its own weights or inputs")
        return lines
    lines.append(f"  run       {_command(path, arguments, args.load)}")
    if args.lit_test:
        lines.append(write_test(args, culprit, pipeline))
    return lines


def _command(path: Path, arguments: list[str], load: list[str]) -> str:
    """The command that shows the failure, from the current directory."""
    kept = [word for word in arguments if not word.startswith("--load=")]
    return shlex.join(["mlc-opt", str(path), *kept, *(f"--load={file}" for file in load)])


def write_test(args: argparse.Namespace, culprit: "Culprit", pipeline: str) -> str:
    """Write the lit test; the line that says so."""
    assert culprit.reduced is not None
    path = Path(args.lit_test)
    arguments = opt_arguments(pipeline, culprit.failure.kind in ("values", "crash"), args.load, path.parent)
    write_text(
        path, lit_text(run_line(arguments), f"Reduced by mlc bisect: {culprit.failure.message}", culprit.reduced.text)
    )
    return f"  lit test  {path}, which fails until the bug is mended"


def write_module(subject: "Subject", path: Path) -> None:
    """Write a module, the weights that it names beside it, and the inputs that it needs."""
    import numpy as np

    write_text(path, subject.text)
    store = subject.used_weights()
    if store is not None and len(store):
        store.save(path.with_suffix(".safetensors"))
    for number, array in enumerate(subject.inputs or ()):
        np.save(path.with_name(f"{path.stem}.input{number}.npy"), array)


def write_text(path: Path, text: str) -> None:
    """Write a file; UsageError if that is not possible."""
    try:
        os.makedirs(path.parent, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
