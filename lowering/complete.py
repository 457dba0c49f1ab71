"""How every conversion ends: it fails where it has left an operation of the level that it comes from."""

from xdsl.ir import Operation

from mlc.support.errors import UserError


def expect_converted(converted: Operation, conversion: str, *dialects: str) -> None:
    """UserError at the first operation inside `converted` that still belongs to one of the source level's dialects."""
    for op in converted.walk():
        if op.name.partition(".")[0] in dialects:
            raise UserError(f"'{conversion}' left '{op.name}': it has no rule for this operation here", op)
