"""
`mlc.Schedule`: the schedule of one operator, written in Python and applied to its loops as it is written.

    s = mlc.Schedule(te.func("matmul", [A, B], [C]))
    i, j, k = s.loops(s["C"])
    jo, ji = s.split(j, [None, 32])
    s.reorder(i, jo, k, ji); s.vectorize(ji)
    print(s)                    # the sched IR        s.text("loop")    # the loops now
    matmul = mlc.build(s)

Each call appends one op to a sched.schedule and applies it to the loops; there is no other state of the schedule.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast, final

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from mlc.dialects import loop, sched, te
from mlc.dialects.syntax.source import parse_placed
from mlc.dialects.te_builder.tensors import Tensor
from mlc.frontends.te.schedule_handles import ScheduleBlock, ScheduleHandle, ScheduleKnob, ScheduleLoop, describe
from mlc.frontends.te.schedule_methods import directive_ops, layout, make_op, shown_signature
from mlc.frontends.te.schedule_names import name_results
from mlc.frontends.te.tensors import func_of_tensors
from mlc.lowering.te_to_loop.convert import convert_func
from mlc.passes.loop.apply_schedule import finish
from mlc.passes.loop.directives import DIRECTIVES, FINDING
from mlc.passes.loop.directives.intrinsics import DECLARED, used_intrinsics
from mlc.passes.loop.directives.kernel import Kernel, Payload, children
from mlc.passes.loop.directives.snapshot import snapshot
from mlc.passes.loop.index_space.domain import loops_around
from mlc.support.diagnostics import place_of_location
from mlc.support.display.ir_text import IRText
from mlc.support.errors import UserError, located
from mlc.targets.target import Target, TargetLike

Operator: TypeAlias = "te.FuncOp | loop.FuncOp"
Scheduled: TypeAlias = "Operator | str | Tensor | Sequence[Tensor]"
"""What a schedule is made of: an op, IR text, or tensors of mlc.te."""
_CLASSES: dict[type[Attribute], type[ScheduleHandle]] = {
    sched.BlockType: ScheduleBlock,
    sched.LoopType: ScheduleLoop,
    sched.IntType: ScheduleKnob,
}
_HERE = str(Path(__file__).parents[2])


@final
class Schedule:
    """
    A live schedule of one operator.

    `func` is a te.func or loop.func op, IR text of one, in which a sched.schedule may stand beside it, or `mlc.te`
    tensors: the outputs, or inputs and outputs in the order of the call.

    `s["C"]`, or `s[C]` of a tensor, is a block, `s.loops(block)` its loops; each directive of the sched dialect is a
    method: `s.split(j, [None, 32])`, `s.vectorize(ji)` (docs/schedules.md lists them). What a method gives takes the
    `names=` that one gives it. `target` is a name of `mlc.compile`'s.

    Raises UserError, at the line of the call, for a directive that is illegal or that the target cannot do: it names
    the directive, the loop and the dependence, and leaves the schedule and the loops as they were.
    """

    def __init__(self, func: Scheduled, target: TargetLike = "native", *, name: str = "<schedule>") -> None:
        self._target = Target.parse(target)
        self.target = str(self._target)
        self.func, given, declared = _operator_of(func, name)
        name = self.func.sym_name.data
        self._op = sched.ScheduleOp.make(name, Region(Block()))
        lowered = convert_func(self.func) if isinstance(self.func, te.FuncOp) else self.func.clone()
        self._kernel = Kernel(lowered, self._op)
        self._kernel.intrinsics = {op.intrin.data: op for op in declared}
        self._undo: list[tuple[Operation, Kernel]] = []
        if given is not None:
            self._replay(given)

    # --- finding ------------------------------------------------------------------------------------------------

    def __getitem__(self, name: str | Tensor) -> ScheduleBlock:
        """The block of this name, or of this tensor: that of a stage, or one that a directive made."""
        if isinstance(name, Tensor):
            name = self._stage_of(name)
        block = self._kernel.blocks.get(name)
        known = self._handle_on(block) if block is not None else None
        if known is not None:
            return self._handle(known)
        op = sched.BlockOp.create(properties={"block_name": StringAttr(name)}, result_types=[sched.BLOCK])
        return self._handles(self._find(op))[0]

    @property
    def blocks(self) -> list[str]:
        """The names of all blocks now."""
        return list(self._kernel.blocks)

    def loops(
        self, block: ScheduleBlock, under: ScheduleLoop | None = None, names: Sequence[str] = ()
    ) -> list[ScheduleLoop]:
        """The loops around a block, outer to inner; with `under`, those inside that loop."""
        with at_users_line():
            payload = self._payload(block)
        if not isinstance(payload, loop.BlockOp):
            raise UserError(f"expected a block, but got {block!r}")
        found = loops_around(payload)
        if under is not None and (outer := self._loop(under)) in found:
            found = found[found.index(outer) + 1 :]
        known = [self._handle_on(f) for f in found]
        if not names and all(known):
            return [self._handle(value) for value in known if value is not None]
        op = sched.LoopsOp.make(block.value, len(found), None if under is None else under.value)
        return self._handles(self._find(op, names))

    def child(self, loop_: ScheduleLoop, position: int) -> ScheduleLoop | ScheduleBlock:
        """The loop or block at a position of a loop's body, counted from 0."""
        with at_users_line():
            inside = children(self._loop(loop_))
        kind = sched.BLOCK if 0 <= position < len(inside) and isinstance(inside[position], loop.BlockOp) else sched.LOOP
        properties = {"position": IntegerAttr(position, i64)}
        op = sched.ChildOp.create(operands=[loop_.value], properties=properties, result_types=[kind])
        return self._handles(self._find(op))[0]

    def loop_at(self, value: SSAValue) -> loop.ForOp:
        """The `loop.for` that the value of a handle stands for now."""
        payload = self._payload_of(value)
        if not isinstance(payload, loop.ForOp):
            raise UserError(f"expected a loop, but got {describe(payload)}")
        return payload

    def describe(self, value: SSAValue) -> str:
        """What the value of a handle stands for, in one line; also of one that is consumed."""
        try:
            return describe(self._payload_of(value))
        except UserError:
            return f"%{value.name_hint}, which is consumed or undone"

    # --- directives ---------------------------------------------------------------------------------------------

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _direct(self, op: type[IRDLOperation], args: Sequence[Any], names: Sequence[str], named: dict[str, Any]) -> Any:
        """Append and apply one directive; its handles."""
        with at_users_line():
            new = make_op(op, [self._value(a) for a in args], {k: self._value(v) for k, v in named.items()})
            found = self._handles(self._add(new, names))
        definition = op.get_irdl_definition()
        if not definition.results:
            return None
        alone = len(definition.results) == 1 and type(definition.results[0][1]).__name__ == "ResultDef"
        return found[0] if alone else found

    def _find(self, op: Operation, names: Sequence[str] = ()) -> Operation:
        """Append an op that gives handles."""
        with at_users_line():
            return self._add(op, names)

    def _add(self, op: Operation, names: Sequence[str] = ()) -> Operation:
        """Append an op and apply it; where it is refused everything stays as it was."""
        op.location = _users_line()
        name_results(self._kernel, op, names)
        kept = snapshot(self._kernel) if type(op) not in FINDING else None
        self._op.body.block.add_op(op)
        self._kernel.directive = op
        try:
            self._check_target(op)
            DIRECTIVES[type(op)](self._kernel, op)
            self._check_parallel(op)
        except BaseException:
            op.detach()
            op.drop_all_references()
            if kept is not None:
                self._kernel = kept
            raise
        if kept is not None:
            self._undo.append((op, kept))
        return op

    def _check_target(self, op: Operation) -> None:
        """Refuse an axis that the target lacks."""
        if isinstance(op, sched.BindOp) and (axis := op.axis.data) not in self._target.axes:
            known = ", ".join(self._target.axes)
            has = f"has the axes {known}" if known else "has no axes; use parallel for threads of a CPU"
            self._kernel.fail(f"expected an axis of target '{self.target}', but got '{axis}': the target {has}")
        if isinstance(op, sched.TensorizeOp):
            name = op.intrin.data
            declared = self._kernel.intrinsics.get(name) or DECLARED.get(name)
            missing = self._target.missing(declared.features) if declared is not None else []
            if missing:
                self._kernel.fail(f"'{name}' needs {', '.join(missing)}, which target '{self.target}' lacks")

    def _check_parallel(self, op: Operation) -> None:
        """Check at once the parallel loops into which the directive moved something."""
        try:
            finish(self._kernel)
        except UserError as error:
            raise UserError(
                f"{error.text}; or mark that loop parallel after {op.name.removeprefix('sched.')}", op
            ) from None

    # --- the schedule as a whole --------------------------------------------------------------------------------

    def undo(self) -> None:
        """
        Take back the last directive; handles that it gave, and those found since, are gone.

        Raises UserError where there is none.
        """
        if not self._undo:
            raise UserError("expected a directive to undo, but the schedule has none")
        last, self._kernel = self._undo.pop()
        ops = list(self._op.body.block.ops)
        for op in reversed(ops[ops.index(last) :]):
            op.detach()
            op.drop_all_references()

    @property
    def op(self) -> sched.ScheduleOp:
        """A copy of the schedule as a sched.schedule op."""
        return self._op.clone()

    def __str__(self) -> str:
        return str(self._op)

    def __repr__(self) -> str:
        return f"<mlc.Schedule of @{self._op.kernel_name}, {len(self._undo)} directives>"

    def text(self, level: str = "sched") -> IRText:
        """
        IR text: the schedule (`sched`), the loops as they are now (`loop`), the operator (`te`), or what `save` writes.

        That is level `module`; raises UserError for any other.
        """
        if level == "module":
            return IRText("".join(str(op) + "\n" for op in self.module.body.block.ops))
        texts: dict[str, Operation] = {"sched": self._op, "loop": self._kernel.func}
        if isinstance(self.func, te.FuncOp):
            texts["te"] = self.func
        if level not in texts:
            raise UserError(f"expected a level among {', '.join(texts)}, module, but got '{level}'")
        return IRText(str(texts[level]))

    @property
    def module(self) -> ModuleOp:
        """The operator and its schedule, with the intrinsics that it uses: what `save` writes, and `mlc-opt` takes."""
        return ModuleOp([*(i.clone() for i in self.intrinsics), self.func.clone(), self._op.clone()])

    @property
    def intrinsics(self) -> list[sched.IntrinsicOp]:
        """The declared intrinsics that the schedule uses."""
        return used_intrinsics(self._op, self._kernel.intrinsics)

    def lowered(self) -> loop.FuncOp:
        """A copy of the loops as they are now."""
        return self._kernel.func.clone()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the operator and its schedule as IR: a file for `Schedule.load`, `mlc.build` and `mlc-opt`."""
        try:
            Path(path).write_text(self.text("module"))
        except OSError as error:
            raise UserError(f"{path}: {error.strerror or error}") from error

    @staticmethod
    def load(path: str | os.PathLike[str], target: str = "native") -> Schedule:
        """The schedule in a file that `save` or a person wrote; UserError, with its line, if it does not apply."""
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
        return Schedule(text, target, name=str(path))

    # --- inside -------------------------------------------------------------------------------------------------

    def _stage_of(self, tensor: Tensor) -> str:
        """The name of a tensor's block; UserError where stages of one name have got numbers."""
        if f"{tensor.name}_1" in self._kernel.blocks:
            with at_users_line():
                raise UserError(f"expected a tensor with a name of its own, but several are called '{tensor.name}'")
        return tensor.name

    def _replay(self, given: sched.ScheduleOp) -> None:
        """Append and apply the ops of a schedule; parallel loops are checked when all are applied."""
        self._op.attributes |= given.attributes
        with located():
            for op in list(given.body.block.ops):
                kept = snapshot(self._kernel) if type(op) not in FINDING else None
                op.detach()
                self._op.body.block.add_op(op)
                self._kernel.directive = op
                self._check_target(op)
                DIRECTIVES[type(op)](self._kernel, op)
                if kept is not None:
                    self._undo.append((op, kept))
            finish(self._kernel)

    def _loop(self, handle: ScheduleLoop) -> loop.ForOp:
        payload = self._payload(handle)
        if not isinstance(payload, loop.ForOp):
            raise UserError(f"expected a loop, but got {describe(payload)}")
        return payload

    def _handles(self, op: Operation) -> list[Any]:
        return [self._handle(result) for result in op.results]

    def _handle(self, value: SSAValue) -> Any:
        return _CLASSES[type(value.type)](self, value)

    def _handle_on(self, payload: loop.ForOp | loop.BlockOp) -> SSAValue | None:
        """A live handle on a loop or block, if there is one."""
        kernel = self._kernel
        return next((v for v, p in kernel.handles.items() if p is payload and v not in kernel.consumed), None)

    def _value(self, argument: Any) -> Any:
        """An argument of a method with values in place of handles."""
        if isinstance(argument, ScheduleHandle):
            self._payload(argument)
            return argument.value
        if isinstance(argument, tuple | list):
            return [self._value(one) for one in cast("Sequence[Any]", argument)]
        return layout(argument) if callable(argument) and not isinstance(argument, type) else argument

    def _payload(self, handle: ScheduleHandle) -> Payload:
        """What a handle stands for; UserError if it is of another schedule, undone or consumed."""
        if not isinstance(handle, ScheduleHandle):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise UserError(
                f"expected a handle of this schedule, as s[name] and s.loops(block) give, but got {handle!r}"
            )
        if handle.schedule is not self:
            raise UserError(f"expected a handle of this schedule, but %{handle.name} is one of another")
        return self._payload_of(handle.value)

    def _payload_of(self, value: SSAValue) -> Payload:
        if value not in self._kernel.handles:
            raise UserError(f"expected a live handle, but %{value.name_hint} was undone")
        if (by := self._kernel.consumed.get(value)) is not None:
            raise UserError(f"expected a live handle, but %{value.name_hint} was consumed by {by.name}")
        return self._kernel.handles[value]


