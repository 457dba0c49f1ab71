"""sched.intrinsic: an instruction that a schedule may use, declared as two functions."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, Operation, Region
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, region_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects import loop

MEANS, EMITS = "means", "emits"


@irdl_op_definition
class IntrinsicOp(IRDLOperation):
    """
    Declare an intrinsic for `sched.tensorize`: what it means, and what stands for that.

        sched.intrinsic "x86.dot4" requires ["avx512vnni"] {
          loop.func @means(%a: memref<4xi8>, %b: memref<16x4xi8>, %c: memref<16xi32>) { ... }
          loop.func @emits(%a: memref<4xi8>, %b: memref<16x4xi8>, %c: memref<16xi32>) { ... }
        }

    - @means: loops inside each other around one block; they are compared with the loops that it is asked for
    - @emits: operations without loops, on tiles of the same operands
    - requires: LLVM's names of the features that the CPU must have

    TVM: TensorIntrin.register.
    """

    name = "sched.intrinsic"

    intrin = prop_def(StringAttr)
    requires = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator())

    @staticmethod
    def make(name: str, requires: Sequence[str], functions: Sequence[Operation]) -> IntrinsicOp:
        """The declaration of these two functions, `@means` and `@emits`."""
        properties = {"intrin": StringAttr(name), "requires": ArrayAttr([StringAttr(r) for r in requires])}
        return IntrinsicOp.create(properties=properties, regions=[Region(Block(functions))])

    @property
    def features(self) -> list[str]:
        """LLVM's names of the features that it requires."""
        return [feature.data for feature in self.requires.data]

    def function(self, name: str) -> loop.FuncOp:
        """`@means` or `@emits`."""
        return next(f for f in self.body.block.ops if isinstance(f, loop.FuncOp) and f.sym_name.data == name)

    def verify_(self) -> None:
        ops = list(self.body.block.ops)
        functions = [f for f in ops if isinstance(f, loop.FuncOp)]
        if [f.sym_name.data for f in functions] != [MEANS, EMITS] or len(ops) != 2:
            raise VerifyException("expected the two functions loop.func @means and loop.func @emits")
        means, emits = functions
        if means.function_type != emits.function_type or means.outputs != emits.outputs:
            raise VerifyException(
                f"expected @emits of the type of @means, {means.function_type}, but got {emits.function_type}"
            )
        for op in emits.body.block.ops:
            if isinstance(op, loop.ForOp | loop.BlockOp | loop.AllocOp):
                raise VerifyException(f"expected operations on tiles in @emits, but got {op.name}")
            if isinstance(op, loop.LoadOp | loop.StoreOp) and op.mask_exprs:
                raise VerifyException(f"expected whole tiles in @emits, but got {op.name} with a mask")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.intrin.data)
        printer.print_string(" requires ")
        printer.print_attribute(self.requires)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> IntrinsicOp:
        name = parser.parse_str_literal(" as the name of the intrinsic")
        parser.parse_keyword("requires")
        requires = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        extra = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        properties = {"intrin": StringAttr(name), "requires": ArrayAttr([StringAttr(r) for r in requires])}
        op = cls.create(properties=properties, regions=[body if body.blocks else Region(Block())])
        if extra is not None:
            op.attributes |= extra.data
        return op
