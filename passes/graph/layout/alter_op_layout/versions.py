"""
The versions of each value in several layouts, while layouts change; missing versions are made by transforms.

A value's first version is its native one, in which its op computes it. Values are identified by the old value, whose
type holds the logical sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.graph import Conv2dOp, LayoutTransformOp, ReshapeOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.types import Dim, Tensor, product, tensor, tensor_type
from mlc.passes.graph.layout.alter_op_layout.records import BlocksOnRecord
from mlc.passes.graph.shared.blocks import channel_block, in_halves, words
from mlc.passes.graph.shared.constants import element_of
from mlc.passes.rewriting import Rewriter
from mlc.targets.cost.thresholds import MATRIX_LEAST_ROWS
from mlc.targets.matrix import MATRIX_ROW, WORD_BYTES, multiplies_matrices
from mlc.targets.target import Target

PLAIN = "NCHW"


def is_planar(name: str) -> bool:
    """Whether a layout is a view of the plain one, with the channels of a group as an axis: `NC4cHW`."""
    return name != PLAIN and name.endswith("HW")


class Versions(Rewriter):
    """Old value -> {layout: new value}; a plain value of any rank has the layout NCHW."""

    def __init__(self, recorded: BlocksOnRecord, target: Target, threads: int, growth: float) -> None:
        super().__init__()
        self.target = target
        self.threads = threads
        self.growth = growth
        """By how much fast algorithms of convolutions may enlarge the rounding error."""
        self.recorded = recorded
        """The blocks that records hold for the ops that are converted."""
        self.of: dict[SSAValue, dict[str, SSAValue]] = {}

    def channel_block(self, size: int, block: int) -> int:
        """The block for `size` channels on the target, as `channel_block` of shared/blocks.py computes it."""
        return channel_block(size, block, in_halves(block, self.target))

    @property
    def widest_block(self) -> int:
        """The most channels in a block that `matrix_block` gives on the target: 64; 0 without a matrix unit."""
        return max((n for element, n in MATRIX_ROW.items() if multiplies_matrices(element, self.target)), default=0)

    def matrix_block(self, op: Conv2dOp, block: int) -> int:
        """
        The channels that fill a row of a matrix register, where the target multiplies an op's factors in a matrix unit.

        Fewer take as long. `block` for other ops.
        """
        x, w = op.operands
        word, width = words(x, w, 0), shape_of(op.type)[3]
        element = "i8" if word == WORD_BYTES else str(element_of(x))
        fills = isinstance(width, int) and width >= MATRIX_LEAST_ROWS
        return MATRIX_ROW[element] if word > 1 and fills and multiplies_matrices(element, self.target) else block

    def native(self, value: SSAValue) -> str:
        """The layout in which a value is computed, with the plain layout in place of its views."""
        name = self.computed(value)
        return PLAIN if is_planar(name) else name

    def computed(self, value: SSAValue) -> str:
        """The layout in which a value is computed, a view of the plain one included."""
        versions = self.of.get(value)
        return next(iter(versions)) if versions else PLAIN

    def channels_padded(self, value: SSAValue) -> bool:
        """Whether the native version has more channels than the value."""
        order = layout(self.native(value))
        return not order.is_plain and order.padded("C", shape_of(value.type)[1]) != shape_of(value.type)[1]

    def set(self, value: SSAValue, name: str, new: SSAValue) -> None:
        """Record a version of a value."""
        self.of.setdefault(value, {})[name] = new

    def get(self, value: SSAValue, name: str) -> SSAValue:
        """The version of a value in a layout; a missing one is made before the op that is being converted."""
        versions = self.of.setdefault(value, {PLAIN: value})
        if name not in versions:
            source = PLAIN if PLAIN in versions else next(iter(versions))
            if source != PLAIN and name != PLAIN and (is_planar(source) or is_planar(name)):
                self.get(value, PLAIN)
                source = PLAIN
            type = self.blocked_type(value, name)
            if is_planar(source) or is_planar(name):
                versions[name] = self.make(ReshapeOp, versions[source], result=type)
            else:
                versions[name] = self.make(LayoutTransformOp, versions[source], src=source, dst=name, result=type)
        return versions[name]

    def blocked_type(self, value: SSAValue, name: str) -> Tensor:
        """The type of a value in a layout."""
        if name == PLAIN:
            return tensor_type(value.type)
        sizes = dict(zip(PLAIN, shape_of(value.type), strict=True))
        return tensor(layout(name).shape(sizes), element_of(value))

    def broadcast(self, value: SSAValue, name: str, channels: Dim) -> SSAValue | None:
        """A value that broadcasts to a picture of rank 4, in a shape that does so in layout `name`."""
        shape = shape_of(value.type)
        if product(shape) == 1:
            plain = self.get(value, PLAIN)
            return plain if len(shape) < 5 else None
        if len(shape) > 4:
            return None
        full = (*(1,) * (4 - len(shape)), *shape)
        if full[1] == channels:
            if len(shape) == 4:
                return self.get(value, name)
            return self.reshaped_version(value, full, name)
        if full[1] != 1:
            return None
        ones = (1,) * (len(layout(name).parts) - 4)
        at = 2 if is_planar(name) else 4
        return self.make(ReshapeOp, self.get(value, PLAIN), shape=(*full[:at], *ones, *full[at:]))

    def reshaped_version(self, value: SSAValue, shape: Sequence[Dim], name: str) -> SSAValue:
        """The value with a shape of rank 4, in a layout."""
        picture = self.make(ReshapeOp, self.get(value, PLAIN), shape=tuple(shape))
        return self.get(picture, name)
