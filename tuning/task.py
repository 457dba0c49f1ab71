"""A task: one kernel to tune, for a target and a number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from mlc.tuning.space import Space


@dataclass(frozen=True)
class Task:
    """One kernel to tune."""

    name: str
    """The kernel's name in its model, for people; no part of the key."""
    kernel: str
    """The text of a module with the one te.func, its name replaced by `kernel`, without a schedule."""
    target: str
    """The target's canonical text, CPU features and cache sizes included."""
    threads: int
    space: Space
    flops: int
    """The floating-point operations of one call."""
    weight: int = 1
    """How many calls a run of the model makes."""
    compiled_for: str = "native"
    """The target as mlc.compile takes it; `target`, its description, is what records are found by."""

    @cached_property
    def kernel_hash(self) -> str:
        """The hexadecimal sha256 of the kernel's text."""
        return sha256(self.kernel.encode()).hexdigest()

    @property
    def key(self) -> tuple[str, str, int]:
        """What records are found by: the kernel's hash, the target and the number of threads."""
        return self.kernel_hash, self.target, self.threads
