"""
graph-fold-constant: ops on weights and constants are evaluated at compile time, by their numpy meaning.

Results of at most 64 elements become `graph.constant`; larger ones become entries `fold.<n>` of the weight store,
or stay ops if the module has no store. A weight that is a band of diagonals becomes `graph.band` (bands.py). A fill
stays a fill (`graph.full`), whatever its size. The memory that folding may allocate is bounded (`limits.folded_bytes`);
results up to 4 times the size of the weights they are computed from, for example re-layouts, do not count. Weights that
are fills allow this only up to 4 times the bound, because a file of 100 bytes can declare fills of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import (
    BandOp,
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
from mlc.dialects.graph.types import Array, Tensor, numpy_dtype, tensor_type
from mlc.passes.graph.cleanup.eliminate_dead_code import eliminate_dead_code
from mlc.passes.graph.shared.constants import element_of, is_static
from mlc.passes.graph.shared.narrow import NarrowWeight, Source, narrow_result
from mlc.passes.graph.simplify.fold_constant.bands import compute_bands
from mlc.passes.graph.simplify.fold_constant.control_regions import tidy_reads
from mlc.passes.rewriting import blocks
from mlc.support.limits import limits
from mlc.support.weights import WeightStore

PREFIX = "fold."
POINTWISE = (UnaryOp, BinaryOp, WhereOp, CastOp, BiasAddOp)
MOVES = (
    ReshapeOp, TransposeOp, BroadcastToOp, ConcatenateOp, SliceOp, SplitOp, FlipOp, TileOp, LayoutTransformOp, PadOp,
)  # fmt: skip


@dataclass
class Known:
    """
    A known value: its array, or the element of a fill as an array of rank 0; the bytes of its weights; what it was
    widened from.
    """

    array: Array | None = None
    fill: Array | None = None
    source: int = 0
    narrow: NarrowWeight | None = None

    def values(self, shape: Sequence[int]) -> Array:
        """The value as an array; that of a fill is a broadcast view."""
        import numpy as np

        if self.fill is not None:
            return np.broadcast_to(self.fill, shape)
        assert self.array is not None
        return self.array


class Folder:
    """One run over a module."""

    def __init__(self, module: ModuleOp):
        self.module = module
        self.store = store_of(module)
        self.known: dict[SSAValue, Known] = {}
        self.room = limits.folded_bytes
        self.fills = 4 * limits.folded_bytes
        self.count = 0

    def run(self) -> None:
        """Fold every block, then erase unused ops and weights."""
        for block in list(blocks(self.module)):
            self.fold_block(block)
        if self.store is not None:
            compute_bands(self.module, self.store)
        eliminate_dead_code(self.module)
        if self.store is not None:
            self.forget_unused(self.store)

    def fold_block(self, block: Block) -> None:
        """Evaluate ops on known values; then insert constants for the results that other ops read."""
        folded: list[Operation] = []
        for op in block.ops:
            if not isinstance(op, GraphOp):
                continue
            if isinstance(op, ParamOp) and (iota := self.iota_of(op)) is not None:
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
        """The value of a constant, a fill or a weight."""
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
                narrow = self.store.narrow.get(op.entry)
                known = narrow if isinstance(narrow, NarrowWeight) else None
                return [Known(entry.array(), source=entry.nbytes, narrow=known)]
            source = entry.nbytes if entry.nbytes <= self.fills else 0
            self.fills -= source
            return [Known(fill=entry.data, source=source)]
        if isinstance(op, BandOp):
            return [Known(op.evaluate(np)[0].astype(dtype))]
        if isinstance(op, IotaOp) and _elements(op.type) <= ConstantOp.MAX_ELEMENTS:
            return [Known(op.evaluate(np)[0].astype(dtype))]
        return None

    def iota_of(self, op: ParamOp) -> IotaOp | None:
        """A `graph.iota`, inserted before it, for a weight that is 0, 1, .. along one axis; None for other weights."""
        import numpy as np

        shape = shape_of(op.type)
        if self.store is None or not isinstance(op.type.element_type, IntegerType) or op.entry not in self.store:
            return None
        axes = [axis for axis, size in enumerate(shape) if size != 1]
        if len(axes) != 1 or not is_static(shape):
            return None
        values = self.store.array(op.entry).reshape(-1)
        block = op.parent
        counted: Array = np.arange(len(values))
        if block is None or values.dtype == np.bool_ or not np.array_equal(values, counted):
            return None
        iota = IotaOp.make(result=op.type, axis=axes[0], location=op.location)
        block.insert_op_before(iota, op)
        return iota

    def evaluate(self, op: GraphOp) -> list[Known] | None:
        """The results of an op whose operands are all known, within the limits."""
        inputs = [known for operand in op.operands if (known := self.known.get(operand)) is not None]
        if len(inputs) < len(op.operands) or any(not is_static(shape_of(result.type)) for result in op.results):
            return None
        filled = fill_result(op, inputs)
        if filled is not None:
            return [Known(fill=filled)] * len(op.results)
        size = sum(_bytes(tensor_type(result.type)) for result in op.results)
        source = sum(k.source for k in inputs)
        cost = max(0, size - 4 * source)
        if cost > self.room or (self.store is None and max(map(_elements, op.result_types)) > ConstantOp.MAX_ELEMENTS):
            return None
        self.room -= cost
        narrow = self.narrow(op, inputs)
        return [Known(array, source=max(source, 0), narrow=narrow) for array in _compute(op, inputs)]

    def narrow(self, op: GraphOp, inputs: Sequence[Known]) -> NarrowWeight | None:
        """What the result of an op was widened from, of a weight that goes to the store."""
        if self.store is None or max(map(_elements, op.result_types)) <= ConstantOp.MAX_ELEMENTS:
            return None
        pairs = zip(inputs, op.operands, strict=True)
        return narrow_result(op, [Source(k.values(static_shape(v.type)), k.narrow) for k, v in pairs])

    def materialize(self, op: Operation, result: SSAValue) -> None:
        """Insert a constant or a weight for a folded value that is read at run time."""
        import numpy as np

        known, shape, element = self.known[result], static_shape(result.type), element_of(result)
        block = op.parent
        assert block is not None
        if math.prod(shape) <= ConstantOp.MAX_ELEMENTS:
            new: GraphOp = ConstantOp.make(np.ascontiguousarray(known.values(shape)).reshape(shape))
        elif known.fill is not None and (self.store is None or not _is_contracted(result)):
            new = FullOp.make(shape, float(known.fill), element)
        else:
            assert self.store is not None
            name = self.fresh_name(self.store)
            if known.fill is not None:
                entry = self.store.add_fill(name, known.fill, shape, np.asarray(known.fill).dtype)
            else:
                entry = self.store.add(name, known.values(shape))
                if known.narrow is not None:
                    self.store.narrow[entry] = known.narrow
            new = ParamOp.make(result=tensor(shape, element), entry=entry)
        new.location = op.location
        block.insert_op_before(new, op)
        self.known[new.results[0]] = known
        result.replace_all_uses_with(new.results[0])

    def fresh_name(self, store: WeightStore) -> str:
        """The next free `fold.<n>`."""
        while f"{PREFIX}{self.count}" in store:
            self.count += 1
        return f"{PREFIX}{self.count}"

    def forget_unused(self, store: WeightStore) -> None:
        """Remove results of earlier folding that no op reads any more."""
        named = {op.entry for op in self.module.walk() if isinstance(op, ParamOp)}
        for name in [n for n in store if n.startswith(PREFIX) and n not in named]:
            store.remove(name)


def _is_contracted(value: SSAValue) -> bool:
    """Whether a convolution or product reads it: those have weights as operands, not as numbers in the kernel."""
    return any(isinstance(use.operation, GraphOp) and use.operation.kind == OUT_FUSABLE for use in value.uses)


def fill_result(op: GraphOp, operands: Sequence[Known]) -> Array | None:
    """The element of the results if operands and results are fills; else None."""
    values = [k.fill for k in operands if k.fill is not None]
    if len(values) < len(operands):
        return None
    if isinstance(op, POINTWISE):
        return _point(op, values)
    if not isinstance(op, MOVES) or any(v != values[0] for v in values):
        return None
    if isinstance(op, LayoutTransformOp) and values[0] != 0 and _elements(op.type) != _elements(op.operands[0].type):
        return None
    return None if isinstance(op, PadOp) and (op.mode == "constant" and op.value != values[0]) else values[0]


def _point(op: GraphOp, values: Sequence[Array]) -> Array:
    """A pointwise op on one element."""
    import numpy as np

    dtype = numpy_dtype(op.type.element_type)
    arrays = [np.asarray(v).reshape(()) for v in values]
    with np.errstate(all="ignore"):
        result = arrays[0] + arrays[1] if isinstance(op, BiasAddOp) else op.evaluate(np, *arrays)[0]
    return np.asarray(result).astype(dtype)


def _compute(op: GraphOp, operands: Sequence[Known]) -> tuple[Array, ...]:
    from mlc.dialects.graph.graph_numpy import evaluate

    return evaluate(op, [k.values(static_shape(v.type)) for k, v in zip(operands, op.operands, strict=True)])


def _elements(type: Attribute) -> int:
    return math.prod(static_shape(type))


def _bytes(type: Tensor) -> int:
    return _elements(type) * numpy_dtype(type.element_type).itemsize


class FoldConstantPass(ModulePass):
    """
    Evaluate ops that depend on weights and constants only.

    `%1 = graph.sqrt (graph.constant dense<4.0>)`  ->  `%1 = graph.constant dense<2.0>`
    """

    name = "graph-fold-constant"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place; new weights go to its store."""
        Folder(op).run()
