"""Emits llvm and llvm_ext ops by `Op.create`; constants are emitted once per function, in its entry block."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    VectorType,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import llvm_ext
from mlc.dialects.constants import numbers
from mlc.dialects.llvm_ext import argument_attributes
from mlc.dialects.llvm_ext.rules import element_of, lanes_of

PTR = llvm.LLVMPointerType()
NO_FLAGS = IntegerAttr(0, i32)
NO_FASTMATH = llvm.FastMathAttr(None)
UNIT = UnitAttr()
_FROM_SSA = DenseArrayBase.from_list(i32, [llvm.GEP_USE_SSA_VAL])
_PREDICATES = {p: IntegerAttr(n, i64) for n, p in enumerate("eq ne slt sle sgt sge ult ule ugt uge".split())}
_SIGNED = {"eq": eq, "ne": ne, "slt": lt, "sle": le, "sgt": gt, "sge": ge}
_ALIGNMENTS = {n: IntegerAttr(n, i64) for n in (1, 2, 4, 8, 16, 32, 64)}
_ORDER_0 = IntegerAttr(0, i64)


def memory_type(element: Attribute) -> Attribute:
    """The type with which an element is loaded and stored: i8 for i1, i64 for index."""
    if element == i1:
        return i8
    return i64 if element.name == "index" else element


@lru_cache(maxsize=1024)
def vector_type(element: Attribute, lanes: int) -> VectorType:
    """A native vector type; cached, since constructing one costs as much as three ops."""
    return VectorType(element, [lanes])


@lru_cache(maxsize=4096)
def _gep_index(index: int) -> DenseArrayBase:
    return DenseArrayBase.from_list(i32, [index])


def _bits(value: float | int) -> object:
    """The key of a constant: distinguishes -0.0 from 0.0, and equals itself for NaN."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def constant_of(value: SSAValue) -> float | int | None:
    """The number in a scalar constant, or in every lane of a splat constant; None for other values."""
    if not isinstance(value.owner, llvm.ConstantOp):
        return None
    attr = value.owner.value
    if isinstance(attr, DenseIntOrFPElementsAttr):
        return numbers(attr)[0] if attr.is_splat() else None
    return attr.value.data


def _dense(t: VectorType, values: Sequence[float]) -> DenseIntOrFPElementsAttr:
    type_: Any = t
    return DenseIntOrFPElementsAttr.from_list(type_, list(values))


