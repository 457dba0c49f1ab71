"""Narrowing of values that other libraries or files leave untyped."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_sequence(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """Whether a value is a list or a tuple, of anything."""
    return isinstance(value, list | tuple)


def is_table(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is a dict, as JSON has it: of anything, by text."""
    return isinstance(value, dict)


__all__ = ["is_sequence", "is_table"]
