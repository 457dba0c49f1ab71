"""Custom graph ops, which a program defines itself; registered in every context that mlc creates."""

from xdsl.ir import Operation

USER_OPS: dict[str, type[Operation]] = {}
"""Name -> class of the custom ops with a te lowering."""


def register_op(op: type[Operation]) -> None:
    """Register a custom op by its name for every context; a later op of that name replaces it."""
    USER_OPS[op.name] = op
