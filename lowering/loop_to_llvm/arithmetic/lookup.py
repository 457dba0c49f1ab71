"""
Byte look-ups in a table of 256 entries, `loop.gather %table[0] by (index_cast (extui %q))`, by byte permutations.

With AVX512-VBMI the table is in four registers, and 64 bytes are looked up at once: two permutations, one per half of
the table, by the low seven bits, and a select by the eighth. Other machines load each element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import MemRefType, VectorType, i8, i64
from xdsl.ir import SSAValue

from mlc.dialects import loop
from mlc.lowering.loop_to_llvm.builder import lanes_of, vector_type

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering

BYTE_PERMUTATION = "permi2b"
"""The target's instruction that this lowering requires."""
PERMUTED = "llvm.x86.avx512.vpermi2var.qi.512"
TABLE_LANES = 64


def lookup_operand(f: FunctionLowering, op: loop.GatherOp) -> SSAValue | None:
    """The bytes that a gather looks up; None if it is no byte look-up, or the machine has no byte permutation."""
    buffer, t = op.buffer.type, op.result.type
    if BYTE_PERMUTATION not in f.kernel.instructions or not isinstance(buffer, MemRefType) or buffer.element_type != i8:
        return None
    if list(buffer.get_shape()) != [4 * TABLE_LANES] or not isinstance(t, VectorType) or t.get_shape()[-1] == 1:
        return None
    wide = _cast_of(op.by, "index_cast")
    q = _cast_of(wide, "extui") if wide is not None else None
    plain = all(e.is_const and e.const == 0 for e in op.map.data)
    return q if plain and q is not None and q.type == t else None


def _cast_of(v: SSAValue, kind: str) -> SSAValue | None:
    op = v.owner
    return op.value if isinstance(op, loop.CastOp) and op.kind.data == kind else None


class Lookup:
    """A byte look-up, with its table in four registers."""

    def __init__(self, f: FunctionLowering, op: loop.GatherOp) -> None:
        q = lookup_operand(f, op)
        assert q is not None
        self.b, self.q, self.start = f.b, q, f.buffers[op.buffer]
        t = vector_type(i8, TABLE_LANES)
        self.table = [f.b.load(f.b.gep(self.start, k * TABLE_LANES, i8) if k else self.start, t, 1) for k in range(4)]

    def of(self, q: SSAValue) -> SSAValue:
        """The table's entries for a vector of bytes, or for one byte."""
        b, lanes = self.b, lanes_of(q.type)
        if not lanes:
            return b.load(b.gep(self.start, b.cast("zext", q, i64), i8), i8, 1)
        if lanes < TABLE_LANES:
            q = b.shuffle(q, q, [k % lanes for k in range(TABLE_LANES)])
        low, high = (b.intrinsic(PERMUTED, [x, q, y], q.type) for x, y in (self.table[:2], self.table[2:]))
        found = b.select(b.icmp("slt", q, b.number(0, q.type)), high, low)
        return found if lanes == TABLE_LANES else b.shuffle(found, found, list(range(lanes)))


def lower_lookup(f: FunctionLowering, op: loop.GatherOp) -> bool:
    """Lower a gather that is a byte look-up; False for other gathers."""
    if lookup_operand(f, op) is None:
        return False
    lookup = Lookup(f, op)
    f.define(op.result, [lookup.of(v) for v in f.natives(lookup.q)])
    return True
