"""The operator of bare `mlc.te` tensors, as `mlc.build`, `mlc.lower` and `mlc.Schedule` take them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects import te
from mlc.dialects.te_builder.builder import Tensor, tensor_of
from mlc.dialects.te_builder.builder import func as te_func
from mlc.dialects.te_builder.kernels import dependences
from mlc.support.errors import UserError


def func_of_tensors(tensors: Tensor | Sequence[Tensor]) -> te.FuncOp:
    """
    The kernel of mlc.te tensors: the outputs, or inputs and outputs in the order of the call.

    Placeholders that are not listed follow in the order in which they are read. Raises UserError for anything else, and
    where none of the tensors is computed.
    """
    several = list(tensors) if isinstance(tensors, tuple | list) else [tensors]
    given = [t for t in several if isinstance(t, Tensor) and t.value is not None]
    if not given or len(given) < len(several):
        raise UserError(f"expected a te.func, loop.func, IR text or mlc.te tensors, but got {tensors!r:.80}")
    outputs = [t for t in given if not isinstance(t.value, BlockArgument)]
    inputs: dict[SSAValue, Tensor] = {t.value: t for t in given if isinstance(t.value, BlockArgument)}
    seen: set[SSAValue] = set()
    for tensor in outputs:
        if tensor.value is not None:
            _collect(tensor.value, inputs, seen)
    if not outputs:
        raise UserError("expected at least one computed tensor among the mlc.te tensors, but got only placeholders")
    return te_func(outputs[-1].name or "operator", list(inputs.values()), outputs)


def _collect(value: SSAValue, inputs: dict[SSAValue, Tensor], seen: set[SSAValue]) -> None:
    """Add the placeholders that a tensor is computed from."""
    if value in seen:
        return
    seen.add(value)
    if isinstance(value, BlockArgument):
        inputs.setdefault(value, tensor_of(value))
        return
    assert isinstance(value.owner, Operation)
    for used in dependences(value.owner):
        if not isinstance(used.type, IndexType):
            _collect(used, inputs, seen)
