"""Ops that compute on scalars and register tiles: fma, broadcast, concat, reduce, compare, select, cast."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import i64_array
from mlc.dialects.combiner import COMBINERS
from mlc.dialects.text import TextOp, parse_conversion, parse_three_operands, print_conversion, print_types

COMPARES = (
    "oeq",
    "one",
    "olt",
    "ole",
    "ogt",
    "oge",
    "une",
    "eq",
    "ne",
    "slt",
    "sle",
    "sgt",
    "sge",
    "ult",
    "ule",
    "ugt",
    "uge",
)
CASTS = (
    "sitofp",
    "uitofp",
    "fptosi",
    "fptoui",
    "extf",
    "truncf",
    "extsi",
    "extui",
    "trunci",
    "index_cast",
    "bitcast",
)


def shape_of(t: Attribute) -> tuple[int, ...]:
    """The shape of a vector type, () of a scalar."""
    return tuple(t.get_shape()) if isinstance(t, VectorType) else ()


def element_of(t: Attribute) -> Attribute:
    """The element type of a vector type, or the scalar type itself."""
    return t.element_type if isinstance(t, VectorType) else t


@lru_cache(maxsize=4096)
def tile_type(element: Attribute, shape: tuple[int, ...]) -> VectorType:
    """A vector type; cached, since constructing one costs as much as three ops."""
    return VectorType(element, list(shape))


def with_element(t: Attribute, element: Attribute) -> Attribute:
    """The same shape with another element type."""
    return VectorType(element, list(t.get_shape())) if isinstance(t, VectorType) else element


def broadcasts_to(source: Attribute, result: Attribute) -> bool:
    """Whether a scalar or a vector with axes of size 1 broadcasts to the result's shape."""
    s, r = shape_of(source), shape_of(result)
    if element_of(source) != element_of(result):
        return False
    return not s or (len(s) == len(r) and all(a in (1, b) for a, b in zip(s, r, strict=True)))


