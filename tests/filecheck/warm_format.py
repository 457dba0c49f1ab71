"""Run RUN lines without starting a Python for each command.

Starting Python and importing xDSL is most of the time of a small test. This
format imports the tools once, in lit, and then forks: a RUN line of the form

    [not] tool args [2>&1] | tool args | ...

where every tool is in TOOLS becomes one fork for each command, joined by real
pipes. The child is a fresh process with the imports already done, so nothing
that one command changes is seen by the next. Any other RUN line goes to lit's
own shell; `lit -Dcold=1` sends all of them there. Here `not` asks for exit code
1, the user's error: a crash (2) or a signal fails the test.
"""

import gc
import importlib
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lit.Test
import lit.TestRunner
from filecheck.main import main as filecheck_main
from lit.formats import ShTest
from lit.ShCommands import Command, Pipeline
from lit.ShUtil import ShParser

import mlc.tools.mlc_opt
from mlc.dialects import DIALECTS
from mlc.driver.pipeline.registry import PASSES

TOOLS: dict[str, Callable[[], None]] = {
    "mlc-opt": mlc.tools.mlc_opt.main,
    "filecheck": filecheck_main,
}


@dataclass
class Run:
    """One command of a RUN line."""

    args: list[str]
    negate: bool = False
    merge: bool = False


def registered_modules() -> list[str]:
    """The modules that mlc's registries name and that can be imported."""
    targets = dict.fromkeys(t.partition(":")[0] for t in (*DIALECTS.values(), *PASSES.values()))
    return [module for module in targets if is_importable(module)]


def is_importable(module: str) -> bool:
    try:
        importlib.import_module(module)
    except Exception:
        return False  # The tests that need it will say why.
    return True


class WarmShTest(ShTest):
    """lit's ShTest, with the commands of TOOLS run in forks of lit itself."""

    def __init__(self, preload: Sequence[str] = ()) -> None:
        super().__init__()
        for module in preload:
            importlib.import_module(module)
        gc.freeze()

    def execute(self, test: Any, litConfig: Any) -> Any:
        lines = run_lines(test)
        pipelines = [commands for line in lines if (commands := warm_commands(line))]
        if not lines or len(pipelines) != len(lines) or litConfig.noExecute:
            return super().execute(test, litConfig)
        directory = Path(test.getExecPath()).parent
        for line, commands in zip(lines, pipelines, strict=True):
            failed, output = run_pipeline(commands, directory, litConfig.maxIndividualTestTime)
            if failed:
                text = f"# RUN: {line}\n# directory: {directory}\n{output}"
                return lit.Test.Result(expected_fail(test, True), text)
        return lit.Test.Result(expected_fail(test, False), "")


def expected_fail(test: Any, failed: bool) -> Any:
    if test.isExpectedToFail():
        return lit.Test.XFAIL if failed else lit.Test.XPASS
    return lit.Test.FAIL if failed else lit.Test.PASS


def run_lines(test: Any) -> list[str]:
    """The RUN lines with substitutions done; none when lit's own shell has to read them."""
    script = lit.TestRunner.parseIntegratedTestScript(test)
    if isinstance(script, lit.Test.Result):
        return []
    if not all(isinstance(line, lit.TestRunner.CommandDirective) for line in script):
        return []
    tmp_dir, tmp_base = lit.TestRunner.getTempPaths(test)
    substitutions = lit.TestRunner.getDefaultSubstitutions(test, tmp_dir, tmp_base)
    limit = test.config.recursiveExpansionLimit
    script = lit.TestRunner.applySubstitutions(script, substitutions, recursion_limit=limit)
    return [re.sub(r"^%dbg\([^)]*\)\s*", "", line) for line in script]


def warm_commands(line: str) -> list[Run] | None:
    """The commands of a plain pipeline of TOOLS, or None."""
    try:
        pipeline = ShParser(line, pipefail=True).parse()
    except ValueError:
        return None
    if not isinstance(pipeline, Pipeline) or pipeline.negate:
        return None
    runs = [warm_command(command) for command in pipeline.commands]
    return None if None in runs else [run for run in runs if run is not None]


def warm_command(command: Any) -> Run | None:
    """A command of TOOLS without redirections other than 2>&1, or None."""
    if not isinstance(command, Command) or not all(isinstance(a, str) for a in command.args):
        return None
    if command.redirects not in ([], [((">&", 2), "1")]):
        return None
    negate = command.args[0] == "not"
    args = command.args[negate:]
    if not args or args[0] not in TOOLS:
        return None
    return Run(args, negate, bool(command.redirects))


def run_pipeline(commands: list[Run], directory: Path, limit_s: float) -> tuple[bool, str]:
    """Run the commands, each in a fork; return whether one failed, and what they said."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile() as said:
        children: list[int] = []
        stdin = os.open(os.devnull, os.O_RDONLY)
        for command in commands:
            next_stdin, stdout = os.pipe()
            if command is commands[-1]:
                os.close(stdout)
                stdout = os.dup(said.fileno())
            if not (pid := os.fork()):
                code = 1
                try:
                    os.close(next_stdin)
                    os.chdir(directory)
                    signal.alarm(int(limit_s or 0))
                    stderr = stdout if command.merge else said.fileno()
                    code = run_child(command.args, stdin, stdout, stderr)
                finally:
                    os._exit(code)
            children.append(pid)
            os.close(stdin)
            os.close(stdout)
            stdin = next_stdin
        os.close(stdin)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        said.seek(0)
        failed = any(code != int(c.negate) for c, code in zip(commands, codes, strict=True))
        return failed, said.read().decode(errors="replace")


def run_child(args: list[str], stdin: int, stdout: int, stderr: int) -> int:
    """Be the process `args`, with the given files as its standard ones; return its exit code."""
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, number)
    sys.argv = list(args)
    sys.stdin = open(0, encoding="utf-8", closefd=False)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False, buffering=1)
    try:
        TOOLS[args[0]]()
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
