"""
graph-fold-constant: ops on weights and constants are computed now, by their own numpy meaning.

Results of at most 64 elements become `graph.constant`; larger ones become entries `fold.<n>` of the weight store,
or stay ops where the module has no store. A fill stays a fill (`graph.full`), whatever its size. What folding may
allocate is bounded (`limits.folded_bytes`): a re-layout of existing weights counts only what exceeds 4x their size.
Weights that are fills count as existing up to 4 times that bound: a file of 100 bytes can declare any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    BiasAddOp,
    BinaryOp,
    BroadcastToOp,
    CastOp,
    ConcatenateOp,
    ConstantOp,
    FlipOp,
    FullOp,
    GraphOp,
    IotaOp,
    LayoutTransformOp,
    PadOp,
    ParamOp,
    ReshapeOp,
    SliceOp,
    SplitOp,
    TileOp,
    TransposeOp,
    UnaryOp,
    WhereOp,
    shape_of,
    static_shape,
    tensor,
)
from mlc.dialects.graph.base import OUT_FUSABLE
from mlc.dialects.graph.store import store_of
from mlc.dialects.graph.types import numpy_dtype
from mlc.passes.graph.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.fold_constant.control_regions import tidy_reads
from mlc.passes.graph.shared.constants import element_of, is_static
from mlc.passes.rewriting import blocks
from mlc.support.limits import limits

PREFIX = "fold."
POINTWISE = (UnaryOp, BinaryOp, WhereOp, CastOp, BiasAddOp)
MOVES = (
    ReshapeOp, TransposeOp, BroadcastToOp, ConcatenateOp, SliceOp, SplitOp, FlipOp, TileOp, LayoutTransformOp, PadOp,
)  # fmt: skip


@dataclass
class Known:
    """A value that is known: its array, or the one value of a fill, and the bytes of weights it is made from."""

    array: Any = None
    fill: Any = None
    source: int = 0

    def values(self, shape: Sequence[int]) -> Any:
        """The value as an array; a fill's takes no memory."""
        import numpy as np

        return self.array if self.fill is None else np.broadcast_to(self.fill, shape)


