"""loop.intrinsic: a call of one of LLVM's intrinsics on whole vectors, with its meaning beside it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, IntegerType, StringAttr, VectorType
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, region_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.loop.values import element_of, shape_of
from mlc.dialects.text import TextOp, print_types


@irdl_op_definition
class CallIntrinsicOp(TextOp):
    """
    Call an intrinsic of LLVM; the region computes the same from the same values, for the interpreter and C.

        %n = loop.intrinsic "llvm.x86.avx512.vpdpbusd.512" requires ["avx512vnni"] %c, %a, %b
            : vector<16xi32>, vector<1x4xi8>, vector<16x4xi8> as vector<16xi32>, vector<64xi8>, vector<64xi8> {
        ^bb0(%c : vector<16xi32>, %a : vector<1x4xi8>, %b : vector<16x4xi8>):
          %r = loop.contract %a unsigned, %b, %c : vector<1x4xi8>, vector<16x4xi8>, vector<16xi32>
          loop.yield %r
        }

    - operands: tiles, whose elements in order fill LLVM's vectors; one that is smaller is repeated
    - as: the types of LLVM's operands; that of its result has the elements of the op's
    - requires: LLVM's names of the features of the CPU that it needs
    """

    name = "loop.intrinsic"

    intrin = prop_def(StringAttr)
    requires = prop_def(ArrayAttr[StringAttr])
    types = prop_def(ArrayAttr[VectorType])
    args = var_operand_def(VectorType)
    result = result_def(VectorType)
    means = region_def("single_block")
    traits = traits_def(Pure(), IsolatedFromAbove(), NoTerminator())

    @staticmethod
    def make(
        intrin: str, requires: Sequence[str], args: Sequence[SSAValue], types: Sequence[Attribute], means: Region
    ) -> CallIntrinsicOp:
        """A call; its result has the type of the value that the region yields."""
        last = means.block.last_op
        if last is None or len(last.operands) != 1:
            raise VerifyException("expected a region that yields one value")
        properties: dict[str, Attribute] = {
            "intrin": StringAttr(intrin),
            "requires": ArrayAttr([StringAttr(r) for r in requires]),
            "types": ArrayAttr(types),
        }
        results = [last.operands[0].type]
        return CallIntrinsicOp.create(operands=args, properties=properties, result_types=results, regions=[means])

    @property
    def yielded(self) -> SSAValue:
        """The value that the region yields."""
        last = self.means.block.last_op
        assert last is not None
        return last.operands[0]

    def verify_(self) -> None:
        if not self.intrin.data.startswith("llvm."):
            raise VerifyException(f"expected the name of an LLVM intrinsic, llvm. ..., but got '{self.intrin.data}'")
        last = self.means.block.last_op
        if last is None or last.name != "loop.yield" or [v.type for v in last.operands] != [self.result.type]:
            raise VerifyException(f"expected a region that yields a value of type {self.result.type}")
        if [a.type for a in self.means.block.args] != [a.type for a in self.args]:
            raise VerifyException("expected a region with an argument for each operand, of its type")
        if len(self.types.data) != len(self.args):
            raise VerifyException(f"expected {len(self.args)} types of LLVM's operands, but got {len(self.types.data)}")
        for value, t in zip(self.args, self.types.data, strict=True):
            if element_of(value.type) != element_of(t) or prod(shape_of(t)) % prod(shape_of(value.type)):
                raise VerifyException(f"expected an operand whose elements fill {t}, but got {value.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.intrin.data)
        printer.print_string(" requires ")
        printer.print_attribute(self.requires)
        printer.print_string(" ")
        printer.print_list(self.args, printer.print_operand)
        print_types(printer, self.args)
        printer.print_string(" as ")
        printer.print_list(self.types.data, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.means)

    @classmethod
    def read(cls, parser: Parser) -> CallIntrinsicOp:
        name = parser.parse_str_literal(" as the name of the intrinsic")
        parser.parse_keyword("requires")
        requires = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        given = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_keyword("as")
        at = parser.pos
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        if not all(isinstance(t, VectorType) and isinstance(t.element_type, AnyFloat | IntegerType) for t in types):
            parser.raise_error("expected types of vectors", at, parser.pos)
        means = parser.parse_region()
        if not means.blocks or means.block.last_op is None or len(means.block.last_op.operands) != 1:
            parser.raise_error("expected a region that yields one value", at, parser.pos)
        return cls.make(name, requires, parser.resolve_operands(names, given, at), types, means)