@irdl_op_definition
class FmaOp(TextOp):
    """Fused multiply-add, a * b + c; axes of size 1 in a and b are broadcast: `%n = loop.fma %a, %b, %c : f32`."""

    name = "loop.fma"
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(a: SSAValue, b: SSAValue, c: SSAValue) -> FmaOp:
        """a * b + c, of c's type."""
        return FmaOp.create(operands=[a, b, c], result_types=[c.type])

    def verify_(self) -> None:
        if self.c.type != self.result.type:
            raise VerifyException(f"expected an addend of type {self.result.type}, but got {self.c.type}")
        for operand in (self.a, self.b):
            if not broadcasts_to(operand.type, self.result.type):
                raise VerifyException(
                    f"expected a factor that broadcasts to {self.result.type}, but got {operand.type}"
                )

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        print_types(printer, self.operands)

    @classmethod
    def read(cls, parser: Parser) -> FmaOp:
        message = "expected three operands and their three types"
        names, types = parse_three_operands(parser, 3, message)
        values = parser.resolve_operands(names, types, parser.pos)
        return FmaOp.create(operands=values, result_types=types[2:3])


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """A scalar, or a vector's axes of size 1, broadcast: `loop.broadcast %v : f32 to vector<4x16xf32>`."""

    name = "loop.broadcast"
    value = operand_def()
    result = result_def(VectorType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict `:` type($value) `to` type($result)"

    @staticmethod
    def make(value: SSAValue, type: Attribute) -> BroadcastOp:
        """The value broadcast to a vector type."""
        return BroadcastOp.create(operands=[value], result_types=[type])

    def verify_(self) -> None:
        if not broadcasts_to(self.value.type, self.result.type):
            raise VerifyException(f"expected a value that broadcasts to {self.result.type}, but got {self.value.type}")


@irdl_op_definition
class ConcatOp(TextOp):
    """Tiles of size 1 along an axis, side by side: `loop.concat %a, %b axis 0 : vector<1x8xf32> to vector<2x8xf32>`."""

    name = "loop.concat"
    values = var_operand_def(VectorType)
    axis = prop_def(IntegerAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(values: Sequence[SSAValue], axis: int) -> ConcatOp:
        """Values of one type, which has size 1 along the axis."""
        t = values[0].type
        return ConcatOp.create(
            operands=values,
            properties={"axis": IntegerAttr(axis, i64)},
            result_types=[tile_type(element_of(t), _lengthened(t, axis, len(values)))],
        )

    def verify_(self) -> None:
        if not self.values:
            raise VerifyException("expected at least one operand")
        first, axis = self.values[0].type, self.axis.value.data
        for v in self.values:
            if v.type != first:
                raise VerifyException(f"expected operands of one type, but got {first} and {v.type}")
        shape = shape_of(first)
        if not 0 <= axis < len(shape):
            raise VerifyException(f"expected an axis below {len(shape)}, the rank of the tiles, but got {axis}")
        if shape[axis] != 1:
            raise VerifyException(f"expected tiles of size 1 along axis {axis}, but got {first}")
        expected = tile_type(element_of(first), _lengthened(first, axis, len(self.values)))
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.values, printer.print_operand)
        printer.print_string(f" axis {self.axis.value.data}")
        print_conversion(printer, self.values[0], self.result)

    @classmethod
    def read(cls, parser: Parser) -> ConcatOp:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("axis")
        axis = parser.parse_integer()
        first, result = parse_conversion(parser, names[0])
        rest = [parser.resolve_operand(name, first.type) for name in names[1:]]
        return ConcatOp.create(
            operands=[first, *rest], properties={"axis": IntegerAttr(axis, i64)}, result_types=[result]
        )


@irdl_op_definition
class SliceOp(TextOp):
    """
    One place of a tile along an axis, which keeps size 1: `loop.slice %v axis 0 at 3 : vector<6x8xf32> to ...`.

    The axis is not the last one, so that a slice is some of the native vectors of the tile.
    """

    name = "loop.slice"
    value = operand_def(VectorType)
    axis = prop_def(IntegerAttr)
    at = prop_def(IntegerAttr)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(value: SSAValue, axis: int, at: int) -> SliceOp:
        """Place `at` of the tile along the axis."""
        t = value.type
        return SliceOp.create(
            operands=[value],
            properties={"axis": IntegerAttr(axis, i64), "at": IntegerAttr(at, i64)},
            result_types=[tile_type(element_of(t), _lengthened(t, axis, 1))],
        )

    def verify_(self) -> None:
        t, axis, at = self.value.type, self.axis.value.data, self.at.value.data
        shape = shape_of(t)
        if not 0 <= axis < len(shape) - 1:
            raise VerifyException(f"expected an axis in front of the last of {len(shape)}, but got {axis}")
        if not 0 <= at < shape[axis]:
            raise VerifyException(f"expected a place below {shape[axis]}, the size of axis {axis}, but got {at}")
        expected = tile_type(element_of(t), _lengthened(t, axis, 1))
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(f" axis {self.axis.value.data} at {self.at.value.data}")
        print_conversion(printer, self.value, self.result)

    @classmethod
    def read(cls, parser: Parser) -> SliceOp:
        name = parser.parse_unresolved_operand()
        parser.parse_keyword("axis")
        axis = parser.parse_integer()
        parser.parse_keyword("at")
        at = parser.parse_integer()
        value, result = parse_conversion(parser, name)
        return SliceOp.create(
            operands=[value],
            properties={"axis": IntegerAttr(axis, i64), "at": IntegerAttr(at, i64)},
            result_types=[result],
        )


def _lengthened(t: Attribute, axis: int, size: int) -> tuple[int, ...]:
    """The shape of a tile with another size along an axis."""
    return tuple(size if k == axis else n for k, n in enumerate(shape_of(t)))


@irdl_op_definition
class ReduceOp(TextOp):
    """Combine a tile's axes, which keep size 1: `loop.reduce sum %v axes [1] : vector<4x16xf32> to vector<4x1xf32>`."""

    name = "loop.reduce"
    value = operand_def(VectorType)
    combiner = prop_def(StringAttr)
    axes = prop_def(DenseArrayBase.constr(i64))
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(combiner: str, value: SSAValue, axes: Sequence[int]) -> ReduceOp:
        """The value with these axes combined."""
        t = value.type
        assert isinstance(t, VectorType)
        shape = [1 if k in axes else n for k, n in enumerate(t.get_shape())]
        return ReduceOp.create(
            operands=[value],
            properties={"combiner": StringAttr(combiner), "axes": i64_array(axes)},
            result_types=[VectorType(t.element_type, shape)],
        )

    def verify_(self) -> None:
        if self.combiner.data not in COMBINERS:
            raise VerifyException(f"expected a combiner of {', '.join(COMBINERS)}, but got '{self.combiner.data}'")
        axes, rank = self.axes.get_values(), len(shape_of(self.value.type))
        if not all(0 <= k < rank for k in axes):
            raise VerifyException(f"expected axes below {rank}, the rank of the tile, but got {list(axes)}")
        shape = [1 if k in axes else n for k, n in enumerate(shape_of(self.value.type))]
        expected = VectorType(element_of(self.value.type), shape)
        if self.result.type != expected:
            raise VerifyException(f"expected a result of type {expected}, but got {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(f" {self.combiner.data} ")
        printer.print_operand(self.value)
        printer.print_string(f" axes {list(self.axes.get_values())}")
        print_conversion(printer, self.value, self.result)

    @classmethod
    def read(cls, parser: Parser) -> ReduceOp:
        combiner = parser.parse_identifier(" as a combiner")
        name = parser.parse_unresolved_operand()
        parser.parse_keyword("axes")
        axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        value, result = parse_conversion(parser, name)
        return ReduceOp.create(
            operands=[value],
            properties={"combiner": StringAttr(combiner), "axes": i64_array(axes)},
            result_types=[result],
        )


@irdl_op_definition
class CompareOp(TextOp):
    """Compare lane by lane: `%m = loop.compare olt %a, %b : vector<16xf32>`, a vector of i1."""

    name = "loop.compare"
    predicate = prop_def(StringAttr)
    a = operand_def()
    b = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(predicate: str, a: SSAValue, b: SSAValue) -> CompareOp:
        """The comparison of two values of one type."""
        return CompareOp.create(
            operands=[a, b],
            properties={"predicate": StringAttr(predicate)},
            result_types=[with_element(a.type, i1)],
        )

    def verify_(self) -> None:
        if self.predicate.data not in COMPARES:
            raise VerifyException(f"expected a predicate of {', '.join(COMPARES)}, but got '{self.predicate.data}'")
        if self.a.type != self.b.type:
            raise VerifyException(f"expected operands of one type, but got {self.a.type} and {self.b.type}")
        if self.result.type != with_element(self.a.type, i1):
            raise VerifyException(
                f"expected a result of type {with_element(self.a.type, i1)}, but got {self.result.type}"
            )

    def write(self, printer: Printer) -> None:
        printer.print_string(f" {self.predicate.data} ")
        printer.print_list(self.operands, printer.print_operand)
        print_types(printer, [self.a])

    @classmethod
    def read(cls, parser: Parser) -> CompareOp:
        predicate = parser.parse_identifier(" as a predicate")
        start = parser.pos
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        t = parser.parse_type()
        if len(names) != 2:
            parser.raise_error(f"expected two operands, but got {len(names)}", start, parser.pos)
        a, b = (parser.resolve_operand(n, t) for n in names)
        return CompareOp.make(predicate, a, b)


@irdl_op_definition
class SelectOp(TextOp):
    """Choose lane by lane: `%v = loop.select %m, %a, %b : vector<16xi1>, vector<16xf32>`."""

    name = "loop.select"
    condition = operand_def()
    a = operand_def()
    b = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(condition: SSAValue, a: SSAValue, b: SSAValue) -> SelectOp:
        """a where the condition holds, else b."""
        return SelectOp.create(operands=[condition, a, b], result_types=[a.type])

    def verify_(self) -> None:
        if not self.a.type == self.b.type == self.result.type:
            raise VerifyException(f"expected operands of one type, but got {self.a.type} and {self.b.type}")
        if self.condition.type not in (i1, with_element(self.a.type, i1)):
            raise VerifyException(
                f"expected a condition of type {with_element(self.a.type, i1)}, but got {self.condition.type}"
            )

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        print_types(printer, [self.condition, self.a])

    @classmethod
    def read(cls, parser: Parser) -> SelectOp:
        message = "expected three operands and the types of the condition and of the values"
        names, (condition, t) = parse_three_operands(parser, 2, message)
        c, a, b = parser.resolve_operands(names, [condition, t, t], parser.pos)
        return SelectOp.make(c, a, b)


@irdl_op_definition
class CastOp(TextOp):
    """Convert lane by lane: `%f = loop.cast sitofp %v : vector<16xi32> to vector<16xf32>`."""

    name = "loop.cast"
    kind = prop_def(StringAttr)
    value = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    @staticmethod
    def make(kind: str, value: SSAValue, element: Attribute) -> CastOp:
        """The value with another element type."""
        return CastOp.create(
            operands=[value],
            properties={"kind": StringAttr(kind)},
            result_types=[with_element(value.type, element)],
        )

    def verify_(self) -> None:
        if self.kind.data not in CASTS:
            raise VerifyException(f"expected a cast of {', '.join(CASTS)}, but got '{self.kind.data}'")
        if shape_of(self.value.type) != shape_of(self.result.type):
            raise VerifyException(f"expected one shape, but got {self.value.type} and {self.result.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind.data} ")
        printer.print_operand(self.value)
        print_conversion(printer, self.value, self.result)

    @classmethod
    def read(cls, parser: Parser) -> CastOp:
        kind = parser.parse_identifier(" as a cast")
        value, result = parse_conversion(parser, parser.parse_unresolved_operand())
        return CastOp.create(operands=[value], properties={"kind": StringAttr(kind)}, result_types=[result])
