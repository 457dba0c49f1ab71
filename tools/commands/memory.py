"""The options of every command that compiles which say how memory is planned."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mlc.lowering.memory.planners import PLANNER_NAMES

if TYPE_CHECKING:
    from mlc.driver.memory_options import MemoryOptions

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "KIB": 1 << 10, "M": 1 << 20, "MIB": 1 << 20, "G": 1 << 30, "GIB": 1 << 30}


def add_memory_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--memory-planner",
        default="best",
        choices=PLANNER_NAMES,
        metavar="NAME",
        help=f"how intermediates are placed: {', '.join(PLANNER_NAMES)} (default: best)",
    )
    parser.add_argument(
        "--memory-seed", type=int, default=0, metavar="N", help="seed of the planner hill-climb (default: 0)"
    )
    for kind, what in (("workspace", "intermediates"), ("constant", "weights")):
        parser.add_argument(
            f"--{kind}-pool",
            type=_pool,
            action="append",
            default=[],
            metavar="NAME=256KiB",
            help=f"a region of memory for {what}, which must suffice; may be repeated, in the order of use",
        )


def _pool(text: str) -> tuple[str, int]:
    """The value of --workspace-pool and --constant-pool: a name and a size."""
    name, equals, size = text.partition("=")
    number = size.rstrip("BbGgIiKkMm")
    unit = _UNITS.get(size[len(number) :].upper())
    if not equals or not number.isdecimal() or unit is None:
        raise argparse.ArgumentTypeError(
            f"expected NAME=SIZE with a size such as 4096, 256KiB or 4MiB, but got '{text}'"
        )
    return name, int(number) * unit


def memory_of(args: argparse.Namespace) -> MemoryOptions:
    """The options as the compiler takes them."""
    from mlc.driver.memory_options import MemoryOptions
    from mlc.support.registered.memory_pools import ConstantPool, WorkspacePool

    if not hasattr(args, "memory_planner"):
        return MemoryOptions()  # a command that has no such options
    workspace = [WorkspacePool(*given) for given in args.workspace_pool]
    constant = [ConstantPool(*given) for given in args.constant_pool]
    return MemoryOptions.of(args.memory_planner, args.memory_seed, [*workspace, *constant])


def memory_arguments_of(args: argparse.Namespace) -> dict[str, Any]:
    """The options as arguments of mlc.compile."""
    memory = memory_of(args)
    return {"memory_planner": memory.planner, "memory_seed": memory.seed, "pools": memory.pools}


def given_memory_option(args: argparse.Namespace) -> str:
    """The first option that differs from its default; empty where none does."""
    defaults: dict[str, object] = {
        "memory_planner": "best",
        "memory_seed": 0,
        "workspace_pool": [],
        "constant_pool": [],
    }
    return next((f"--{name.replace('_', '-')}" for name, value in defaults.items() if getattr(args, name) != value), "")


__all__ = ["add_memory_arguments", "given_memory_option", "memory_arguments_of", "memory_of"]
