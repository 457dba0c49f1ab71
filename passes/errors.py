"""How a pass or a tool tells the user that the input is wrong; our own bugs are any other exception."""

import difflib
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException


class UserError(DiagnosticException, ValueError):
    """The input is wrong: one sentence for its author, and the operation that it is about."""

    def __init__(self, message: str, op: Operation | None = None) -> None:
        super().__init__(message)
        self.op = op


def fail(op: Operation | None, message: str) -> NoReturn:
    """Stop with an error at `op`; the tools print it with the place the operation came from."""
    raise UserError(message, op)


WarningSink = Callable[[Operation | None, str], None]


def _to_stderr(op: Operation | None, message: str) -> None:
    print(f"warning: {message}" if op is None else f"warning: '{op.name}' op {message}", file=sys.stderr)


# The last sink receives the warnings; a tool pushes its own while it runs.
warning_sinks: list[WarningSink] = [_to_stderr]


def warn(op: Operation | None, message: str) -> None:
    """Tell the user something about `op` that does not stop the compilation."""
    warning_sinks[-1](op, message)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known name nearest to `name`, or nothing if none is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