Parts: TypeAlias = "tuple[Operator, sched.ScheduleOp | None, list[sched.IntrinsicOp]]"


def _operator_of(func: Scheduled, name: str) -> Parts:
    """The operator, and the schedule and the intrinsics beside it in a text."""
    if isinstance(func, str):
        return _parsed(func, name)
    if isinstance(func, te.FuncOp | loop.FuncOp):
        return func.clone(), None, []
    return func_of_tensors(func), None, []


def _parsed(text: str, name: str) -> Parts:
    """The operator, the schedule and the intrinsics in a text."""
    module, places = parse_placed(text, name)
    ops = list(module.body.block.ops)
    kernels = [op for op in ops if isinstance(op, te.FuncOp | loop.FuncOp)]
    schedules = [op for op in ops if isinstance(op, sched.ScheduleOp)]
    declared = [op for op in ops if isinstance(op, sched.IntrinsicOp)]
    if len(kernels) != 1 or len(schedules) > 1 or len(ops) != len(kernels) + len(schedules) + len(declared):
        names = ", ".join(op.name for op in ops) or "nothing"
        raise UserError(f"{name}: expected one te.func or loop.func, and at most one sched.schedule, but got {names}")
    wanted = kernels[0].sym_name.data
    if schedules and schedules[0].kernel_name != wanted:
        raise UserError(f"{name}: expected a schedule of @{wanted}, but got one of @{schedules[0].kernel_name}")
    for op in schedules[0].body.block.ops if schedules else ():
        if (place := places.get(op)) is not None:
            op.location = FileLineColLoc(StringAttr(place.file), IntAttr(place.line), IntAttr(place.column))
    return kernels[0], schedules[0] if schedules else None, declared


