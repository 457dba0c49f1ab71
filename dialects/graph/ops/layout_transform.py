"""The op that gives a tensor another layout."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from xdsl.utils.exceptions import VerifyException

from mlc.dialects.graph.base import GraphOp, Sample
from mlc.dialects.graph.dims import Dim, DimExpr
from mlc.dialects.graph.layout import Layout, layout, same_axes, transform_steps
from mlc.dialects.graph.op_attributes import Str
from mlc.dialects.graph.ops.movement import MoveOp
from mlc.dialects.graph.types import Array, Tensor, shape_of, tensor


class LayoutTransformOp(MoveOp):
    """
    The same tensor in another layout.

    `graph.layout_transform %0 {src = "NCHW", dst = "NCHW16c"} :
    (tensor<1x20x4x4xf32>) -> tensor<1x2x4x4x16xf32>`

    An axis whose size is not a multiple of its blocks is padded with zeros. For the inverse transform, the given result
    type has the logical sizes; without a given result they are the padded ones.
    """

    name = "graph.layout_transform"
    src = Str()
    dst = Str()

    def infer_types(self) -> list[Tensor]:
        (x,) = self.input_types
        source, target = layout(self.src), layout(self.dst)
        same_axes(source, target)
        held = source.sizes(shape_of(x))
        inferred = tensor(target.shape(held), x.element_type)
        if len(self.results) == 1 and self.type != inferred:
            wanted = target.sizes(shape_of(self.type), "a result")
            fits = all(_holds(target, source, a, wanted[a], held[a]) for a in wanted)
            if not fits or self.type.element_type != x.element_type:
                raise VerifyException(f"expected a result that holds {x} in layout {target}, but got {self.type}")
            return [self.type]
        return [inferred]

    def logical_sizes(self) -> dict[str, Dim]:
        """The size of each axis without the padding of either layout."""
        source, target = layout(self.src), layout(self.dst)
        held = source.sizes(shape_of(self.operands[0].type))
        wanted = target.sizes(shape_of(self.type))
        return {a: _least(target, source, a, wanted[a], held[a]) for a in wanted}

    def moves_nothing(self) -> bool:
        # layout_transform(x, l, l) == x
        return self.src == self.dst

    def evaluate(self, np: ModuleType, *arrays: Array) -> tuple[Any, ...]:
        from mlc.dialects.graph.numerics import layout_transform

        logical: Any = self.logical_sizes()
        return (
            layout_transform(arrays[0], transform_steps(layout(self.src), layout(self.dst), arrays[0].shape, logical)),
        )

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample((tensor((1, 6, 3, 2)),), {"src": "NCHW", "dst": "NCHW4c"}),
            Sample((tensor((1, 2, 3, 2, 4)),), {"src": "NCHW4c", "dst": "NCHW"}, result=tensor((1, 6, 3, 2))),
            Sample((tensor((1, 2, 3, 4)),), {"src": "NCHW", "dst": "NHWC"}),
            Sample((tensor((1, 2, 3, 2, 4)),), {"src": "NCHW4c", "dst": "NCHW2c"}),
            Sample((tensor((6, 3, 2, 2)),), {"src": "OIHW", "dst": "OIHW4i8o"}),
        ]


def _least(target: Layout, source: Layout, letter: str, wanted: Dim, held: Dim) -> Dim:
    """The logical size of an axis: that of the layout that does not pad it, or the smaller one."""
    if isinstance(wanted, DimExpr) or isinstance(held, DimExpr):
        return held if source.factors[letter] == 1 else wanted
    return min(wanted, held)


def _holds(target: Layout, source: Layout, letter: str, wanted: Dim, held: Dim) -> bool:
    """Whether an axis of `held` elements (with padding) in one layout is compatible with `wanted` in the other."""
    logical = _least(target, source, letter, wanted, held)
    known = isinstance(wanted, int) and isinstance(held, int)
    return source.padded(letter, logical) == held and (not known or target.padded(letter, logical) == wanted)


OPS: list[type[GraphOp]] = [LayoutTransformOp]
