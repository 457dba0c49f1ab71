"""
Lowers loop.contract to dot-product instructions: the factors that one lane sums are packed in a 32-bit word.

`vector<12x1x2xbf16>` is 12 words, splat one by one; `vector<1x32x2xbf16>` is two native vectors of 16 words. Without a
dot-product instruction the words are unpacked: bytes to two pairs of i16 if the machine sums products of pairs, else
everything to f32 (or i32), followed by multiply-adds. Integer sums are exact: the one saturating instruction that is
used multiplies narrow bytes, whose sums it cannot saturate.

Where factors have several words along a further axis and no matrix unit multiplies them (`matrix.py`), the words are
multiplied one after another: a tile of words has that axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float32Type, IntegerType, VectorType, bf16, i8, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue, Use

from mlc.dialects import loop
from mlc.dialects.index import const, dim
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.builder import NO_FLAGS, Builder, lanes_of, vector_type
from mlc.lowering.loop_to_llvm.matrix import matrix_contract
from mlc.lowering.loop_to_llvm.tiles import Chunk, Tile, chunks, positions

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

DOT_PRODUCTS: dict[tuple[str, Attribute, int], str] = {
    ("dpbf16ps", bf16, 16): "llvm.x86.avx512bf16.dpbf16ps.512",
    ("dpbf16ps", bf16, 8): "llvm.x86.avx512bf16.dpbf16ps.256",
    ("dpbf16ps", bf16, 4): "llvm.x86.avx512bf16.dpbf16ps.128",
    ("dpbusd", i8, 16): "llvm.x86.avx512.vpdpbusd.512",
    ("dpbusd", i8, 8): "llvm.x86.avx512.vpdpbusd.256",
    ("dpbusd", i8, 4): "llvm.x86.avx512.vpdpbusd.128",
    ("dpbusd256", i8, 8): "llvm.x86.avx512.vpdpbusd.256",
    ("dpbusd256", i8, 4): "llvm.x86.avx512.vpdpbusd.128",
}
"""(the instruction's name in the target, the factors' type, lanes of the accumulator) -> LLVM's intrinsic."""

PAIR_PRODUCTS: dict[tuple[str, int], str] = {
    ("pmaddwd", 16): "llvm.x86.avx512.pmaddw.d.512",
    ("pmaddwd", 8): "llvm.x86.avx2.pmadd.wd",
    ("pmaddwd", 4): "llvm.x86.sse2.pmadd.wd",
}
"""(the instruction's name in the target, lanes) -> LLVM's intrinsic for the sum of the products of two pairs of i16."""

BYTE_PAIR_PRODUCTS: dict[tuple[str, int], str] = {
    ("pmaddubsw", 16): "llvm.x86.avx512.pmaddubs.w.512",
    ("pmaddubsw", 8): "llvm.x86.avx2.pmadd.ub.sw",
    ("pmaddubsw", 4): "llvm.x86.ssse3.pmadd.ub.sw.128",
}
"""(the instruction's name in the target, words) -> the sums of the products of two pairs of bytes, saturated to i16."""


# --- loading words ---


def load_words(f: FunctionLowering, op: loop.LoadOp) -> Tile | None:
    """The words of a tile that only contractions read, loaded as words; None if they are not contiguous in memory."""
    t = op.result.type
    if not isinstance(t, VectorType) or not _is_factor(op.result) or (op.mask_exprs and not _is_zero(op.otherwise)):
        return None
    *shape, count = t.get_shape()
    access, sizes = f.access(op.buffer, op.map.data, op), op.tile_sizes
    axis = -len(sizes)
    if axis == -1 or loop.word_factors(access.element) != count:
        return None
    if _is_deep(op.result):
        to = {-1 - k: dim(-2 - k) for k in range(len(sizes) - 2)} | {axis + 1: dim(-1)}
        access = replace(access, offset=access.offset.substitute(to), mask=tuple(m.substitute(to) for m in access.mask))
        shape, sizes = [shape[-1], *shape[:-1]], (sizes[-2], *sizes[:-2], sizes[-1])
    spans = f.addresses.spans({-1 - k: (0, n - 1) for k, n in enumerate(sizes)})
    offset, *others = (access.offset.substitute({axis: const(k)}, spans) for k in range(count))
    if (step := _woven_step(access, len(sizes))) is not None and shape[-1] > 1:
        return Tile(shape, i32, f.kernel.lanes, _woven_words(f, access, shape, count, step))
    if any(other != offset + k + 1 for k, other in enumerate(others)) or any(m.uses(axis) for m in access.mask):
        return None
    words = LoweredAccess(access.base, offset, access.mask, access.element, access.rank - 1, unit=count)
    thunks: list[Callable[[], SSAValue]] = [
        lambda o=outer, c=chunk: f.accesses.load(words, o, c, None)
        for outer, chunk in f.positions(VectorType(i32, shape))
    ]
    return Tile(shape, i32, f.kernel.lanes, thunks)


