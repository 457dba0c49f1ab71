"""A user's error, raised without importing xDSL before there is one (a warm start never imports it)."""

from typing import NoReturn


def fail(message: str) -> NoReturn:
    """Raise a UserError."""
    from mlc.passes.errors import UserError

    raise UserError(message)
