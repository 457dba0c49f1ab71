"""
All correct compilations of the models of the tests, which must blame no pass: `make mutants ARGS=--correct`.

Each model is validated in a process of its own, with a limit of CPU time; what took longer is told as not validated in
time. With `--json FILE` each outcome is written there when it is known, and `--resume` goes on where a run was ended.
"""

import hashlib
import json
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from campaign import quiet
from rich.console import Console
from rich.table import Table
from subjects import SUBJECTS

from mlc.driver.cache import fingerprint
from mlc.driver.pipeline.manager import run_passes
from mlc.driver.pipeline.registry import make_context
from mlc.validation.isolated import isolated
from mlc.validation.validate_each import ValidateInstrument

Mapped = Callable[[Callable[[Any], Any], Sequence[Any], int, str, Console], Iterator[Any]]
"""Maps a function over items in processes."""


@dataclass
class Validation:
    """What became of one model: which pass was blamed, if any, and what was compared."""

    subject: str
    seed: int
    code: str
    """The version of mlc's sources."""
    status: str = "right"
    """right, blamed, or not validated in time."""
    message: str = ""
    comparisons: int = 0
    unsure: list[str] = field(default_factory=list)
    """What could not be validated, a sentence each."""
    seconds: float = 0.0

    @property
    def row(self) -> tuple[str, ...]:
        """A row of the table."""
        return (self.subject, self.status, str(self.comparisons), str(len(self.unsure)), f"{self.seconds:.0f} s")


def code() -> str:
    """What identifies mlc's sources, and this machine."""
    return hashlib.sha256(fingerprint().encode()).hexdigest()[:16]


def validated(name: str, seed: int) -> tuple[str, int, list[str]]:
    """Validate one compilation: what was blamed, or nothing; the comparisons; what could not be validated."""
    built = SUBJECTS[name].build()
    instrument = ValidateInstrument(weights=built.weights, seed=seed)
    try:
        run_passes(built.module, make_context(), built.passes, instruments=[instrument])
    except Exception as error:
        return f"{type(error).__name__}: {error}", instrument.compared, instrument.unsure
    return "", instrument.compared, instrument.unsure


def outcome_of(job: tuple[str, int, float]) -> Validation:
    """The outcome of one model within so many seconds of CPU time."""
    name, seed, seconds = job
    start, one = time.monotonic(), Validation(name, seed, code())
    with quiet():
        run = isolated(lambda: validated(name, seed), seconds)
    if run.value is not None:
        one.message, one.comparisons, one.unsure = run.value
        one.status = "blamed" if one.message else "right"
    elif run.died == "timeout":
        one.status, one.message = "not validated in time", f"it takes more than {seconds:g} s of CPU time"
    else:
        one.status, one.message = "blamed", f"the process died of {run.died}"
    one.seconds = time.monotonic() - start
    return one


def known_outcomes(file: str, names: Sequence[str], seed: int) -> list[Validation]:
    """The outcomes in a file of an earlier run with the same sources and seed, without those that took too long."""
    path = Path(file)
    if not file or not path.exists():
        return []
    found = [Validation(**facts) for facts in json.loads(path.read_text())]
    same = [one for one in found if (one.seed, one.code) == (seed, code()) and one.subject in names]
    return [one for one in same if one.status != "not validated in time"]


def run_correct(names: Sequence[str], options: Namespace, mapped: Mapped, console: Console) -> int:
    """Validate models; a line for each, a table of what is not right, and exit code 1 if one is blamed."""
    file, seed = options.json or "", options.seed
    done = known_outcomes(file, names, seed) if options.resume else []
    left = [name for name in names if name not in {one.subject for one in done}]
    if done:
        console.print(f"{len(done)} of {len(names)} models are validated already, in {file}", highlight=False)
    # the small ones first: what is blamed is known early
    left.sort(key=lambda name: not SUBJECTS[name].small)
    jobs = [(name, seed, float(options.seconds)) for name in left]
    for one in mapped(outcome_of, jobs, options.jobs, "models", console):
        done.append(one)
        console.print("  ".join(one.row), one.message[:600], soft_wrap=True, highlight=False, markup=False)
        if file:
            Path(file).write_text(json.dumps([asdict(outcome) for outcome in done], indent=1))
    return summed_up(done, console)


def summed_up(done: Sequence[Validation], console: Console) -> int:
    """Print what could not be validated, and the totals; the exit code."""
    table = Table("model", "result", "comparisons", "say nothing", "time", box=None, pad_edge=False)
    for one in sorted(done, key=lambda one: one.seconds, reverse=True):
        if one.status != "right" or one.unsure:
            table.add_row(*one.row)
    console.print(table)
    count = Counter(one.status for one in done)
    console.print(
        f"{len(done)} models, {sum(one.comparisons for one in done)} comparisons: {count['right']} are right, "
        f"{count['blamed']} of {len(done)} correct compilations are blamed, "
        f"{count['not validated in time']} were not validated in time",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    return int(count["blamed"] > 0)
