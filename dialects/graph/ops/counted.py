"""
Ops with data-dependent lengths: each returns a tensor padded to an upper bound, and the count of its valid elements.

Elements beyond the count are zero.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from xdsl.dialects.builtin import i64
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import OPAQUE, AttrValue, GraphOp, Sample
from mlc.dialects.graph.dims import Dim, UnequalSizes
from mlc.dialects.graph.op_attributes import Bool, Int
from mlc.dialects.graph.types import Array, Tensor, is_float, product, shape_of, shape_text, tensor

COUNT = tensor((), i64)


class NonzeroOp(GraphOp):
    """
    The indices of the nonzero elements in row-major order, one row per axis, and their count.

    `%i, %n = graph.nonzero %x : (tensor<2x4xf32>) -> (tensor<2x8xi64>, tensor<i64>)`
    """

    name = "graph.nonzero"
    kind = OPAQUE

    def infer_types(self) -> list[Tensor]:
        shape = shape_of(self.input_types[0])
        if not shape:
            raise VerifyException("expected a tensor with axes, but got a scalar; reshape it")
        return [tensor((len(shape), product(shape)), i64), COUNT]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        (x,) = arrays
        found = np.stack(np.nonzero(x))
        result = np.zeros((x.ndim, x.size), np.int64)
        result[:, : found.shape[1]] = found
        return result, np.array(found.shape[1], np.int64)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample((tensor((2, 5)),), low=-1, high=1), Sample((tensor((2, 3, 2), "int64"),), integers=(0, 1))]


class UniqueOp(GraphOp):
    """
    The distinct rows of a matrix: the index of each one's first occurrence, for each row the number of its distinct
    row, the count of each, and how many there are. They are sorted by value, or by first occurrence.

    `%first, %which, %often, %n = graph.unique %x : (tensor<8x1xf32>) -> (tensor<8xi64>, tensor<8xi64>, ..)`
    """

    name = "graph.unique"
    kind = OPAQUE
    sorted = Bool(True)

    def infer_types(self) -> list[Tensor]:
        shape = shape_of(self.input_types[0])
        if len(shape) != 2:
            raise VerifyException(f"expected a matrix, but got a tensor of shape {shape_text(shape)}")
        return [*(tensor(shape[:1], i64) for _ in range(3)), COUNT]

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        rows = [tuple(row) for row in arrays[0].tolist()]
        first: dict[Any, int] = {}
        for index, row in enumerate(rows):
            first.setdefault(row, index)
        kinds = sorted(first) if self.sorted else list(first)
        place = {row: index for index, row in enumerate(kinds)}
        starts, often = np.zeros((2, len(rows)), np.int64)
        which = np.array([place[row] for row in rows], np.int64).reshape(-1)
        starts[: len(kinds)] = [first[row] for row in kinds]
        often[: len(kinds)] = np.bincount(which, minlength=len(kinds)) if rows else []
        return starts, which, often, np.array(len(kinds), np.int64)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((7, 1), "int64"),), integers=(0, 3)),
            Sample((tensor((6, 2), "int32"),), {"sorted": False}, integers=(0, 1)),
            Sample((tensor((5, 1)),)),
        ]


class NonMaxSuppressionOp(GraphOp):
    """
    Non-maximum suppression: per batch and class, boxes are chosen greedily by score, if the score is above the score
    threshold and the intersection over union with each chosen box is at most the IoU threshold.

    Operands: boxes (batch x n x 4), scores (batch x classes x n), the largest number of boxes per class, the IoU and
    the score threshold. Results: rows (batch, class, box), and their count. `center` means that a box is (x, y, width,
    height) rather than two opposite corners; `at_most` bounds the boxes per class statically (-1: all boxes).

    `%r, %n = graph.non_max_suppression %b, %s, %most, %iou, %limit {at_most = 5} : (..) -> (tensor<10x3xi64>, ..)`
    """

    name = "graph.non_max_suppression"
    kind = OPAQUE
    arity = (5, 5)
    center = Bool(False)
    at_most = Int(-1)

    def infer_types(self) -> list[Tensor]:
        boxes, scores, most, iou, limit = self.input_types
        b, s = shape_of(boxes), shape_of(scores)
        if len(b) != 3 or len(s) != 3 or b[2] != 4 or (b[0], b[1]) != (s[0], s[2]) or not is_float(boxes):
            message = f"expected boxes of batch x n x 4 and scores of batch x classes x n, but got {boxes} and {scores}"
            pairs = [(b[2], 4), (b[0], s[0]), (b[1], s[2])] if len(b) == len(s) == 3 else []
            raise UnequalSizes(message, *pairs)
        if most != COUNT:
            raise VerifyException(f"expected the most boxes of a class as {COUNT}, but got {most}")
        if iou != tensor((), boxes.element_type) or limit != iou:
            raise VerifyException(f"expected thresholds that are scalars like the boxes, but got {iou} and {limit}")
        return [tensor((product(s[:2]) * self.room, 3), i64), COUNT]

    @property
    def room(self) -> Dim:
        """The static bound of the number of boxes per class."""
        return shape_of(self.input_types[0])[1] if self.at_most < 0 else self.at_most

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        boxes, scores, most, iou, limit = arrays
        room = int(self.room)
        order, most = np.argsort(-scores, axis=2, kind="stable"), min(most, room)
        low, high = self.corners(np, boxes)
        found: list[tuple[int, int, int]] = []
        for batch, kind in np.ndindex(scores.shape[:2]):
            chosen: list[int] = []
            for box in order[batch, kind].tolist():
                if scores[batch, kind, box] > limit and len(chosen) < most:
                    over = (self.overlap(np, low[batch], high[batch], box, other) for other in chosen)
                    if all(o <= iou for o in over):
                        chosen.append(box)
            found += [(batch, kind, box) for box in chosen]
        result = np.zeros((scores.shape[0] * scores.shape[1] * room, 3), np.int64)
        result[: len(found)] = np.array(found, np.int64).reshape(-1, 3)
        return result, np.array(len(found), np.int64)

    @classmethod
    def samples(cls) -> list[Sample]:
        scores, scalar = tensor((1, 2, 4)), tensor(())
        operands = tensor((1, 4, 4)), scores, COUNT, scalar, scalar
        attrs: tuple[dict[str, AttrValue], ...] = {}, {"center": True}, {"at_most": 2}
        return [Sample(operands, one, low=-1.0, high=1.0) for one in attrs]

    def corners(self, np: ModuleType, boxes: Array) -> tuple[Array, Array]:
        """The lower and the upper corner of each box."""
        first, second = boxes[..., :2], boxes[..., 2:]
        if self.center:
            return first - second / 2, first + second / 2
        return np.minimum(first, second), np.maximum(first, second)

    @staticmethod
    def overlap(np: ModuleType, low: Array, high: Array, a: int, b: int) -> float:
        """The intersection of two boxes over their union."""
        inner = np.maximum(np.minimum(high[a], high[b]) - np.maximum(low[a], low[b]), 0).prod()
        union = (high[a] - low[a]).prod() + (high[b] - low[b]).prod() - inner
        return inner / union if union > 0 else inner * 0


OPS: list[type[GraphOp]] = [NonzeroOp, UniqueOp, NonMaxSuppressionOp]
