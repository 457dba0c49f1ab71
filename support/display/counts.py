"""Counts in sentences."""


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 record`, `2 records`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
