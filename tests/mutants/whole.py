"""
Mutants of the conversions of @main, which only a whole compilation runs.

The pass is replaced by one that makes the bug. What proves the bug is the compiled program, without the check of the
memory plan; it is caught if `mlc.compile(validate_each=True)` blames the pass.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

from campaign import TRIES, Finished, Outcome, Slot, received
from operators import OPERATORS
from program import differ, drawn
from subjects import SUBJECTS
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.frontends.common.model import Model
from mlc.lowering.graph_to_main.convert import ConvertGraphToMainPass
from mlc.lowering.main_to_llvm.convert import ConvertMainToLLVMPass
from mlc.passes.verifier import InvalidIR, verify
from mlc.validation.plans.plan_check import PlanError

WHOLE = ("residual", "mixture", "transformer", "quantised")
"""The subjects that are compiled as a whole."""
PASSES = {one.name: one for one in (ConvertGraphToMainPass, ConvertMainToLLVMPass)}


@contextmanager
def mutated(slot: Slot, attempt: int) -> Iterator[None]:
    """The pass makes a bug; Finished if it has no place."""
    cls, operator = PASSES[slot.module_pass], OPERATORS[slot.operator]
    apply = cls.apply

    def wrong(self: Any, ctx: Context, module: ModuleOp) -> None:
        apply(self, ctx, module)
        random = Random(slot.seed)
        places = operator.places(module, random)
        if attempt >= len(places):
            raise Finished("no place")
        random.sample(places, len(places))[attempt]()
        try:
            verify(module)
        except InvalidIR as error:
            raise Finished("invalid") from error

    with patch.object(cls, "apply", wrong):
        yield


def compiled(slot: Slot, **options: Any) -> Any:
    """The subject as an executable."""
    built = SUBJECTS[slot.subject].build()
    with mlc.PassContext(opt_level=3):
        return mlc.compile(Model(built.module, built.weights), threads=2, cache=False, **options)


def results(exe: Any, seed: int) -> list[Any]:
    """What an executable computes."""
    arrays = drawn(tuple((tuple(s.shape), str(s.dtype)) for s in exe.inputs), seed)
    return list(exe({spec.name: array for spec, array in zip(exe.inputs, arrays, strict=True)}).values())


def isolated(slot: Slot, run: Callable[[], Outcome]) -> Outcome:
    """What a function gives in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        return received(reader, child, slot)
    os.close(reader)
    try:
        outcome = run()
    except BaseException as error:
        outcome = Outcome(slot, "failed", message=f"{type(error).__name__}: {error}"[:600])
    with os.fdopen(writer, "wb") as file:
        file.write(json.dumps({k: v for k, v in vars(outcome).items() if k != "slot"}).encode())
    os._exit(0)


def is_wrong(slot: Slot, attempt: int, seed: int) -> Outcome:
    """Whether the mutant computes something else: "missed" so far, or why it does not count."""
    expected = results(compiled(slot), seed)
    try:
        with mutated(slot, attempt), patch("mlc.driver.models.compilation.check_plan"):
            got = results(compiled(slot), seed)
    except Finished as error:
        return Outcome(slot, str(error))
    return Outcome(slot, "missed" if differ(expected, got) else "same")


def blamed(slot: Slot, attempt: int) -> Outcome:
    """Who is blamed when the mutant is validated."""
    try:
        with mutated(slot, attempt):
            compiled(slot, validate_each=True)
    except PlanError as error:
        return Outcome(slot, "caught", ConvertGraphToMainPass.name, str(error))
    except Exception as error:
        name = getattr(getattr(error, "module_pass", None), "name", "")
        status = "caught" if name == slot.module_pass else "blamed another" if name else "failed"
        return Outcome(slot, status, name, f"{type(error).__name__}: {error}"[:600])
    return Outcome(slot, "missed")


def run_whole(slot: Slot, seed: int) -> Outcome:
    """The outcome of a mutant of a conversion of @main."""
    found = Outcome(slot)
    for attempt in range(TRIES):
        found = isolated(slot, lambda attempt=attempt: is_wrong(slot, attempt, seed))
        if found.counts:  # a process that dies is wrong, too
            return isolated(slot, lambda attempt=attempt: blamed(slot, attempt))
        if found.status == "no place":
            break
    return found
