"""
graph-merge-branches: convolutions of one picture whose results are added are one, of the sum of their weights.

    conv2d(x, v) + conv2d(x, w)   conv2d(x, v + w)   the smaller window lies within the larger one, of as many groups
    conv2d(x, w) + x * s          conv2d(x, w + s)   a factor for each channel is added on the diagonal of one tap
    conv2d(x, w) + x              conv2d(x, w + 1)

Biases are added. Networks are trained with
such branches, which exporters often leave as they are: RepVGG (Ding et al. 2021), MobileOne (Vasu et al. 2023); and
positions that a depthwise window adds to a picture are spelled `x + conv2d(x)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f32, f64, i1
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    AddOp,
    BandOp,
    BiasAddOp,
    ConcatenateOp,
    Conv2dOp,
    FullOp,
    MultiplyOp,
    ReshapeOp,
    SliceOp,
    WhereOp,
    shape_of,
)
from mlc.dialects.graph.types import axis_of, dtype_name, element_of, static_shape, tensor, tensor_type
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import constant_ops, is_static
from mlc.passes.rewriting import Replacement, Rewriter, Rules, apply_rules, defining_op

BRANCHES = Rules()
CHANNELS = 1
"""The axis of the channels in NCHW."""


@dataclass(frozen=True)
class AffineBranch:
    """
    `conv2d(x, w) + bias`; without a convolution `x * scale + bias`, and without a scale `x + bias`.

    Scale and bias have an element for each channel, in the shape in which they are used.
    """

    x: SSAValue
    conv: Conv2dOp | None = None
    scale: SSAValue | None = None
    bias: SSAValue | None = None

    @property
    def groups(self) -> int:
        """The groups of the channels."""
        return int(shape_of(self.x.type)[CHANNELS]) if self.conv is None else self.conv.groups

    @property
    def window(self) -> tuple[int, int]:
        """The rows and columns of the window."""
        if self.conv is None:
            return 1, 1
        *_, rows, columns = shape_of(self.conv.operands[1].type)
        return int(rows), int(columns)

    @property
    def strides(self) -> tuple[int, ...]:
        """The pixels from one window to the next."""
        return (1, 1) if self.conv is None else self.conv.strides

    @property
    def scales(self) -> bool:
        """Whether each channel is multiplied by a factor: also as a window of 1 x 1 in groups of one channel."""
        if self.conv is None:
            return True
        outputs, inputs, *window = static_shape(self.conv.operands[1].type)
        return outputs == self.groups and inputs == 1 and window == [1, 1]

    def weight(self, rw: Rewriter) -> SSAValue:
        """The kernel, OIHW."""
        if self.conv is not None:
            return self.conv.operands[1]
        shape = (self.groups, 1, 1, 1)
        if self.scale is not None:
            return rw.insert(ReshapeOp.make(self.scale, shape=shape))
        return rw.insert(FullOp.make(shape, 1.0, dtype_name(element_of(self.x))))


@BRANCHES.on(AddOp)
def sum_of_branches(op: AddOp, rw: Rewriter) -> Replacement:
    """`conv2d(x, v) + conv2d(x, w) -> conv2d(x, v + w)`."""
    left, right = op.operands
    if left.type != op.type or right.type != op.type or op.type.element_type not in (f32, f64):
        return None
    for outer, inner in ((left, right), (right, left)):
        wide = convolution(outer)
        narrow = None if wide is None else convolution(inner) or _scaled(inner, wide.x)
        if wide is None or narrow is None or wide.x is not narrow.x or (place := _place(wide, narrow)) is None:
            continue
        assert wide.conv is not None
        result = rw.clone(wide.conv, wide.x, _sum_of_weights(wide, narrow, place, rw))
        size = shape_of(op.type)[CHANNELS : CHANNELS + 1]
        biases = [rw.insert(ReshapeOp.make(b, shape=size)) for b in (wide.bias, narrow.bias) if b is not None]
        if not biases:
            return result
        bias = biases[0] if len(biases) == 1 else rw.make(AddOp, *biases)
        return rw.make(BiasAddOp, result, bias, axis=CHANNELS)
    return None


def convolution(value: SSAValue) -> AffineBranch | None:
    """The convolution by constant weights that a value is, which nothing else reads; None if it is none."""
    value, bias = _without_bias(value)
    conv = defining_op(value, Conv2dOp)
    if conv is None or not value.has_one_use() or conv.data_layout != "NCHW" or conv.kernel_layout != "OIHW":
        return None
    x, weight = conv.operands
    plain = not conv.channels and not conv.out_dtype and not conv.pad_value and is_static(shape_of(x.type)[1:2])
    return AffineBranch(x, conv, bias=bias) if plain and _is_weight(weight) else None


def _scaled(value: SSAValue, x: SSAValue) -> AffineBranch | None:
    """x itself, or x times a factor for each channel; None where a value is neither."""
    value, bias = _without_bias(value)
    if value is x:
        return AffineBranch(x, bias=bias)
    product = defining_op(value, MultiplyOp)
    if product is None or not value.has_one_use():
        return None
    for factor, other in (product.operands, product.operands[::-1]):
        if other is x and _is_by_channel(factor, value):
            return AffineBranch(x, scale=factor, bias=bias)
    return None


def _without_bias(value: SSAValue) -> tuple[SSAValue, SSAValue | None]:
    """What a constant of each channel is added to, and that constant."""
    op = value.owner
    if not value.has_one_use() or len(shape_of(value.type)) != 4:
        return value, None
    if isinstance(op, BiasAddOp) and axis_of(op.axis, 4) == CHANNELS and _is_weight(op.operands[1]):
        return op.operands[0], op.operands[1]
    if isinstance(op, AddOp):
        for bias, other in (op.operands, op.operands[::-1]):
            if other.type == value.type and _is_by_channel(bias, value):
                return other, bias
    return value, None


def _is_by_channel(value: SSAValue, like: SSAValue) -> bool:
    """Whether a value is a constant of one element for each channel."""
    shape = shape_of(value.type)
    return (1,) * (4 - len(shape)) + shape == (1, shape_of(like.type)[CHANNELS], 1, 1) and _is_weight(value)


def _is_weight(value: SSAValue) -> bool:
    """Whether a value is computed from constants, all of its own element type: none is widened from a narrower one."""
    ops = constant_ops(value)
    element = element_of(value)
    return ops is not None and all(element_of(op.results[0]) == element for op in ops if not isinstance(op, BandOp))


def _place(wide: AffineBranch, narrow: AffineBranch) -> tuple[int, int] | None:
    """The row and column of the wide window at which the narrow one begins; None where it is no part of it."""
    assert wide.conv is not None
    if wide.strides != narrow.strides or (narrow.groups != wide.groups and not narrow.scales):
        return None
    padding = (0, 0) if narrow.conv is None else narrow.conv.padding[:2]
    dilation = (1, 1) if narrow.conv is None else narrow.conv.dilation
    place: list[int] = []
    for k in range(2):
        step, taps = wide.conv.dilation[k], narrow.window[k]
        first, rest = divmod(wide.conv.padding[k] - padding[k], step)
        if rest or first < 0 or first + taps > wide.window[k] or (taps > 1 and dilation[k] != step):
            return None
        place.append(first)
    return place[0], place[1]


def _sum_of_weights(wide: AffineBranch, narrow: AffineBranch, place: tuple[int, int], rw: Rewriter) -> SSAValue:
    """
    The wide kernel, to whose taps at this place the narrow one is added.

    The other taps are slices of the wide kernel, and no kernel is padded: graph-fold-constant computes what is no
    larger than the weights that it is computed from.
    """
    assert wide.conv is not None
    weight = wide.conv.operands[1]
    (first, left), (rows, columns) = place, narrow.window
    middle = _cut(weight, 2, first, first + rows, rw)
    taps = _cut(middle, 3, left, left + columns, rw)
    summed = rw.make(AddOp, taps, narrow.weight(rw)) if narrow.groups == wide.groups else _on_diagonal(taps, narrow, rw)
    return _replaced(weight, 2, first, _replaced(middle, 3, left, summed, rw), rw)


def _on_diagonal(taps: SSAValue, narrow: AffineBranch, rw: Rewriter) -> SSAValue:
    """A kernel [O, I, 1, 1], to which the factors of the channels are added where output and input are the same one."""
    outputs, inputs, *_ = static_shape(taps.type)
    groups = outputs // inputs
    blocks = rw.insert(ReshapeOp.make(taps, shape=(groups, inputs, inputs)))
    factors = rw.insert(ReshapeOp.make(narrow.weight(rw), shape=(groups, inputs, 1)))
    own = rw.make(BandOp, result=tensor((inputs, inputs), i1), lower=0, upper=0, inside=1.0, outside=0.0)
    summed = rw.make(WhereOp, own, rw.make(AddOp, blocks, factors), blocks)
    return rw.insert(ReshapeOp.make(summed, result=tensor_type(taps.type)))


def _cut(x: SSAValue, axis: int, begin: int, end: int, rw: Rewriter) -> SSAValue:
    """The part of x along an axis; x itself where that is all of it."""
    shape = static_shape(x.type)
    if (begin, end) == (0, shape[axis]):
        return x
    begins = tuple(begin if k == axis else 0 for k in range(len(shape)))
    ends = tuple(end if k == axis else size for k, size in enumerate(shape))
    return rw.make(SliceOp, x, begin=begins, end=ends, strides=(1,) * len(shape))


def _replaced(x: SSAValue, axis: int, begin: int, part: SSAValue, rw: Rewriter) -> SSAValue:
    """x with another part along an axis."""
    size, end = static_shape(x.type)[axis], begin + static_shape(part.type)[axis]
    before = [_cut(x, axis, 0, begin, rw)] if begin else []
    after = [_cut(x, axis, end, size, rw)] if end < size else []
    return rw.make(ConcatenateOp, *before, part, *after, axis=axis) if before or after else part


class MergeBranchesPass(ModulePass):
    """
    Make one convolution of several, and of factors of the same picture, whose results are added.

    `%1 = graph.conv2d %x, %v; %2 = graph.conv2d %x, %w; %3 = graph.add %1, %2  ->  %3 = graph.conv2d %x, %v + %w`
    """

    name = "graph-merge-branches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        apply_rules(op, BRANCHES)
        eliminate_dead_code(op)
