"""A reduced module as a lit test: its RUN line fails as long as the bug is there."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mlc.support.diagnostics import one_line


def opt_arguments(pipeline: str, validate: bool, load: Sequence[str], beside: Path) -> list[str]:
    """mlc-opt's arguments that run a pipeline on a file in the folder `beside`; files of --load are relative to it."""
    relative = [os.path.relpath(Path(path).resolve(), beside.resolve()) for path in load]
    return ["-p", pipeline, *(["--validate-each"] if validate else []), *(f"--load={path}" for path in relative)]


def run_line(arguments: Sequence[str]) -> str:
    """The RUN line of a lit test."""
    words = [re.sub(r"^--load=", "--load=%S/", word) for word in arguments]
    quoted = [word if re.fullmatch(r"[\w%/=.,-]+", word) else shlex.quote(word) for word in words]
    return f"// RUN: mlc-opt %s {' '.join(quoted)}"


def check_line(check: str) -> str:
    """The RUN line that fails while a check command succeeds."""
    command = check.replace("{}", "%s") if "{}" in check else f"{check} %s"
    positive = re.match(r"\s*(?:!|not)\s+(.*)", command, re.DOTALL)
    if positive is not None:
        return f"// RUN: {positive[1]}"
    simple = not re.search(r"[|&;<>]", command)
    return f"// RUN: not {command}" if simple else f"// RUN: not sh -c {shlex.quote(command)}"


def lit_text(run: str, why: str, text: str) -> str:
    """The text of a lit test."""
    words, lines, line = one_line(why).split(), list[str](), "//"
    for word in words:
        if len(line) + len(word) > 118:
            lines.append(line)
            line = "//"
        line += f" {word}"
    return "\n".join([run, "//", *lines, line, "", text.strip("\n"), ""])


def fails(arguments: Sequence[str], path: Path, seconds: float = 300.0) -> bool:
    """Whether mlc-opt fails on the file, which is what the RUN line does."""
    command = [sys.executable, "-m", "mlc.tools.mlc_opt", path.name, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    reproducer = f"--mlir-pass-pipeline-crash-reproducer={os.devnull}"
    try:
        done = subprocess.run(
            [*command, reproducer], cwd=path.parent, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0
