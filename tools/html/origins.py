"""
Where the lines of a kernel's texts come from, from the graph's operations to the assembly.

Locations carry it down. Before the first pass each graph operation gets a location of its own; te stages take over
those of their operations, loops those of their stages. What the compiler has no reason to remember is added on the way:

    o3            graph operation 3 of the kernel
    k7            loop 7, as loop-apply-schedule left it
    file line 41  (llvm and below) line 41 of the loop level's text

A tag is (line of the loop text, stage, graph operation, loop, directive, last line of the loop text's operation),
-1 where there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    ModuleOp,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import loop, sched, te
from mlc.dialects.graph import ConstantOp, ParamOp
from mlc.passes.loop.directives import DIRECTIVES
from mlc.passes.loop.directives.kernel import Kernel
from mlc.tools.html.texts import Span, Tag

LOOP_TEXT = "kernel"
"""The file that the locations of llvm operations name: the text of the loop level."""
NOTHING: Tag = (-1, -1, -1, -1, -1, -1)
_MARK = re.compile(r"[osk]\d+")


def marked(mark: str, inner: LocationAttr) -> NameLoc:
    """A location with a mark before what it had."""
    return NameLoc(StringAttr(mark), NoneAttr() if isinstance(inner, UnknownLoc) else inner)


def marks_of(location: Attribute) -> dict[str, int]:
    """The marks in a location by their letters: `k7(s1(o3)) -> {"k": 7, "s": 1, "o": 3}`; of several, the outermost."""
    if isinstance(location, FusedLoc):
        inner = location.locations.data if isinstance(location.locations, ArrayAttr) else ()
        return {k: n for one in reversed(inner) for k, n in marks_of(one).items()}
    if not isinstance(location, NameLoc):
        return {}
    name, found = location.desc.data, marks_of(location.location)
    return {**found, name[0]: int(name[1:])} if _MARK.fullmatch(name) else found


@dataclass
class Origins:
    """The stages, loops and directives of one kernel, numbered; `tag` says where an operation comes from."""

    ops: list[Operation] = field(default_factory=list[Operation])
    """The graph operations, constants left out."""
    stages: dict[str, int] = field(default_factory=dict[str, int])
    stage_ops: dict[int, set[int]] = field(default_factory=dict[int, set[int]])
    """For each stage the graph operations in it."""
    directives: dict[Operation, tuple[int, int]] = field(default_factory=dict[Operation, tuple[int, int]])
    """sched op -> its number and its stage."""
    directive_loops: list[list[int]] = field(default_factory=list[list[int]])
    """For each directive the loops that it made or changed and that were left when the schedule was applied."""
    line_tags: dict[int, Tag] = field(default_factory=dict[int, Tag])
    """The tags of the loop text's lines."""

    def start(self, func: FuncOp) -> None:
        """Mark the graph operations of a kernel."""
        kept = (op for op in func.body.block.ops if not isinstance(op, ReturnOp | ConstantOp | ParamOp))
        self.ops = list(kept)
        for number, op in enumerate(self.ops):
            op.location = marked(f"o{number}", op.location)
        if len(self.ops) == 1:
            func.location = self.ops[0].location

    def before_loops(self, module: ModuleOp) -> None:
        """Number the stages, and mark them and what is in them; follow the handles of the schedule."""
        for func in module.body.block.ops:
            if isinstance(func, te.FuncOp):
                for op in func.body.block.ops:
                    self._mark_stage(op)
        for schedule in module.body.block.ops:
            if isinstance(schedule, sched.ScheduleOp):
                self._number_directives(schedule)

    def _mark_stage(self, stage: Operation) -> None:
        if (name := stage_name(stage)) is None:
            return
        number = self.stages.setdefault(name, len(self.stages))
        own = stage.location
        for op in stage.walk():
            op.location = marked(f"s{number}", own if isinstance(op.location, UnknownLoc) else op.location)
            if (graph_op := marks_of(op.location).get("o")) is not None:
                self.stage_ops.setdefault(number, set()).add(graph_op)

    def _number_directives(self, schedule: sched.ScheduleOp) -> None:
        stage: dict[SSAValue, int] = {}
        for op in schedule.body.block.ops:
            known = next((stage[v] for v in op.operands if v in stage), -1)
            if isinstance(op, sched.BlockOp):
                known = self.stages.get(op.block_name.data, known)
            stage |= dict.fromkeys(op.results, known)
            self.directives[op] = len(self.directives), known
        self.directive_loops = [[] for _ in self.directives]

    def before_schedule(self, module: ModuleOp) -> list[list[int]]:
        """For each loop that applying the schedules leaves, in order, the directives whose handles stand for it."""
        found: list[list[int]] = []
        copy = module.clone()
        funcs = {f.sym_name.data: f for f in copy.body.block.ops if isinstance(f, loop.FuncOp)}
        handles: dict[Operation, list[int]] = {}
        first = 0
        for schedule in copy.body.block.ops:
            if isinstance(schedule, sched.ScheduleOp):
                kernel = Kernel(funcs[schedule.kernel_name], schedule)
                ops = list(schedule.body.block.ops)
                for op in ops:
                    kernel.directive = op
                    DIRECTIVES[type(op)](kernel, op)
                for number, op in enumerate(ops, first):
                    for value in (*op.operands, *op.results):
                        payload = kernel.handles.get(value)
                        if isinstance(payload, loop.ForOp) and value not in kernel.consumed:
                            handles.setdefault(payload, []).append(number)
                first += len(ops)
        for func in funcs.values():
            found += [handles.get(op, []) for op in func.walk() if isinstance(op, loop.ForOp)]
        return found

    def after_schedule(self, module: ModuleOp, directives: Iterable[list[int]]) -> None:
        """Mark the loops that are there now, and note the directives of each."""
        loops = [op for op in module.walk() if isinstance(op, loop.ForOp)]
        for number, (op, numbers) in enumerate(zip(loops, directives, strict=False)):
            op.location = marked(f"k{number}", op.location)
            for directive in numbers:
                if number not in self.directive_loops[directive]:
                    self.directive_loops[directive].append(number)

    def before_llvm(self, spans: Iterable[Span], tags: Iterable[Tag | None]) -> None:
        """From here on, operations come from lines of the loop level's text."""
        self.line_tags = {line: tag for line, tag in enumerate(tags, 1) if tag is not None}
        for op, first, _ in spans:
            op.location = FileLineColLoc(StringAttr(LOOP_TEXT), IntAttr(first + 1), IntAttr(0))

    def at_line(self, line: int) -> Tag | None:
        """The tag of what was lowered from a line of the loop text (counted from 1); None for line 0."""
        if not line:
            return None
        inner = self.line_tags.get(line, NOTHING)
        return (line, *inner[1:])

    def tag(self, op: Operation) -> Tag | None:
        """Where an operation comes from."""
        if op in self.directives:
            number, stage = self.directives[op]
            return (-1, stage, -1, -1, number, -1)
        if isinstance(op.location, FileLineColLoc) and op.location.filename.data == LOOP_TEXT:
            return self.at_line(op.location.line.data)
        marks = marks_of(op.location)
        if not marks and (around := op.parent_op()) is not None and op.name.endswith(".yield"):
            marks = {name: number for name, number in marks_of(around.location).items() if name != "k"}
        stage = marks.get("s", self.stages.get(_stage_around(op) or "", -1))
        tag = (-1, stage, marks.get("o", -1), marks.get("k", -1), -1, -1)
        return tag if max(tag) >= 0 else None


def stage_name(op: Operation) -> str | None:
    """The name of a te stage."""
    name = op.properties.get("stage")
    return name.data if isinstance(name, StringAttr) else None


def _stage_around(op: Operation) -> str | None:
    """The name of the te stage that an operation is or stands in."""
    at: Operation | None = op
    while at is not None:
        if (name := stage_name(at)) is not None:
            return name
        at = at.parent_op()
    return None
