"""Windows added up where they overlap: the adjoint of reading windows from a picture."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mlc.frontends.common.elementwise import add
from mlc.frontends.common.movement import dilate_axis, index_axis, reshape, slice_axis
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value


def col2im(
    node: SourceNode,
    x: Value,
    image: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    pads: Sequence[int],
) -> Value:
    """N x (C * taps) x windows as N x C x image, each window added where it lies; pads are begins, then ends."""
    rank = len(image)
    room = [n + pads[a] + pads[a + rank] for a, n in enumerate(image)]
    blocks = [(room[a] - (kernel[a] - 1) * dilation[a] - 1) // strides[a] + 1 for a in range(rank)]
    taps, count = math.prod(kernel), math.prod(blocks)
    if len(x.shape) != 3 or x.shape[1] % taps or x.shape[2] != count:
        raise node.fail(f"expected an input of N x (C * {taps}) x {count}, but got {list(x.shape)}")
    channels = x.shape[1] // taps
    windows = reshape(node, x, (x.shape[0], channels, taps, *blocks))
    total: Value | None = None
    for tap, offsets in enumerate(itertools.product(*map(range, kernel))):
        y = index_axis(node, windows, 2, tap)
        for a, offset in enumerate(offsets):
            y = dilate_axis(node, y, 2 + a, strides[a], offset * dilation[a], room[a])
        total = y if total is None else add(node, total, y)
    assert total is not None
    for a, n in enumerate(image):
        total = slice_axis(node, total, 2 + a, pads[a], pads[a] + n)
    return total
