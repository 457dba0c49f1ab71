"""
The mutation score of `--validate-each`: `make mutants SEED=0 COUNT=200 JOBS=2`.

Each mutant is a wrong rewrite at a random place of one pass of a compilation. It counts if the program then computes
something else by more than 1e-3 of the largest output, and is caught if the validation blames that pass. The exit code
is 1 below a score of 99 % or if a correct compilation is blamed.
"""

import argparse
import json
import os
import pickle
import select
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(TESTS / "helpers"), str(TESTS / "models")]
for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import rules
from campaign import WHOLE_INDEX, Outcome, Slot, plan, quiet, run_subject, survey
from correct import run_correct
from operators import OPERATORS
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from subjects import SUBJECTS
from whole import WHOLE, run_whole

from mlc.support.errors import did_you_mean

REQUIRED = 0.99
"""The part of the mutants that must be caught."""

WIDTH = 140
"""Columns of tables that go into a file."""

Job = tuple[str, tuple[Slot, ...], int]


def surveyed(name: str) -> Any:
    """The survey of a subject, in a process of its own."""
    with quiet():
        return name, survey(name)


def worked(job: Job) -> tuple[str, list[Outcome], str, float]:
    """The outcomes of a subject's mutants, what its correct compilation was blamed for, and the seconds."""
    name, slots, seed = job
    outcomes: list[Outcome] = []
    start = time.monotonic()
    inside = [slot for slot in slots if slot.index != WHOLE_INDEX]
    with quiet():
        blamed = run_subject(name, inside, seed, outcomes.append) if inside or not slots else ""
        done = {outcome.slot for outcome in outcomes}
        outcomes += [Outcome(slot, "not reached") for slot in inside if slot not in done]
        outcomes += [run_whole(slot, seed) for slot in slots if slot.index == WHOLE_INDEX]
    return name, outcomes, blamed, time.monotonic() - start


def chunks(slots: Sequence[Slot], names: Sequence[str], seed: int, most: int = 24) -> list[Job]:
    """The jobs: the mutants of each subject, at most so many in one; a subject without mutants is validated alone."""
    jobs: list[Job] = []
    for name in names:
        own = sorted((s for s in slots if s.subject == name), key=lambda s: s.index)
        parts = [tuple(own[k : k + most]) for k in range(0, len(own), most)] or [()]
        jobs += [(name, part, seed) for part in parts]
    return sorted(jobs, key=lambda job: (SUBJECTS[job[0]].small, -len(job[1])))


def mapped(function: Any, items: Sequence[Any], jobs: int, what: str, console: Console) -> Iterator[Any]:
    """
    The results of a function in processes, each of which does one thing, with a progress bar.

    The bar is drawn between results: a thread that draws it could hold a lock when a process is forked.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left, running = list(reversed(items)), dict[Any, tuple[int, bytes]]()
    with Progress(*columns, console=console, auto_refresh=False) as progress:
        task = progress.add_task(what, total=len(items))
        while left or running:
            while left and len(running) < jobs:
                file, child = forked(function, left.pop())
                running[file] = child, b""
            for file in select.select(list(running), [], [], 1.0)[0]:
                child, data = running[file]
                part = os.read(file, 1 << 20)
                running[file] = child, data + part
                if not part:
                    del running[file]
                    os.close(file)
                    os.waitpid(child, 0)
                    progress.advance(task)
                    if not data:
                        raise SystemExit(f"a process of {what} died")
                    result, error = pickle.loads(data)
                    if error:
                        raise SystemExit(error)
                    yield result
            progress.refresh()


def forked(function: Any, item: Any) -> tuple[int, int]:
    """Start a process that computes a function; the file to read its pickled result from, and its number."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return reader, child
    os.close(reader)
    try:
        answer = function(item), ""
    except BaseException:
        answer = None, traceback.format_exc()
    with os.fdopen(writer, "wb") as file:
        file.write(pickle.dumps(answer))
    os._exit(0)


def table_of(outcomes: Sequence[Outcome]) -> Table:
    """One row a mutant."""
    table = Table(box=None, pad_edge=False)
    for column in ("operator", "level", "model", "pass", "counts", "caught", "blamed"):
        table.add_column(column, overflow="fold")
    for one in outcomes:
        caught = {"caught": "yes"}.get(one.status, "[red]no[/red]") if one.counts else ""
        counted = "yes" if one.counts else one.status
        level = OPERATORS[one.slot.operator].level
        table.add_row(one.slot.operator, level, one.slot.subject, one.slot.module_pass, counted, caught, one.blamed)
    return table


def totals_of(outcomes: Sequence[Outcome]) -> Table:
    """The score of each level."""
    table = Table("level", "operators", "mutants", "count", "caught", "score", box=None, pad_edge=False)
    levels = dict.fromkeys(one.level for one in OPERATORS.values())
    for level in (*levels, "all"):
        own = [o for o in outcomes if level in ("all", OPERATORS[o.slot.operator].level)]
        counted = [o for o in own if o.counts]
        caught = [o for o in counted if o.status == "caught"]
        score = f"{100 * len(caught) / len(counted):.1f} %" if counted else ""
        used = len({o.slot.operator for o in own})
        table.add_row(level, str(used), str(len(own)), str(len(counted)), str(len(caught)), score)
    return table


