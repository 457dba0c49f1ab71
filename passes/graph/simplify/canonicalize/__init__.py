"""graph-canonicalize: one form for each of several equivalent ones; chains of movements and casts collapse."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from mlc.dialects.graph import (
    OPS,
    AvgPool2dOp,
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
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import splat
from mlc.passes.graph.simplify.canonicalize.concat import CONCATS
from mlc.passes.graph.simplify.canonicalize.moves import MOVES
from mlc.passes.graph.simplify.canonicalize.shuffle import SHUFFLES
from mlc.passes.graph.simplify.canonicalize.sink import SINKS
from mlc.passes.graph.simplify.canonicalize.tokens import TOKENS
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op

DIALECT = Rules()
"""The dialect's own folds and canonicalization patterns."""
LOCAL = Rules()


@LOCAL.on(MaximumOp)
def relu_from_maximum(op: MaximumOp, rw: Rewriter) -> Replacement:
    """`graph.maximum %x, 0 -> graph.relu %x`."""
    for x, y in (op.operands, op.operands[::-1]):
        if splat(y) == 0.0 and x.type == op.type:
            return rw.make(ReluOp, x)
    return None


@LOCAL.on(MaximumOp, MinimumOp)
def infinite_bound(op: MaximumOp | MinimumOp, rw: Rewriter) -> Replacement:
    """`graph.maximum %x, -inf -> %x`, `graph.minimum %x, inf -> %x`."""
    bound = -math.inf if isinstance(op, MaximumOp) else math.inf
    for x, y in (op.operands, op.operands[::-1]):
        if x.type == op.type and splat(y) == bound:
            return x
    return None


@LOCAL.on(ClipOp)
def relu_from_clip(op: ClipOp, rw: Rewriter) -> Replacement:
    """`graph.clip %x {min = 0, max = inf} -> graph.relu %x`."""
    if op.min == 0.0 and op.max == math.inf:
        return rw.make(ReluOp, op.operands[0])
    return op.operands[0] if op.min == -math.inf and op.max == math.inf else None


@LOCAL.on(ReluOp)
def relu_of_clip(op: ReluOp, rw: Rewriter) -> Replacement:
    """`graph.relu (graph.clip %x {min = a}) -> graph.clip %x` where a >= 0."""
    clip = defining_op(op.operands[0], ClipOp)
    return op.operands[0] if clip is not None and clip.min >= 0 else None


@LOCAL.on(Conv2dOp, AvgPool2dOp, MaxPool2dOp)
def pad_into_window(op: Conv2dOp | AvgPool2dOp | MaxPool2dOp, rw: Rewriter) -> Replacement:
    """`conv2d(pad(x, v)) -> conv2d(x)` with v as its own padding's value; pools where padding cannot win."""
    pad = defining_op(op.operands[0], PadOp)
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
    return rw.clone(op, pad.operands[0], *op.operands[1:], padding=padding)


def _may_pad(op: Conv2dOp | AvgPool2dOp | MaxPool2dOp, pad: PadOp) -> bool:
    """Whether the value that `pad` adds is the one with which the window op pads by itself."""
    if isinstance(op, Conv2dOp):
        return pad.value == op.pad_value
    if isinstance(op, MaxPool2dOp):
        lowest = -math.inf if is_float(op.type) else None
        from_relu = isinstance(pad.operands[0].owner, ReluOp) and pad.value == 0.0 and not any(op.padding)
        return (pad.value == lowest or from_relu) and not op.ceil_mode
    return pad.value == 0.0 and not op.ceil_mode and op.count_include_pad


@DIALECT.on(*(cls for cls in OPS.values() if cls.fold is not GraphOp.fold))
def fold(op: GraphOp, rw: Rewriter) -> Replacement:
    """The op's own `fold`, which gives an operand that already is the result: `reshape(x : t) : t -> x`."""
    return op.fold()


@DIALECT.on(*PATTERNS)
def dialect_pattern(op: Operation, rw: Rewriter) -> Replacement:
    """The xDSL patterns that the dialect declares for this op class."""
    recorder = _Recorder(op, rw)
    for pattern in PATTERNS[type(op)]:
        pattern.match_and_rewrite(op, recorder)
        if recorder.values is not None:
            return recorder.values
    return None


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
        """Note the values that replace the op."""
        made = [new_ops] if isinstance(new_ops, Operation) else list(new_ops)
        for new in made:
            assert isinstance(new, GraphOp)
            self.rw.insert(new)
        results = made[-1].results if new_results is None else new_results
        self.values = [value for value in results if value is not None]


RULES = Rules(DIALECT, MOVES, CONCATS, SHUFFLES, TOKENS, SINKS, LOCAL)


class CanonicalizePass(ModulePass):
    """
    Collapse chains of reshapes, transposes, layouts and casts, drop ops without effect, and remove dead code.

    `%1 = graph.reshape %0; %2 = graph.reshape %1  ->  %2 = graph.reshape %0`
    """

    name = "graph-canonicalize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        eliminate_dead_code(op)
        apply_rules(op, RULES)
        eliminate_dead_code(op)
