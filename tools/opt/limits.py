"""The flags of the limits on the size of programs: `--max-ops N`, ..."""

import argparse

from mlc.support.limits import Limits, limits

MAX_NESTING = 1000
"""The largest value of --max-nesting: parser, verifier, passes and printer recurse."""
MOST_DIGITS = 18
"""The digits of the largest numbers of options, which fit 64 bits."""

_LIMITS = {
    "input_bytes": "bytes of one input file",
    "nesting": "operations nested in each other",
    "ops": "operations in one module",
    "rank": "dimensions of one type",
    "elements": "elements of one constant in the text",
    "tensor_elements": "elements of one tensor of a model",
    "folded_bytes": "bytes that constant folding may create in one module",
}


def natural(text: str, least: int = 0) -> int:
    """A whole number of at least 0, or another `least` one."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, but got '{text}'")
    if len(digits) > MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"expected a number of at most {MOST_DIGITS} digits, but got '{text}'")
    if (value := int(text)) < least:
        raise argparse.ArgumentTypeError(f"expected at least {least}, but got {value}")
    return value


def positive(text: str) -> int:
    """A whole number of at least 1."""
    return natural(text, 1)


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
