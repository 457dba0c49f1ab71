"""What stays in L1 and L2, and how fast the rest comes."""

from __future__ import annotations

from math import gcd

from mlc.targets.cost.thresholds import L2_SHARE, L3_SHARE, LEAST_DEPTH_BLOCK, PACKED_L2_SHARE
from mlc.targets.cost.tiles import divisors, even_split
from mlc.targets.target import Target

FLOAT_BYTES = 4
"""Bytes of an element, as the model counts where it does not ask for its type: most kernels sum in f32, or in i32."""


def planned_l2_bytes(target: Target) -> int:
    """The bytes of L2 that a schedule fills with what it uses again."""
    return int(target.l2_bytes * L2_SHARE)


def is_far(size: float, target: Target) -> bool:
    """Whether `size` bytes exceed the planned part of L2."""
    return size > planned_l2_bytes(target)


def gains_by_prefetch(size: float, target: Target) -> bool:
    """Whether loops gain by instructions that fetch `size` bytes of weights ahead: from memory, or from L3 as well."""
    return size > target.l3_bytes or target.core.l3_prefetch_gain_cycles > 0


def far_bytes_per_cycle(size: float, target: Target) -> float:
    """Bytes per cycle at which `size` bytes are read again: from L3, or from memory if they exceed L3's share."""
    core = target.core
    return core.l3_bytes_per_cycle if size <= target.l3_bytes * L3_SHARE else core.memory_bytes_per_cycle


def spilled_bytes_per_cycle(size: float, target: Target) -> float:
    """The rate of intermediate results that are written beyond L2 and read again."""
    core = target.core
    fits = size <= target.l3_bytes * L3_SHARE
    return core.spill_l3_bytes_per_cycle if fits else core.spill_memory_bytes_per_cycle


def streams(stride: int, target: Target) -> int:
    """How many rows, `stride` bytes apart, can be walked at once before their lines evict each other from L1."""
    way = target.core.l1_way_bytes
    ways = max(1, target.l1_bytes // way)
    return ways * (way // gcd(max(stride, 1), way))


def share_a_set(stride: int, target: Target) -> bool:
    """Whether rows, `stride` bytes apart, map to the same sets of L1."""
    return stride % target.core.l1_way_bytes == 0


def leave_l2(rows: int, stride: int, target: Target) -> bool:
    """Whether `rows` rows, `stride` bytes apart, evict each other from L2; the power of 2 in `stride` decides."""
    return rows * (stride & -stride) > PACKED_L2_SHARE * target.l2_bytes


def depth_block(depth: int, step_bytes: int, target: Target) -> int:
    """The reduction steps whose strip of rows, `step_bytes` a step, fits L1; a divisor of all steps if one is near."""
    most = max(LEAST_DEPTH_BLOCK, target.l1_bytes // step_bytes)
    if depth <= most:
        return depth
    fitting = [d for d in divisors(depth) if most // 2 < d <= most]
    return fitting[-1] if fitting else even_split(depth, most)