def positive(text: str) -> int:
    """A positive number of the command line."""
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a positive number, but got '{text}'")
    return int(text)


def mutant(text: str) -> Slot:
    """A mutant of the command line."""
    try:
        slot = Slot.parse(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected MODEL/INDEX:PASS/OPERATOR/SEED, but got '{text}'") from None
    model(slot.subject)
    operator(slot.operator)
    return slot


def model(name: str) -> str:
    """A model of the command line."""
    if name not in SUBJECTS:
        raise argparse.ArgumentTypeError(f"unknown model '{name}'{did_you_mean(name, SUBJECTS)}")
    return name


def operator(name: str) -> str:
    """An operator of the command line."""
    if name not in OPERATORS:
        raise argparse.ArgumentTypeError(f"unknown operator '{name}'{did_you_mean(name, OPERATORS)}")
    return name


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make mutants", description="the mutation score of --validate-each")
    parser.add_argument("--seed", type=int, default=0, help="draws operators, passes, models and places (default: 0)")
    parser.add_argument("--count", type=positive, default=200, help="how many mutants (default: 200)")
    parser.add_argument("--jobs", type=positive, default=2, help="how many processes (default: 2)")
    parser.add_argument("--correct", action="store_true", help="validate the correct compilations only")
    parser.add_argument(
        "--seconds", type=positive, default=900, help="CPU time of each model of --correct (default: 900)"
    )
    parser.add_argument("--resume", action="store_true", help="with --correct: leave out what --json FILE has")
    parser.add_argument("--small", action="store_true", help="only models that are validated in a few seconds")
    parser.add_argument(
        "--one", type=mutant, metavar="MUTANT", help="one mutant, named as in the list of those not caught"
    )
    parser.add_argument(
        "--subject", action="append", type=model, metavar="MODEL", help="only this model; may be repeated"
    )
    parser.add_argument("--operator", action="append", type=operator, metavar="NAME", help="only this operator")
    parser.add_argument("--plan", action="store_true", help="print the mutants and stop")
    parser.add_argument("--list", action="store_true", help="list the operators")
    parser.add_argument("--json", metavar="FILE", help="write the outcomes there")
    parser.add_argument("--quiet", action="store_true", help="no table of all mutants")
    return parser.parse_args(arguments)


def slots_of(options: argparse.Namespace, names: Sequence[str], console: Console) -> list[Slot]:
    """The mutants that the options ask for."""
    if options.one:
        return [options.one]
    surveys = dict(sorted(mapped(surveyed, names, options.jobs, "survey", console)))
    whole = [name for name in WHOLE if name in names]
    return plan(surveys, whole, options.operator or list(OPERATORS), options.seed, options.count)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit code 1 if too many mutants are not caught, or a correct compilation is blamed."""
    options = parsed(arguments)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    if options.list:
        rows = Table("operator", "level", "bug", box=None, pad_edge=False)
        for one in OPERATORS.values():
            rows.add_row(one.name, one.level, one.doc)
        console.print(rows)
        return 0
    names = options.subject or [
        name for name, one in SUBJECTS.items() if (one.small or not options.small) and (one.mutated or options.correct)
    ]
    if options.correct:
        return run_correct(names, options, mapped, console)
    slots = slots_of(options, names, console)
    if options.plan:
        for slot in slots:
            console.print(str(slot), soft_wrap=True, highlight=False)
        return 0
    if options.one:
        names = [slots[0].subject]
    elif slots:
        names = [name for name in names if any(slot.subject == name for slot in slots)]
    outcomes: list[Outcome] = []
    alarms: dict[str, str] = {}
    for name, found, blamed, _ in mapped(worked, chunks(slots, names, options.seed), options.jobs, "mutants", console):
        outcomes += found
        if blamed:
            alarms[name] = blamed
            console.print(f"[red]false alarm[/red] {name}: ", blamed[:600], soft_wrap=True, highlight=False)
    outcomes.sort(key=lambda o: (o.slot.operator, str(o.slot)))
    return summed_up(outcomes, alarms, options, len(names), console)


def summed_up(
    outcomes: Sequence[Outcome], alarms: dict[str, str], options: argparse.Namespace, models: int, console: Console
) -> int:
    """Print tables, what was not caught, and false alarms; the exit code."""
    if not options.quiet and outcomes:
        console.print(table_of(outcomes))
    if outcomes:
        console.print(totals_of(outcomes))
    counted = [o for o in outcomes if o.counts]
    missed = [o for o in counted if o.status != "caught"]
    for one in missed:
        console.print(f"[red]not caught[/red] {one.slot}: {one.status}", soft_wrap=True, highlight=False)
        detail = f"  @{one.function} {one.blamed} {one.message}"
        console.print(detail, soft_wrap=True, highlight=False, markup=False)
    why = Counter(o.status for o in outcomes if not o.counts)
    console.print(
        f"{len(counted)} mutants of {len(outcomes)} count ({dict(why)} do not); "
        f"{len(counted) - len(missed)} are caught; "
        f"{len(alarms)} of {models} correct compilations are blamed",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    if options.json:
        Path(options.json).write_text(json.dumps([{**vars(o), "slot": str(o.slot)} for o in outcomes], indent=1))
    score = (len(counted) - len(missed)) / len(counted) if counted else 1.0
    return int(score < REQUIRED or bool(alarms))


del rules

if __name__ == "__main__":
    sys.exit(main())
