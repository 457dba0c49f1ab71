"""How the values of two runs differ, tensor by tensor: those of the same source node, or of aligned operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.validation.compare.trace import node_of, title_of

TOLERANCE = 1e-4
"""Default of the largest difference of floats that counts as equal, relative to the largest value of the tensor."""
_SCALARS = ("loop.", "arith.", "math.", "memref.", "scf.")
"""Operations whose values are elements or tiles, which have no counterpart on another level."""
_GIVEN = ("graph.param", "graph.constant")
"""Operations that compute nothing."""


@dataclass(frozen=True)
class ComputedTensor:
    """A tensor that a run computed: its source node if it has one, a label, and the operation if it is known."""

    node: str
    index: int
    label: str
    array: Any
    op: Operation | None = None


@dataclass
class TensorRecorder:
    """
    The tensors that a run of one function computes, in order; of an operation that runs again the last.

    What a kernel computes inside is left out, unless it is the function: its calls have the results.
    """

    function: Operation | None = None

    found: dict[tuple[Operation, int], ComputedTensor] = field(
        default_factory=dict[tuple[Operation, int], ComputedTensor]
    )

    def __call__(self, op: Operation, results: Sequence[Any]) -> None:
        """Keep the results of an operation on tensors."""
        if (
            op.name.startswith(_SCALARS)
            or op.name in _GIVEN
            or op is self.function
            or _function_of(op) is not self.function
        ):
            return
        node = node_of(op).rpartition(", ")[2]  # a call of a fused kernel computes the last of its nodes
        for k, value in enumerate(results):
            number = f" result {k}" if len(results) > 1 else ""
            label = f"{node} ({op.name})" if node else title_of(op, k)
            self.found[op, k] = ComputedTensor(node, k, f"{label}{number}", np.asarray(value), op)

    def tensors(self) -> list[ComputedTensor]:
        """All tensors, in the order in which they were first computed."""
        return list(self.found.values())


def _function_of(op: Operation) -> Operation:
    """The operation of the module that encloses an operation."""
    while (parent := op.parent_op()) is not None and not isinstance(parent, ModuleOp):
        op = parent
    return op


@dataclass(frozen=True)
class TensorDifference:
    """Two tensors of the same place: the largest difference, and the largest value of the first one."""

    label: str
    shape: tuple[int, ...]
    error: float
    scale: float
    differs: bool
    other_shape: tuple[int, ...] | None = None
    """The shape of the second tensor, if it has another number or order of elements: then nothing is compared."""

    @property
    def relative(self) -> float:
        """The largest difference relative to the largest value."""
        if not self.error:
            return 0.0
        return self.error / self.scale if self.scale and math.isfinite(self.error) else math.inf


def in_one_layout(a: Any, b: Any) -> tuple[Any, Any] | None:
    """Two tensors in the same layout: as they are, or with blocks of channels joined (NCHW8c -> NCHW); else None."""
    for x, y in ((a, b), (a, _without_blocks(b)), (_without_blocks(a), b), (_without_blocks(a), _without_blocks(b))):
        if x is None or y is None:
            continue
        if [n for n in x.shape if n != 1] == [n for n in y.shape if n != 1]:
            return x, y
        if x.ndim == y.ndim > 2 and (x.shape[0], *x.shape[2:]) == (y.shape[0], *y.shape[2:]):
            count = min(x.shape[1], y.shape[1])  # the last block is padded
            if (x is not a or y is not b) and max(x.shape[1], y.shape[1]) - count < max(a.shape[-1], b.shape[-1]):
                return x[:, :count], y[:, :count]
    return None


def _without_blocks(array: Any) -> Any:
    """`N, C/b, H, W, b` as `N, C, H, W`; None for fewer than 4 axes."""
    if array.ndim < 4:
        return None
    joined = np.moveaxis(array, -1, 2)
    return joined.reshape(joined.shape[0], joined.shape[1] * joined.shape[2], *joined.shape[3:])


def compare_tensor(label: str, a: Any, b: Any, tolerance: float) -> TensorDifference:
    """
    Compare two tensors; sizes of 1 and blocks of channels do not count.

    Integers must be equal, NaN and infinities must stand at the same places.
    """
    a, b = np.asarray(a), np.asarray(b)
    same_layout = in_one_layout(a, b)
    if same_layout is None:
        return TensorDifference(label, a.shape, math.inf, 0.0, False, b.shape)
    a, b = same_layout
    is_exact = a.dtype.kind in "iub" and b.dtype.kind in "iub"
    x, y = (v.reshape(a.shape).astype(np.float64) for v in (a, b))
    with np.errstate(all="ignore"):
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        gap = np.where(same, 0.0, np.abs(x - y))
    gap = np.where(np.isnan(gap), math.inf, gap)
    finite = np.abs(x[np.isfinite(x)])
    error, scale = (float(v.max()) if v.size else 0.0 for v in (gap, finite))
    return TensorDifference(label, a.shape, error, scale, error > (0.0 if is_exact else tolerance * scale))


def compare_values(
    a: Sequence[ComputedTensor], b: Sequence[ComputedTensor], pairs: Mapping[Operation, Operation], tolerance: float
) -> list[TensorDifference]:
    """
    The tensors that both runs computed, in the order of the first.

    Tensors of a source node are matched by its name (of several operations with one node, the last computes it), others
    by the operations that `pairs` aligns.
    """
    nodes = {(t.node, t.index): t for t in b if t.node}
    ops = {(t.op, t.index): t for t in b if t.op is not None}
    last = {(t.node, t.index): t for t in a if t.node}
    found: list[TensorDifference] = []
    for tensor in a:
        if tensor.node:
            is_last = last[tensor.node, tensor.index] is tensor
            other = nodes.get((tensor.node, tensor.index)) if is_last else None
        else:
            partner = pairs.get(tensor.op) if tensor.op is not None else None
            other = ops.get((partner, tensor.index)) if partner is not None else None
            other = None if other is None or other.node else other
        if other is not None:
            found.append(compare_tensor(tensor.label, tensor.array, other.array, tolerance))
    return found


def compare_outputs(a: Mapping[str, Any], b: Mapping[str, Any], tolerance: float) -> list[TensorDifference]:
    """The outputs of two runs: by name if the names are the same, else in order."""
    names = list(zip(a, a if set(a) == set(b) else b, strict=False))
    found = [compare_tensor(f"output {x}", a[x], b[y], tolerance) for x, y in names]
    mismatch = [one for one in found if one.other_shape is not None]
    for one in mismatch:
        found[found.index(one)] = TensorDifference(one.label, one.shape, math.inf, 0.0, True, one.other_shape)
    return found


__all__ = [
    "TOLERANCE",
    "ComputedTensor",
    "TensorDifference",
    "TensorRecorder",
    "compare_outputs",
    "compare_tensor",
    "compare_values",
]
