"""The error that the interpreters raise when a kernel does something undefined."""

from xdsl.ir import Operation


class InterpreterError(Exception):
    """The kernel does something undefined, such as an access out of bounds; `op` is the operation, where known."""

    def __init__(self, message: str, op: Operation | None = None) -> None:
        super().__init__(message)
        self.op = op
