"""Loads, stores and gathers of tiles as native loads and stores: contiguous, splat, strided, masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import llvm
from xdsl.dialects.builtin import IndexType, i1, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.index import Index, const, dim
from mlc.dialects.llvm_ext.rules import element_of, lanes_of
from mlc.dialects.scalar import byte_size
from mlc.lowering.loop_to_llvm.access.address import Addresses
from mlc.lowering.loop_to_llvm.builder import Builder, memory_type
from mlc.lowering.loop_to_llvm.tiles import Chunk, native_type
from mlc.targets.cost.thresholds import STRIDED_LANES

_FAR = 1 << 30
"""Elements between neighbouring lanes, or indices, beyond which 32 bits do not tell whether a condition holds."""


@dataclass
class LoweredAccess:
    """One access of a tile: the element offset and the mask over machine variables and tile axes."""

    base: SSAValue
    offset: Index
    mask: tuple[Index, ...]
    element: Attribute
    rank: int  # of the tile; 0 for a scalar access
    shift: SSAValue | None = None  # elements to add to the offset, where a look-up gives them
    row: int = 1  # elements along the buffer's last dimension
    unit: int = 1  # elements that are loaded as one word of i32

    @property
    def loaded(self) -> Attribute:
        """The type of what one lane loads, in memory."""
        return memory_type(self.element) if self.unit == 1 else i32

    def place(self, addresses: Addresses, outer: Sequence[int], chunk: Chunk) -> tuple[Index, tuple[Index, ...]]:
        """Offset and mask of one native value: the outer tile axes are substituted, the lane axis counts from 0."""
        if not self.rank:
            return self.offset, self.mask
        lane = -self.rank
        to = {-1 - k: const(i) for k, i in enumerate(outer)}
        lanes = {}
        if chunk.width:
            to[lane] = dim(lane) + chunk.start
            lanes = {lane: (0, chunk.valid - 1)}
        else:
            to[lane] = const(chunk.start)
        spans = addresses.spans(lanes)
        return self.offset.substitute(to, spans), tuple(m.substitute(to, spans) for m in self.mask)


class Accesses:
    """Emits the accesses of one function."""

    def __init__(self, b: Builder, addresses: Addresses) -> None:
        self.b = b
        self.addresses = addresses
        self._loaded: dict[tuple[object, ...], SSAValue] = {}

    # --- masks ---

    def condition(self, exprs: Sequence[Index], lane: int, chunk: Chunk) -> SSAValue | bool:
        """Whether all expressions are >= 0: a static bool, an i1 (the same for all lanes), or a vector of i1."""
        b, parts = self.b, list[SSAValue]()
        spans = self.addresses.spans({lane: (0, max(chunk.valid - 1, 0))})
        for e in exprs:
            if self.addresses.holds(e, spans):
                continue
            if e.bounds(spans)[1] < 0:
                return False
            parts.append(self._one_condition(e, lane, chunk))
        vectors = [p for p in parts if p.type != i1]
        scalar: SSAValue | None = None
        for p in parts:
            if p.type == i1:
                scalar = p if scalar is None else b.and_(scalar, p)
        if not vectors:
            return True if scalar is None else scalar
        total = vectors[0]
        for v in vectors[1:]:
            total = b.and_(total, v)
        return total if scalar is None else b.and_(total, b.splat(scalar, chunk.width))

    def _one_condition(self, e: Index, lane: int, chunk: Chunk) -> SSAValue:
        b = self.b
        if not e.uses(lane):
            return b.icmp("sge", self.addresses.value(e), b.int(0))
        step = e.coefficient(lane)
        if (holds := self._reaches(e - dim(lane) * step, [step * k for k in range(chunk.width)])) is not None:
            return holds
        values = self.lane_values(e, lane, chunk)
        return b.icmp("sge", values, b.number(0, values.type))

    def _reaches(self, rest: Index, steps: Sequence[int | None]) -> SSAValue | None:
        """
        The lanes k where `rest + steps[k] >= 0`, compared in 32 bits; a lane whose step is None is left out.

        A rest outside of 32 bits is limited to them, which leaves its sign. None if it uses a tile axis.
        """
        b, most = self.b, max(abs(k + rest.const) for k in steps if k is not None)
        if any(d < 0 for d in rest.dims()) or most >= _FAR:
            return None
        value = self.addresses.value(rest - rest.const)
        value = b.intrinsic("llvm.smin.i64", [value, b.int(_FAR)], i64)
        value = b.cast("trunc", b.intrinsic("llvm.smax.i64", [value, b.int(-_FAR)], i64), i32)
        needed = b.lanes([2 * _FAR - 1 if k is None else -k - rest.const for k in steps], i32)
        return b.icmp("sge", b.splat(value, len(steps)), needed)

    def lane_values(self, e: Index, lane: int, chunk: Chunk) -> SSAValue:
        """A vector of i64 with the expression's value in each lane."""
        b = self.b
        step = e.coefficient(lane)
        rest = e - dim(lane) * step
        if rest.uses(lane):  # inside of a floordiv or mod: computed lane by lane
            v = b.poison(native_type(i64, chunk))
            for k in range(chunk.valid):
                one = e.substitute({lane: const(k)}, self.addresses.spans())
                v = b.insert(v, self.addresses.value(one), k)
            return v
        start = rest.const
        iota = b.lanes([start + step * k for k in range(chunk.width)], i64)
        rest = rest - start
        return iota if not rest.terms else b.add(b.splat(self.addresses.value(rest), chunk.width), iota)

    def _with_valid(self, mask: SSAValue | bool, chunk: Chunk) -> SSAValue | bool:
        """The mask without the invalid lanes of a ragged chunk."""
        if not chunk.ragged or mask is False:
            return mask
        valid = self.b.lanes([int(k < chunk.valid) for k in range(chunk.width)], i1)
        if mask is True:
            return valid
        if mask.type == i1:
            mask = self.b.splat(mask, chunk.width)
        return self.b.and_(mask, valid)

    def pointer(self, a: LoweredAccess, offset: Index) -> SSAValue:
        """The address of an element."""
        p = self.addresses.pointer(a.base, offset, a.element)
        return p if a.shift is None else self.b.gep(p, a.shift, memory_type(a.element))

    def _placed(
        self, a: LoweredAccess, outer: Sequence[int], chunk: Chunk
    ) -> tuple[Index, tuple[Index, ...], int, SSAValue | bool]:
        """The offset of an access, the expressions of its mask, the dimension of the lanes in both, and the mask."""
        offset, exprs = a.place(self.addresses, outer, chunk)
        lane = -a.rank if a.rank else -1
        return offset, exprs, lane, self.condition(exprs, lane, chunk)

    def _at_lane(
        self, a: LoweredAccess, offset: Index, mask: SSAValue | bool, lane: int, k: int
    ) -> tuple[Index, SSAValue | bool]:
        """The offset of one lane, and whether it is read or written; all lanes are where the access has no mask."""
        at = offset.substitute({lane: const(k)}, self.addresses.spans())
        if not a.mask or not isinstance(mask, SSAValue):
            return at, True
        return at, mask if mask.type == i1 else self.b.extract(mask, k)

    # --- loads ---

    def load(self, a: LoweredAccess, outer: Sequence[int], chunk: Chunk, otherwise: SSAValue | None) -> SSAValue:
        """One native value of a load."""
        offset, exprs, lane, mask = self._placed(a, outer, chunk)
        if mask is False:
            return self._or_zero(otherwise, native_type(a.loaded, chunk))
        if not chunk.width:
            return self._chosen(mask, self._load_scalar(a, offset, mask), otherwise)
        step = offset.coefficient(lane)
        rest = offset - dim(lane) * step
        if rest.uses(lane) or step not in (0, a.unit):
            if a.unit == 1 and (pattern := self._load_pattern(a, offset, exprs, lane, chunk, otherwise)) is not None:
                return pattern
            if self._is_near(a, rest, step, lane, mask):
                return self._load_apart(a, rest, step, exprs, chunk, self._with_valid(mask, chunk), otherwise)
            return self._load_lanes(a, offset, lane, chunk, self._with_valid(mask, chunk), otherwise)
        if step == 0:
            v = self._load_scalar(a, rest, self._any_lane(mask, chunk))
            return self._chosen(mask, self.b.splat(v, chunk.width), otherwise)
        whole = mask if isinstance(mask, SSAValue) and mask.type == i1 else None
        return self._load_vector(a, rest, chunk, self._with_valid(mask, chunk), otherwise, whole)

    def _chosen(self, mask: SSAValue | bool, v: SSAValue, otherwise: SSAValue | None) -> SSAValue:
        """The value where the mask holds, else `otherwise`."""
        if not isinstance(mask, SSAValue):
            return v
        return self.b.select(mask, v, self._or_zero(otherwise, v.type))

    def _any_lane(self, mask: SSAValue | bool, chunk: Chunk) -> SSAValue | bool:
        """Whether the mask holds in a valid lane."""
        if not isinstance(mask, SSAValue) or mask.type == i1:
            return mask
        valid = self._with_valid(mask, chunk)
        assert isinstance(valid, SSAValue)
        return self.b.intrinsic("llvm.vector.reduce.or", [valid], i1)

    def _or_zero(self, v: SSAValue | None, t: Attribute) -> SSAValue:
        return v if v is not None else self.b.number(0.0 if _is_float(t) else 0, t)

    def _load_scalar(self, a: LoweredAccess, offset: Index, mask: SSAValue | bool) -> SSAValue:
        """One element; where the mask does not hold, the buffer's first element is loaded instead."""
        p = self.pointer(a, offset)
        if isinstance(mask, SSAValue):
            p = self.b.select(mask, p, a.base)
        return self._from_memory(self.b.load(p, a.loaded, byte_size(a.element)), a.element)

    def _load_vector(
        self,
        a: LoweredAccess,
        offset: Index,
        chunk: Chunk,
        mask: SSAValue | bool,
        otherwise: SSAValue | None,
        whole: SSAValue | None = None,
    ) -> SSAValue:
        """
        A vector of contiguous elements where the mask holds.

        `whole` is the part of the mask that all lanes share. Where it fails the address is that of the buffer: a masked
        load reads nothing there, but takes hundreds of cycles if its address is not mapped.
        """
        b = self.b
        t = native_type(a.loaded, chunk)
        p = self.pointer(a, offset)
        if whole is not None:
            p = b.select(whole, p, a.base)
        if mask is True:
            return self._from_memory(self._load_once(p, t, byte_size(a.element)), a.element)
        assert isinstance(mask, SSAValue)
        if mask.type == i1:
            mask = b.splat(mask, chunk.width)
        fill = self._to_memory(otherwise, a.element) if otherwise is not None else self._or_zero(None, t)
        return self._from_memory(b.masked_load(p, mask, fill, byte_size(a.element)), a.element)

    def load_contiguous(
        self,
        a: LoweredAccess,
        offset: Index,
        chunk: Chunk,
        whole: SSAValue | bool = True,
        part: SSAValue | bool = True,
    ) -> SSAValue:
        """
        A vector of contiguous elements under a condition that all lanes share, and one of each lane.

        Lanes where a condition does not hold, and invalid lanes of a ragged chunk, are masked.
        """
        shared = whole if isinstance(whole, SSAValue) else None
        mask = whole if part is True else part
        if shared is not None and isinstance(part, SSAValue):
            mask = self.b.and_(part, self.b.splat(shared, chunk.width) if part.type != i1 else shared)
        return self._load_vector(a, offset, chunk, self._with_valid(mask, chunk), None, shared)

    def _load_once(self, p: SSAValue, t: Attribute, align: int) -> SSAValue:
        """A load, reused for the same address and type in the same block until the next store."""
        base, offset = _constant_offset(p)
        key = (self.b.block, base, offset, t)
        known = self._loaded.get(key)
        if known is None:
            known = self._loaded[key] = self.b.load(p, t, align)
        return known

    def _is_near(self, a: LoweredAccess, rest: Index, step: int, lane: int, mask: SSAValue | bool) -> bool:
        """Whether lanes under a mask of their own are `step` elements apart, few enough for `_load_apart`."""
        own = isinstance(mask, SSAValue) and mask.type != i1
        plain = a.unit == 1 and a.shift is None and a.element != i1
        return own and plain and 1 < step <= STRIDED_LANES and not rest.uses(lane)

    def _load_apart(
        self,
        a: LoweredAccess,
        rest: Index,
        step: int,
        exprs: Sequence[Index],
        chunk: Chunk,
        mask: SSAValue | bool,
        otherwise: SSAValue | None,
    ) -> SSAValue:
        """Lanes `step` elements apart, from vectors of contiguous elements of which only those of lanes are read."""
        assert isinstance(mask, SSAValue)
        b, n = self.b, chunk.width
        t, total, none = native_type(a.element, chunk), None, b.lanes([0] * n, i1)
        for start in range(0, (chunk.valid - 1) * step + 1, n):
            lanes = [(start + k) // step if (start + k) % step == 0 else n for k in range(n)]
            taken = self._taken(exprs, -a.rank, lanes, chunk)
            if taken is None:
                taken = b.shuffle(mask, none, [min(k, n) for k in lanes])
            v = b.masked_load(self.pointer(a, rest + start), taken, b.number(0, t), byte_size(a.element))
            places = [k * step - start for k in range(n)]
            total = self._merged(total, v, [place if 0 <= place < n else -1 for place in places])
        assert total is not None
        return self._chosen(mask, total, otherwise)

    def _taken(self, exprs: Sequence[Index], lane: int, lanes: Sequence[int], chunk: Chunk) -> SSAValue | None:
        """Where all expressions hold for lane `lanes[k]`, and the chunk has it; None if one is not a multiple of it."""
        b, spans = self.b, self.addresses.spans({lane: (0, chunk.valid - 1)})
        total = b.lanes([int(k < chunk.valid) for k in lanes], i1)
        for e in exprs:
            if self.addresses.holds(e, spans):
                continue
            step = e.coefficient(lane)
            if not step:
                part = None if e.uses(lane) else b.splat(self._one_condition(e, lane, chunk), len(lanes))
            else:
                part = self._reaches(e - dim(lane) * step, [step * k if k < chunk.valid else None for k in lanes])
            if part is None:
                return None
            total = b.and_(total, part)
        return total

    def _load_lanes(
        self,
        a: LoweredAccess,
        offset: Index,
        lane: int,
        chunk: Chunk,
        mask: SSAValue | bool,
        otherwise: SSAValue | None,
    ) -> SSAValue:
        """Strided or irregular lanes: one scalar load each."""
        b = self.b
        v = b.poison(native_type(a.element if a.unit == 1 else a.loaded, chunk))
        for k in range(chunk.valid):
            at, m = self._at_lane(a, offset, mask, lane, k)
            v = b.insert(v, self._load_scalar(a, at, m), k)
        return self._chosen(mask, v, otherwise) if a.mask else v

    def _load_pattern(
        self,
        a: LoweredAccess,
        offset: Index,
        mask: Sequence[Index],
        lane: int,
        chunk: Chunk,
        otherwise: SSAValue | None,
    ) -> SSAValue | None:
        """
        Lanes at constant, small distances: splats of two elements, or vector loads and shuffles; else None.

        Where a condition that all lanes share does not hold, the buffer's first elements are loaded instead.
        """
        shared = [e for e in mask if not e.uses(lane)]
        valid = self._static_mask([e for e in mask if e.uses(lane)], lane, chunk)
        if valid is None or a.shift is not None or a.element == i1:
            return None
        condition = self.condition(shared, lane, chunk)
        spans = self.addresses.spans()
        places = [offset.substitute({lane: const(k)}, spans) for k, holds in enumerate(valid) if holds]
        if any(p.terms != places[0].terms for p in places):
            return None
        near = iter(p.const for p in places)
        at = [next(near) if holds else places[-1].const for holds in valid]
        at += at[-1:] * (chunk.width - len(at))
        origin, safe = places[0] - places[0].const, a
        if isinstance(condition, SSAValue):
            start = self.b.select(condition, self.addresses.value(origin), self.b.int(-min(at)))
            safe = replace(a, shift=start, row=1)  # nothing before the first element may be read
            origin = const(0)
        total = self._permuted(safe, origin, at)
        if total is None:
            return None
        if not all(valid):
            holds = self.b.lanes([int(k < len(valid) and valid[k]) for k in range(chunk.width)], i1)
            total = self.b.select(holds, total, self._or_zero(otherwise, total.type))
        return self._chosen(condition, total, otherwise)

    def _static_mask(self, mask: Sequence[Index], lane: int, chunk: Chunk) -> list[bool] | None:
        """The lanes where a mask holds; None if that is unknown at compile time, or if it holds in none."""
        spans, holds = self.addresses.spans({lane: (0, chunk.valid - 1)}), [True] * chunk.valid
        for e in mask:
            if e.bounds(spans)[0] >= 0:
                continue
            for k in range(chunk.valid):
                low, high = e.substitute({lane: const(k)}, spans).bounds(spans)
                if low < 0 <= high:
                    return None
                holds[k] = holds[k] and low >= 0
        return holds if any(holds) else None

    def _permuted(self, a: LoweredAccess, origin: Index, at: Sequence[int]) -> SSAValue | None:
        """A vector of the elements at `origin + at[k]`; None if they are too far apart."""
        low, high = min(at), max(at)
        if 1 < a.row <= len(at) and all(c % a.row == 0 for _, c in origin.terms):
            start = low - low % a.row  # start of the row: all of its elements may be read
            low, high = (start, start + a.row - 1) if high < start + a.row else (low, high)
        if len(set(at)) <= 2:
            low, high = min(at), max(at)
            first, last = (self.b.splat(self._load_near(a, origin + k, 0), len(at)) for k in (low, high))
            return self.b.select(self.b.lanes([int(k == low) for k in at], i1), first, last)
        size = min(len(at), 1 << ((high - low + 1).bit_length() - 1))
        if high - low >= 4 * size:
            return None
        total: SSAValue | None = None
        for start in [min(k, high + 1 - size) for k in range(low, high + 1, size)]:
            v = self._load_near(a, origin + start, size)
            total = self._merged(total, v, [k - start if start <= k < start + size else -1 for k in at])
        return total

    def _load_near(self, a: LoweredAccess, offset: Index, size: int) -> SSAValue:
        """A scalar (size 0) or a vector of `size` contiguous elements, through `_load_once`."""
        t = native_type(a.element, Chunk(0, size, size))
        return self._load_once(self.pointer(a, offset), t, byte_size(a.element))

    def _merged(self, total: SSAValue | None, v: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """`total` with lane k replaced by lane `lanes[k]` of `v`, where that is not negative."""
        b, n = self.b, len(lanes)
        if total is None:
            return b.shuffle(v, v, [max(k, 0) for k in lanes])
        if lanes_of(v.type) < n:
            v = b.shuffle(v, v, [max(k, 0) for k in lanes])
            lanes = [j if k >= 0 else -1 for j, k in enumerate(lanes)]
        return b.shuffle(total, v, [n + k if k >= 0 else j for j, k in enumerate(lanes)])

    # --- stores ---

    def store(self, a: LoweredAccess, outer: Sequence[int], chunk: Chunk, value: SSAValue) -> None:
        """One native value of a store."""
        self._loaded.clear()
        offset, _, lane, mask = self._placed(a, outer, chunk)
        if mask is False:
            return
        if not chunk.width:
            self._store_where(mask, self._to_memory(value, a.element), a, offset)
            return
        step = offset.coefficient(lane)
        rest = offset - dim(lane) * step
        mask = self._with_valid(mask, chunk)
        # One valid lane is stored as a scalar: for a masked store of a truncated value, LLVM 22 with AVX-512 emits one
        # store as wide as the value before the truncation.
        if rest.uses(lane) or step != 1 or chunk.valid == 1:
            for k in range(chunk.valid):
                at, m = self._at_lane(a, offset, mask, lane, k)
                self._store_where(m, self._to_memory(self.b.extract(value, k), a.element), a, at)
            return
        if isinstance(mask, bool) or mask.type == i1:
            self._store_where(mask, self._to_memory(value, a.element), a, rest)
        else:
            value, size = self._to_memory(value, a.element), byte_size(a.element)
            self.b.masked_store(value, self.pointer(a, rest), mask, size)

    def store_vector(self, a: LoweredAccess, offset: Index, value: SSAValue) -> None:
        """Store a full vector of contiguous elements."""
        self._loaded.clear()
        self.b.store(value, self.pointer(a, offset), byte_size(a.element))

    def _store_where(self, mask: SSAValue | bool, value: SSAValue, a: LoweredAccess, offset: Index) -> None:
        """
        Store a scalar, or a vector whose lanes have one common mask, by a branch around a plain store.

        A masked store would take tens of cycles on AMD's CPUs with AVX2.
        """
        b = self.b
        p = self.pointer(a, offset)
        if mask is True:
            b.store(value, p, byte_size(a.element))
            return
        assert isinstance(mask, SSAValue)
        then, after = b.new_block(), b.new_block()
        b.cond_br(mask, then, [], after, [])
        b.block = then
        b.store(value, p, byte_size(a.element))
        b.br(after)
        b.block = after

    # --- i1 is a byte in memory ---

    def _from_memory(self, v: SSAValue, element: Attribute) -> SSAValue:
        return self.b.icmp("ne", v, self.b.number(0, v.type)) if element == i1 else v

    def _to_memory(self, v: SSAValue, element: Attribute) -> SSAValue:
        if element != i1:
            return v
        lanes = lanes_of(v.type)
        return self.b.cast("zext", v, native_type(i8, Chunk(0, lanes, lanes)))


def _is_float(t: Attribute) -> bool:
    element = element_of(t)
    return element != IndexType() and not hasattr(element, "signedness")


def _constant_offset(p: SSAValue) -> tuple[SSAValue, int]:
    """(base, constant element offset) of a pointer; (itself, 0) if it is not a constant GEP."""
    owner = p.owner
    if isinstance(owner, llvm.GEPOp) and not owner.ssa_indices:
        (number,) = owner.rawConstantIndices.get_values()
        return owner.ptr, int(number)
    return p, 0
