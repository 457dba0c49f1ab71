"""The text of a diagnostic for an exception: the same for mlc-opt and the language server."""

from mlc.support.diagnostics import one_line
from mlc.support.errors import diagnostic_text


def error_text(error: Exception, pass_name: str | None = None) -> str:
    """`'graph.relu' op expected ...` for an error about an operation, else the message and the pass that raised it."""
    op = getattr(error, "op", None)
    message = one_line(str(error)) or type(error).__name__
    if op is not None:
        return message if message.startswith("'") else diagnostic_text(op, message)
    return message if pass_name is None else f"pass '{pass_name}': {message}"
