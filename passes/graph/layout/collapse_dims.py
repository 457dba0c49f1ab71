"""
graph-collapse-dims: axes that every op of a kernel treats as one, such as rows and columns of a picture, become one.

In: fused regions and ops with axes of symbolic sizes, or 1x1 convolutions over blocked layouts (NCHW16c, NC4cHW). Out:
the same ops over axes of which one is 1 and the other the product, with reshapes, which are views, around them. A loop
over one long axis has one remainder instead of one in each row, and register tiles of any number of rows fit it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mlc.dialects.graph import Conv2dOp, FusedOp, GraphOp, ReshapeOp, shape_of
from mlc.dialects.graph.dims import Dim
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.ops.structure import SourceOp
from mlc.dialects.graph.types import Tensor, element_of, is_static, tensor, tensor_type
from mlc.passes.graph.fusion.fuse_ops import fuse
from mlc.passes.graph.layout.axis_labels import Labels, labels_of
from mlc.passes.rewriting import functions, outer_blocks


@dataclass(frozen=True)
class Pair:
    """Two axes of a value, `outer` < `inner`, with nothing but axes of size 1 between them."""

    outer: int
    inner: int

    def sizes(self, value: SSAValue) -> tuple[Dim, Dim]:
        """The sizes of the two axes."""
        shape = shape_of(value.type)
        return shape[self.outer], shape[self.inner]

    def collapsed(self, value: SSAValue) -> Tensor:
        """The type of a value whose outer axis has size 1, and the inner one the size of both."""
        shape = list(shape_of(value.type))
        shape[self.inner] = shape[self.outer] * shape[self.inner]
        shape[self.outer] = 1
        return tensor(shape, element_of(value))


Pairs = dict[SSAValue, Pair]
"""Each value of a kernel that has the two axes -> where they are; other values have neither."""


def neighbours(value: SSAValue) -> Iterator[Pair]:
    """The pairs of axes of a value, none of size 1."""
    shape = shape_of(value.type)
    long = [k for k, size in enumerate(shape) if size != 1]
    for outer, inner in pairwise(long):
        yield Pair(outer, inner)


def seeds(ops: Sequence[Operation]) -> Iterator[tuple[SSAValue, Pair]]:
    """The pairs of axes of a kernel's values that are worth collapsing."""
    for value in {v: None for op in ops for v in (*op.results, *op.operands)}:
        rank, conv = len(shape_of(value.type)), value.owner
        for pair in neighbours(value):
            outer, inner = pair.sizes(value)
            if not isinstance(inner, int):
                yield value, pair
            elif not isinstance(outer, int) and pair.inner < rank - 1:
                yield value, pair  # else lanes are along the inner one, whose size is known
            elif isinstance(conv, Conv2dOp) and not layout(conv.data_layout).is_plain:
                yield value, pair


def spread(ops: Sequence[Operation], start: SSAValue, pair: Pair) -> Pairs | None:
    """Where the two axes of one value are in all values of a kernel; None if an op tells them apart."""
    found: Pairs = {start: pair}
    while True:
        before = len(found)
        for op in ops:
            values = (*op.operands, *op.results)
            if not any(v in found for v in values):
                continue
            labels = labels_of(op)
            if labels is None or not _follow(values, (*labels.operands, *labels.results), found):
                return None
        if len(found) == before:
            return found


def _follow(values: Sequence[SSAValue], labels: Sequence[Labels], found: Pairs) -> bool:
    """Find the pair in all values of one op; whether they all have both axes, side by side, or neither."""
    known = {_labels_at(one, found[v]) for v, one in zip(values, labels, strict=True) if v in found}
    if len(known) != 1:
        return False
    ((outer, inner),) = known
    if outer is None or inner is None:
        return False
    for value, one in zip(values, labels, strict=True):
        if outer not in one and inner not in one:
            if value in found:
                return False
        elif outer not in one or inner not in one:
            return False
        else:
            pair = Pair(one.index(outer), one.index(inner))
            if pair not in neighbours(value) or found.setdefault(value, pair) != pair:
                return False
    return True


def _labels_at(labels: Labels, pair: Pair) -> tuple[int | str | None, int | str | None]:
    return labels[pair.outer], labels[pair.inner]


def collapsible(ops: Sequence[Operation]) -> Pairs | None:
    """The first two axes that ops have in common and that are worth being one."""
    if any(isinstance(op, SourceOp) and not is_static(shape_of(r.type)) for op in ops for r in op.results):
        return None
    return next((found for start in seeds(ops) if (found := spread(ops, *start)) is not None), None)


def collapse(fused: FusedOp, pairs: Mapping[SSAValue, Pair]) -> FusedOp:
    """A region with two axes of its values made one, in place of `fused`."""
    body = fused.body.block
    for value, pair in pairs.items():
        Rewriter.replace_value_with_new_type(value, pair.collapsed(value))
    last, block = body.last_op, fused.parent
    assert last is not None
    assert block is not None
    operands = [_reshaped(v, a.type, fused) for v, a in zip(fused.operands, body.args, strict=True)]
    new = FusedOp(operands, list(last.operand_types), fused.detach_region(fused.body), fused.label.data)
    new.properties, new.attributes, new.location = dict(fused.properties), dict(fused.attributes), fused.location
    block.insert_op_before(new, fused)
    for old, result in zip(fused.results, new.results, strict=True):
        back = _reshaped(result, old.type, fused)
        result.name_hint = back.name_hint = old.name_hint
        old.replace_all_uses_with(back)
    fused.detach()
    fused.erase()
    return new


def _reshaped(value: SSAValue, type_: Attribute, at: Operation) -> SSAValue:
    if value.type == type_:
        return value
    op = ReshapeOp.make(value, result=tensor_type(type_))
    op.location = at.location
    assert at.parent is not None
    at.parent.insert_op_before(op, at)
    return op.result


def _collapse_all(block: Block) -> None:
    for op in list(block.ops):
        kernel = isinstance(op, FusedOp | GraphOp) and not isinstance(op, ReshapeOp | SourceOp)
        ops = list(op.body.block.ops) if isinstance(op, FusedOp) else [op]
        if not kernel or (pairs := collapsible(ops)) is None:
            continue
        fused = op if isinstance(op, FusedOp) else fuse([op])
        while (pairs := collapsible(list(fused.body.block.ops))) is not None:
            fused = collapse(fused, pairs)


class CollapseDimsPass(ModulePass):
    """
    Collapse axes of symbolic sizes, or rows and columns of blocked layouts, that all ops of a kernel treat as one.

    `graph.fused (%a = %x : tensor<1x2x?x?x16xf32, [H, W]>) { graph.conv2d .. relu }`  ->
    `%r = graph.reshape %x; graph.fused (%a = %r : tensor<1x2x1x?x16xf32, [H * W]>) { .. }; graph.reshape`

    A 1x1 convolution and pointwise ops compute each point of the picture from the same point of their operands, a
    transpose moves both axes, and a sum over both is a sum over one.
    """

    name = "graph-collapse-dims"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for function in functions(op):
            for block in outer_blocks(function):
                _collapse_all(block)
