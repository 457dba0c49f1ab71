"""
graph-to-mixed-precision: contractions multiply narrow floats and add in f32; values between them are stored narrow.

    always    convolutions and dense layers by weights, if pairs of channels fill words: narrow operands, f32 sums
    move      reshapes, transposes, concatenations, slices, maximum pools: narrow if their operands are narrow
    follow    elementwise ops, reductions, softmax, norms: compute in f32; operands that are stored narrow are widened
    never     other ops: f32

A value that a contraction reads is rounded where it is computed, so that the cast fuses with its producer; its other
readers widen the stored value. With `f16`, and with `bf16` for a target that has no instruction for its products, only
weights are narrow, and are widened when they are read. Where vectors multiply bf16 no faster than f32 and a matrix unit
does, contractions that do not fill it keep f32, unless they use their weights a few times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import TypeGuard

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnknownLoc, f32, f64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    GraphOp,
    MaxPool2dOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    shape_of,
    tensor,
)
from mlc.dialects.graph.base import BROADCAST, REDUCTION
from mlc.dialects.graph.expressions import Dim
from mlc.dialects.graph.types import Tensor, element_type
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.fusion.fuse_ops.mlc_rules import ROWS
from mlc.passes.graph.precision.narrow_products import (
    DOT_PRODUCTS,
    Contraction,
    is_faster_narrow,
    multiplies_narrow,
)
from mlc.passes.graph.select_algorithm.shapes import is_slower_narrow
from mlc.passes.graph.shared.blocks import channel_block, groups_in_block
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import attributes, functions, outer_blocks
from mlc.support.errors import fail
from mlc.targets.cost.thresholds import FEW_USES
from mlc.targets.target import Target

MOVES = (ReshapeOp, TransposeOp, ConcatenateOp, SliceOp)
PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
"""The name of a precision -> numpy's name of the narrow type."""
ROUNDOFF = {"bf16": 2.0**-9, "f16": 2.0**-12}
"""The greatest relative error of one rounding."""
ERROR = "mlc.relative_error"
"""The module's attribute for the expected relative error: independent roundings add up as a root of squares."""


def _multiplies_f32(op: Operation) -> TypeGuard[Contraction]:
    """Whether an op is a contraction of f32 by constant weights."""
    plain = isinstance(op, Contraction) and not op.out_dtype and op.type.element_type == f32
    return plain and is_constant(op.operands[1])


def multiplies_words(op: Operation, lanes: int = 16) -> TypeGuard[Contraction]:
    """
    Whether pairs of a contraction's input channels fill words, and its output channels fill vectors.

    If a block of output channels fills half a vector, f32 kernels that put two pixels, or two of Winograd's tiles, in
    one vector are as fast.
    """
    if not _multiplies_f32(op):
        return False
    if isinstance(op, Conv2dOp):
        outputs, inputs = shape_of(op.operands[1].type)[:2]
        if isinstance(outputs, int) and outputs > lanes and channel_block(outputs, lanes) < lanes:
            return False
        if not isinstance(inputs, int) or inputs < 2:
            return False
        words = op.groups == 1 or _groups_have_words(outputs, inputs, op.groups, lanes)  # 3 channels are padded to 4
        return words and op.data_layout == "NCHW" and op.kernel_layout == "OIHW"
    inputs = shape_of(op.operands[1].type)[-1]
    return op.kernel_layout == "OI" and isinstance(inputs, int) and inputs % 2 == 0


