"""A user's file: one dialect and a few passes."""

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition
from xdsl.passes import ModulePass

from mlc.support.errors import fail, warn


@irdl_op_definition
class HelloOp(IRDLOperation):
    """Says hello."""

    name = "greet.hello"


Greet = Dialect("greet", [HelloOp])


@dataclass(frozen=True)
class MarkOpsPass(ModulePass):
    """Writes a mark on every operation of a name."""

    name = "my-mark-ops"

    op: str = "greet.hello"
    mark: str = "seen"
    times: int = 1
    sizes: tuple[int, ...] = (1, 2)

    def apply(self, ctx, op: ModuleOp) -> None:
        for nested in op.walk():
            if nested.name == self.op:
                nested.attributes["mark"] = StringAttr(self.mark * self.times)


@dataclass(frozen=True)
class ForbidPass(ModulePass):
    """Refuses every operation of a dialect."""

    name = "my-forbid"

    dialect: str

    def apply(self, ctx, op: ModuleOp) -> None:
        for nested in op.walk():
            if nested.name.startswith(self.dialect):
                warn(nested, "is doubtful")
                fail(nested, "is not allowed here")


@dataclass(frozen=True)
class CrashPass(ModulePass):
    """Has a bug."""

    name = "my-crash"

    def apply(self, ctx, op: ModuleOp) -> None:
        raise ZeroDivisionError("oh no")


@dataclass(frozen=True)
class BreakPass(ModulePass):
    """Leaves invalid IR behind: swaps the first two operations of each function."""

    name = "my-break"

    def apply(self, ctx, op: ModuleOp) -> None:
        for function in op.ops:
            block = function.regions[0].block
            first = block.first_op
            first.detach()
            block.insert_op_after(first, block.first_op)
