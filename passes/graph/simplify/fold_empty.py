"""graph-fold-empty: ops on tensors without elements are folded, so that no kernel has a size of 0."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.graph import ConcatenateOp, FullOp, GraphOp, ScatterElementsOp, ScatterNdOp, shape_of
from mlc.dialects.graph.types import element_of, numpy_dtype, static_shape
from mlc.passes.graph.shared.constants import SOURCES, is_static
from mlc.passes.rewriting import blocks


class FoldEmptyPass(ModulePass):
    """
    Ops with empty results or only empty operands become constants; empty operands of concatenations are removed.

    `%1 = graph.relu %0 : tensor<0x4xf32>`  ->  `%1 = graph.full {value = 0} : tensor<0x4xf32>`
    `graph.sum %0 {axes = [0]} : (tensor<0x4xf32>) -> tensor<4xf32>`  ->  `graph.full {value = 0} : tensor<4xf32>`
    `graph.concatenate %0, %1 : (tensor<0x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>`  ->  `%1`
    """

    name = "graph-fold-empty"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        for block in blocks(op):
            for one in list(block.ops):
                if isinstance(one, GraphOp) and not isinstance(one, SOURCES) and _is_foldable(one):
                    _fold(block, one)


def is_empty(value: SSAValue) -> bool:
    """Whether a tensor has no elements."""
    return 0 in shape_of(value.type)


def _is_foldable(op: Operation) -> bool:
    return any(map(is_empty, op.operands)) or any(map(is_empty, op.results))


def _fold(block: Block, op: GraphOp) -> None:
    """Replace an op whose results are empty, a constant, or one of its operands."""
    if not all(is_static(shape_of(value.type)) for value in (*op.operands, *op.results)):
        return
    new: list[SSAValue] | None = None
    if all(map(is_empty, op.results)):
        new = [_full(block, op, result, 0) for result in op.results]
    elif isinstance(op, ConcatenateOp):
        kept = [operand for operand in op.operands if not is_empty(operand)]
        new = kept if len(kept) == 1 else [_inserted(block, op, ConcatenateOp.make(*kept, axis=op.axis))]
    elif isinstance(op, ScatterElementsOp | ScatterNdOp) and not is_empty(op.operands[0]):
        new = [op.operands[0]]
    elif op.operands and all(map(is_empty, op.operands)):
        new = _computed(block, op)
    if new is not None:
        for result, value in zip(op.results, new, strict=True):
            result.replace_all_uses_with(value)
        op.detach()
        op.erase()


def _computed(block: Block, op: GraphOp) -> list[SSAValue] | None:
    """The results of an op on empty operands, if numpy defines them: a sum is 0, a mean NaN, a pad its value."""
    import warnings

    import numpy as np

    from mlc.dialects.graph.graph_numpy import evaluate

    inputs = [np.zeros(static_shape(v.type), numpy_dtype(element_of(v))) for v in op.operands]
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of an empty array is NaN
            arrays = evaluate(op, inputs)
    except ValueError:  # numpy defines no maximum of an empty array
        return None
    values = [array.flat[0] if array.size else 0 for array in arrays]
    splats = [np.full_like(array, value) for array, value in zip(arrays, values, strict=True)]
    if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(arrays, splats, strict=True)):
        return None
    return [_full(block, op, result, value) for result, value in zip(op.results, values, strict=True)]


def _full(block: Block, op: Operation, result: SSAValue, value: float) -> SSAValue:
    return _inserted(block, op, FullOp.make(shape_of(result.type), float(value), element_of(result)))


def _inserted(block: Block, op: Operation, new: GraphOp) -> SSAValue:
    new.location = op.location
    block.insert_op_before(new, op)
    return new.results[0]
