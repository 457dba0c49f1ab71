"""The table of lowerings: graph op class -> function from the op and its operands to te tensors."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation

from mlc.dialects.graph.types import Shape, shape_of
from mlc.dialects.te_builder.builder import Tensor
from mlc.support.errors import UserError

Lowering = Callable[..., "Tensor | tuple[Tensor, ...]"]
LOWERINGS: dict[type[Operation], Lowering] = {}


def lowering(*ops: type[Operation]) -> Callable[[Lowering], Lowering]:
    """
    Register a function in the table: `f(op, *operands) -> Tensor` (or a tuple, one tensor per result).

    It also makes a custom op known by its name wherever IR text is read. UserError if the function rejects one of the
    op's samples, or computes another type than the op's `infer_types` gives.
    """

    def enter(f: Lowering) -> Lowering:
        for op in ops:
            before = LOWERINGS.get(op)
            LOWERINGS[op] = f
            if f.__module__.partition(".")[0] != "mlc":
                _register(op, before)
        return f

    return enter


def _register(op: type[Operation], before: Lowering | None) -> None:
    """Check the lowering of a custom op on the op's samples, and register the op."""
    from mlc.dialects.graph.base import GraphOp
    from mlc.dialects.graph.pointwise import set_queries
    from mlc.dialects.own_ops import register_op
    from mlc.lowering.graph_to_te.agreement import check_samples
    from mlc.lowering.graph_to_te.pointwise import is_total, lowers

    if issubclass(op, GraphOp):
        try:
            check_samples(op)
        except UserError:
            LOWERINGS.pop(op)
            if before is not None:
                LOWERINGS[op] = before
            raise
    set_queries(op, is_total, lowers)
    register_op(op)


def stage_name(op: Operation) -> str:
    """`graph.relu -> relu`."""
    return op.name.partition(".")[2]


def shape_of_result(op: Operation, index: int = 0) -> Shape:
    """The shape of a result."""
    return shape_of(op.results[index].type)
