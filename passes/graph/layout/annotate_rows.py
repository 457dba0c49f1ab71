"""
graph-annotate-rows: choose the kernels that deal rows of pictures, and not channels, out to threads.

A convolution of a picture in blocks of channels deals out rows, since each thread needs all input channels. Depthwise
convolutions, pools, means and pointwise kernels can deal out rows or channels. Next to convolutions they should take
rows: then a thread reads what it wrote itself, and no cache line moves from one core to another. Next to layout
transforms, which deal out channels, they should take channels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from mlc.dialects.attributes import DEALS_ROWS, GRAPH_KERNEL
from mlc.dialects.graph import CallOp, ConcatenateOp, Conv2dOp, Conv2dWinogradOp, GraphOp, ReshapeOp, SliceOp, SplitOp
from mlc.dialects.graph.base import BROADCAST
from mlc.dialects.graph.ops.conv import PoolOp
from mlc.dialects.graph.ops.reduce import ReduceOp
from mlc.dialects.graph.types import is_static, shape_of
from mlc.passes.graph.shared.views import base_of
from mlc.targets.cost.windows import BLOCKED_PIXELS, BLOCKED_RANK, leaves_out_rows

LEAST_PIXELS = 16
"""Pixels that a picture has, at least, for its rows to be dealt out; the means of its channels, for example, have 1.
Not measured apart."""


class Role(Enum):
    """What a kernel may deal out to threads: rows, rows or channels, or something else."""

    ROWS = "rows"
    EITHER = "either"
    OTHER = "other"


@dataclass(frozen=True)
class AnnotateRowsPass(ModulePass):
    """
    Set `mlc.deals_rows` on the kernels whose threads are to take rows of pictures in all of their calls.

    `func.func private @depthwise(%a0: tensor<1x24x8x8x16xf32>, ...) attributes {graph.kernel}`
    ->  `... attributes {graph.kernel, mlc.deals_rows}`

    Kernels that may deal out either form groups, connected by the pictures that they pass to each other. A group takes
    rows if more elements pass between it and convolutions than between it and other kernels.
    """

    name = "graph-annotate-rows"
    threads: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.threads == 1:
            return
        for kernel in kernels_by_rows(op):
            kernel.attributes[DEALS_ROWS] = UnitAttr()


def kernels_by_rows(module: ModuleOp) -> list[FuncOp]:
    """The kernels whose threads are to take rows in each of their calls."""
    kernels = {
        f.sym_name.data: f for f in module.body.block.ops if isinstance(f, FuncOp) and GRAPH_KERNEL in f.attributes
    }
    roles = {name: role_of(kernel) for name, kernel in kernels.items()}
    calls = [call for call in module.walk() if isinstance(call, CallOp) and call.callee.string_value() in kernels]
    by_rows = calls_by_rows(calls, roles)
    apart = {call.callee.string_value() for call in calls if call not in by_rows}
    names = {call.callee.string_value() for call in by_rows} - apart
    return [kernel for name, kernel in kernels.items() if name in names]


@dataclass(frozen=True)
class Edge:
    """A picture of `elements` elements that call `source` writes and call `target` reads."""

    source: CallOp
    target: CallOp
    elements: int


def calls_by_rows(calls: Sequence[CallOp], roles: dict[str, Role]) -> set[CallOp]:
    """
    The calls whose threads are to take rows, given the role of each kernel by its name.

    They are the chosen calls of kernels that may deal out either, and the calls of convolutions that read a picture
    from a call by rows.
    """
    role = {call: roles[call.callee.string_value()] for call in calls}
    edges = list(_edges(calls))
    group = _groups([call for call in calls if role[call] is Role.EITHER], edges)
    balance: dict[int, int] = defaultdict(int)
    for e in edges:
        for own, other in ((e.source, e.target), (e.target, e.source)):
            if own in group and group[own] != group.get(other):
                balance[group[own]] += e.elements if role.get(other) is Role.ROWS else -e.elements
    chosen = {call for call, number in group.items() if balance[number] > 0}
    by_rows = {call for call in calls if role[call] is Role.ROWS} | chosen
    reads = {e.target for e in edges if e.source in by_rows}
    return chosen | {call for call in reads if role[call] is Role.ROWS}


def _edges(calls: Iterable[CallOp]) -> Iterable[Edge]:
    """The pictures that calls pass to each other, perhaps through views."""
    for call in calls:
        for operand in call.operands:
            source = base_of(operand).owner
            if isinstance(source, CallOp) and is_picture(operand.type):
                yield Edge(source, call, prod(map(int, shape_of(operand.type))))


def _groups(calls: Iterable[CallOp], edges: Iterable[Edge]) -> dict[CallOp, int]:
    """Call -> the number of its group: the connected component of `edges` among `calls`."""
    near: dict[CallOp, list[CallOp]] = defaultdict(list)
    for e in edges:
        near[e.source].append(e.target)
        near[e.target].append(e.source)
    group: dict[CallOp, int] = {}
    left = dict.fromkeys(calls)
    while left:
        number, found = len(group), [next(iter(left))]
        while found:
            call = found.pop()
            if call in left:
                del left[call]
                group[call] = number
                found += near[call]
    return group


def is_picture(type: Attribute) -> bool:
    """Whether a tensor is a picture in blocks of channels, of static shape, with at least `LEAST_PIXELS` pixels."""
    if not isinstance(type, TensorType) or type.get_num_dims() != BLOCKED_RANK:
        return False
    shape = shape_of(type)
    return is_static(shape) and prod(int(shape[axis]) for axis in BLOCKED_PIXELS) >= LEAST_PIXELS


def role_of(kernel: FuncOp) -> Role:
    """What a kernel may deal out: `OTHER` if it reads no picture, or has an op that cannot be dealt out so."""
    ops = [op for op in kernel.body.block.ops if isinstance(op, GraphOp)]
    convolutions = [
        op for op in ops if isinstance(op, Conv2dWinogradOp) or (isinstance(op, Conv2dOp) and not op.is_depthwise)
    ]
    if not any(is_picture(argument.type) for argument in kernel.body.block.args):
        return Role.OTHER
    if convolutions:
        return Role.ROWS if all(is_picture(op.results[0].type) for op in convolutions) else Role.OTHER
    return Role.EITHER if all(map(_deals_either, ops)) else Role.OTHER


def _deals_either(op: GraphOp) -> bool:
    """Whether threads may take rows or channels of an op's result, as they like."""
    if isinstance(op, Conv2dOp):
        return is_picture(op.results[0].type) and not _leaves_out_padding(op)
    if isinstance(op, ReduceOp):
        return not is_picture(op.operands[0].type) or op.reduced_axes == BLOCKED_PIXELS
    if isinstance(op, ConcatenateOp | SliceOp | SplitOp | PoolOp):
        return all(is_picture(value.type) for value in (*op.operands, *op.results))
    return isinstance(op, ReshapeOp) or op.kind <= BROADCAST


def _leaves_out_padding(op: Conv2dOp) -> bool:
    """Whether the kernel copies whole channels of the picture, and leaves out rows of taps that lie in the padding."""
    image, window = op.logical_sizes()
    count = int(shape_of(op.results[0].type)[BLOCKED_PIXELS[0]])
    return leaves_out_rows(int(image["H"]), count, int(window["H"]), op.strides[0], op.dilation[0], op.padding[0])