def _users_line() -> FileLineColLoc:
    """The line outside of mlc that called a method of the schedule."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] as inspect does it, without reading sources
    while frame.f_back is not None and (
        frame.f_code.co_filename.startswith(_HERE) or frame.f_code.co_filename == contextlib.__file__
    ):
        frame = frame.f_back
    return FileLineColLoc(StringAttr(frame.f_code.co_filename), IntAttr(frame.f_lineno), IntAttr(1))


@contextlib.contextmanager
def at_users_line() -> Generator[None]:
    """Let UserErrors say the line of the user's program that asked for what is refused."""
    try:
        with located():
            yield
    except UserError as error:
        if not error.place:
            error.place = str(place_of_location(_users_line()))
            error.args = (f"{error.place}: {error.text}",)
        raise


def add_methods() -> None:
    """Give the class a method for each directive."""
    for name, op in directive_ops().items():

        def method(
            self: Schedule, *args: Any, names: Sequence[str] = (), _op: type[IRDLOperation] = op, **named: Any
        ) -> Any:
            return self._direct(_op, args, names, named)  # pyright: ignore[reportPrivateUsage] a method of the class

        method.__name__, method.__qualname__ = name, f"Schedule.{name}"
        method.__doc__ = op.__doc__
        method.__dict__["__signature__"] = shown_signature(op)
        setattr(Schedule, name, method)


add_methods()
