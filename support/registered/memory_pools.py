"""Memory pools that a person declares: named regions of a size, for intermediates or for constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mlc.support.errors import UserError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class DeclaredPool:
    """A region of memory: its name, an identifier, and its size in bytes."""

    name: str
    bytes: int

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise UserError(f"expected the name of a memory pool to be an identifier, but got {self.name!r}")
        if type(self.bytes) is not int or self.bytes < 1:
            raise UserError(f"expected pool '{self.name}' to have at least 1 byte, but got {self.bytes!r}")


@dataclass(frozen=True)
class WorkspacePool(DeclaredPool):
    """A pool for intermediate tensors and for what kernels share inside; TVM's WorkspacePoolInfo."""


@dataclass(frozen=True)
class ConstantPool(DeclaredPool):
    """A pool for weights and constants; TVM's ConstantPoolInfo."""


def pools_text(pools: Sequence[DeclaredPool], kind: type[DeclaredPool]) -> str:
    """The pools of one kind as an option of a pass: `sram:4096,dram:65536`."""
    return ",".join(f"{pool.name}:{pool.bytes}" for pool in pools if isinstance(pool, kind))


def pools_of(text: str, kind: type[DeclaredPool]) -> list[DeclaredPool]:
    """The pools that `pools_text` gave the text of; UserError for another text."""
    found: list[DeclaredPool] = []
    for part in text.split(",") if text else ():
        name, _, size = part.partition(":")
        if not size.isdecimal():
            raise UserError(f"expected pools as NAME:BYTES,NAME:BYTES, but got '{text}'")
        found.append(kind(name, int(size)))
    return found


__all__ = ["ConstantPool", "DeclaredPool", "WorkspacePool", "pools_of", "pools_text"]
