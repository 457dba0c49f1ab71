"""
Stores of floats that are rounded and clipped to bytes, `cast (clip (round %x + z))`: the end of a quantized kernel.

x86 converts with rounding to even and packs 32-bit lanes with saturation: four vectors that are adjacent in memory
become one vector of bytes and one store. On other machines, or without adjacency, each step is an instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import Float32Type, FloatAttr, IntegerType, VectorType, f32, i8, i16, i32
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.index import Index, dim
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.arithmetic.lookup import Lookup, lookup_operand
from mlc.lowering.loop_to_llvm.arithmetic.scalars import emit_cast, emitter_of
from mlc.lowering.loop_to_llvm.builder import Builder, lanes_of, vector_type

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

PACKING_FEATURE = "pmaddwd"
"""Feature that implies all x86 pack and convert instructions below."""
ROUNDED: dict[int, str] = {
    16: "llvm.x86.avx512.mask.cvtps2dq.512",
    8: "llvm.x86.avx.cvt.ps2dq.256",
    4: "llvm.x86.sse2.cvtps2dq",
}
"""Lanes -> the intrinsic that converts floats to i32, rounded to even."""
PACKED: dict[int, tuple[str, str, str]] = {
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.packuswb.512", "llvm.x86.avx512.packsswb.512"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.packuswb", "llvm.x86.avx2.packsswb"),
    4: ("llvm.x86.sse2.packssdw.128", "llvm.x86.sse2.packuswb.128", "llvm.x86.sse2.packsswb.128"),
}
"""Lanes -> the intrinsics that pack i32 to i16, i16 to unsigned bytes, i16 to signed bytes, each within 128 bits."""
ADDED = {lanes: f"llvm.sadd.sat.v{2 * lanes}i16" for lanes in PACKED}
"""Lanes -> the intrinsic that adds two vectors of twice as many i16, with saturation."""
RANGES = {"fptoui": (0, 255), "fptosi": (-128, 127)}


@dataclass
class Saturated:
    """The operands of `clip (round %x + zero), low, high` as bytes; zero, low and high are integers."""

    x: SSAValue
    zero: int
    low: int
    high: int
    kind: str


def saturated(f: FunctionLowering, op: Operation | Block) -> Saturated | None:
    """Match a cast of rounded and clipped floats to bytes, whose only use is a store; None if it does not match."""
    if PACKING_FEATURE not in f.kernel.instructions or not isinstance(op, loop.CastOp) or op.kind.data not in RANGES:
        return None
    t = op.result.type
    if not isinstance(t, VectorType) or t.element_type != i8 or not _is_stored(f, op.result):
        return None
    least, most = RANGES[op.kind.data]
    top, high = _with_number(op.value, arith.MinimumfOp)
    middle, low = _with_number(top, arith.MaximumfOp)
    rounded, zero = _with_number(middle, arith.AddfOp)
    rounded, zero = (middle, 0) if rounded is None else (rounded, zero)
    if rounded is None or not isinstance(rounded.owner, math.RoundEvenOp) or None in (high, low, zero):
        return None
    if loop.element_of(rounded.type) != f32 or not least <= low <= high <= most or not -most <= zero <= most:
        return None
    return Saturated(rounded.owner.operands[0], zero, low, high, op.kind.data)


def _is_stored(f: FunctionLowering, v: SSAValue) -> bool:
    """Whether the only use of a value, or of its byte look-up, is a store in the same block."""
    block = v.owner.parent if isinstance(v.owner, Operation) else None
    user = v.get_user_of_unique_use()
    while isinstance(user, loop.CastOp) and user.kind.data in ("extui", "index_cast"):
        user = user.result.get_user_of_unique_use()
    if isinstance(user, loop.GatherOp):
        if lookup_operand(f, user) is not v:
            return False
        v, user = user.result, user.result.get_user_of_unique_use()
    return isinstance(user, loop.StoreOp) and user.value is v and user.parent is block


def defer(f: FunctionLowering, op: Operation) -> bool:
    """Leave a saturating cast, or the look-up of one, to the lowering of its store; False for other ops."""
    if saturated(f, op) is None and not any(v in f.deferred for v in op.operands):
        return False
    f.deferred.add(op.results[0])
    return True


def _with_number(v: SSAValue | None, cls: type[Operation]) -> tuple[SSAValue | None, Any]:
    """The operands of `cls %v, number`, the number as an integer; None for each that does not match."""
    op = v.owner if v is not None else None
    if not isinstance(op, cls):
        return None, None
    number = op.operands[1]
    while isinstance(number.owner, loop.BroadcastOp):
        number = number.owner.value
    if not isinstance(number.owner, arith.ConstantOp) or not isinstance(number.type, Float32Type):
        return op.operands[0], None
    assert isinstance(number.owner.value, FloatAttr)
    value = number.owner.value.value.data
    return op.operands[0], int(value) if value.is_integer() else None


def store_saturated(f: FunctionLowering, op: loop.StoreOp) -> bool:
    """Lower the store of a deferred cast or look-up; False if the stored value is not deferred."""
    if op.value not in f.deferred:
        return False
    owner = op.value.owner
    lookup = Lookup(f, owner) if isinstance(owner, loop.GatherOp) else None
    s = saturated(f, owner if lookup is None else lookup.q.owner)
    assert s is not None
    access, t = f.access(op.buffer, op.map.data, op), op.value.type
    assert isinstance(t, VectorType)
    places, natives = list(f.positions(t)), f.natives(s.x)
    done: set[int] = set()
    for group, offset in _side_by_side(f, access, places):
        whole = _packed(f.b, s, [natives[k] for k in group])
        _store_parts(f, access, offset, len(group), whole if lookup is None else lookup.of(whole))
        done.update(group)
    for k, (outer, chunk) in enumerate(places):
        if k not in done:
            one = _alone(f.b, s, natives[k])
            f.accesses.store(access, outer, chunk, one if lookup is None else lookup.of(one))
    return True


def _side_by_side(f: FunctionLowering, access: LoweredAccess, places: Sequence[Any]) -> list[tuple[list[int], Index]]:
    """Groups of two to four full vectors that are adjacent in memory, with the offset of the first."""
    if access.mask or access.shift is not None or not access.rank:
        return []
    found: dict[Any, dict[int, int]] = {}
    firsts: dict[Any, Index] = {}
    for k, (outer, chunk) in enumerate(places):
        offset, _ = access.place(f.addresses, outer, chunk)
        lane = -access.rank
        first = offset - dim(lane)
        if chunk.ragged or chunk.width not in PACKED or offset.coefficient(lane) != 1 or first.uses(lane):
            continue
        key = (chunk.width, tuple(first.terms))
        found.setdefault(key, {})[first.const] = k
        firsts.setdefault(key, first - first.const)
    groups: list[tuple[list[int], Index]] = []
    for key, by_offset in found.items():
        run: list[int] = []
        for offset in sorted(by_offset):
            follows = run and offset == run[-1] + key[0] and len(run) < 4
            if not follows:
                groups += _group(run, by_offset, firsts[key])
                run = []
            run.append(offset)
        groups += _group(run, by_offset, firsts[key])
    return groups


def _group(run: list[int], by_offset: dict[int, int], first: Index) -> list[tuple[list[int], Index]]:
    return [([by_offset[offset] for offset in run], first + run[0])] if len(run) > 1 else []


def _packed(b: Builder, s: Saturated, group: Sequence[SSAValue]) -> SSAValue:
    """Vectors of floats as one of bytes: convert each, pack pairwise twice, restore the order."""
    t = group[0].type
    assert isinstance(t, VectorType)
    width = t.get_shape()[0]
    words, unsigned, signed = PACKED[width]
    numbers = [_rounded(b, s, v, width) for v in group]
    numbers += [numbers[-1]] * (-len(group) % 2)
    halves = [
        b.intrinsic(words, [x, y], vector_type(i16, 2 * width))
        for x, y in zip(numbers[::2], numbers[1::2], strict=True)
    ]
    if s.zero:  # saturating twice, to i16 here and to bytes below, gives the same bytes
        halves = [b.intrinsic(ADDED[width], [v, b.number(s.zero, v.type)], v.type) for v in halves]
    pack = unsigned if s.kind == "fptoui" else signed
    whole = b.intrinsic(pack, [halves[0], halves[-1]], vector_type(i8, 4 * width))
    if width > 4:  # packing within 128 bits left four bytes of each vector in each part
        parts = width // 4
        as_words = b.cast("bitcast", whole, vector_type(i32, width))
        order = [4 * part + v for v in range(4) for part in range(parts)]
        whole = b.cast("bitcast", b.shuffle(as_words, as_words, order), vector_type(i8, 4 * width))
    return whole


def _store_parts(f: FunctionLowering, access: LoweredAccess, offset: Index, count: int, whole: SSAValue) -> None:
    """Store the first `count` quarters of a vector."""
    width, start = lanes_of(whole.type) // 4, 0
    for piece in (4, 2, 1):
        if count & piece:
            lanes = range(start * width, (start + piece) * width)
            value = whole if piece == 4 else f.b.shuffle(whole, whole, list(lanes))
            f.accesses.store_vector(access, offset + start * width, value)
            start += piece


def _rounded(b: Builder, s: Saturated, v: SSAValue, width: int) -> SSAValue:
    """Converted to i32, and clipped only where packing does not saturate to the same bounds."""
    least, _ = RANGES[s.kind]
    v = emitter_of(arith.MinimumfOp)(b, [v, b.number(float(s.high - s.zero), v.type)], v.type)
    if s.low > least or s.zero < 0:
        v = emitter_of(arith.MaximumfOp)(b, [v, b.number(float(s.low - s.zero), v.type)], v.type)
    t = vector_type(i32, width)
    args = [v]
    if width == 16:  # passthru, mask, and the current rounding mode
        args += [b.number(0, t), b.number(-1, IntegerType(16)), b.number(4, i32)]
    return b.intrinsic(ROUNDED[width], args, t)


def _alone(b: Builder, s: Saturated, v: SSAValue) -> SSAValue:
    """A single vector or scalar converted to bytes step by step."""
    total = emitter_of(math.RoundEvenOp)(b, [v], v.type)
    if s.zero:
        total = emitter_of(arith.AddfOp)(b, [total, b.number(float(s.zero), v.type)], v.type)
    for cls, limit in ((arith.MaximumfOp, s.low), (arith.MinimumfOp, s.high)):
        total = emitter_of(cls)(b, [total, b.number(float(limit), v.type)], v.type)
    return emit_cast(b, s.kind, total, i8)
