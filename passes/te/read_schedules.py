"""te-read-schedules: read schedules written by hand from files, one for each kernel."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mlc.dialects import sched, te
from mlc.dialects.syntax.source import parse_module
from mlc.support.errors import UserError, fail


@dataclass(frozen=True)
class ReadSchedulesPass(ModulePass):
    """
    Insert the `sched.schedule` of the file DIRECTORY/f.mlir after `te.func @f`, if there is such a file.

    `te.func @f { ... }` -> `te.func @f { ... }  sched.schedule @f { ... the directives of the file ... }`
    A file also holds the kernel that it was written for, which must equal the kernel in the module.
    """

    name = "te-read-schedules"

    directory: str

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        block = op.body.block
        for func in [o for o in block.ops if isinstance(o, te.FuncOp)]:
            path = Path(self.directory) / f"{func.sym_name.data}.mlir"
            if path.exists():
                block.insert_op_after(_schedule_of(func, path), func)


def _schedule_of(func: te.FuncOp, path: Path) -> sched.ScheduleOp:
    """The schedule in a file, after checking that the file is about this kernel."""
    name = func.sym_name.data
    try:
        module = parse_module(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    ops = list(module.body.block.ops)
    kernels = [op for op in ops if isinstance(op, te.FuncOp)]
    schedules = [op for op in ops if isinstance(op, sched.ScheduleOp)]
    if (len(kernels), len(schedules), len(ops)) != (1, 1, 2):
        names = ", ".join(op.name for op in ops) or "nothing"
        fail(None, f"{path}: expected one te.func and one sched.schedule, but got {names}")
    for got in (kernels[0].sym_name.data, schedules[0].kernel_name):
        if got != name:
            fail(None, f"{path}: expected the kernel and the schedule of @{name}, but got @{got}")
    if (wanted := str(func)) != (got := str(kernels[0])):
        fail(None, f"{path}: {_difference(wanted, got)}")
    schedule = schedules[0]
    schedule.detach()
    schedule.attributes["strategy"] = StringAttr("by hand")
    return schedule


def _difference(wanted: str, got: str) -> str:
    """The first line in which a file's kernel differs from the module's, as an error message."""
    pairs = zip_longest(wanted.splitlines(), got.splitlines(), fillvalue="nothing")
    mine, other = next(pair for pair in pairs if pair[0] != pair[1])
    return (
        f"expected the te.func of the model as it is now, with `{mine.strip()}`, but got `{other.strip()}`; "
        "only the schedule may be edited, and a new --dump-schedules writes the kernel anew"
    )
