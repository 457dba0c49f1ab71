"""Attributes that several converters read from a node: windows of convolutions and pools, used outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlc.dialects.graph.dims import UnequalSizes
from mlc.frontends.common.values import Value
from mlc.frontends.common.windows import WindowSpec
from mlc.frontends.onnx.node import Node


def is_output_used(node: Node, output: int) -> bool:
    """Whether the model names this output of the node."""
    return output < len(node.proto.output) and bool(node.proto.output[output])


def window_padding(
    node: Node, spatial: Sequence[Any], kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """[begin of each axis, end of each axis] from `pads` or `auto_pad`."""
    rank = len(spatial)
    auto = node.attr("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = list(node.attr("pads", [0] * (2 * rank)))
        if len(pads) != 2 * rank or min(pads) < 0:
            raise node.fail(f"expected pads of {2 * rank} integers >= 0, but got {pads}")
        return pads
    if auto == "VALID":
        return [0] * (2 * rank)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.fail(f"expected auto_pad NOTSET, VALID, SAME_UPPER or SAME_LOWER, but got {auto}")
    begins: list[int] = []
    ends: list[int] = []
    for axis in range(rank):
        if (left := spatial[axis] % strides[axis]) != 0 and not isinstance(left, int):
            message = f"expected a size that the stride {strides[axis]} divides, with {auto}, but got {spatial[axis]}"
            raise UnequalSizes(message, (left, 0))
        count = -(-spatial[axis] // strides[axis])
        total = max(0, (count - 1) * strides[axis] + (kernel[axis] - 1) * dilation[axis] + 1 - spatial[axis])
        small, large = total // 2, total - total // 2
        begins.append(small if auto == "SAME_UPPER" else large)
        ends.append(large if auto == "SAME_UPPER" else small)
    return begins + ends


def window(node: Node, x: Value, kernel: Sequence[int]) -> WindowSpec:
    """The windows that a node's attributes describe."""
    rank = len(x.shape) - 2
    if rank < 1:
        raise node.fail(f"expected an input of rank 3 or more, but got rank {rank + 2}")
    if len(kernel) != rank:
        raise node.fail(f"expected a kernel of {rank} sizes, but got {list(kernel)}")
    strides = tuple(node.attr("strides", [1] * rank))
    dilation = tuple(node.attr("dilations", [1] * rank))
    pads = window_padding(node, x.shape[2:], kernel, strides, dilation)
    return WindowSpec(tuple(kernel), strides, dilation, tuple(pads[:rank]), tuple(pads[rank:]))
