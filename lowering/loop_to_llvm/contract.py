"""
loop.contract: the factors that a lane sums are one word, and a machine's dot product takes vectors of words.

`vector<12x1x2xbf16>` is 12 words, splat one by one; `vector<1x32x2xbf16>` is two native vectors of 16 words. A machine
without the instruction takes the words apart into f32 (or i32) and multiplies and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, Float32Type, IntegerType, VectorType, i32
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import const
from mlc.lowering.loop_to_llvm.accesses import Access
from mlc.lowering.loop_to_llvm.builder import NO_FLAGS, Builder, lanes_of, vector_type
from mlc.lowering.loop_to_llvm.tiles import Chunk, Tile, chunks

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

DOT_PRODUCTS: dict[tuple[str, type[Attribute], int], str] = {
    ("dpbf16ps", BFloat16Type, 16): "llvm.x86.avx512bf16.dpbf16ps.512",
    ("dpbf16ps", BFloat16Type, 8): "llvm.x86.avx512bf16.dpbf16ps.256",
    ("dpbf16ps", BFloat16Type, 4): "llvm.x86.avx512bf16.dpbf16ps.128",
}
"""(the instruction's name in the target, the factors' type, lanes of the accumulator) -> LLVM's intrinsic."""


# --- loading words ---


def load_words(f: FunctionLowering, op: loop.LoadOp) -> Tile | None:
    """The words of a tile that only contractions read, loaded as such; None where they do not lie together."""
    t = op.result.type
    if not isinstance(t, VectorType) or not _is_factor(op.result) or (op.mask_exprs and not _is_zero(op.otherwise)):
        return None
    *shape, count = t.get_shape()
    access = f.access(op.buffer, op.map.data, op)
    axis = -len(op.tile_sizes)
    if axis == -1 or loop.word_factors(access.element) != count:
        return None
    spans = f.addresses.spans({-1 - k: (0, n - 1) for k, n in enumerate(op.tile_sizes)})
    offset, *others = (access.offset.substitute({axis: const(k)}, spans) for k in range(count))
    if any(other != offset + k + 1 for k, other in enumerate(others)) or any(m.uses(axis) for m in access.mask):
        return None
    words = Access(access.base, offset, access.mask, access.element, access.rank - 1, unit=count)
    thunks: list[Callable[[], SSAValue]] = [
        lambda o=outer, c=chunk: f.accesses.load(words, o, c, None)
        for outer, chunk in f.positions(VectorType(i32, shape))
    ]
    return Tile(shape, i32, f.kernel.lanes, thunks)


def _is_factor(v: SSAValue) -> bool:
    return all(isinstance(use.operation, loop.ContractOp) and use.index < 2 for use in v.uses)


def _is_zero(v: SSAValue | None) -> bool:
    while v is not None and isinstance(v.owner, loop.BroadcastOp):
        v = v.owner.value
    value = getattr(v.owner, "value", None) if v is not None else None
    return not getattr(getattr(value, "value", None), "data", 1)


# --- multiplying them ---


def contract(f: FunctionLowering, op: loop.ContractOp) -> None:
    """c + a * b, word by word."""
    t = op.result.type
    assert isinstance(t, VectorType)
    element = loop.element_of(op.a.type)
    a, b = (_words(f, v) for v in (op.a, op.b))
    apart = [_taken_apart(f.b, tile, element, t.element_type) for tile in (a, b)]
    addend, out = f.tile(op.c), []
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    for k, (outer, chunk) in enumerate(f.positions(t)):
        intrinsic = next((DOT_PRODUCTS[key] for key in _keys(f, element, chunk) if key in DOT_PRODUCTS), None)
        total = addend.at(k)
        if intrinsic is not None:
            lanes = vector_type(element, chunk.width * loop.word_factors(element))
            x, y = (f.b.cast("bitcast", p.take(f.b, outer, k % per_row, chunk), lanes) for p in (a, b))
            total = f.b.intrinsic(intrinsic, [total, x, y], total.type)
        else:
            for x, y in zip(*apart, strict=True):
                factors = [p.take(f.b, outer, k % per_row, chunk) for p in (x, y)]
                total = _multiply_add(f.b, factors[0], factors[1], total)
        out.append(total)
    f.define(op.result, out)


def _keys(f: FunctionLowering, element: Attribute, chunk: Chunk) -> list[tuple[str, type[Attribute], int]]:
    return [(name, type(element), chunk.width) for name in f.kernel.instructions]


def _multiply_add(b: Builder, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    return b.fma(x, y, z) if isinstance(loop.element_of(z.type), AnyFloat) else b.add(b.mul(x, y), z)


def _words(f: FunctionLowering, v: SSAValue) -> Tile:
    """A factor as a tile of words, without its last axis."""
    tile = f.tile(v)
    if tile.element == i32 and loop.element_of(v.type) != i32:
        return tile
    *shape, _ = tile.shape
    row = shape[-1]

    def word(number: int) -> SSAValue:
        return f.b.cast("bitcast", tile.at(number), i32)

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


def _taken_apart(b: Builder, words: Tile, element: Attribute, wide: Attribute) -> list[Tile]:
    """One tile of widened elements for each place in a word, computed when first used."""

    def part(place: int) -> Sequence[Callable[[], SSAValue]]:
        return [lambda n=n: _element(b, words.at(n), place, element, wide) for n in range(len(words.values))]

    return [Tile(words.shape, wide, words.lanes, part(k)) for k in range(loop.word_factors(element))]


def _element(b: Builder, word: SSAValue, place: int, element: Attribute, wide: Attribute) -> SSAValue:
    """One element of each word, widened."""
    n = lanes_of(word.type)

    def of(t: Attribute) -> Attribute:
        return vector_type(t, n) if n else t

    bits = loop.WORD_BITS // loop.word_factors(element)
    first = loop.WORD_BITS - bits * (place + 1)  # how far left the element stands from the top of the word
    if isinstance(element, BFloat16Type):
        mask = -(1 << 16)
        top = b.and_(word, b.number(mask, word.type)) if not first else _shift(b, llvm.ShlOp, word, first)
        return b.cast("bitcast", top, of(Float32Type()))
    if isinstance(element, IntegerType):
        return _shift(b, llvm.AShrOp, _shift(b, llvm.ShlOp, word, first) if first else word, loop.WORD_BITS - bits)
    low = _shift(b, llvm.LShrOp, word, bits * place) if place else word
    narrow = b.cast("bitcast", b.cast("trunc", low, of(IntegerType(bits))), of(element))
    return b.cast("fpext", narrow, of(wide))


def _shift(b: Builder, cls: Any, v: SSAValue, by: int) -> SSAValue:
    flags: dict[str, Attribute] = {"overflowFlags": NO_FLAGS} if cls is llvm.ShlOp else {}
    return b.op(cls, [v, b.number(by, v.type)], v.type, flags)
