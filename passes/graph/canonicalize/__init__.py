"""graph-canonicalize: one form for what can be written in several; chains of movements and casts collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from mlc.dialects.graph import (
    OPS,
    AvgPool2dOp,
    BinaryOp,
    ClipOp,
    Conv2dOp,
    GraphOp,
    MaximumOp,
    MaxPool2dOp,
    MinimumOp,
    PadOp,
    ReluOp,
)
from mlc.dialects.graph.canonicalize import PATTERNS
from mlc.dialects.graph.types import is_float
from mlc.passes.graph.canonicalize.concat import CONCATS
from mlc.passes.graph.canonicalize.moves import MOVES, broadcast_operand
from mlc.passes.graph.canonicalize.shuffle import SHUFFLES
from mlc.passes.graph.canonicalize.sink import SINKS
from mlc.passes.graph.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import splat
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, merged, producer, rules_table

LOCAL, on = rules_table()


@on(MaximumOp)
def relu_from_maximum(op: Any, rw: Rewriter) -> Replacement:
    """`graph.maximum %x, 0 -> graph.relu %x`."""
    for x, y in (op.operands, op.operands[::-1]):
        if splat(y) == 0.0 and x.type == op.type:
            return rw.make(ReluOp, x)
    return None


@on(MaximumOp, MinimumOp)
def bound_of_none(op: Any, rw: Rewriter) -> Replacement:
    """`graph.maximum %x, -inf -> %x`, `graph.minimum %x, inf -> %x`."""
    bound = -math.inf if isinstance(op, MaximumOp) else math.inf
    for x, y in (op.operands, op.operands[::-1]):
        if x.type == op.type and splat(y) == bound:
            return x
    return None


@on(ClipOp)
def relu_from_clip(op: Any, rw: Rewriter) -> Replacement:
    """`graph.clip %x {min = 0, max = inf} -> graph.relu %x`."""
    if op.min == 0.0 and op.max == math.inf:
        return rw.make(ReluOp, op.operands[0])
    return op.operands[0] if op.min == -math.inf and op.max == math.inf else None


@on(ReluOp)
def relu_of_clip(op: Any, rw: Rewriter) -> Replacement:
    """`graph.relu (graph.clip %x {min = a}) -> graph.clip %x` where a >= 0."""
    clip = producer(op.operands[0], ClipOp)
    return op.operands[0] if clip is not None and clip.min >= 0 else None


@on(Conv2dOp, AvgPool2dOp, MaxPool2dOp)
def pad_into_window(op: Any, rw: Rewriter) -> Replacement:
    """`conv2d(pad(x, 0)) -> conv2d(x)` with the padding as an attribute; pools where padding cannot win."""
    pad = producer(op.operands[0], PadOp)
    name = op.data_layout if isinstance(op, Conv2dOp) else op.layout
    if pad is None or pad.mode != "constant" or name != "NCHW" or any(pad.pad_width[:4]):
        return None
    if not _may_pad(op, pad):
        return None
    widths = pad.pad_width[4], pad.pad_width[6], pad.pad_width[5], pad.pad_width[7]
    padding = tuple(a + b for a, b in zip(op.padding, widths, strict=True))
    if not isinstance(op, Conv2dOp):
        reach = [(size - 1) * step + 1 for size, step in zip(op.pool_size, op.dilation, strict=True)]
        if any(padding[i] >= reach[i % 2] for i in range(4)):
            return None
    return rw.again(op, pad.operands[0], *op.operands[1:], padding=padding)


def _may_pad(op: Any, pad: Any) -> bool:
    if isinstance(op, Conv2dOp):
        return pad.value == 0.0
    if isinstance(op, MaxPool2dOp):
        lowest = -math.inf if is_float(op.type) else None
        from_relu = isinstance(pad.operands[0].owner, ReluOp) and pad.value == 0.0 and not any(op.padding)
        return (pad.value == lowest or from_relu) and not op.ceil_mode
    return pad.value == 0.0 and not op.ceil_mode and op.count_include_pad


def from_dialect(op: Any, rw: Rewriter) -> Replacement:
    """The op's own `fold`: what leaves an operand as it is."""
    return op.fold()


def _pattern_rule(cls: type[Operation]) -> Any:
    patterns = PATTERNS[cls]

    def rule(op: GraphOp, rw: Rewriter) -> Replacement:
        """The dialect's own pattern for this op."""
        recorder = _Recorder(op, rw)
        for pattern in patterns:
            pattern.match_and_rewrite(op, recorder)
            if recorder.values is not None:
                return recorder.values
        return None

    return rule


class _Recorder(PatternRewriter):
    """A PatternRewriter that hands the replacement to the worklist instead of making it itself."""

    def __init__(self, op: Operation, rw: Rewriter):
        super().__init__(op)
        self.rw = rw
        self.values: list[SSAValue] | None = None

    def replace(
        self,
        op: Operation,
        new_ops: Operation | Sequence[Operation],
        new_results: Sequence[SSAValue | None] | None = None,
        safe_erase: bool = True,
    ) -> None:
        """Note what replaces the op."""
        made = [new_ops] if isinstance(new_ops, Operation) else list(new_ops)
        for new in made:
            assert isinstance(new, GraphOp)
            self.rw.insert(new)
        results = made[-1].results if new_results is None else new_results
        self.values = [value for value in results if value is not None]


RULES: Rules = merged(
    {cls: [from_dialect] for cls in OPS.values() if cls.fold is not GraphOp.fold},
    {cls: [_pattern_rule(cls)] for cls in PATTERNS},
    {cls: [broadcast_operand] for cls in OPS.values() if issubclass(cls, BinaryOp)},
    MOVES,
    CONCATS,
    SHUFFLES,
    SINKS,
    LOCAL,
)


@dataclass(frozen=True)
class CanonicalizePass(ModulePass):
    """
    Collapse chains of reshapes, transposes, layouts and casts, drop what does nothing, and remove dead code.

    `%1 = graph.reshape %0; %2 = graph.reshape %1  ->  %2 = graph.reshape %0`
    """

    name = "graph-canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        eliminate_dead_code(op)
        apply_rules(op, RULES)
        eliminate_dead_code(op)
