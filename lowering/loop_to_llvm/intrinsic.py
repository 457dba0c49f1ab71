"""Lowers loop.intrinsic: tiles become LLVM's vectors, element after element, and the result becomes a tile again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import loop
from mlc.lowering.loop_to_llvm.builder import Builder, lanes_of, vector_type
from mlc.support.errors import fail

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering


def call_intrinsic(f: FunctionLowering, op: loop.CallIntrinsicOp) -> None:
    """The call, on vectors of the types that LLVM wants."""
    args = [_whole(f, op, v, t) for v, t in zip(op.args, op.types.data, strict=True)]
    t = op.result.type
    element, size = loop.element_of(t), prod(loop.shape_of(t))
    called = f.b.intrinsic(op.intrin.data, args, vector_type(element, size))
    last, found = loop.shape_of(t)[-1], list[SSAValue]()
    places = f.positions(t)
    per_row = len(places) // (size // last)
    for k, (_, chunk) in enumerate(places):
        first = k // per_row * last + chunk.start
        lanes = [first + min(n, chunk.valid - 1) for n in range(chunk.width)]
        found.append(f.b.shuffle(called, called, lanes) if chunk.width else f.b.extract(called, first))
    f.define(op.result, found)


def _whole(f: FunctionLowering, op: loop.CallIntrinsicOp, value: SSAValue, t: Attribute) -> SSAValue:
    """A tile as one vector; one with fewer elements is repeated."""
    assert isinstance(t, VectorType)
    natives, element, size = f.natives(value), loop.element_of(value.type), prod(t.get_shape())
    mine = prod(loop.shape_of(value.type))
    each = mine // len(natives)
    widths = {lanes_of(v.type) or 1 for v in natives}
    words = natives[0].type != element and loop.element_of(natives[0].type) != element
    bits = loop.word_factors(element) if words else 1
    if len(widths) > 1 or each * len(natives) != mine or each != next(iter(widths)) * bits:
        fail(op, f"expected a tile of whole vectors of the machine as operand, but got {value.type}")
    if len(natives) == 1 and not lanes_of(natives[0].type):  # one word or element for all
        lone = f.b.splat(natives[0], size // bits)
        return f.b.cast("bitcast", lone, vector_type(element, size)) if words else lone
    parts = [f.b.cast("bitcast", v, vector_type(element, each)) if words else _vector(f.b, v) for v in natives]
    return _joined(f.b, parts * (size // mine), each, size)


def _vector(b: Builder, v: SSAValue) -> SSAValue:
    """A scalar as a vector of one element."""
    return v if lanes_of(v.type) else b.insert(b.poison(vector_type(v.type, 1)), v, 0)


def _joined(b: Builder, parts: Sequence[SSAValue], each: int, size: int) -> SSAValue:
    """Vectors of `each` elements behind each other: `size` elements."""
    parts = list(parts)
    while len(parts) > 1:
        if len(parts) % 2:
            parts.append(b.poison(parts[0].type))
        each *= 2
        parts = [b.shuffle(x, y, list(range(each))) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0] if each == size else b.shuffle(parts[0], parts[0], list(range(size)))
