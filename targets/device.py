"""The devices of a program: a name, the target that its kernels are compiled for, the memory that its values are in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
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
    A device besides the host: `Device("x86-64-v2")`, `Device("native", memory="sram", compiler="toy")`.

    Values move for nothing between devices of the same memory, and are copied by a kernel between others. With
    `compiler`, the kernels of the device are those of a registered external compiler, and no others: the ops that its
    patterns match are computed there.
    """

    target: str
    memory: str = GLOBAL
    name: str = ""
    compiler: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", target_text(self.target))
        if self.compiler and not str(self.compiler).isidentifier():
            raise UserError(f"expected the compiler of a device to be an identifier, but got {self.compiler!r}")
        if not re.fullmatch(r"\w+", str(self.memory)):
            raise UserError(f"expected the memory of a device to be a word, but got {self.memory!r}")


def devices_of(given: object) -> tuple[Device, ...]:
    """
    The devices that `devices=` names: a mapping from names to targets, or to `Device`s.

    Raises UserError for another value, for a name that is no word, for the host's name, for two devices of one external
    compiler, and for a target of another
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
        found.append(replace(device, name=name))
    compilers = [one.compiler for one in found if one.compiler]
    if len(set(compilers)) < len(compilers):
        raise UserError(f"expected a compiler of its own for each device, but got {', '.join(compilers)}")
    return tuple(found)


def parse_device(text: str) -> tuple[str, Device]:
    """`NAME=TARGET[@MEMORY][:COMPILER]`, as a command line gives it."""
    name, _, rest = text.partition("=")
    rest, _, compiler = rest.partition(":")
    target, _, memory = rest.partition("@")
    if not name or not target:
        raise UserError(
            f"expected a device like little=x86-64-v2, near=x86-64-v2@sram or npu=native@sram:toy, but got '{text}'"
        )
    return name, Device(target, memory or GLOBAL, compiler=compiler)


def check_architecture(host: Target, others: Mapping[str, Target]) -> None:
    """UserError for a device whose code cannot be linked with the host's."""
    for name, target in others.items():
        if target.architecture != host.architecture:
            raise UserError(
                f"expected device '{name}' to be of the host's architecture, {host.architecture}, but its target "
                f"'{target}' is of {target.architecture}"
            )
