"""The last step of every conversion: fail if an operation of the source level is left."""

from xdsl.ir import Operation

from mlc.dialects.walk import walk
from mlc.support.errors import UserError


def expect_converted(converted: Operation, conversion: str, *dialects: str) -> None:
    """UserError at the first operation inside `converted` that belongs to one of the source level's `dialects`."""
    for op in walk(converted):
        if op.name.partition(".")[0] in dialects:
            raise UserError(f"'{conversion}' left '{op.name}': it has no rule for this operation here", op)
