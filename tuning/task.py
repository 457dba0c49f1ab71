"""A task: one kernel to tune, for a target and a number of threads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from mlc.support.records import ALGORITHM
from mlc.tuning.space import Space, Values


@dataclass(frozen=True)
class PackedInput:
    """A weight that an algorithm reads in another form than the direct sum: Winograd's transform of it."""

    number: int
    """The number of the input."""
    tile: int
    block_in: int
    block_out: int


@dataclass(frozen=True)
class Alternative:
    """A task's kernel by one of its algorithms."""

    algorithm: str
    kernel: str
    """The text of its te.func, as `Task.kernel`."""
    packed: PackedInput | None
    """The input that is another one than the direct sum's."""
    error_growth: float
    """By how much its error may exceed that of the direct sum."""


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

    algorithms: tuple[Alternative, ...] = ()
    """The kernel by each algorithm, the direct sum first; empty where there is one only."""
    question: str = ""
    """What the record of the algorithm is found by; empty where there is one only."""

    def alternative(self, values: Values) -> Alternative | None:
        """The kernel by the algorithm that the values name; None where they name none, or there is one only."""
        name = values.get(ALGORITHM)
        return next((one for one in self.algorithms if one.algorithm == name), None)

    def kernel_of(self, values: Values) -> str:
        """The text of the te.func that the values schedule."""
        found = self.alternative(values)
        return self.kernel if found is None else found.kernel

    @property
    def plain_kernel(self) -> str:
        """The text whose inputs are drawn when it is measured: that of the direct sum."""
        return self.algorithms[0].kernel if self.algorithms else self.kernel

    @cached_property
    def kernel_hash(self) -> str:
        """The hexadecimal sha256 of the kernel's text."""
        return sha256(self.kernel.encode()).hexdigest()

    @property
    def key(self) -> tuple[str, str, int]:
        """What records are found by: the kernel's hash, the target and the number of threads."""
        return self.kernel_hash, self.target, self.threads