class Folder:
    """One run over a module."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.store: Any = store_of(module)
        self.known: dict[SSAValue, Known] = {}
        self.room = limits.folded_bytes
        self.fills = 4 * limits.folded_bytes
        self.count = 0

    def run(self) -> None:
        """Fold every block, then drop what nothing uses any more."""
        for block in list(blocks(self.module)):
            self.fold_block(block)
        eliminate_dead_code(self.module)
        if self.store is not None:
            self.forget_unused()

    def fold_block(self, block: Block) -> None:
        """Evaluate what can be; then give the results that other ops read a place in the IR."""
        folded: list[Operation] = []
        for op in block.ops:
            if not isinstance(op, GraphOp):
                continue
            if isinstance(op, ParamOp) and (iota := self.counting(op)) is not None:
                op.result.replace_all_uses_with(iota.result)
                continue
            values = self.source(op) if not op.operands else self.evaluate(op)
            if values is None:
                continue
            self.known.update(zip(op.results, values, strict=True))
            if op.operands or isinstance(op, IotaOp):
                folded.append(op)
        gone = set(folded)
        for op in folded:
            for result in op.results:
                if any(use.operation not in gone for use in result.uses):
                    self.materialize(op, result)
                self.known.pop(result, None) if result.first_use is None else None
        tidy_reads(block)

    def source(self, op: GraphOp) -> list[Known] | None:
        """What a constant, a fill or a weight holds."""
        import numpy as np

        if not is_static(shape_of(op.type)):
            return None
        dtype = numpy_dtype(op.type.element_type)
        if isinstance(op, FullOp):
            return [Known(fill=np.asarray(op.value).astype(dtype))]
        if isinstance(op, ConstantOp):
            array = op.array()
            one = array.size > 0 and bool((array == array.flat[0]).all())
            return [Known(array, array.flat[0] if one else None, array.nbytes)]
        if isinstance(op, ParamOp) and self.store is not None and op.entry in self.store:
            entry = self.store.entry(op.entry)
            if not entry.is_fill:
                return [Known(entry.array(), source=entry.nbytes)]
            source = entry.nbytes if entry.nbytes <= self.fills else 0
            self.fills -= source
            return [Known(fill=entry.data, source=source)]
        if isinstance(op, IotaOp) and _elements(op.type) <= ConstantOp.MAX_ELEMENTS:
            return [Known(op.evaluate(np)[0].astype(dtype))]
        return None

    def counting(self, op: ParamOp) -> IotaOp | None:
        """A weight of integers that only counts, as the op that does so; in the block before the weight."""
        import numpy as np

        shape = shape_of(op.type)
        if self.store is None or not isinstance(op.type.element_type, IntegerType) or op.entry not in self.store:
            return None
        axes = [axis for axis, size in enumerate(shape) if size != 1]
        if len(axes) != 1 or not is_static(shape):
            return None
        values = self.store.array(op.entry).reshape(-1)
        block = op.parent
        if block is None or values.dtype == np.bool_ or not np.array_equal(values, np.arange(values.size)):
            return None
        iota = IotaOp.make(result=op.type, axis=axes[0], location=op.location)
        block.insert_op_before(iota, op)
        return iota

    def evaluate(self, op: GraphOp) -> list[Known] | None:
        """The results of an op whose operands are all known, within the limits."""
        operands = [self.known.get(operand) for operand in op._operands]
        if None in operands or any(not is_static(shape_of(result.type)) for result in op.results):
            return None
        inputs: list[Any] = operands
        filled = fill_result(op, inputs)
        if filled is not None:
            return [Known(fill=filled)] * len(op.results)
        size = sum(_bytes(result.type) for result in op.results)
        source = sum(k.source for k in inputs)
        cost = max(0, size - 4 * source)
        if cost > self.room or (self.store is None and max(map(_elements, op.result_types)) > ConstantOp.MAX_ELEMENTS):
            return None
        self.room -= cost
        return [Known(array, source=max(source, 0)) for array in _compute(op, inputs)]

    def materialize(self, op: Operation, result: SSAValue) -> None:
        """Put a folded value into the IR, for the ops that read it at run time."""
        import numpy as np

        known, shape, element = self.known[result], static_shape(result.type), element_of(result)
        block = op.parent
        assert block is not None
        if math.prod(shape) <= ConstantOp.MAX_ELEMENTS:
            new: GraphOp = ConstantOp.make(np.ascontiguousarray(known.values(shape)).reshape(shape))
        elif known.fill is not None and (self.store is None or not _is_contracted(result)):
            new = FullOp.make(shape, float(known.fill), element)
        else:
            if known.fill is not None:
                entry = self.store.add_fill(self.fresh_name(), known.fill, shape, np.asarray(known.fill).dtype)
            else:
                entry = self.store.add(self.fresh_name(), np.ascontiguousarray(known.array))
            new = ParamOp.make(result=tensor(shape, element), entry=entry)
        new.location = op.location
        block.insert_op_before(new, op)
        self.known[new.results[0]] = known
        result.replace_all_uses_with(new.results[0])

    def fresh_name(self) -> str:
        """The next free `fold.<n>`."""
        while f"{PREFIX}{self.count}" in self.store:
            self.count += 1
        return f"{PREFIX}{self.count}"

    def forget_unused(self) -> None:
        """Drop earlier folding results that no op names any more."""
        named = {op.entry for op in self.module.walk() if isinstance(op, ParamOp)}
        for name in [n for n in self.store if n.startswith(PREFIX) and n not in named]:
            self.store.remove(name)


def _is_contracted(value: SSAValue) -> bool:
    """Whether a convolution or product reads it: as a number in the kernel it would hide what the kernel is."""
    return any(isinstance(use.operation, GraphOp) and use.operation.kind == OUT_FUSABLE for use in value.uses)


def fill_result(op: GraphOp, operands: Sequence[Known]) -> Any:
    """The one value of the results where the operands are fills and the op keeps it so; else None."""
    if any(k.fill is None for k in operands):
        return None
    values = [k.fill for k in operands]
    if isinstance(op, POINTWISE):
        return _point(op, values)
    if not isinstance(op, MOVES) or any(v != values[0] for v in values):
        return None
    if isinstance(op, LayoutTransformOp) and values[0] != 0 and _elements(op.type) != _elements(op.operands[0].type):
        return None
    return None if isinstance(op, PadOp) and (op.mode == "constant" and op.value != values[0]) else values[0]


def _point(op: GraphOp, values: Sequence[Any]) -> Any:
    import numpy as np

    dtype = numpy_dtype(op.type.element_type)
    arrays = [np.asarray(v).reshape(()) for v in values]
    with np.errstate(all="ignore"):
        result = arrays[0] + arrays[1] if isinstance(op, BiasAddOp) else op.evaluate(np, *arrays)[0]
    return np.asarray(result).astype(dtype)


def _compute(op: GraphOp, operands: Sequence[Known]) -> tuple[Any, ...]:
    from mlc.dialects.graph.graph_numpy import evaluate

    return evaluate(op, [k.values(static_shape(v.type)) for k, v in zip(operands, op._operands, strict=True)])


def _elements(type: Any) -> int:
    return math.prod(static_shape(type))


def _bytes(type: Any) -> int:
    assert isinstance(type, TensorType)
    return _elements(type) * numpy_dtype(type.element_type).itemsize


@dataclass(frozen=True)
class FoldConstantPass(ModulePass):
    """
    Compute what depends on weights and constants alone.

    `%1 = graph.sqrt (graph.constant dense<4.0>)`  ->  `%1 = graph.constant dense<2.0>`
    """

    name = "graph-fold-constant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; new weights go to its store."""
        Folder(op).run()
