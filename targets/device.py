"""The devices of a program: a name, the target that its kernels are compiled for, the memory that its values are in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from mlc.support.errors import UserError
from mlc.targets.target import Target, target_text

HOST = "cpu"
"""The device that runs @main, and every value that is placed nowhere else."""
GLOBAL = "global"
"""The memory of the host."""


@dataclass(frozen=True)
class Device:
    """
    A device besides the host: `Device("x86-64-v2")`, `Device("x86-64-v2", memory="near")`.

    Values move for nothing between devices of the same memory, and are copied by a kernel between others.
    """

    target: str
    memory: str = GLOBAL
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", target_text(self.target))
        if not re.fullmatch(r"\w+", str(self.memory)):
            raise UserError(f"expected the memory of a device to be a word, but got {self.memory!r}")


def devices_of(given: object) -> tuple[Device, ...]:
    """
    The devices that `devices=` names: a mapping from names to targets, or to `Device`s.

    Raises UserError for another value, for a name that is no word, for the host's name, and for a target of another
    architecture than the host's has to be (when it is compiled for).
    """
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise UserError(f"expected devices as a dict from names to targets, but got {given!r}")
    items = cast("Mapping[Any, Any]", given)
    found: list[Device] = []
    for name, value in items.items():
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z]\w*", name):
            raise UserError(f"expected the name of a device to be a word, but got {name!r}")
        if name == HOST:
            raise UserError(f"expected devices besides the host '{HOST}', whose target is target=, but got '{HOST}'")
        device = value if isinstance(value, Device) else Device(value)
        found.append(Device(device.target, device.memory, name))
    return tuple(found)


def parse_device(text: str) -> tuple[str, Device]:
    """`NAME=TARGET` or `NAME=TARGET@MEMORY`, as a command line gives it."""
    name, _, rest = text.partition("=")
    target, _, memory = rest.partition("@")
    if not name or not target:
        raise UserError(f"expected a device like little=x86-64-v2 or near=x86-64-v2@sram, but got '{text}'")
    return name, Device(target, memory or GLOBAL)


def check_architecture(host: Target, others: Mapping[str, Target]) -> None:
    """UserError for a device whose code cannot be linked with the host's."""
    for name, target in others.items():
        if target.architecture != host.architecture:
            raise UserError(
                f"expected device '{name}' to be of the host's architecture, {host.architecture}, but its target "
                f"'{target}' is of {target.architecture}"
            )
