"""A one-line summary of schedules: `contraction: conv2d 14x32, parallel 28`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects import sched, te
from mlc.dialects.index import UNBOUNDED
from mlc.dialects.sched.loops import KNOB, REST


def summary_of(module: ModuleOp) -> str:
    """The summaries of the schedules in a module of te kernels."""
    stages = {
        op.stage_name: op.static_extents
        for func in module.body.block.ops
        if isinstance(func, te.FuncOp)
        for op in func.body.block.ops
        if isinstance(op, te.ComputeOp)
    }
    found = [_summary(op, stages) for op in module.body.block.ops if isinstance(op, sched.ScheduleOp)]
    return "; ".join(text for text in found if text)


@dataclass
class _Walk:
    """The handles of a schedule: the stage and the extent of each loop (0: unknown), register tiles, parallel loops."""

    stages: dict[str, tuple[int, ...]]
    stage: dict[SSAValue, str] = field(default_factory=dict)
    extent: dict[SSAValue, int] = field(default_factory=dict)
    tiles: list[tuple[str, list[int]]] = field(default_factory=list)
    parallel: list[tuple[str, int]] = field(default_factory=list)

    def step(self, op: Operation) -> None:
        """Follow one directive."""
        if isinstance(op, sched.BlockOp):
            self.stage[op.results[0]] = op.block_name.data
        elif isinstance(op, sched.LoopsOp):
            stage = self.stage.get(op.block, "")
            known = self.stages.get(stage, ()) if op.under is None else ()
            self._name(stage, op.results, known if len(known) == len(op.results) else [0] * len(op.results))
        elif isinstance(op, sched.SplitOp):
            self._split(op)
        elif isinstance(op, sched.TileOp):
            factors = _factors(op.factors.get_values(), op.knobs)
            outer = [-(-self.extent.get(loop, 0) // f) for loop, f in zip(op.loops, factors, strict=True)]
            self._name(self.stage.get(op.loops[0], ""), op.results, [*outer, *factors])
        elif isinstance(op, sched.FuseOp):
            extents = [self.extent.get(loop, 0) for loop in op.loops]
            self._name(self.stage.get(op.loops[0], ""), op.results, [prod(extents)])
        elif isinstance(op, sched.DecomposeReductionOp):
            self.stage[op.results[1]] = self.stage.get(op.operands[0], "")
        elif isinstance(op, sched.VectorizeOp):
            sizes = [self.extent.get(loop, 0) for loop in op.loops]
            self.tiles.append((self.stage.get(op.loops[0], ""), sizes))
        elif isinstance(op, sched.ParallelOp):
            self.parallel.append((self.stage.get(op.loop, ""), self.extent.get(op.loop, 0)))

    def _split(self, op: sched.SplitOp) -> None:
        factors = _factors(op.factors.get_values(), op.knobs)
        inner = prod(f for f in factors if f > 0)
        rest = -(-self.extent.get(op.loop, 0) // inner)
        self._name(self.stage.get(op.loop, ""), op.results, [f if f > 0 else rest for f in factors])

    def _name(self, stage: str, handles: Sequence[SSAValue], extents: Sequence[int]) -> None:
        for handle, extent in zip(handles, extents, strict=True):
            self.stage[handle], self.extent[handle] = stage, extent

    def work(self, stage: str) -> int:
        """How many elements the loops of a stage run over."""
        return prod(self.stages.get(stage, (0,)))


def _factors(values: Sequence[int], knobs: Sequence[SSAValue]) -> list[int]:
    """The factors of a split, knobs resolved; -1 is the factor that is inferred."""
    chosen = iter(knobs)
    factors: list[int] = []
    for value in values:
        if value == KNOB:
            owner = next(chosen).owner
            value = owner.value if isinstance(owner, sched.KnobOp) else -1
            factors.append(value if isinstance(value, int) else -1)
        else:
            factors.append(-1 if value == REST else value)
    return factors


def _summary(schedule: sched.ScheduleOp, stages: dict[str, tuple[int, ...]]) -> str:
    """The strategy, the register tile of the stage with the most work, and its parallel loop."""
    walk = _Walk(stages)
    for op in schedule.body.block.ops:
        walk.step(op)
    strategy = schedule.attributes.get("strategy")
    head = strategy.data if isinstance(strategy, StringAttr) else "default"
    parts: list[str] = []
    known = [(stage, sizes) for stage, sizes in walk.tiles if all(sizes)]  # a loop that was moved has no known size
    if known:
        stage, sizes = max(known, key=lambda tile: (walk.work(tile[0]), prod(tile[1])))
        sizes = [size for size in sizes if size != 1] or [1]
        parts.append(f"{stage} {'x'.join(map(str, sizes))}")
    if walk.parallel:
        stage, count = max(walk.parallel, key=lambda one: (walk.work(one[0]), one[1]))
        parts.append(f"parallel {count if 0 < count < UNBOUNDED >> 20 else '?'}")
    return f"{head}: {', '.join(parts)}" if parts else head
