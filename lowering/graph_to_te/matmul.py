"""Matrix products, with plain and packed weights."""

from __future__ import annotations

from collections.abc import Sequence

from mlc.dialects.graph.ops import matmul as graph
from mlc.dialects.te_builder import builder as te
from mlc.dialects.te_builder.builder import Scalar, Tensor
from mlc.lowering.graph_to_te.layouts import blocked, widened
from mlc.lowering.graph_to_te.table import lowering, shape_of_result, stage_name


def _names(rank: int) -> list[str]:
    """Batch axes b0, b1, ..., then i, j."""
    return [*(f"b{n}" for n in range(rank - 2)), "i", "j"][-rank:]


@lowering(graph.DenseOp)
def dense(op: graph.DenseOp, x: Tensor, w: Tensor) -> Tensor:
    """The sum over k of x[.., k] * w[j, k], the weight read through its layout."""
    k = te.reduce_axis(x.shape[-1], "k")
    shape = shape_of_result(op)

    def body(*i: te.IndexExpr) -> te.Reduction:
        left, right = x.read([*i[:-1], k]), w.read(blocked(op.kernel_layout, {"O": i[-1], "I": k.expr}))
        return te.sum(widened(op, left) * widened(op, right), axis=k)

    return te.compute(shape, body, stage_name(op), axes=_names(len(shape)), reduce=[k])


@lowering(graph.BatchMatmulOp)
def batch_matmul(op: graph.BatchMatmulOp, a: Tensor, b: Tensor) -> Tensor:
    """The sum over k of a[.., i, k] * b[.., k, j]."""
    k = te.reduce_axis(a.shape[-2 if op.transpose_a else -1], "k")
    shape = shape_of_result(op)

    def read(
        x: Tensor, batch: Sequence[te.IndexExpr], row: te.IndexLike, column: te.IndexLike, transposed: bool
    ) -> Scalar:
        sizes = x.shape[:-2]
        outer = [
            0 if n == 1 and v.extent > 1 else v for v, n in zip(batch[len(batch) - len(sizes) :], sizes, strict=True)
        ]
        return x.read([*outer, column, row] if transposed else [*outer, row, column])

    def body(*i: te.IndexExpr) -> te.Reduction:
        left = read(a, i[:-2], i[-2], k, op.transpose_a)
        return te.sum(left * read(b, i[:-2], k, i[-1], op.transpose_b), axis=k)

    return te.compute(shape, body, stage_name(op), axes=_names(len(shape)), reduce=[k])
