"""Products summed inside of a lane: what the dot-product instructions of a machine compute."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, IntegerType, VectorType, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.loop.values import element_of, shape_of
from mlc.dialects.text import TextOp

WORD_BITS = 32
"""The bits of a lane of the accumulator, which the summed factors of one lane fill together."""


def word_factors(element: Attribute) -> int:
    """How many elements fill a word: 2 of bf16 and f16, 4 of i8; 1 of elements that no word holds several of."""
    if not isinstance(element, AnyFloat | IntegerType):
        return 1
    bits = element.width.data if isinstance(element, IntegerType) else element.bitwidth
    return WORD_BITS // bits if bits in (8, 16) else 1


@irdl_op_definition
class ContractOp(TextOp):
    """
    Products of narrow factors, widened, summed over the last axis of a and b, and added to c; other axes of size 1 are
    broadcast: `%n = loop.contract %a, %b, %c : vector<12x1x2xbf16>, vector<1x32x2xbf16>, vector<12x32xf32>`.

    Floats are exact products added in any order and rounding of f32; a subnormal factor or sum may count as 0.
    """

    name = "loop.contract"
    a = operand_def(VectorType)
    b = operand_def(VectorType)
    c = operand_def(VectorType)
    result = result_def(VectorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(a: SSAValue, b: SSAValue, c: SSAValue) -> ContractOp:
        """c + sum(a * b) over the last axis of a and b."""
        return ContractOp.create(operands=[a, b, c], result_types=[c.type])

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
        count, to = word_factors(element), shape_of(self.c.type)
        for factor in (self.a, self.b):
            *shape, last = shape_of(factor.type)
            fits = len(shape) == len(to) and all(n in (1, m) for n, m in zip(shape, to, strict=True))
            if last != count or not fits:
                raise VerifyException(
                    f"expected a factor that broadcasts to {'x'.join(map(str, (*to, count)))}, but got {factor.type}"
                )

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(" : ")
        printer.print_list(self.operands, lambda v: printer.print_attribute(v.type))

    @classmethod
    def read(cls, parser: Parser) -> ContractOp:
        start = parser.pos
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if len(names) != 3 or len(types) != 3:
            parser.raise_error("expected three operands and their three types", start, parser.pos)
        values = parser.resolve_operands(names, types, parser.pos)
        return ContractOp.create(operands=values, result_types=types[2:3])
