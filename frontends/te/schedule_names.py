"""
Names of the handles of `mlc.Schedule`: those of the loops and blocks, each taken once.

A new loop takes the name of its handle, so a name that stood twice in the printed schedule would be another one when
the text is read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.ir import Operation

from mlc.dialects import sched
from mlc.dialects.value_names import value_name
from mlc.passes.loop.directives.kernel import Kernel
from mlc.support.errors import UserError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_results(kernel: Kernel, op: Operation, names: Sequence[str] = ()) -> None:
    """Name the results of a directive before it is applied: as asked for, else after what it works on."""
    names = [names] if isinstance(names, str) else names
    if names and len(names) != len(op.results):
        raise UserError(f"{op.name}: expected {len(op.results)} names, one a result, but got {len(names)}")
    for name in names:
        if _NAME.fullmatch(name) is None or re.search(r"_\d+$", name):
            raise UserError(
                f"{op.name}: expected names of letters, digits and `_`, without `_1` at the end, but got '{name}'"
            )
    taken = {h.name_hint for h in kernel.handles}
    for result, name in zip(op.results, names or _names(kernel, op), strict=True):
        if name in taken and names:
            raise UserError(f"{op.name}: expected a new name, but the schedule has a handle %{name}")
        result.name_hint = value_name(_unique(name, taken)) if name is not None else None
        taken.add(result.name_hint)


def _unique(name: str, taken: set[str | None]) -> str:
    """The name, or the first one with a number behind it that is not taken."""
    name = re.sub(r"_(\d+)$", r"\1", name)
    return next(found for n in range(len(taken) + 2) if (found := f"{name}{n + 1 if n else ''}") not in taken)


def _names(kernel: Kernel, op: Operation) -> Sequence[str | None]:
    """Names of the results of an op, after the loops and blocks that it takes."""
    bases = [v.name_hint or "l" for v in op.operands if isinstance(v.type, sched.LoopType)]
    base = bases[0] if bases else "l"
    if isinstance(op, sched.SplitOp | sched.TileOp):
        parts = [f"{b}_o" for b in bases] + [f"{b}_i" for b in bases]
        return parts if len(parts) == len(op.results) else [f"{base}{k}" for k in range(len(op.results))]
    if isinstance(op, sched.FuseOp):
        return ["_".join(bases)]
    if isinstance(op, sched.PeelOp):
        return [f"{base}_main", f"{base}_rest"]
    if isinstance(op, sched.BlockOp):
        return [identifier(op.block_name.data)]
    if isinstance(op, sched.KnobOp):
        return [identifier(op.knob.data)]
    if isinstance(op, sched.LoopsOp):
        return _loop_names(kernel, op)
    if isinstance(op, sched.DecomposeReductionOp):
        name = op.block.name_hint or "block"
        return [f"{name}_init", f"{name}_update"]
    return [identifier(op.name.removeprefix("sched.")) for _ in op.results]


def _loop_names(kernel: Kernel, op: sched.LoopsOp) -> list[str | None]:
    """The names of the loops that `sched.loops` finds."""
    from mlc.dialects import loop
    from mlc.passes.loop.index_space.domain import loops_around

    block = kernel.handles.get(op.block)
    found = loops_around(block)[-len(op.loops) :] if isinstance(block, loop.BlockOp) else []
    names = [f.iv.name_hint for f in found]
    return [*names, *[None] * len(op.loops)][: len(op.loops)]


def identifier(name: str) -> str:
    """A name of a handle that is like the name of a block."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    return found if _NAME.fullmatch(found) else f"b{found}"
