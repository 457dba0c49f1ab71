"""
What a program adds to mlc in its own process - strategies, intrinsics, code generators - as the caches see it.

Each registry calls `note` for what a program registers. An addition with a key, a text that changes whenever what it
makes changes, is a part of every cache key; one without turns the caches off.
"""

from __future__ import annotations

REGISTERED: dict[tuple[str, str], str | None] = {}
"""(kind, name) of an addition -> its key."""


def note(kind: str, name: str, key: str | None) -> None:
    """Note an addition; a later one of the same kind and name stands in its place."""
    REGISTERED[kind, name] = key


def have_keys() -> bool:
    """Whether every addition has a key, so that what it makes may be kept."""
    return None not in REGISTERED.values()


def registrations_key() -> str:
    """The part of a cache key that the additions are; empty without any."""
    return repr(sorted(REGISTERED.items())) if REGISTERED else ""
