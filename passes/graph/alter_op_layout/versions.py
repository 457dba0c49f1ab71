"""
The versions of each value while layouts change: one value, several layouts, transforms made where one is missing.

A value's first version is its native one, in which its op computes it. The values named are the old ones: their
types hold the logical sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.graph import LayoutTransformOp, ReshapeOp, shape_of
from mlc.dialects.graph.layout import layout
from mlc.dialects.graph.types import product, tensor
from mlc.passes.graph.shared.constants import element_of
from mlc.passes.rewriting import Rewriter

PLAIN = "NCHW"


class Versions(Rewriter):
    """Old value -> {layout: new value}; a plain value of any rank has the layout NCHW."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[SSAValue, dict[str, SSAValue]] = {}

    def native(self, value: SSAValue) -> str:
        """The layout in which a value is computed."""
        versions = self.of.get(value)
        return next(iter(versions)) if versions else PLAIN

    def channels_padded(self, value: SSAValue) -> bool:
        """Whether the native version has more channels than the value."""
        order = layout(self.native(value))
        return not order.is_plain and order.padded("C", shape_of(value.type)[1]) != shape_of(value.type)[1]

    def set(self, value: SSAValue, name: str, new: SSAValue) -> None:
        """Note a version of a value."""
        self.of.setdefault(value, {})[name] = new

    def get(self, value: SSAValue, name: str) -> SSAValue:
        """The version of a value in a layout, made if need be before the op that is being converted."""
        versions = self.of.setdefault(value, {PLAIN: value})
        if name not in versions:
            source = PLAIN if PLAIN in versions else next(iter(versions))
            type = self.blocked_type(value, name)
            versions[name] = self.make(LayoutTransformOp, versions[source], src=source, dst=name, result=type)
        return versions[name]

    def blocked_type(self, value: SSAValue, name: str) -> Any:
        """The type of a value in a layout."""
        if name == PLAIN:
            return value.type
        sizes = dict(zip(PLAIN, shape_of(value.type), strict=True))
        return tensor(layout(name).shape(sizes), element_of(value))

    def broadcast(self, value: SSAValue, name: str, channels: Any) -> SSAValue | None:
        """A value that broadcasts to a picture of rank 4, in the form that broadcasts to the picture in `name`."""
        shape = shape_of(value.type)
        if product(shape) == 1:
            plain = self.get(value, PLAIN)
            return plain if len(shape) < 5 else None
        if len(shape) > 4:
            return None
        full = (*(1,) * (4 - len(shape)), *shape)
        if full[1] == channels:
            if len(shape) == 4:
                return self.get(value, name)
            return self.reshaped_version(value, full, name)
        if full[1] != 1:
            return None
        return self.make(ReshapeOp, self.get(value, PLAIN), shape=(*full, *(1,) * (len(layout(name).parts) - 4)))

    def reshaped_version(self, value: SSAValue, shape: Sequence[Any], name: str) -> SSAValue:
        """The value with a shape of rank 4, in a layout."""
        picture = self.make(ReshapeOp, self.get(value, PLAIN), shape=tuple(shape))
        return self.get(picture, name)
