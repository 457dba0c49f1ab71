"""Which block of channels a tensor gets, and the names of blocked layouts."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.graph import DimExpr
from mlc.dialects.graph.types import Dim, element_of
from mlc.dialects.loop import word_factors
from mlc.targets.cost.thresholds import HALF_VECTOR_COST, LEAST_LANES, PADDING_WASTE, SHARED_VECTOR_COST
from mlc.targets.target import Target


def padded(size: int, block: int) -> int:
    """`size` rounded up to a multiple of `block`."""
    return -(-size // block) * block


def wasteful(size: int, block: int) -> bool:
    """Whether padding `size` up to `block` costs too much."""
    return padded(size, block) >= size * (1 + PADDING_WASTE)


def channel_block(size: int, block: int, halves: bool = False) -> int:
    """
    The block of channels: all channels where they are fewer than `block`, half a block where that pads less, else
    `block`: `block = 16: 64 -> 16, 120 -> 16 (8 padded), 40 -> 8, 67 -> 8 (5 padded), 3 -> 3`.

    With `halves` (the target computes a vector as two halves), half a block takes about half of the time: `120 -> 8`.
    """
    if size < block and wasteful(size, block):
        return size
    half, cost = block // 2, HALF_VECTOR_COST if halves else SHARED_VECTOR_COST
    return half if half > 1 and padded(size, half) * cost <= padded(size, block) else block


def unit_block(units: int, block: int) -> int:
    """
    The block of a dense layer's units: `block` where padding up to it is cheap, all units where they are fewer, else
    half a block where that divides them: `block = 16: 44 -> 16, 24 -> 8, 20 -> 16`.

    A block that fills no vector of AVX2 has no lanes: units in blocks of 4 took 4 to 7 times as long.
    """
    if not wasteful(units, block):
        return block
    if units < block:
        return units
    half = block // 2
    return half if half >= LEAST_LANES and units % half == 0 else block


def whole_block(size: int, wide: int, block: int) -> int:
    """The largest of `wide`, its halves and `block` that divides `size`; else `block`: `wide = 64: 96 -> 32`."""
    while wide > block and size % wide:
        wide //= 2
    return max(wide, block)


def words(x: SSAValue, w: SSAValue, channels: Dim) -> int:
    """Channels of picture and weights in one word, if dot-product instructions can multiply them; else 1."""
    counts = {word_factors(element_of(v)) for v in (x, w)}
    count = counts.pop()
    return count if not counts and isinstance(channels, int) and channels % count == 0 else 1


def whole_words(inner: int, x: SSAValue, w: SSAValue, block: int) -> int:
    """A picture's block of channels; one smaller than `block` is padded to whole words of its bytes: `3 -> 4`."""
    count = words(x, w, 0)
    return padded(inner, count) if count > 1 and inner < block else inner


def divisor_block(size: int, block: int, halves: bool = False) -> int:
    """
    The largest divisor of `size` that is at most `block`: blocks inside a group cannot be padded.

    With `halves` (the target computes a vector as two halves), one and a half blocks are taken where they divide `size`
    and one block does not: `block = 16: 24 -> 12`, with halves `24 -> 24`.
    """
    if halves and size % block and size % (block + block // 2) == 0:
        return block + block // 2
    return max(b for b in range(1, min(size, block) + 1) if size % b == 0)


def words_block(size: int, block: int, count: int) -> int:
    """
    The largest divisor of a group's `size` channels that is at most `block` and has whole words of `count` channels.

    `block = 16, count = 4: 24 -> 12, 40 -> 8`; `count` divides `size`.
    """
    return count * divisor_block(size // count, block // count)


def in_halves(block: int, target: Target) -> bool:
    """Whether a block of channels fills a vector of the target, and the target computes a vector as two halves."""
    return target.splits_vectors and block == target.lanes("f32")


def groups_in_block(inputs: int, outputs: int, groups: int, block: int) -> int:
    """
    How many groups share one block of channels; 1 if each group has blocks of its own.

    `block = 16: 4 channels in and out, 32 groups -> 4`. Groups share a block if the output channels of several of them
    fill it exactly, and their input channels need no wider one.
    """
    side = block // outputs
    fits = side > 1 and outputs * side == block and inputs * side <= block and groups % side == 0
    return side if fits else 1


def static_size(size: Dim) -> int | None:
    """The size if it is static; None if it is symbolic."""
    return None if isinstance(size, DimExpr) else size


def data_name(block: int) -> str:
    """`16 -> NCHW16c`."""
    return f"NCHW{block}c"


def planes_name(channels: int) -> str:
    """`4 -> NC4cHW`: a view of the plain layout, groups of 4 channels."""
    return f"NC{channels}cHW"


def kernel_name(inner: int, outer: int, word: int = 1) -> str:
    """`3, 16 -> OIHW3i16o`; a depthwise kernel has no inner block: `0, 16 -> OIHW16o`; `8, 16, 2 -> OIHW4i16o2i`."""
    if word > 1:
        return f"OIHW{inner // word}i{outer}o{word}i" if inner > word else f"OIHW{outer}o{word}i"
    return "OIHW" + (f"{inner}i" if inner else "") + (f"{outer}o" if outer > 1 else "")
