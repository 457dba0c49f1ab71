"""Normalisation by means and variances that are computed from the input, without a scale and a shift."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlc.dialects import graph as g
from mlc.frontends.common.elementwise import multiply, reduce, subtract
from mlc.frontends.common.movement import reshape
from mlc.frontends.common.source_node import SourceNode
from mlc.frontends.common.values import Value, dtype_like


def group_normalized(node: SourceNode, x: Value, groups: int, epsilon: float) -> Value:
    """Each of `groups` groups of channels of x, N x C x .., by its mean and variance: an instance norm of groups."""
    n, dtype = x.shape[0], dtype_like(x)
    ones = [node.array(np.full(groups, value).astype(dtype)) for value in (1, 0)]
    flat = reshape(node, x, (n, groups, math.prod(x.shape[1:]) // groups))
    return reshape(node, node.emit(g.InstanceNormOp, flat, *ones, epsilon=epsilon), x.shape)


def centred_and_variance(node: SourceNode, x: Value, axes: Sequence[int]) -> tuple[Value, Value]:
    """
    `x - mean` and the variance along axes, which stay as ones.

    The variance is the mean of the squares of `x - mean`: mean(x * x) - mean(x)^2 cancels where the mean is large.
    """
    centred = subtract(node, x, reduce(node, g.MeanOp, x, axes, True))
    return centred, reduce(node, g.MeanOp, multiply(node, centred, centred), axes, True)
