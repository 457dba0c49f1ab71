"""te-read-records: kernels take the values of their knobs from the records in force."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects import sched, te
from mlc.dialects.attributes import KERNEL_KNOBS
from mlc.schedules.analysis import KernelInfo
from mlc.schedules.externs import parts_between_externs
from mlc.schedules.kernel_key import kernel_hash
from mlc.schedules.knobs import values_attribute
from mlc.schedules.selection import implementation_of
from mlc.support.errors import UserError, warn
from mlc.support.records import in_force
from mlc.targets.description import describe
from mlc.targets.target import Target


@dataclass(frozen=True)
class ReadRecordsPass(ModulePass):
    """
    Put the winner's knobs on each te.func that a record in force knows; te-add-schedule obeys them.

    `te.func @f { ... }` -> `te.func @f attributes {mlc.knobs = {strategy = "matmul", tile_rows = 8 : i64}} { ... }`
    Records answer by the hash of the kernel's text, the target's description and the number of threads
    (`with mlc.records("r.db")`, `--records r.db`). A record whose knobs the strategy no longer has is left, with a
    warning. Kernels that have a schedule or knobs already are left alone.
    """

    name = "te-read-records"

    target: str = "native"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        provider = in_force()
        if provider is None:
            return
        target = Target.parse(self.target)
        scheduled = {o.kernel_name for o in op.body.block.ops if isinstance(o, sched.ScheduleOp)}
        for func in [o for o in op.body.block.ops if isinstance(o, te.FuncOp)]:
            if func.sym_name.data in scheduled or KERNEL_KNOBS in func.attributes or parts_between_externs(func):
                continue
            values = provider.best(kernel_hash(func), describe(target), self.threads)
            if values is None:
                continue
            try:
                implementation_of(KernelInfo(func), target, self.threads, values)
            except UserError as error:
                warn(None, f"the record of kernel '{func.sym_name.data}' is not used: {error}")
            else:
                func.attributes[KERNEL_KNOBS] = values_attribute(values)