def _woven_step(access: LoweredAccess, rank: int) -> int | None:
    """The distance of a word's factors if the lanes, not the factors, are contiguous and unmasked; else None."""
    word, lane = -rank, 1 - rank
    step = access.offset.coefficient(word)
    rest = access.offset - dim(word) * step - dim(lane)
    fits = rank > 1 and not access.mask and access.shift is None and step > 1
    return (
        step if fits and access.offset.coefficient(lane) == 1 and not rest.uses(word) and not rest.uses(lane) else None
    )


def _woven_words(
    f: FunctionLowering, access: LoweredAccess, shape: Sequence[int], count: int, step: int
) -> list[Callable[[], SSAValue]]:
    """Words interleaved from `count` contiguous vectors that lie `step` elements apart."""
    lane = -len(shape)

    def words(outer: Sequence[int], chunk: Chunk) -> SSAValue:
        fixed = {-1 - k: const(i) for k, i in enumerate(outer)}
        start = access.offset.substitute({lane: const(chunk.start), lane - 1: const(0), **fixed}, f.addresses.spans())
        b, width = f.b, chunk.width
        if step == width and not chunk.ragged:  # adjacent: one load for all
            both = f.accesses.load_contiguous(access, start, Chunk(0, count * width, count * width))
            woven = b.shuffle(both, both, [k * width + lane for lane in range(width) for k in range(count)])
        else:
            parts = [f.accesses.load_contiguous(access, start + k * step, chunk) for k in range(count)]
            while len(parts) > 1:  # interleave pairwise, up to whole words
                pairs = zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True)
                parts = [b.shuffle(x, y, _alternating(lanes_of(x.type))) for x, y in pairs]
            woven = parts[0]
        return b.cast("bitcast", woven, vector_type(i32, width))

    return [lambda o=outer, c=chunk: words(o, c) for outer, chunk in f.positions(VectorType(i32, shape))]


def _alternating(lanes: int) -> list[int]:
    return [lane + k * lanes for lane in range(lanes) for k in range(2)]


def _is_deep(v: SSAValue) -> bool:
    """Whether the factors of a load have an axis of several words."""
    return any(isinstance(use.operation, loop.ContractOp) and use.operation.steps is not None for use in v.uses)


def _is_factor(v: SSAValue) -> bool:
    return all(_takes_words(use) for use in v.uses)


def _takes_words(use: Use) -> bool:
    """Whether a use takes a tile as words: a contraction's factors, and an intrinsic's operands."""
    op = use.operation
    return isinstance(op, loop.CallIntrinsicOp) or (isinstance(op, loop.ContractOp) and use.index < 2)


def _is_zero(v: SSAValue | None) -> bool:
    while v is not None and isinstance(v.owner, loop.BroadcastOp):
        v = v.owner.value
    value = getattr(v.owner, "value", None) if v is not None else None
    return not getattr(getattr(value, "value", None), "data", 1)


# --- multiplying them ---


def contract(f: FunctionLowering, op: loop.ContractOp) -> None:
    """c + a * b, word by word; by the matrix unit where it can."""
    if matrix_contract(f, op):
        return
    t = op.result.type
    assert isinstance(t, VectorType)
    element, unsigned, narrow = loop.element_of(op.a.type), op.unsigned, op.narrow
    words = [_words(f, v, op.steps) for v in (op.a, op.b)]
    if unsigned == (False, True):
        words, unsigned, narrow = words[::-1], (True, False), narrow[::-1]
    apart = [_taken_apart(f.b, p, element, t.element_type, u) for p, u in zip(words, unsigned, strict=True)]
    spread = [_spread(f.b, p, t.get_shape()[-1]) for p in words]
    pairs = [_pairs(f.b, p, element, u) for p, u in zip(spread, unsigned, strict=True)]
    factors = _Factors(element, unsigned, narrow[1], words, pairs, apart)
    addend, out = f.tile(op.c), list[SSAValue]()
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    steps: list[tuple[int, ...]] = [()] if op.steps is None else [(s,) for s in range(op.steps)]
    for (k, (outer, chunk)), step in product(enumerate(f.positions(t)), steps):

        def take(p: Tile, at: tuple[Any, ...] = ((*step, *outer), k % per_row, chunk)) -> SSAValue:
            return p.take(f.b, *at)

        total = addend.at(k) if step == steps[0] else out.pop()
        out.append(_add_product(f, factors, chunk, take, total))
    f.define(op.result, out)


