"""
The options that mlc and mlc-opt share: files to load, the passes that run, and the IR that is printed around them.

    --load mine.py --insert 'before graph-fuse-ops=my-pass' --disable te-inline --mlir-print-ir-after=my-pass
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mlc.support.errors import UserError, did_you_mean
from mlc.tools.opt.instruments import ALL, PrintIR

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from mlc.driver.pipeline.context import PassContext

# Option -> (its metavar, its help); each may be repeated.
_CHOICE = {
    "insert": (
        "'before PASS=PIPELINE'",
        "run passes before the first run of one of the compiler's, or 'after' its last; may be repeated",
    ),
    "disable": ("PASS", "leave a pass out; may be repeated"),
    "require": ("PASS", "run a pass of the compiler's at any optimisation level; may be repeated"),
    "config": ("PASS.OPTION=VALUE", "give a pass of the compiler's an option; may be repeated"),
}
# Switch -> its help.
_PRINTING = {
    "--mlir-print-ir-before-all": "print the IR before each pass",
    "--mlir-print-ir-after-all": "print the IR after each pass",
    "--mlir-print-ir-after-change": "print the IR after each pass that changed it",
    "--mlir-print-ir-after-failure": "print the IR after a pass that failed",
}


def add_load_argument(parser: argparse.ArgumentParser) -> None:
    """Add --load."""
    parser.add_argument(
        "--load",
        action="append",
        default=[],
        metavar="PATH",
        help="use the passes, ops, dialects, strategies and targets of a Python file, or of the project in a folder "
        "(of its pyproject.toml), or the intrinsics of a .mlir file; may be repeated",
    )


def add_choice_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which passes run."""
    group = parser.add_argument_group("passes")
    for name, (metavar, help_text) in _CHOICE.items():
        group.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=help_text)


def add_printing_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that print the IR around passes, on stderr."""
    group = parser.add_argument_group("printing the IR around passes")
    for when in ("before", "after"):
        group.add_argument(
            f"--mlir-print-ir-{when}",
            type=_names,
            default=frozenset(),
            metavar="PASS",
            help=f"print the IR {when} these passes (a,b)",
        )
    for flag, help_text in _PRINTING.items():
        group.add_argument(flag, action="store_true", help=help_text)


def _names(text: str) -> frozenset[str]:
    """A list of names with commas between them."""
    return frozenset(filter(None, text.split(",")))


def printing_instrument(args: argparse.Namespace, show: Callable[[ModuleOp], str]) -> PrintIR | None:
    """
    The instrument that prints what the options ask for, if they ask for any.

    Raises UserError for a name that is no pass.
    """
    for name in (*args.mlir_print_ir_before, *args.mlir_print_ir_after):
        from mlc.driver.pipeline.registry import is_pass, pass_names

        if not is_pass(name):
            raise UserError(f"unknown pass '{name}'{did_you_mean(name, pass_names())}")
    changes: bool = args.mlir_print_ir_after_change
    after = args.mlir_print_ir_after
    if args.mlir_print_ir_after_all or (changes and not after):
        after = ALL
    before = ALL if args.mlir_print_ir_before_all else args.mlir_print_ir_before
    failure: bool = args.mlir_print_ir_after_failure
    return PrintIR(show, before, after, changes, failure) if before or after or failure else None


def chooses(args: argparse.Namespace) -> bool:
    """Whether an option that says which passes run is given."""
    return any(getattr(args, name, None) for name in _CHOICE)


def context_of(
    args: argparse.Namespace,
    opt_level: int,
    instruments: Sequence[Any] = (),
    runs: Iterable[str] | None = None,
) -> PassContext:
    """The PassContext that the options describe, for the compiler's passes, or those that run."""
    from mlc.driver.pipeline.choice import chosen_context

    return chosen_context(opt_level, args.insert, args.disable, args.require, args.config, instruments, runs)
