"""
graph-annotate-narrow-bytes: kernels are told which of their weights are bytes from -64 to 64.

Models that are quantised for CPUs without dot products of bytes have weights of seven bits (onnxruntime's
`reduce_range`, the overflow fix of OpenVINO's NNCF), so that the sum of two products by unsigned bytes fits in 16 bits.
There `pmaddubsw`, which saturates such sums, is exact, and takes half of the multiplications of widened bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.attributes import GRAPH_KERNEL, NARROW_BYTES
from mlc.dialects.graph import CallOp, ConstantOp, ParamOp
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.types import Array, element_of
from mlc.dialects.loop import NARROW_LIMIT
from mlc.support.weights import WeightStore
from mlc.targets.target import Target

PAIR_PRODUCT = "pmaddubsw"
"""The instruction that gains by narrow bytes."""


@dataclass(frozen=True)
class AnnotateNarrowBytesPass(ModulePass):
    """
    Write `mlc.narrow_bytes`, the numbers of arguments that are such weights in every call, to kernels.

    `func.func private @dense(%a0: tensor<36x384xui8>, %a1: tensor<24x96x16x4xi8>) attributes {graph.kernel}`
    ->  `... attributes {graph.kernel, mlc.narrow_bytes = array<i64: 1>}`

    Only where the target multiplies pairs of bytes and has no dot product of them; not where weights may be replaced
    when the model runs (`fixed=false`), as the graph executor's may.
    """

    name = "graph-annotate-narrow-bytes"
    target: str = "native"
    fixed: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = Target.parse(self.target)
        if not self.fixed or PAIR_PRODUCT not in target.instructions or not target.multiplies_bytes_by_pairs:
            return
        weights, calls = ByteConstants(store_of(op)), dict[str, list[CallOp]]()
        for call in op.walk():
            if isinstance(call, CallOp):
                calls.setdefault(call.callee.string_value(), []).append(call)
        for kernel in op.body.block.ops:
            if isinstance(kernel, FuncOp) and GRAPH_KERNEL in kernel.attributes:
                annotate(kernel, calls.get(kernel.sym_name.data, []), weights)


class ByteConstants:
    """Which constants are narrow bytes; each is looked at once."""

    def __init__(self, store: WeightStore | None) -> None:
        self.store = store
        self.known: dict[SSAValue, bool] = {}

    def are_narrow(self, value: SSAValue) -> bool:
        """Whether a value is a constant of signed bytes from -64 to 64."""
        if value not in self.known:
            array = self._array(value) if element_of(value) == i8 else None
            self.known[value] = array is not None and _is_narrow(array)
        return self.known[value]

    def _array(self, value: SSAValue) -> Array | None:
        op = value.owner
        if isinstance(op, ParamOp):
            return self.store.array(op.entry) if self.store is not None and op.entry in self.store else None
        return op.array() if isinstance(op, ConstantOp) else None


def _is_narrow(array: Array) -> bool:
    return not array.size or (-NARROW_LIMIT <= int(array.min()) and int(array.max()) <= NARROW_LIMIT)


def annotate(kernel: FuncOp, calls: Sequence[CallOp], weights: ByteConstants) -> None:
    """Write the numbers of a kernel's arguments that are narrow weights in all of its calls, if there are any."""
    count = len(kernel.body.block.args) if calls else 0
    found = [k for k in range(count) if all(weights.are_narrow(call.operands[k]) for call in calls)]
    if found:
        kernel.attributes[NARROW_BYTES] = DenseArrayBase.from_list(i64, found)
