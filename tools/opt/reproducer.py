"""Crash reproducers: the module before the pass that crashed, and the command that crashes on it."""

import shlex
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from xdsl.utils.lexer import Input

from mlc.dialects.syntax.input import reject
from mlc.support.diagnostics import Place, one_line
from mlc.support.version import __version__

_CONFIGURATION = "// configuration: "
_LOADED = "// made with --load of: "


def write_reproducer(
    path: Path, text: str, configuration: Sequence[str], error: BaseException, load: Sequence[str] = ()
) -> None:
    """Write a file that `mlc-opt --run-reproducer` replays; `load` names the Python files that the user must load."""
    trace = "".join(traceback.format_exception(error)).rstrip()
    header = [
        f"// A crash of mlc-opt; replay it with: mlc-opt --run-reproducer {shlex.quote(path.name)}{_loads(load)}",
        f"{_CONFIGURATION}{shlex.join(configuration)}",
        *([f"{_LOADED}{shlex.join(load)}"] if load else []),
        f"// error: {type(error).__name__}: {one_line(str(error))}",
        f"// versions: mlc {__version__}, xdsl {version('xdsl')}, Python {sys.version.split()[0]}",
        *(f"//   {line}" for line in trace.splitlines()),
    ]
    path.write_text("\n".join([*header, text.strip("\n"), ""]), encoding="utf-8")


def _loads(load: Sequence[str]) -> str:
    return "".join(f" {shlex.quote(f'--load={path}')}" for path in load)


def read_loads(source: Input[str]) -> list[str]:
    """The Python files with which a reproducer was made; they are not loaded: that is for the user to ask."""
    for line in source.content.split("\n", 64)[:64]:
        if line.startswith(_LOADED):
            try:
                return shlex.split(line.removeprefix(_LOADED))
            except ValueError:
                return []
    return []


def read_configuration(source: Input[str]) -> list[str]:
    """The arguments in a reproducer's header; never --load, which would let a file run code."""
    for line in source.content.split("\n", 64)[:64]:
        if line.startswith(_CONFIGURATION):
            try:
                arguments = shlex.split(line.removeprefix(_CONFIGURATION))
            except ValueError as error:
                raise reject(Place(source.name, 1, 1), f"the configuration line is malformed: {error}") from error
            allowed = tuple(f"--{name}" for name in REPLAYED)
            if bad := [a for a in arguments if a.partition("=")[0] not in allowed]:
                raise reject(Place(source.name, 1, 1), f"a reproducer cannot set '{bad[0]}'")
            return [_beside(source, argument) for argument in arguments]
    message = f"expected a reproducer with a line '{_CONFIGURATION}...' in its header"
    raise reject(Place(source.name, 1, 1), message)


def _beside(source: Input[str], argument: str) -> str:
    """The argument with the file of inputs or weights in the reproducer's folder; InputError for one elsewhere."""
    flag, _, name = argument.partition("=")
    what = {"--validate-inputs": "inputs", "--weights": "weights"}.get(flag)
    if what is None:
        return argument
    if Path(name).name != name:
        raise reject(Place(source.name, 1, 1), f"expected the {what} in a file beside the reproducer, but got '{name}'")
    return f"{flag}={Path(source.name).parent / name}"


# The options that a reproducer's header may hold.
REPLAYED = (
    "pass-pipeline",
    "verify-each",
    "allow-unregistered-dialect",
    "no-implicit-module",
    "emit",
    "emit-target",
    "target",
    "mlir-print-op-generic",
    "validate-each",
    "validate-inputs",
    "weights",
)
