"""What a builder makes of a candidate: machine code, and all that a runner must know to call it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from mlc.tuning.results import ErrorCode
from mlc.tuning.task import PackedInput


@dataclass(frozen=True)
class TensorInfo:
    """An array of a kernel's call, and which values its elements may have."""

    shape: tuple[int, ...]
    dtype: str
    """numpy's name, or `bfloat16`."""
    span: tuple[int, int] | None = None
    """The least and the largest value of integers that index, divide or shift; None where all will do."""


@dataclass(frozen=True)
class Signature:
    """The arrays of a kernel's call, and how exactly its results are known."""

    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    symbols: tuple[int, ...] = ()
    """The values of its open sizes, at which it is measured."""
    epsilon: float = 0.0
    """Machine epsilon of the narrowest float type that its reductions sum in; 0 if it has no floats."""


@dataclass(frozen=True)
class Artefact:
    """A candidate as machine code."""

    name: str
    """The kernel's symbol."""
    objects: dict[str, bytes]
    """Object files by name, without the thread pool."""
    target: str
    threads: int
    workspace_bytes: int = 0
    scratch_bytes: int = 0
    symbolic_bytes: tuple[tuple[Any, ...], ...] = ()
    """The factors of the sizes of buffers in the workspace, over the kernel's symbols (runtime/sizes.py)."""
    functions: tuple[str, ...] = ()
    """The registered functions that it calls."""
    libraries: tuple[str, ...] = ()
    packed: PackedInput | None = None
    """The input that it reads in another form than the task's."""
    error_growth: float = 1.0
    """By how much its error may exceed that of the direct sum."""

    @cached_property
    def digest(self) -> str:
        """The hexadecimal sha256 of the machine code and the facts: equal ones are the same artefact."""
        facts = (self.name, self.target, self.threads, self.workspace_bytes, self.scratch_bytes, self.symbolic_bytes)
        digest = sha256(repr((facts, self.functions, self.libraries, self.packed)).encode())
        for name, data in sorted(self.objects.items()):
            digest.update(name.encode() + b"\0" + data)
        return digest.hexdigest()


@dataclass(frozen=True)
class Built:
    """The outcome of building a candidate: an artefact, or why there is none."""

    artefact: Artefact | None
    signature: Signature | None = None
    """That of a task's default kernel."""
    error: ErrorCode = ErrorCode.NO_ERROR
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class RunOutcome:
    """The outcome of running a candidate."""

    seconds: tuple[float, ...] = ()
    error: ErrorCode = ErrorCode.NO_ERROR
    message: str = ""
    handover_ns: float | None = None
    """Nanoseconds that a cache line took between two CPUs just before; None if that was not measured."""