@dataclass(frozen=True)
class _Factors:
    """The two factors of a contraction, each in the forms that the instructions take."""

    element: Attribute
    unsigned: tuple[bool, bool]
    narrow: bool
    """Whether the second one is of bytes from -64 to 64."""
    words: list[Tile]
    pairs: list[list[Tile]]
    """Words of two i16."""
    apart: list[list[Tile]]
    """Single elements, widened."""


def _add_product(
    f: FunctionLowering, factors: _Factors, chunk: Chunk, take: Callable[[Tile], SSAValue], total: SSAValue
) -> SSAValue:
    """`total` plus the product of a chunk's words, by the instructions that take the most elements at once."""
    b, element, unsigned = f.b, factors.element, factors.unsigned
    if (dot := _dot_product(f, element, unsigned, chunk)) is not None:
        lanes = vector_type(element, chunk.width * loop.word_factors(element))
        x, y = (b.cast("bitcast", take(p), lanes) for p in factors.words)
        return b.intrinsic(dot, [total, x, y], total.type)
    if unsigned == (True, False) and factors.narrow and (dots := _byte_pair_products(f, chunk)) is not None:
        x, y = (b.cast("bitcast", take(p), vector_type(i8, 4 * chunk.width)) for p in factors.words)
        halves = vector_type(i16, 2 * chunk.width)
        sums = [b.intrinsic(dots[0], [x, y], halves), b.number(1, halves)]
        return b.add(total, b.intrinsic(dots[1], sums, total.type))
    if (dot := _pair_product(f, element, unsigned, chunk)) is not None:
        lanes = vector_type(i16, 2 * chunk.width)
        for both in zip(*factors.pairs, strict=True):
            x, y = (b.cast("bitcast", take(p), lanes) for p in both)
            total = b.add(total, b.intrinsic(dot, [x, y], total.type))
        return total
    for x, y in zip(*factors.apart, strict=True):
        total = _multiply_add(b, take(x), take(y), total)
    return total


def _dot_product(f: FunctionLowering, element: Attribute, unsigned: tuple[bool, bool], chunk: Chunk) -> str | None:
    """The dot-product intrinsic for these factors; that of bytes multiplies unsigned by signed ones."""
    if isinstance(element, IntegerType) and unsigned != (True, False):
        return None
    keys = [(name, element, chunk.width) for name in f.kernel.instructions]
    return next((DOT_PRODUCTS[key] for key in keys if key in DOT_PRODUCTS), None)


def _pair_product(f: FunctionLowering, element: Attribute, unsigned: tuple[bool, bool], chunk: Chunk) -> str | None:
    """The intrinsic that sums products of pairs of i16, for i16 and for bytes widened to i16."""
    if element != i8 and (element != i16 or any(unsigned)):
        return None
    keys = [(name, chunk.width) for name in f.kernel.instructions]
    return next((PAIR_PRODUCTS[key] for key in keys if key in PAIR_PRODUCTS), None)


def _byte_pair_products(f: FunctionLowering, chunk: Chunk) -> tuple[str, str] | None:
    """The intrinsics that sum the products of narrow bytes in pairs, then these sums in pairs: nothing saturates."""
    pair = _pair_product(f, i8, (True, False), chunk)
    keys = [(name, chunk.width) for name in f.kernel.instructions]
    sums = next((BYTE_PAIR_PRODUCTS[key] for key in keys if key in BYTE_PAIR_PRODUCTS), None)
    return (sums, pair) if sums is not None and pair is not None else None


