"""How memory is planned: the planner, its seed, and the pools that a person declares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlc.lowering.memory.planners import PLANNER_NAMES, PLANNERS
from mlc.support.errors import UserError, did_you_mean
from mlc.support.registered.memory_pools import ConstantPool, DeclaredPool, WorkspacePool, pools_text


@dataclass(frozen=True)
class MemoryOptions:
    """
    The planner by name (lowering/memory/planners.py), the seed of its random choices, the pools in the order of use.

    Raises UserError for an unknown planner, a negative seed, and for pools that are none or have equal names.
    """

    planner: str = "best"
    seed: int = 0
    pools: tuple[DeclaredPool, ...] = ()
    separate: bool = False
    """Whether @main takes a pointer to each pool, behind those of the outputs, in place of offsets in one arena."""

    def __post_init__(self) -> None:
        if self.planner not in PLANNERS:
            known, nearest = ", ".join(PLANNER_NAMES), did_you_mean(str(self.planner), PLANNERS)
            raise UserError(f"expected memory_planner to be one of {known}, but got {self.planner!r}{nearest}")
        if type(self.seed) is not int or self.seed < 0:
            raise UserError(f"expected memory_seed to be an integer from 0 on, but got {self.seed!r}")
        names: set[str] = set()
        for pool in self.pools:
            if not isinstance(pool, WorkspacePool | ConstantPool):
                raise UserError(f"expected pools to hold mlc.WorkspacePool and mlc.ConstantPool, but got {pool!r}")
            if pool.name.upper() in names:
                raise UserError(f"expected pools of different names, but got '{pool.name}' twice")
            names.add(pool.name.upper())

    @staticmethod
    def of(planner: str, seed: int, pools: Sequence[DeclaredPool]) -> MemoryOptions:
        """The options from the arguments of mlc.compile."""
        if isinstance(pools, str | DeclaredPool) or not isinstance(pools, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise UserError(f"expected pools to be a list of memory pools, but got {pools!r}")
        return MemoryOptions(planner, seed, tuple(pools))

    def settings(self) -> dict[str, Any]:
        """The values of the words `$name` in the pipelines."""
        return {
            "memory-planner": self.planner,
            "memory-seed": self.seed,
            "workspace-pools": pools_text(self.pools, WorkspacePool),
            "constant-pools": pools_text(self.pools, ConstantPool),
        }


__all__ = ["MemoryOptions"]
