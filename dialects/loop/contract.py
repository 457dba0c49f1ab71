"""loop.contract: products of narrow factors, as by dot-product instructions and by matrix units."""

from __future__ import annotations

from typing import TypeAlias

from xdsl.dialects.builtin import AnyFloat, IntegerType, UnitAttr, VectorType, f32, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, opt_prop_def, result_def, traits_def
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.loop.values import element_of, shape_of
from mlc.dialects.text import TextOp, parse_three_operands, print_types

WORD_BITS = 32
"""The bits of an accumulator's lane; the factors that one lane sums are packed in as many bits."""


Marks: TypeAlias = tuple[bool, bool]
"""What holds for each of the two factors."""
MARKS = ("unsigned", "narrow")
UNSIGNED, NARROW = ("unsigned_a", "unsigned_b"), ("narrow_a", "narrow_b")
NARROW_LIMIT = 64
"""The greatest magnitude of a narrow byte: two products with unsigned bytes, at most 2 * 255 * 64, fit in an i16."""


def word_factors(element: Attribute) -> int:
    """The number of elements in a word: 2 of bf16 and f16, 4 of i8; 1 for elements too wide to be packed."""
    if not isinstance(element, AnyFloat | IntegerType):
        return 1
    bits = element.width.data if isinstance(element, IntegerType) else element.bitwidth
    return WORD_BITS // bits if bits in (8, 16) else 1


@irdl_op_definition
class ContractOp(TextOp):
    """
    Products of narrow factors, widened, summed over the last axis of a and b, and added to c; other axes of size 1 are
    broadcast: `%n = loop.contract %a, %b, %c : vector<12x1x2xbf16>, vector<1x32x2xbf16>, vector<12x32xf32>`.

    Float products are exact, and added in f32 in any order; subnormal factors and sums may be flushed to 0.
    Integers are signed, except those of a factor marked `unsigned`; sums wrap:
    `loop.contract %a unsigned, %b, %c : vector<12x1x4xi8>, vector<1x32x4xi8>, vector<12x32xi32>`.
    The signed bytes of a factor marked `narrow` are promised to be from -64 to 64, so that the sum of two products with
    unsigned bytes fits in 16 bits; elsewhere the result is poison: `loop.contract %a unsigned, %b narrow, %c`.

    Factors with one more axis, in front of the last, are summed over it, too. This is what a matrix unit computes:
    `loop.contract %a, %b, %c : vector<16x1x16x2xbf16>, vector<1x16x16x2xbf16>, vector<16x16xf32>`.
    """

    name = "loop.contract"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    c = operand_def(VectorType)
    result = result_def(VectorType)
    unsigned_a = opt_prop_def(UnitAttr)
    unsigned_b = opt_prop_def(UnitAttr)
    narrow_a = opt_prop_def(UnitAttr)
    narrow_b = opt_prop_def(UnitAttr)
    traits = traits_def(Pure())

    @staticmethod
    def make(
        a: SSAValue, b: SSAValue, c: SSAValue, unsigned: Marks = (False, False), narrow: Marks = (False, False)
    ) -> ContractOp:
        """c + sum(a * b) over the last axis of a and b."""
        marks = zip((*UNSIGNED, *NARROW), (*unsigned, *narrow), strict=True)
        properties: dict[str, Attribute] = {name: UnitAttr() for name, holds in marks if holds}
        return ContractOp.create(operands=[a, b, c], result_types=[c.type], properties=properties)

    @property
    def unsigned(self) -> Marks:
        """Which of the two factors are unsigned integers."""
        return self.unsigned_a is not None, self.unsigned_b is not None

    @property
    def narrow(self) -> Marks:
        """Which of the two factors are signed bytes from -64 to 64."""
        return self.narrow_a is not None, self.narrow_b is not None

    @property
    def steps(self) -> int | None:
        """The words along the axis in front of the last, if the factors have one that is summed; else None."""
        shape = shape_of(self.a.type)
        return shape[-2] if len(shape) == len(shape_of(self.c.type)) + 2 else None

    def verify_(self) -> None:
        if self.c.type != self.result.type:
            raise VerifyException(f"expected an addend of type {self.result.type}, but got {self.c.type}")
        element = element_of(self.a.type)
        if element != element_of(self.b.type):
            raise VerifyException(f"expected factors of one element type, but got {self.a.type} and {self.b.type}")
        wide = element_of(self.c.type)
        if word_factors(element) == 1 or wide != (f32 if isinstance(element, AnyFloat) else i32):
            raise VerifyException(
                f"expected factors of bf16 or f16 for sums of f32, or of i8 or i16 for sums of i32, "
                f"but got {element} for {wide}"
            )
        if any(self.unsigned) and isinstance(element, AnyFloat):
            raise VerifyException(f"expected unsigned factors to be integers, but got {element}")
        if any(self.narrow) and element != i8:
            raise VerifyException(f"expected narrow factors to be of i8, but got {element}")
        if any(u and n for u, n in zip(self.unsigned, self.narrow, strict=True)):
            raise VerifyException("expected a factor to be unsigned or narrow, but got one that is both")
        count, to, steps = word_factors(element), shape_of(self.c.type), self.steps
        summed = (count,) if steps is None else (steps, count)
        for factor in (self.a, self.b):
            shape = shape_of(factor.type)
            kept, last = shape[: len(to)], shape[len(to) :]
            if last != summed or any(n not in (1, m) for n, m in zip(kept, to, strict=True)):
                raise VerifyException(
                    f"expected a factor that broadcasts to {'x'.join(map(str, (*to, *summed)))}, but got {factor.type}"
                )

    def write(self, printer: Printer) -> None:
        for k, operand in enumerate(self.operands):
            printer.print_string(", " if k else " ")
            printer.print_operand(operand)
            for mark, holds in zip(MARKS, (self.unsigned, self.narrow), strict=True):
                printer.print_string(f" {mark}" if k < len(holds) and holds[k] else "")
        print_types(printer, self.operands)

    @classmethod
    def read(cls, parser: Parser) -> ContractOp:
        marks: list[list[bool]] = []

        def operand() -> UnresolvedOperand:
            name = parser.parse_unresolved_operand()
            marks.append([parser.parse_optional_keyword(mark) is not None for mark in MARKS])
            return name

        message = "expected three operands and their three types"
        names, types = parse_three_operands(parser, 3, message, operand)
        values = parser.resolve_operands(names, types, parser.pos)
        unsigned, narrow = zip(*marks[:2], strict=True)
        return ContractOp.make(values[0], values[1], values[2], unsigned, narrow)
