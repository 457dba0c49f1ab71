"""The errors of the interpreters: a program does something undefined, or an interpreter does not know an operation."""

from xdsl.ir import Operation


class InterpreterError(Exception):
    """The kernel does something undefined, such as an access out of bounds; `op` is the operation, where known."""

    def __init__(self, message: str, op: Operation | None = None) -> None:
        super().__init__(message)
        self.op = op


class NotInterpreted(InterpreterError, ValueError):
    """
    The interpreter has no meaning for an operation, which says nothing about the program: it is not validated.

    Operations without a meaning are those of a user's own without `evaluate`, operations of another level, calls of
    functions that this process lacks, and kernels that must run as C99 and have no such form.
    """