def _multiply_add(b: Builder, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    return b.fma(x, y, z) if isinstance(loop.element_of(z.type), AnyFloat) else b.add(b.mul(x, y), z)


def _words(f: FunctionLowering, v: SSAValue, steps: int | None) -> Tile:
    """A factor as a tile of words, without its last axis; if there are steps, they are the first axis."""
    tile = f.tile(v)
    if tile.element == i32 and loop.element_of(v.type) != i32:
        return tile
    *shape, _ = tile.shape
    if steps is not None:
        shape = [steps, *shape[:-1]]
    row, size = shape[-1], prod(shape[1:])

    def word(number: int) -> SSAValue:
        at = number if steps is None else number % size * steps + number // size
        return f.b.cast("bitcast", tile.at(at), i32)

    def vector(first: int, chunk: Chunk) -> SSAValue:
        if not chunk.width:
            return word(first)
        lanes = f.b.poison(vector_type(i32, chunk.width))
        for k in range(chunk.valid):
            lanes = f.b.insert(lanes, word(first + k), k)
        return lanes

    per_row = len(chunks(row, f.kernel.lanes))
    thunks: list[Callable[[], SSAValue]] = [
        lambda n=k // per_row * row + chunk.start, c=chunk: vector(n, c)
        for k, (_, chunk) in enumerate(f.positions(VectorType(i32, shape)))
    ]
    return Tile(shape, i32, f.kernel.lanes, thunks)


def _pairs(b: Builder, words: Tile, element: Attribute, unsigned: bool) -> list[Tile]:
    """Words of two i16, computed when first used: the even bytes of each word and the odd ones, widened."""
    if element != i8:
        return [words]

    def part(place: int) -> Sequence[Callable[[], SSAValue]]:
        return [lambda n=n: _every_other_byte(b, words.at(n), place, unsigned) for n in range(len(words.values))]

    return [Tile(words.shape, i32, words.lanes, part(k)) for k in range(2)]


def _spread(b: Builder, words: Tile, size: int) -> Tile:
    """Words of `size` lanes: a broadcast one is splat before it is unpacked, as a load that splats costs no more."""
    if words.shape[-1] == size:
        return words
    shape, per_row = (*words.shape[:-1], size), len(chunks(size, words.lanes))
    thunks: list[Callable[[], SSAValue]] = [
        lambda k=k, o=outer, c=chunk: words.take(b, o, k % per_row, c)
        for k, (outer, chunk) in enumerate(positions(shape, words.lanes))
    ]
    return Tile(shape, words.element, words.lanes, thunks)


def _every_other_byte(b: Builder, word: SSAValue, place: int, unsigned: bool) -> SSAValue:
    n = lanes_of(word.type)
    v = b.cast("bitcast", word, vector_type(i16, 2 * n if n else 2))
    if unsigned:
        v = _shift(b, llvm.LShrOp, v, 8) if place else b.and_(v, b.number(255, v.type))
    else:
        v = _shift(b, llvm.AShrOp, v if place else _shift(b, llvm.ShlOp, v, 8), 8)
    return b.cast("bitcast", v, word.type)


def _taken_apart(b: Builder, words: Tile, element: Attribute, wide: Attribute, unsigned: bool) -> list[Tile]:
    """One tile of widened elements for each place in a word, computed when first used."""

    def part(place: int) -> Sequence[Callable[[], SSAValue]]:
        count = range(len(words.values))
        return [lambda n=n: _element(b, words.at(n), place, element, wide, unsigned) for n in count]

    return [Tile(words.shape, wide, words.lanes, part(k)) for k in range(loop.word_factors(element))]


def _element(b: Builder, word: SSAValue, place: int, element: Attribute, wide: Attribute, unsigned: bool) -> SSAValue:
    """One element of each word, widened."""
    n = lanes_of(word.type)

    def of(t: Attribute) -> Attribute:
        return vector_type(t, n) if n else t

    bits = loop.WORD_BITS // loop.word_factors(element)
    first = loop.WORD_BITS - bits * (place + 1)  # left shift to the top of the word
    if isinstance(element, BFloat16Type):
        mask = -(1 << 16)
        top = b.and_(word, b.number(mask, word.type)) if not first else _shift(b, llvm.ShlOp, word, first)
        return b.cast("bitcast", top, of(Float32Type()))
    if isinstance(element, IntegerType):
        down = llvm.LShrOp if unsigned else llvm.AShrOp
        return _shift(b, down, _shift(b, llvm.ShlOp, word, first) if first else word, loop.WORD_BITS - bits)
    low = _shift(b, llvm.LShrOp, word, bits * place) if place else word
    narrow = b.cast("bitcast", b.cast("trunc", low, of(IntegerType(bits))), of(element))
    return b.cast("fpext", narrow, of(wide))


def _shift(b: Builder, cls: type[Operation], v: SSAValue, by: int) -> SSAValue:
    flags: dict[str, Attribute] = {"overflowFlags": NO_FLAGS} if cls is llvm.ShlOp else {}
    return b.op(cls, [v, b.number(by, v.type)], v.type, flags)
