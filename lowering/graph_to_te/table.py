"""The table of lowerings: graph op class -> function from the op and its operands to te tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Operation

from mlc.dialects.graph.types import Shape, shape_of
from mlc.dialects.te_builder.builder import Tensor

Lowering = Callable[..., "Tensor | tuple[Tensor, ...]"]
LOWERINGS: dict[type[Operation], Lowering] = {}


def lowering(*ops: type[Any]) -> Callable[[Lowering], Lowering]:
    """Enter a function into the table: `f(op, *operands) -> Tensor` (or a tuple, one each result)."""

    def enter(f: Lowering) -> Lowering:
        for op in ops:
            LOWERINGS[op] = f
        return f

    return enter


def stage_name(op: Operation) -> str:
    """`graph.relu -> relu`."""
    return op.name.partition(".")[2]


def shape_of_result(op: Any, index: int = 0) -> Shape:
    """The shape of a result."""
    return shape_of(op.results[index].type)