def _groups_have_words(outputs: Dim, inputs: int, groups: int, lanes: int) -> bool:
    """Whether each group has blocks of channels of its own, of whole words: `graph-alter-op-layout`."""
    if not isinstance(outputs, int) or groups_in_block(inputs, outputs // groups, groups, lanes) > 1:
        return False
    return inputs % 2 == 0


def narrows_weight(op: Operation) -> TypeGuard[Contraction]:
    """Whether a contraction uses each weight so few times that reading it costs more than widening it."""
    if not _multiplies_f32(op):
        return False
    sizes = shape_of(op.type)
    uses = tuple(n for k, n in enumerate(sizes) if k != (1 if isinstance(op, Conv2dOp) else len(sizes) - 1))
    return is_static(uses) and prod(uses) <= FEW_USES


def follows(op: Operation) -> bool:
    """Whether a cast of an operand fuses with an op."""
    return isinstance(op, GraphOp) and (op.kind <= BROADCAST or op.kind == REDUCTION or isinstance(op, ROWS))


class Narrowing:
    """The narrow versions of the values of one block."""

    def __init__(
        self, block: Block, element: Attribute, lanes: int = 16, stays_wide: Callable[[Contraction], bool] | None = None
    ) -> None:
        self.block, self.element, self.lanes, self.stays_wide = block, element, lanes, stays_wide
        self.of: dict[SSAValue, SSAValue] = {}
        self.casts: set[Operation] = set()

    def run(self) -> None:
        """Narrow the operands of contractions, then let other readers of these values read the narrow ones."""
        for op in list(self.block.ops):
            if multiplies_words(op, self.lanes) and not (self.stays_wide is not None and self.stays_wide(op)):
                self.contraction(op, [self.narrow(v) for v in op.operands])
        for op in list(self.block.ops):
            if isinstance(op, MaxPool2dOp | ConcatenateOp) and all(v in self.of for v in op.operands):
                self.narrow(op.results[0])
        for value, narrow in list(self.of.items()):
            self.reroute(value, narrow)

    def contraction(self, op: Contraction, operands: list[SSAValue]) -> None:
        """`conv2d %x, %w : f32` -> `conv2d (cast %x), (cast %w) {out_dtype = "float32"}`."""
        for k, v in enumerate(operands):
            op.operands[k] = v
        op.out_dtype = "float32"

    def narrow(self, value: SSAValue) -> SSAValue:
        """The narrow version of a value, made where the value is computed."""
        known = self.of.get(value)
        if known is None:
            known = self.of[value] = self._make(value)
        return known

    def _make(self, value: SSAValue) -> SSAValue:
        owner = value.owner
        if isinstance(owner, CastOp) and element_of(owner.operands[0]) == self.element:
            return owner.operands[0]
        if isinstance(owner, MOVES) or (isinstance(owner, MaxPool2dOp) and owner.operands[0] in self.of):
            operands = [self.narrow(v) for v in owner.operands]
            result = tensor(shape_of(value.type), self.element) if owner.result_given else None
            return self._after(value, _rebuilt(owner, operands, result))
        cast = CastOp.make(value, dtype=self.element)
        self.casts.add(cast)
        return self._after(value, cast)

    def _after(self, value: SSAValue, op: GraphOp) -> SSAValue:
        """Insert an op behind the value that it is the narrow version of."""
        owner = value.owner
        if isinstance(owner, Operation):
            if isinstance(op.location, UnknownLoc):
                op.location = owner.location
            self.block.insert_op_after(op, owner)
        else:
            first = self.block.first_op
            assert first is not None
            self.block.insert_op_before(op, first)
        return op.results[0]

    def reroute(self, value: SSAValue, narrow: SSAValue) -> None:
        """Let readers that fuse with a cast read the narrow version."""
        if is_constant(value):
            return
        for use in list(value.uses):
            op = use.operation
            if op in self.casts or not follows(op) or op.parent is not self.block:
                continue
            wide = CastOp.make(narrow, dtype="float32", location=op.location)
            self.block.insert_op_before(wide, op)
            op.operands[use.index] = wide.results[0]


def _rebuilt(op: GraphOp, operands: Sequence[SSAValue], result: Tensor | None) -> GraphOp:
    """The same op on other operands, with this result type if its type is given."""
    return op.make(*operands, result=result, location=op.location, **attributes(op))


@dataclass(frozen=True)
class ToMixedPrecisionPass(ModulePass):
    """
    `graph.conv2d %x, %w : f32` -> `graph.conv2d (graph.cast %x), (graph.cast %w) {out_dtype = "float32"}` of bf16.

    `precision` is f32 (no change), bf16 (contractions multiply bf16, and their operands are stored as bf16) or f16
    (weights of few uses are stored as f16). bf16 does for a `target` without an instruction for its products what f16
    does: words that are taken apart take longer than f32. Convolutions that are faster by Winograd's transforms in f32
    than as direct sums in bf16 on `target` keep f32; `error-growth` is the transforms' accuracy budget, as in
    graph-select-algorithm. Run it before graph-alter-op-layout. The module's attribute `mlc.relative_error` is the
    estimated relative error of the results (root mean square).
    """

    name = "graph-to-mixed-precision"

    precision: str = "f32"
    vector_bits: int = 512
    target: str = ""
    threads: int = 1
    error_growth: float = 16.0

    @property
    def error_budget(self) -> float:
        """The part of its largest element by which a result may move under validation: roundings to bf16 (0.004)."""
        return 0.0 if self.precision == "f32" else 0.1

    @property
    def multiplies(self) -> bool:
        """Whether factors are narrow, and not weights alone: `target` (none: any) has an instruction for them."""
        if not self.target:
            return self.precision in DOT_PRODUCTS
        return multiplies_narrow(self.precision, Target.parse(self.target))

    def _stays_wide(self) -> Callable[[Contraction], bool] | None:
        """Tells of a contraction whether the target computes it faster in f32, perhaps by Winograd's transforms."""
        if not self.target:
            return None
        target = Target.parse(self.target)

        def stays_wide(op: Contraction) -> bool:
            if not narrows_weight(op) and not is_faster_narrow(op, self.precision, target):
                return True
            return isinstance(op, Conv2dOp) and is_slower_narrow(op, target, self.threads, self.error_growth)

        return stays_wide

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.precision not in PRECISIONS:
            fail(op, f"expected a precision of {', '.join(PRECISIONS)}, but got '{self.precision}'")
        if self.precision == "f32":
            return
        element = element_type(PRECISIONS[self.precision])
        for function in functions(op):
            for block in outer_blocks(function):
                if not self.multiplies:
                    narrow_weights(block, element)
                else:
                    Narrowing(block, element, self.vector_bits // 32, self._stays_wide()).run()
        eliminate_dead_code(op)
        depth = max((narrow_depth(b) for function in functions(op) for b in outer_blocks(function)), default=0)
        op.attributes[ERROR] = FloatAttr(ROUNDOFF[self.precision] * sqrt(depth), f64)


def narrow_depth(block: Block) -> int:
    """The largest number of narrow operands of contractions on a path through a block: each adds a rounding."""
    depth: dict[SSAValue, int] = {}
    for op in block.ops:
        own = 0
        if isinstance(op, Contraction) and op.out_dtype:
            own = sum(element_of(v) != f32 for v in op.operands)
        most = own + max((depth.get(v, 0) for v in op.operands), default=0)
        depth.update(dict.fromkeys(op.results, most))
    return max(depth.values(), default=0)


def narrow_weights(block: Block, element: Attribute) -> None:
    """`dense %x, %w : f32` -> `dense %x, (cast %w) {out_dtype = "float32"}`."""
    narrowing = Narrowing(block, element)
    for op in list(block.ops):
        if narrows_weight(op):
            x, w = op.operands
            narrowing.contraction(op, [x, narrowing.narrow(w)])
