"""Lowers ops on values: each handler takes the operands' native values and defines those of the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import loop
from mlc.dialects.attributes import EXP_NONPOSITIVE
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.constants import numbers
from mlc.lowering.loop_to_llvm.access.accesses import LoweredAccess
from mlc.lowering.loop_to_llvm.access.address import strides_of
from mlc.lowering.loop_to_llvm.arithmetic.bf16 import is_bf16, rounded, widened
from mlc.lowering.loop_to_llvm.arithmetic.lookup import lower_lookup
from mlc.lowering.loop_to_llvm.arithmetic.saturate import defer
from mlc.lowering.loop_to_llvm.arithmetic.scalars import (
    EMIT,
    EXP_OF_NONPOSITIVE,
    SIGMOID,
    Emit,
    emit_cast,
    emit_compare,
    emitter_of,
    machine_type,
)
from mlc.lowering.loop_to_llvm.arithmetic.sigmoid import is_part_of_sigmoid, sigmoid_argument
from mlc.lowering.loop_to_llvm.builder import Builder
from mlc.lowering.loop_to_llvm.contract import contract
from mlc.lowering.loop_to_llvm.intrinsic import call_intrinsic
from mlc.lowering.loop_to_llvm.tiles import SCALAR, Chunk, Tile, broadcast_values, chunks, native_type

if TYPE_CHECKING:
    from mlc.lowering.loop_to_llvm.convert import FunctionLowering


def _constant(f: FunctionLowering, op: arith.ConstantOp) -> None:
    value, t = op.value, op.result.type
    if isinstance(t, IndexType):
        assert isinstance(value, IntegerAttr)
        f.addresses.bind_constant(op.result, value.value.data)
        return
    if isinstance(t, VectorType):
        assert isinstance(value, DenseIntOrFPElementsAttr)
        f.define(op.result, _dense(f, value, t))
        return
    assert isinstance(value, IntegerAttr | FloatAttr)
    f.define(op.result, [f.b.number(value.value.data, machine_type(t))])


def _dense(f: FunctionLowering, value: DenseIntOrFPElementsAttr, t: VectorType) -> list[SSAValue]:
    element = machine_type(t.element_type)
    values = numbers(value)
    if value.is_splat():
        return [f.b.number(values[0], native_type(element, chunk)) for _, chunk in f.positions(t)]
    natives: list[SSAValue] = []
    for k, (_, chunk) in enumerate(f.positions(t)):
        row = k // len(chunks(t.get_shape()[-1], f.kernel.lanes)) * t.get_shape()[-1]
        part = values[row + chunk.start : row + chunk.start + chunk.valid]
        if not chunk.width:
            natives.append(f.b.number(part[0], element))
        else:
            natives.append(f.b.lanes([*part, *[part[-1]] * (chunk.width - len(part))], element))
    return natives


def _elementwise(f: FunctionLowering, op: Operation) -> None:
    if is_part_of_sigmoid(op):
        return  # the division computes all of it
    emit, values, result = emitter_of(type(op)), tuple(op.operands), op.results[0]
    if (argument := sigmoid_argument(op)) is not None:
        emit, values = SIGMOID, (argument,)
    elif EXP_NONPOSITIVE in op.attributes:
        emit = EXP_OF_NONPOSITIVE
    if isinstance(result.type, IndexType):
        f.addresses.bind_data(result, emit(f.b, [f.scalar(v) for v in op.operands], i64))
        return
    operands = [f.natives(v) for v in values]
    element = machine_type(loop.element_of(result.type))
    if isinstance(result.type, VectorType):
        types = [native_type(element, chunk) for _, chunk in f.positions(result.type)]
    else:
        types = [element]
    f.define(result, [emit(f.b, v, t) for *v, t in zip(*operands, types, strict=True)])


def _fma(f: FunctionLowering, op: loop.FmaOp) -> None:
    t = op.result.type
    if not isinstance(t, VectorType):
        f.define(op.result, [_fma_native(f.b, f.scalar(op.a), f.scalar(op.b), f.scalar(op.c))])
        return
    parts = [f.values[v] for v in (op.a, op.b)]
    addend, out = f.tile(op.c), list[SSAValue]()
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    for k, (outer, chunk) in enumerate(f.positions(t)):
        x, y = (
            p.take(f.b, outer, k % per_row, chunk)
            if isinstance(p, Tile)
            else (f.b.splat(p, chunk.width) if chunk.width else p)
            for p in parts
        )
        out.append(_fma_native(f.b, x, y, addend.at(k)))
    f.define(op.result, out)


def _fma_native(b: Builder, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
    if is_bf16(z.type):
        return rounded(b, b.fma(*widened(b, (x, y, z))))
    if isinstance(loop.element_of(z.type), AnyFloat):
        return b.fma(x, y, z)
    return b.add(b.mul(x, y), z)


def _broadcast(f: FunctionLowering, op: loop.BroadcastOp) -> None:
    t = op.result.type
    assert isinstance(t, VectorType)
    if not isinstance(op.value.type, VectorType):
        s = f.scalar(op.value)
        if isinstance(s.owner, llvm.ConstantOp) and isinstance(s.owner.value, IntegerAttr | FloatAttr):
            number = s.owner.value.value.data
            natives = [f.b.number(number, native_type(s.type, chunk)) for _, chunk in f.positions(t)]
        else:
            natives = [f.b.splat(s, chunk.width) if chunk.width else s for _, chunk in f.positions(t)]
        f.define(op.result, natives)
        return
    f.define(op.result, broadcast_values(f.b, f.tile(op.value), tuple(t.get_shape())))


def _concat(f: FunctionLowering, op: loop.ConcatOp) -> None:
    """Native values side by side; along the last axis they become the lanes of vectors."""
    t, axis = op.result.type, op.axis.value.data
    assert isinstance(t, VectorType)
    tiles = [f.tile(v) for v in op.values]
    natives: list[SSAValue] = []
    if axis == len(t.get_shape()) - 1:
        for outer, chunk in f.positions(t):
            parts = [tile.take(f.b, outer, 0, SCALAR) for tile in tiles[chunk.start : chunk.start + chunk.valid]]
            natives.append(_gathered(f.b, parts, chunk, machine_type(t.element_type)))
    else:
        per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
        for k, (outer, chunk) in enumerate(f.positions(t)):
            position: int = outer[axis]
            natives.append(tiles[position].take(f.b, outer, k % per_row, chunk))
    f.define(op.result, natives)


def _slice(f: FunctionLowering, op: loop.SliceOp) -> None:
    """The native values at one place of an axis."""
    whole, axis, at = f.tile(op.value), op.axis.value.data, op.at.value.data
    t = op.result.type
    assert isinstance(t, VectorType)
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    natives: list[SSAValue] = []
    for k, (outer, chunk) in enumerate(f.positions(t)):
        place = (*outer[:axis], at, *outer[axis + 1 :])
        natives.append(whole.take(f.b, place, k % per_row, chunk))
    f.define(op.result, natives)


def _gathered(b: Builder, parts: list[SSAValue], chunk: Chunk, element: Attribute) -> SSAValue:
    """A native value of scalars."""
    if not chunk.width:
        return parts[0]
    v = b.poison(native_type(element, chunk))
    for lane, part in enumerate(parts):
        v = b.insert(v, part, lane)
    return v


def _compare(f: FunctionLowering, op: loop.CompareOp) -> None:
    index, is_tile = op.a.owner, isinstance(op.a.type, VectorType)
    if is_tile and isinstance(index, loop.IndexOp) and op.predicate.data == "sge" and _is_zero(op.b):
        f.define(op.result, _not_negative(f, index))
        return
    pairs = zip(f.natives(op.a), f.natives(op.b), strict=True)
    f.define(op.result, [emit_compare(f.b, op.predicate.data, x, y) for x, y in pairs])


def _is_zero(v: SSAValue) -> bool:
    """Whether a value is the integer 0, in all lanes."""
    while isinstance(v.owner, loop.BroadcastOp):
        v = v.owner.operands[0]
    number = v.owner.value if isinstance(v.owner, arith.ConstantOp) else None
    return isinstance(number, IntegerAttr) and number.value.data == 0


def _not_negative(f: FunctionLowering, op: loop.IndexOp) -> list[SSAValue]:
    """Where an index expression is not negative, as the mask of an access says it."""
    access = LoweredAccess(f.rt, f.addresses.resolve(op.map.data[0], op.args), (), i64, len(op.tile_sizes))
    natives: list[SSAValue] = []
    for outer, chunk in f.positions(op.result.type):
        offset, _ = access.place(f.addresses, outer, chunk)
        holds = f.accesses.condition([offset], -access.rank, chunk)
        if isinstance(holds, bool):
            natives.append(f.b.number(int(holds), native_type(i1, chunk)))
        else:
            natives.append(f.b.splat(holds, chunk.width) if chunk.width and holds.type == i1 else holds)
    return natives


def _select(f: FunctionLowering, op: loop.SelectOp) -> None:
    a, b = f.natives(op.a), f.natives(op.b)
    condition = f.natives(op.condition)
    if len(condition) != len(a):
        condition = condition * len(a)
    f.define(op.result, [f.b.select(c, x, y) for c, x, y in zip(condition, a, b, strict=True)])


def _cast(f: FunctionLowering, op: loop.CastOp | Operation) -> None:
    if defer(f, op):
        return
    value, result = op.operands[0], op.results[0]
    kind = op.kind.data if isinstance(op, loop.CastOp) else "index_cast"
    natives = [emit_cast(f.b, kind, v, loop.element_of(result.type)) for v in f.natives(value)]
    f.define(result, natives)


def _index(f: FunctionLowering, op: loop.IndexOp) -> None:
    expr = f.addresses.resolve(op.map.data[0], op.args)
    t = op.result.type
    if not isinstance(t, VectorType):
        f.addresses.index[op.result] = expr
        return
    access = LoweredAccess(f.rt, expr, (), i64, len(op.tile_sizes))
    natives: list[SSAValue] = []
    for outer, chunk in f.positions(t):
        offset, _ = access.place(f.addresses, outer, chunk)
        lane = -access.rank
        if chunk.width:
            natives.append(f.accesses.lane_values(offset, lane, chunk))
        else:
            natives.append(f.addresses.value(offset))
    f.define(op.result, natives)


def _gather(f: FunctionLowering, op: loop.GatherOp) -> None:
    t, buffer = op.result.type, op.buffer.type
    if defer(f, op) or lower_lookup(f, op):
        return
    assert isinstance(t, VectorType)
    assert isinstance(buffer, MemRefType)
    access = f.access(op.buffer, op.map.data, op)
    by = f.tile(op.by)
    per_row = len(chunks(t.get_shape()[-1], f.kernel.lanes))
    stride, factor = (f.addresses.strides.get(op.buffer) or strides_of(buffer))[op.at.value.data]
    at_row = f.b.int(stride)
    if factor is not None:
        at_row = f.b.mul(at_row, f.addresses.variables[factor][0])
    natives: list[SSAValue] = []
    for k, (outer, chunk) in enumerate(f.positions(t)):
        if by.shape[-1] == 1:  # one index for the whole row: shift the access
            row = by.take(f.b, outer, 0, SCALAR)
            moved = replace(access, shift=f.b.mul(row, at_row))
            natives.append(f.accesses.load(moved, outer, chunk, None))
            continue
        index = by.take(f.b, outer, k % per_row, chunk)
        v = f.b.poison(native_type(access.element, chunk))
        for lane in range(chunk.valid):
            moved = replace(access, shift=f.b.mul(f.b.extract(index, lane), at_row))
            v = f.b.insert(v, f.accesses.load(moved, outer, Chunk(chunk.start + lane, 0, 1), None), lane)
        natives.append(v)
    f.define(op.result, natives)


def _reduce(f: FunctionLowering, op: loop.ReduceOp) -> None:
    t, tile = op.value.type, f.tile(op.value)
    assert isinstance(t, VectorType)
    combiner = COMBINERS[op.combiner.data]
    emit = emitter_of(combiner.op(t.element_type))
    axes, shape = set(op.axes.get_values()), tuple(t.get_shape())
    groups: dict[tuple[tuple[int, ...], int], SSAValue] = {}
    for k, (outer, chunk) in enumerate(f.positions(t)):
        key = tuple(0 if i in axes else c for i, c in enumerate(outer))
        last = 0 if len(shape) - 1 in axes else chunk.start
        v = tile.at(k)
        if len(shape) - 1 in axes and chunk.width:
            v = _fill_ragged(f, v, chunk, combiner.identity(t.element_type))
            if chunk.width < min(shape[-1], f.kernel.lanes):
                v = _widen(f, v, f.kernel.lanes, combiner.identity(t.element_type))
        slot = (key, last)
        groups[slot] = v if slot not in groups else emit(f.b, [groups[slot], v], v.type)
    natives = list(groups.values())
    if len(shape) - 1 in axes and shape[-1] > 1:
        natives = [_across_lanes(f, v, emit) for v in natives]
    f.define(op.result, natives)


def _fill_ragged(f: FunctionLowering, v: SSAValue, chunk: Chunk, identity: float | int) -> SSAValue:
    if not chunk.ragged:
        return v
    valid = f.b.lanes([int(k < chunk.valid) for k in range(chunk.width)], i1)
    return f.b.select(valid, v, f.b.number(identity, v.type))


def _widen(f: FunctionLowering, v: SSAValue, lanes: int, identity: float | int) -> SSAValue:
    t = v.type
    assert isinstance(t, VectorType)
    n = t.get_shape()[0]
    return f.b.shuffle(v, f.b.number(identity, t), [k if k < n else n for k in range(lanes)])


def _across_lanes(f: FunctionLowering, v: SSAValue, emit: Emit) -> SSAValue:
    """Combine the lanes by halves: log2(n) shuffles; those of bf16 as f32, rounded once."""
    (v,), narrow = widened(f.b, [v]), is_bf16(v.type)
    t = v.type
    assert isinstance(t, VectorType)
    n = t.get_shape()[0]
    while n > 1:
        n //= 2
        low, high = f.b.shuffle(v, v, list(range(n))), f.b.shuffle(v, v, list(range(n, 2 * n)))
        v = emit(f.b, [low, high], low.type)
    result = f.b.extract(v, 0)
    return rounded(f.b, result) if narrow else result


VALUES: dict[type[Operation], Callable[[FunctionLowering, Any], None]] = {
    loop.FmaOp: _fma,
    loop.ContractOp: contract,
    loop.CallIntrinsicOp: call_intrinsic,
    loop.BroadcastOp: _broadcast,
    loop.ConcatOp: _concat,
    loop.SliceOp: _slice,
    loop.CompareOp: _compare,
    loop.SelectOp: _select,
    loop.CastOp: _cast,
    loop.IndexOp: _index,
    loop.GatherOp: _gather,
    loop.ReduceOp: _reduce,
    arith.ConstantOp: _constant,
    arith.IndexCastOp: _cast,
    **dict.fromkeys(EMIT, _elementwise),
}
