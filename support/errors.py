"""
Errors and warnings for the user.

`UserError` says that the input is wrong; any other exception is a bug in mlc. `warn` is the one channel of warnings.
A saved model runs without xDSL, so nothing here imports it.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from xdsl.ir import Operation


class UserError(ValueError):
    """
    The input is wrong: one sentence for its author, `text`, and the operation that it is about.

    `place` is where that stands, `model.mlir:3:8` or the name of a model's node, as far as it is known.
    """

    def __init__(self, message: str, op: Operation | None = None, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.op = op
        self.place = place
        self.text = message


@contextmanager
def located() -> Generator[None]:
    """Let UserErrors of a `with` statement, or of a function that this decorates, say the place and the operation."""
    try:
        yield
    except UserError as error:
        if error.op is not None and not error.place:
            from mlc.support.diagnostics import Place, place_of_op

            error.text = error.text if error.text.startswith("'") else diagnostic_text(error.op, error.text)
            error.place = str(place_of_op(error.op, Place(""), {}))
            error.args = (f"{error.place}: {error.text}" if error.place else error.text,)
        raise


class UnsupportedOps(UserError):
    """A model uses ops that mlc does not have; all of them, as (node path, op type, why)."""

    def __init__(self, source: str, ops: list[tuple[str, str, str]]) -> None:
        self.ops = ops
        lines = [f"  {path}: {kind}{f' ({why})' if why else ''}" for path, kind, why in ops]
        super().__init__(f"{source}: {len(ops)} nodes have no counterpart in mlc\n" + "\n".join(lines))


def fail(op: Operation | None, message: str) -> NoReturn:
    """Stop with a UserError at `op`; the tools print it with the place that the operation came from."""
    raise UserError(message, op)


WarningSink = Callable[["Operation | None", str], None]
"""Receives a warning: the operation that it is about, if any, and the message."""


def diagnostic_text(op: Operation | None, message: str) -> str:
    """The text of a diagnostic: `'loop.for' op keeps 69 vectors ...`, or the message alone without an operation."""
    return message if op is None else f"'{op.name}' op {message.removeprefix(f'{op.name}: ')}"


def _to_stderr(op: Operation | None, message: str) -> None:
    print(f"warning: {diagnostic_text(op, message)}", file=sys.stderr)


warning_sinks: list[WarningSink] = [_to_stderr]
"""The last sink receives the warnings; at first it prints them on stderr."""


@contextmanager
def warnings_to(sink: WarningSink) -> Generator[None]:
    """Let `sink` receive the warnings inside the `with` statement."""
    warning_sinks.append(sink)
    try:
        yield
    finally:
        warning_sinks.pop()


@contextmanager
def collected_warnings() -> Generator[list[str]]:
    """The texts of the warnings inside the `with` statement, in order; they are not printed."""
    found: list[str] = []
    with warnings_to(lambda op, message: found.append(diagnostic_text(op, message))):
        yield found


def warn(op: Operation | None, message: str) -> None:
    """
    Tell the user of something that does not stop the compilation.

    With an operation the message goes on behind its name (`'loop.for' op keeps ...`), else it is a whole sentence.
    """
    warning_sinks[-1](op, message)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`; did you mean 'x'?` for the known name nearest to `name`, or nothing if none is as near as `cutoff`."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{near[0]}'?" if near else ""
