"""The graph ops that a program defines itself, by name: every context that mlc makes knows them."""

from xdsl.ir import Operation

USER_OPS: dict[str, type[Operation]] = {}
"""Name -> class, of the ops whose te the program gave."""


def register_op(op: type[Operation]) -> None:
    """Make a program's own op known by its name to every context; a later one of that name replaces it."""
    USER_OPS[op.name] = op
