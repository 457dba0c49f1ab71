"""Contiguous copies of large arrays, by all CPUs: folding constants moves each weight of a model once or twice."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from mlc.support.threads import available_cpus

if TYPE_CHECKING:
    from mlc.support.weights import Array

_SHARED_BYTES = 4 << 20
"""Arrays below this size are copied by one thread: starting another costs some 50 us."""


def contiguous(x: Array) -> Array:
    """As np.ascontiguousarray; a large copy is dealt out to threads along the first axis (numpy lets them run)."""
    if x.flags.c_contiguous or x.nbytes < _SHARED_BYTES or x.ndim == 0:
        return np.ascontiguousarray(x)
    result = np.empty(x.shape, x.dtype)
    parts = min(available_cpus(), x.shape[0])
    ends = [x.shape[0] * k // parts for k in range(parts + 1)]

    def copy(part: slice) -> None:
        result[part] = x[part]

    with ThreadPoolExecutor(parts) as pool:
        list(pool.map(copy, (slice(a, b) for a, b in itertools.pairwise(ends))))
    return result
