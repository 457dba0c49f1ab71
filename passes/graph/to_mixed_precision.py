"""
graph-to-mixed-precision: contractions multiply narrow floats and add in f32; what lies between them is stored narrow.

    always    convolutions and dense layers by weights, where pairs of channels fill words: narrow operands, f32 sums
    move      reshapes, transposes, concatenations, slices, maximum pools: narrow where what they read is narrow
    follow    elementwise ops, reductions, softmax, norms: f32, of operands read narrow where they are stored so
    never     all else: f32

A value that a contraction reads is rounded where it is computed, so the cast is part of the producer's kernel, and
its other readers widen what was stored. With `f16` only weights are narrow: they are widened as they are read.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnknownLoc, f32, f64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    CastOp,
    ConcatenateOp,
    Conv2dOp,
    DenseOp,
    GraphOp,
    MaxPool2dOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    shape_of,
)
from mlc.dialects.graph.base import BROADCAST, REDUCTION
from mlc.dialects.graph.types import element_type
from mlc.passes.graph.alter_op_layout.blocks import channel_block
from mlc.passes.graph.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.fuse_ops.mlc_rules import ROWS
from mlc.passes.graph.shared.constants import element_of, is_constant, is_static
from mlc.passes.rewriting import attributes, functions, outer_blocks
from mlc.support.errors import fail
from mlc.targets.cost.thresholds import FEW_USES

ALWAYS = (Conv2dOp, DenseOp)
MOVES = (ReshapeOp, TransposeOp, ConcatenateOp, SliceOp)
PRECISIONS = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
"""The name of a precision -> numpy's name of the narrow type."""
ROUNDOFF = {"bf16": 2.0**-9, "f16": 2.0**-12}
"""The greatest relative error of one rounding."""
ERROR = "mlc.relative_error"
"""The module's attribute that says how far results may be off: independent roundings add up as a root of squares."""


def multiplies_words(op: Operation, lanes: int = 16) -> bool:
    """
    Whether a contraction by weights sums channels of which pairs fill words, with results that fill vectors.

    Where a block of results fills half a vector, f32 gains as much: there two pixels share one, or Winograd's tiles do.
    """
    if not isinstance(op, ALWAYS) or op.out_dtype or op.type.element_type != f32 or not is_constant(op.operands[1]):
        return False
    if isinstance(op, Conv2dOp):
        outputs, inputs = shape_of(op.operands[1].type)[:2]
        if isinstance(outputs, int) and outputs > lanes and channel_block(outputs, lanes) < lanes:
            return False
        words = isinstance(inputs, int) and inputs > 1 and (inputs % 2 == 0 or op.groups == 1)  # 3 are padded to 4
        return words and op.data_layout == "NCHW" and op.kernel_layout == "OIHW"
    inputs = shape_of(op.operands[1].type)[-1]
    return op.kernel_layout == "OI" and isinstance(inputs, int) and inputs % 2 == 0


def narrows_weight(op: Operation) -> bool:
    """Whether a contraction uses each weight so seldom that reading it costs more than widening it."""
    if not isinstance(op, ALWAYS) or op.out_dtype or op.type.element_type != f32 or not is_constant(op.operands[1]):
        return False
    sizes = shape_of(op.type)
    uses = tuple(n for k, n in enumerate(sizes) if k != (1 if isinstance(op, Conv2dOp) else len(sizes) - 1))
    return is_static(uses) and prod(uses) <= FEW_USES


def follows(op: Operation) -> bool:
    """Whether an op takes a cast of what it reads into its own kernel."""
    return isinstance(op, GraphOp) and (op.kind <= BROADCAST or op.kind == REDUCTION or isinstance(op, ROWS))


class Narrowing:
    """The narrow versions of the values of one block."""

    def __init__(self, block: Block, element: Attribute, lanes: int = 16) -> None:
        self.block, self.element, self.lanes = block, element, lanes
        self.of: dict[SSAValue, SSAValue] = {}
        self.casts: set[Operation] = set()

    def run(self) -> None:
        """Contractions first, then the other readers of what they made narrow."""
        for op in list(self.block.ops):
            if multiplies_words(op, self.lanes):
                self.contraction(op, [self.narrow(v) for v in op.operands])
        for op in list(self.block.ops):
            if isinstance(op, MaxPool2dOp | ConcatenateOp) and all(v in self.of for v in op.operands):
                self.narrow(op.results[0])
        for value, narrow in list(self.of.items()):
            self.reroute(value, narrow)

    def contraction(self, op: Any, operands: list[SSAValue]) -> None:
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
            result = {"result": _with_element(value.type, self.element)} if owner.result_given else {}
            new = type(owner).make(*operands, location=owner.location, **attributes(owner), **result)
            return self._after(value, new)
        cast = CastOp.make(value, dtype=self.element)
        self.casts.add(cast)
        return self._after(value, cast)

    def _after(self, value: SSAValue, op: GraphOp) -> SSAValue:
        """Insert an op behind the value that it stands for."""
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
        """Readers that can take a cast in read the narrow version."""
        if is_constant(value):
            return
        for use in list(value.uses):
            op = use.operation
            if op in self.casts or not follows(op) or op.parent is not self.block:
                continue
            wide = CastOp.make(narrow, dtype="float32", location=op.location)
            self.block.insert_op_before(wide, op)
            op.operands[use.index] = wide.results[0]


def _with_element(type: Any, element: Attribute) -> Any:
    from mlc.dialects.graph import tensor

    return tensor(shape_of(type), element)


@dataclass(frozen=True)
class ToMixedPrecisionPass(ModulePass):
    """
    `graph.conv2d %x, %w : f32` -> `graph.conv2d (graph.cast %x), (graph.cast %w) {out_dtype = "float32"}` of bf16.

    `precision` is f32 (nothing changes), bf16 (contractions multiply bf16; what they read is stored so) or f16
    (weights that are used seldom are stored as f16). Run it in front of graph-alter-op-layout. The module's attribute
    `mlc.relative_error` estimates the relative error of the results (root mean square).
    """

    name = "graph-to-mixed-precision"

    precision: str = "f32"
    vector_bits: int = 512

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        if self.precision not in PRECISIONS:
            fail(op, f"expected a precision of {', '.join(PRECISIONS)}, but got '{self.precision}'")
        if self.precision == "f32":
            return
        element = element_type(PRECISIONS[self.precision])
        for function in functions(op):
            for block in outer_blocks(function):
                if self.precision == "f16":
                    narrow_weights(block, element)
                else:
                    Narrowing(block, element, self.vector_bits // 32).run()
        eliminate_dead_code(op)
        depth = max((narrow_depth(b) for function in functions(op) for b in outer_blocks(function)), default=0)
        op.attributes[ERROR] = FloatAttr(ROUNDOFF[self.precision] * sqrt(depth), f64)


def narrow_depth(block: Block) -> int:
    """The narrow operands of contractions on the longest way through a block: each adds a rounding of its own."""
    depth: dict[SSAValue, int] = {}
    for op in block.ops:
        own = 0
        if isinstance(op, ALWAYS) and op.out_dtype:
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
