"""sched.schedule, the types of handles, and the ops that look up blocks and loops."""

from __future__ import annotations

from xdsl.dialects.builtin import FlatSymbolRefAttrConstr, IntegerAttr, StringAttr, SymbolRefAttr, i64
from xdsl.ir import Block, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    EqAttrConstraint,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, NoTerminator
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.text import TextOp


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """A handle on a `loop.block`."""

    name = "sched.block"


@irdl_attr_definition
class LoopType(ParametrizedAttribute, TypeAttribute):
    """A handle on a `loop.for`."""

    name = "sched.loop"


@irdl_attr_definition
class IntType(ParametrizedAttribute, TypeAttribute):
    """An integer parameter that the tuner chooses."""

    name = "sched.int"


BLOCK, LOOP, INT = BlockType(), LoopType(), IntType()
I64 = IntegerAttr.constr(type=EqAttrConstraint(i64))


@irdl_op_definition
class ScheduleOp(IRDLOperation):
    """
    The schedule of one kernel: directives, applied in order.

    `sched.schedule @dense { %c = sched.block "dense" : !sched.block ... }`
    """

    name = "sched.schedule"

    kernel = prop_def(FlatSymbolRefAttrConstr)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove(), NoTerminator())

    @staticmethod
    def make(kernel: str, body: Region) -> ScheduleOp:
        """A schedule of the kernel of this name."""
        return ScheduleOp.create(properties={"kernel": SymbolRefAttr(kernel)}, regions=[body])

    @property
    def kernel_name(self) -> str:
        """The name of the scheduled `loop.func`."""
        return self.kernel.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.kernel)
        if self.attributes:
            printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)

    @classmethod
    def parse(cls, parser: Parser) -> ScheduleOp:
        name = parser.parse_symbol_name()
        extra = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        op = cls.make(name.data, body if body.blocks else Region(Block()))
        if extra is not None:
            op.attributes |= extra.data
        return op

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not op.name.startswith("sched."):
                raise VerifyException(f"expected only sched ops in a schedule, but got {op.name}")


@irdl_op_definition
class BlockOp(IRDLOperation):
    """
    The block of this name: `%c = sched.block "dense" : !sched.block`.

    TVM: get_block. Halide: the Func itself.
    """

    name = "sched.block"

    block_name = prop_def(StringAttr)
    result = result_def(BLOCK)
    assembly_format = "$block_name attr-dict `:` type($result)"


@irdl_op_definition
class LoopsOp(TextOp):
    """
    The loops around a block, outer to inner: `%i, %j, %k = sched.loops %c : 3`.

    With `under %l`, the loops between the loop %l and the block: `%a, %b = sched.loops %c under %l : 2`. The number
    after the colon is the number of loops.

    TVM: get_loops.
    """

    name = "sched.loops"

    block = operand_def(BLOCK)
    under = opt_operand_def(LOOP)
    loops = var_result_def(LOOP)

    @staticmethod
    def make(block: SSAValue, count: int, under: SSAValue | None = None) -> LoopsOp:
        """Handles on `count` loops."""
        return LoopsOp(operands=[block, under], result_types=[[LOOP] * count])

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.block)
        if self.under is not None:
            printer.print_string(" under ")
            printer.print_operand(self.under)
        printer.print_string(f" : {len(self.loops)}")

    @classmethod
    def read(cls, parser: Parser) -> LoopsOp:
        block = parser.resolve_operand(parser.parse_unresolved_operand(), BLOCK)
        under = None
        if parser.parse_optional_keyword("under"):
            under = parser.resolve_operand(parser.parse_unresolved_operand(), LOOP)
        parser.parse_punctuation(":")
        return cls.make(block, parser.parse_integer(allow_boolean=False, allow_negative=False), under)


@irdl_op_definition
class ChildOp(IRDLOperation):
    """
    The loop or block at a position of a loop's body: `%k = sched.child %j at 1 : !sched.loop`.

    Children are the loops and blocks in program order, counted from 0; the result's type is the expected one of both.

    TVM: get_child_blocks.
    """

    name = "sched.child"

    loop = operand_def(LOOP)
    position = prop_def(I64)
    result = result_def(BlockType | LoopType)
    assembly_format = "$loop `at` $position attr-dict `:` type($result)"