class Builder:
    """A cursor into one llvm function; ops are appended to `block`."""

    def __init__(self, entry: Block) -> None:
        self.entry = entry
        self.block = entry
        self.region = entry.parent
        self._constants: dict[tuple[object, Attribute], SSAValue] = {}
        self.last_constant: Operation | None = None  # of the entry block, whose constants come first
        self._splats: dict[tuple[SSAValue, int], tuple[Block, SSAValue]] = {}
        self.location: LocationAttr = UnknownLoc()
        """The location of further ops; constants, which several ops share, have none."""
        self.rounds_bf16 = False  # the machine has an instruction that rounds f32 to bf16

    def append(self, op: Operation) -> None:
        """Append an op, with the current location."""
        op.location = self.location
        self.block.add_op(op)

    def move_to(self, location: LocationAttr) -> LocationAttr:
        """Give further ops this location, unless it is unknown; return the location before."""
        before = self.location
        if not isinstance(location, UnknownLoc):
            self.location = location
        return before

    def op(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        result: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Append an op with one result."""
        op = cls.create(operands=operands, result_types=[result], properties=properties or {}, location=self.location)
        self.block.add_op(op)
        return op.results[0]

    # --- constants ---

    def _constant(self, key: tuple[object, Attribute], make: Callable[[], Attribute]) -> SSAValue:
        if (known := self._constants.get(key)) is not None:
            return known
        op = llvm.ConstantOp.create(properties={"value": make()}, result_types=[key[1]])
        if self.last_constant is not None:
            self.entry.insert_op_after(op, self.last_constant)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(op, self.entry.first_op)
        else:
            self.entry.add_op(op)
        self.last_constant = op
        self._constants[key] = op.results[0]
        return op.results[0]

    def int(self, value: int, t: Attribute = i64) -> SSAValue:
        """An integer constant."""
        assert isinstance(t, IntegerType)
        return self._constant((value, t), lambda: IntegerAttr(value, t))

    def number(self, value: float | int, t: Attribute) -> SSAValue:
        """A constant of a scalar or vector type, every lane the same."""

        def make() -> Attribute:
            if isinstance(t, VectorType):
                return _dense(t, [value])
            if isinstance(t, IntegerType):
                return IntegerAttr(int(value), t)
            assert isinstance(t, AnyFloat)
            return FloatAttr(float(value), t)

        return self._constant((_bits(value), t), make)

    def lanes(self, values: Sequence[float] | Sequence[int], element: Attribute) -> SSAValue:
        """A vector constant of any numbers (booleans, for i1)."""
        t = vector_type(element, len(values))
        key = (tuple(map(_bits, values)), t)
        return self._constant(key, lambda: _dense(t, values))

    # --- integers and pointers ---

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer sum."""
        return self.op(llvm.AddOp, [a, b], a.type, {"overflowFlags": NO_FLAGS})

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer product."""
        return self.op(llvm.MulOp, [a, b], a.type, {"overflowFlags": NO_FLAGS})

    def icmp(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """Integer comparison, lane by lane; of constants, a constant."""
        x, y = constant_of(a), constant_of(b)
        if x is not None and y is not None and predicate in _SIGNED:
            return self.number(int(_SIGNED[predicate](x, y)), llvm_ext.mask_type(a.type))
        return self.op(llvm.ICmpOp, [a, b], llvm_ext.mask_type(a.type), {"predicate": _PREDICATES[predicate]})

    def and_(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Bitwise and."""
        return self.op(llvm.AndOp, [a, b], a.type)

    def gep(self, ptr: SSAValue, index: SSAValue | int, element: Attribute) -> SSAValue:
        """`ptr + index` elements, in bounds."""
        if isinstance(index, int):
            if index == 0:
                return ptr
            if -(1 << 31) < index < 1 << 31 and index != llvm.GEP_USE_SSA_VAL:
                raw, ssa = _gep_index(index), []
            else:
                raw, ssa = _FROM_SSA, [self.int(index)]
        else:
            raw, ssa = _FROM_SSA, [index]
        properties = {"rawConstantIndices": raw, "elem_type": element, "noWrapFlags": NO_FLAGS, "inbounds": UNIT}
        return self.op(llvm.GEPOp, [ptr, *ssa], PTR, properties)

    # --- memory ---

    def load(self, ptr: SSAValue, t: Attribute, align: int) -> SSAValue:
        """Load a scalar or native vector."""
        return self.op(llvm.LoadOp, [ptr], t, {"alignment": _ALIGNMENTS[align], "ordering": _ORDER_0})

    def store(self, value: SSAValue, ptr: SSAValue, align: int) -> None:
        """Store a scalar or native vector."""
        properties: dict[str, Attribute] = {"alignment": _ALIGNMENTS[align], "ordering": _ORDER_0}
        self.append(llvm.StoreOp.create(operands=[value, ptr], properties=properties))

    def masked_load(self, ptr: SSAValue, mask: SSAValue, otherwise: SSAValue, align: int) -> SSAValue:
        """Load the lanes of the mask; narrow floats as integers, which LLVM legalizes without rounding them."""
        t = otherwise.type
        if is_narrow := isinstance(element_of(t), BFloat16Type | Float16Type):
            otherwise = self.cast("bitcast", otherwise, vector_type(i16, lanes_of(t)))
        properties: dict[str, Attribute] = {"alignment": _ALIGNMENTS[align]}
        v = self.op(llvm_ext.MaskedLoadOp, [ptr, mask, otherwise], otherwise.type, properties)
        return self.cast("bitcast", v, t) if is_narrow else v

    def masked_store(self, value: SSAValue, ptr: SSAValue, mask: SSAValue, align: int) -> None:
        """Store the lanes of the mask; narrow floats as integers."""
        if isinstance(element_of(value.type), BFloat16Type | Float16Type):
            value = self.cast("bitcast", value, vector_type(i16, lanes_of(value.type)))
        self.append(
            llvm_ext.MaskedStoreOp.create(operands=[value, ptr, mask], properties={"alignment": _ALIGNMENTS[align]})
        )

    # --- values ---

    def splat(self, scalar: SSAValue, lanes: int) -> SSAValue:
        """A scalar in every lane; emitted once per block and scalar."""
        if (value := constant_of(scalar)) is not None:
            return self.number(value, vector_type(scalar.type, lanes))
        known = self._splats.get((scalar, lanes))
        if known is not None and known[0] is self.block:
            return known[1]
        v = self.op(llvm_ext.SplatOp, [scalar], vector_type(scalar.type, lanes))
        self._splats[scalar, lanes] = (self.block, v)
        return v

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """a where the condition holds, else b; folded for a constant condition."""
        if (value := constant_of(condition)) is not None:
            return a if value else b
        if isinstance(element_of(a.type), BFloat16Type):  # LLVM would select in f32, and round by a library call
            t = vector_type(i16, lanes_of(a.type)) if isinstance(a.type, VectorType) else i16
            return self.cast("bitcast", self.select(condition, *(self.cast("bitcast", v, t) for v in (a, b))), a.type)
        return self.op(llvm_ext.SelectOp, [condition, a, b], a.type)

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """a * b + c with one rounding."""
        return self.op(llvm.FMAOp, [a, b, c], c.type, {"fastmathFlags": NO_FASTMATH})

    def cast(self, kind: str, value: SSAValue, t: Attribute) -> SSAValue:
        """Convert to another scalar or vector type."""
        return self.op(llvm_ext.CastOp, [value], t, {"kind": StringAttr(kind)})

    def intrinsic(
        self, name: str, args: Sequence[SSAValue], t: Attribute, fastmath: llvm.FastMathAttr = NO_FASTMATH
    ) -> SSAValue:
        """Call an LLVM intrinsic."""
        return self.op(llvm_ext.IntrinsicOp, args, t, {"intrin": StringAttr(name), "fastmathFlags": fastmath})

    def call_void(self, name: str, args: Sequence[SSAValue]) -> None:
        """Call an LLVM intrinsic without a result."""
        properties: dict[str, Attribute] = {"intrin": StringAttr(name), "fastmathFlags": NO_FASTMATH}
        self.append(llvm_ext.IntrinsicOp.create(operands=args, properties=properties))

    def make_opaque(self, pointer: SSAValue) -> None:
        """
        Let all users of a pointer take it from a call that analyses of loops do not look through.

        `llvm.launder.invariant.group` is its argument; LLVM removes it after loop strength reduction.
        """
        op = pointer.owner
        assert isinstance(op, Operation)
        assert op.parent is not None
        opaque = llvm_ext.IntrinsicOp.create(
            operands=[pointer],
            result_types=[pointer.type],
            properties={"intrin": StringAttr("llvm.launder.invariant.group"), "fastmathFlags": NO_FASTMATH},
        )
        opaque.location = op.location
        pointer.replace_all_uses_with(opaque.results[0])
        opaque.operands[0] = pointer
        op.parent.insert_op_after(opaque, op)

    def shuffle(self, a: SSAValue, b: SSAValue, mask: Sequence[int]) -> SSAValue:
        """Lanes of a and b by number."""
        t = vector_type(element_of(a.type), len(mask))
        return self.op(llvm.ShuffleVectorOp, [a, b], t, {"mask": DenseArrayBase.from_list(i32, list(mask))})

    def extract(self, vector: SSAValue, lane: int) -> SSAValue:
        """One lane."""
        return self.op(llvm_ext.ExtractElementOp, [vector, self.int(lane)], element_of(vector.type))

    def insert(self, vector: SSAValue, scalar: SSAValue, lane: int) -> SSAValue:
        """The vector with one lane replaced."""
        return self.op(llvm.InsertElementOp, [vector, scalar, self.int(lane)], vector.type)

    def poison(self, t: Attribute) -> SSAValue:
        """An undefined value, into which a vector is built."""
        return self.op(llvm_ext.PoisonOp, [], t)

    # --- control flow ---

    def new_block(self, types: Sequence[Attribute] = ()) -> Block:
        """A block at the end of the function."""
        block = Block(arg_types=types)
        region = self.entry.parent
        assert isinstance(region, Region)
        region.add_block(block)
        return block

    def br(self, target: Block, args: Sequence[SSAValue] = ()) -> None:
        """An unconditional branch."""
        self.append(llvm.BrOp(target, *args))

    def cond_br(
        self, condition: SSAValue, then: Block, then_args: Sequence[SSAValue], other: Block, args: Sequence[SSAValue]
    ) -> None:
        """A conditional branch."""
        self.append(llvm.CondBrOp(condition, then, list(then_args), other, list(args)))


def machine_function(name: str, args: Sequence[Attribute], external: bool) -> tuple[llvm.FuncOp, Block]:
    """A function that returns i32, and its entry block; its pointer arguments are `noalias`."""
    block = Block(arg_types=args)
    attrs = ArrayAttr(
        [argument_attributes(noalias=True, nonnull=True) if a == PTR else argument_attributes() for a in args]
    )
    op = llvm.FuncOp(
        name,
        llvm.LLVMFunctionType(list(args), i32),
        llvm.LinkageAttr("external" if external else "internal"),
        body=Region(block),
        other_props={"arg_attrs": attrs},
    )
    return op, block
