"""What can be tried: the edits of each kind that a subject allows, in the order of its operations."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation
from xdsl.traits import IsTerminator

from mlc.dialects import loop, te
from mlc.dialects.graph import GraphOp, ParamOp
from mlc.dialects.sched.handles import LoopsOp
from mlc.dialects.sched.loops import SplitOp
from mlc.validation.reduction.edits import (
    Change,
    Edit,
    by_argument,
    cut,
    drop_argument,
    drop_output,
    embed,
    erase,
    inlined,
    one_iteration,
    take_default,
)
from mlc.validation.reduction.schedule_edits import as_input, unlooped, untiled
from mlc.validation.reduction.subject import FUNCTIONS, Subject


def functions(subject: Subject) -> list[Edit]:
    """Drop functions and schedules."""
    top = {op for op in subject.module.body.block.ops}
    return [Edit(index, erase) for index, op in enumerate(subject.module.walk()) if op in top]


def outputs(subject: Subject) -> list[Edit]:
    """Drop the outputs of functions."""
    return [
        Edit(index, drop_output, number)
        for index, op in enumerate(subject.module.walk())
        if isinstance(op, FuncOp | te.FuncOp) and (last := op.body.block.last_op) is not None
        for number in range(len(last.operands))
    ]


def cuts(subject: Subject) -> list[Edit]:
    """Let functions end earlier."""
    return [Edit(index, cut) for index, op in _inner(subject) if isinstance(op.parent_op(), FuncOp | te.FuncOp)]


def erasures(subject: Subject) -> list[Edit]:
    """Erase ops that have no results, and directives with all that use their handles."""
    return [Edit(i, erase) for i, op in _inner(subject) if not op.results or op.name.startswith("sched.")]


def replacements(change: Change) -> Callable[[Subject], list[Edit]]:
    """Replace the results of ops in one way: `by_operand`, `by_earlier`, `by_argument` or `by_zeros`."""

    def listed(subject: Subject) -> list[Edit]:
        recorded = subject.recorded() if change is by_argument else {}
        return [Edit(i, change, recorded.get(i)) for i, op in _inner(subject) if op.results]

    return listed


def embeddings(subject: Subject) -> list[Edit]:
    """Put small weights into the text."""
    return [Edit(index, embed) for index, op in _inner(subject) if isinstance(op, ParamOp)]


def arguments(subject: Subject) -> list[Edit]:
    """Drop unused arguments."""
    return [
        Edit(index, drop_argument, number)
        for index, op in enumerate(subject.module.walk())
        if isinstance(op, FUNCTIONS)
        for number in reversed(range(len(op.regions[0].block.args)))
        if not op.regions[0].block.args[number].uses
    ]


def iterations(subject: Subject) -> list[Edit]:
    """Let loops run once."""
    return [Edit(i, one_iteration) for i, op in _inner(subject) if isinstance(op, loop.ForOp) and op.extent != 1]


def inlinings(subject: Subject) -> list[Edit]:
    """Put loops' first iterations in their place."""
    return [Edit(i, inlined) for i, op in _inner(subject) if isinstance(op, loop.ForOp)]


def buffers(subject: Subject) -> list[Edit]:
    """Let buffers that a kernel writes be inputs."""
    found: list[Edit] = []
    for index, op in enumerate(subject.module.walk()):
        if isinstance(op, loop.AllocOp):
            found.append(Edit(index, as_input))
        elif isinstance(op, loop.FuncOp) and op.regions[0].blocks:
            found += [Edit(index, as_input, number) for number in range(op.outputs.value.data)]
    return found


def directives(subject: Subject) -> list[Edit]:
    """Leave splits out, and drop loops from nests that a schedule names."""
    found: list[Edit] = []
    for index, op in _inner(subject):
        if isinstance(op, SplitOp):
            found.append(Edit(index, untiled))
        elif isinstance(op, LoopsOp):
            found += [Edit(index, unlooped, number) for number in range(len(op.loops))]
    return found


def defaults(subject: Subject) -> list[Edit]:
    """Take defaults for attributes."""
    found: list[Edit] = []
    for index, op in enumerate(subject.module.walk()):
        declared = list(op.declared) if isinstance(op, GraphOp) else []
        found += [Edit(index, take_default, name) for name in (*op.attributes, *declared)]
    return found


def _inner(subject: Subject) -> Iterator[tuple[int, Operation]]:
    """The ops below the top level, without terminators, by index."""
    for index, op in enumerate(subject.module.walk()):
        if op is not subject.module and op.parent_op() is not subject.module and not op.has_trait(IsTerminator):
            yield index, op
