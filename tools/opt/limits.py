"""The flags of the limits on the size of programs: `--max-ops N`, ..."""

import argparse

from mlc.support.limits import Limits, limits

MAX_NESTING = 1000
"""The largest value of --max-nesting: parser, verifier, passes and printer recurse."""

_LIMITS = {
    "input_bytes": "bytes of one input file",
    "nesting": "operations nested in each other",
    "ops": "operations in one module",
    "rank": "dimensions of one type",
    "elements": "elements of one constant in the text",
    "tensor_elements": "elements of one tensor of a model",
    "folded_bytes": "bytes that constant folding may create in one module",
}


def natural(text: str) -> int:
    """A whole number of at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"expected a whole number, but got '{text}'")
    return int(text)


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not (value := natural(text)):
        raise argparse.ArgumentTypeError("expected at least 1, but got 0")
    return value


def depth(text: str) -> int:
    """A nesting that fits Python's stack."""
    if (value := positive(text)) > MAX_NESTING:
        raise argparse.ArgumentTypeError(f"expected at most {MAX_NESTING}, but got {value}")
    return value


def add_limits(parser: argparse.ArgumentParser) -> None:
    """A flag for each limit, `--max-ops N`."""
    group = parser.add_argument_group("limits")
    for name, help_text in _LIMITS.items():
        default = getattr(Limits, name)
        flag = f"--max-{name.replace('_', '-')}"
        kind = depth if name == "nesting" else positive
        group.add_argument(flag, type=kind, default=default, metavar="N", help=f"{help_text} (default: {default})")


def apply_limits(args: argparse.Namespace) -> None:
    """Put the limits of the command line in force, where the command has them."""
    for name in _LIMITS:
        setattr(limits, name, getattr(args, f"max_{name}", getattr(limits, name)))
