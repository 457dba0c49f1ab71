"""How a command ends that fails: the diagnostic of a user's error, or a bug in mlc and what replays it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlc.driver.models.replay import ValidatedOn


class UsageError(ValueError):
    """The command line is wrong, or a file that it names; `place` is where in the file."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.place = place


def is_users(error: BaseException) -> bool:
    """Whether an error is the user's to mend; want of space, memory or permission is, too."""
    errors = sys.modules.get("mlc.support.errors")
    return isinstance(error, UsageError | OSError | MemoryError) or (
        errors is not None and isinstance(error, errors.UserError)
    )


def report(error: BaseException) -> None:
    """Print the diagnostic of a user's error as mlc-opt does: its place, where that is known, and the line there."""
    if isinstance(error, OSError):
        text = ": ".join(str(part) for part in (error.filename, error.strerror) if part) or str(error)
    elif isinstance(error, MemoryError):
        text = f"not enough memory: {error}"
    else:
        text = getattr(error, "text", str(error).strip())
    place = getattr(error, "place", "")
    excerpt = excerpt_at(place) if place else ""
    print(f"{place or 'mlc'}: error: {text}{excerpt}", file=sys.stderr)


def excerpt_at(place: str) -> str:
    """The line of a file at `file:line:column`, and a caret below it; nothing for other places."""
    from mlc.support.diagnostics import Place, excerpt

    head, _, column = place.rpartition(":")
    file, _, line = head.rpartition(":")
    if not (file and line.isdecimal() and column.isdecimal()):
        return ""
    try:
        with open(file, encoding="utf-8") as text:
            return excerpt(text.read(), Place(file, int(line), int(column)))
    except (OSError, ValueError):
        return ""


def report_bug(error: BaseException, load: Sequence[str]) -> int:
    """Say that this is a bug in mlc, and write a reproducer, or else the traceback."""
    import traceback

    first = str(error).strip().partition("\n")[0]
    named = first if hasattr(error, "module_pass") else f"{type(error).__name__}: {first}"
    message = first if first.startswith("a bug in mlc") else f"a bug in mlc: {named}"
    print(f"{_place_of(error) or 'mlc'}: error: {message}", file=sys.stderr)
    if hasattr(error, "reproducer"):
        report_reproducer(error, load)
        return 2
    path, trace = "mlc.crash.txt", "".join(traceback.format_exception(error)) + (getattr(error, "detail", "") or "")
    try:
        with open(path, "w") as file:
            file.write(trace)
        print(f"mlc: note: the traceback is in {path}", file=sys.stderr)
    except OSError as failure:
        print(f"mlc: note: cannot write {path}: {failure.strerror}\n{trace}", file=sys.stderr)
    return 2


def _place_of(error: BaseException) -> str:
    """The place of the op that a pass's bug is about; empty if it is not known."""
    op = getattr(error, "op", None)
    if op is None:
        return ""
    from mlc.support.diagnostics import Place, place_of_op

    return str(place_of_op(op, Place(""), {}))


def report_reproducer(error: BaseException, load: Sequence[str]) -> None:
    """Write the IR and the pipeline that an error carries to a file, and say how to replay them."""
    from mlc.tools.opt.failure import replay_command
    from mlc.tools.opt.reproducer import write_reproducer

    path = Path("mlc.reproducer.mlir")
    text, pipeline = getattr(error, "reproducer", ("", ""))
    compared = getattr(error, "compared", None)
    try:
        flags = [] if compared is None else ["--validate-each", *_write_compared(path, compared)]
        write_reproducer(path, text, [f"--pass-pipeline=builtin.module({pipeline})", *flags], error, load)
        print(f"mlc: note: replay it with: {replay_command(str(path), load)}", file=sys.stderr)
    except OSError as failure:
        print(f"mlc: note: cannot write {path}: {failure.strerror}", file=sys.stderr)


def _write_compared(path: Path, compared: "ValidatedOn") -> list[str]:
    """Write the inputs and weights with which a result changed, beside the reproducer; the options that name them."""
    from mlc.validation.report import write_inputs

    flags: list[str] = []
    if compared.inputs:
        write_inputs(path.with_suffix(".npz"), compared.inputs)
        flags.append(f"--validate-inputs={path.with_suffix('.npz')}")
    if compared.weights is not None and len(compared.weights):
        compared.weights.save(path.with_suffix(".safetensors"))
        flags.append(f"--weights={path.with_suffix('.safetensors')}")
    return flags
