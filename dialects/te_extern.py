"""
`te.extern`: a stage that is opaque to schedules, with a body in the loop dialect or a call of a function.

    extern ::= `te.extern` "stage" `(` %input,* `)` (callee | region) `:` `(` type,* `)` `->` type

The region's arguments are the buffers of the inputs, then of the results; it ends in loop.yield. `callee` is that of
`dialects/external.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, MemRefType, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.external import Callee
from mlc.dialects.text import TextOp


@irdl_op_definition
class ExternOp(TextOp):
    """
    A stage whose values mlc does not look into: a loop body, or a call of a C or registered function on whole buffers.

    `%y = te.extern "negate" (%x) registered "my.negate" : (tensor<4xf32>) -> tensor<4xf32>`
    """

    name = "te.extern"

    stage = prop_def(StringAttr)
    callee = opt_prop_def(StringAttr)
    convention = opt_prop_def(StringAttr)
    arguments = opt_prop_def(ArrayAttr)
    libraries = opt_prop_def(ArrayAttr)
    status = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(DenseArrayBase)
    inputs = var_operand_def(TensorType)
    results_ = var_result_def(TensorType)
    body = region_def()

    traits = traits_def(IsolatedFromAbove())

    @staticmethod
    def make(
        stage: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        callee: Callee | None = None,
        body: Region | None = None,
    ) -> ExternOp:
        """A stage that calls `callee`, or has a body."""
        properties = {"stage": StringAttr(stage), **(callee.properties() if callee is not None else {})}
        return ExternOp.create(
            operands=inputs, properties=properties, result_types=result_types, regions=[body or Region()]
        )

    @property
    def stage_name(self) -> str:
        """The stage's name."""
        return self.stage.data

    @property
    def called(self) -> Callee | None:
        """What it calls; None if it has a body."""
        return Callee.of(self.properties)

    def buffer_types(self) -> list[MemRefType[Any]]:
        """The types of the buffers that the body has as arguments."""
        types = [cast("TensorType[Any]", v.type) for v in (*self.inputs, *self.results)]
        return [MemRefType(t.element_type, t.shape) for t in types]

    def verify_(self) -> None:
        """It has results, either a body or a callee, and the body is over the buffers and ends in loop.yield."""
        callee = self.called
        if (callee is not None) == bool(self.body.blocks):
            raise VerifyException("expected te.extern to have either a body or a callee")
        if not self.results:
            raise VerifyException("expected te.extern to have a result, which it writes")
        if callee is not None:
            callee.verify(len(self.inputs) + len(self.results))
            return
        if [arg.type for arg in self.body.block.args] != self.buffer_types():
            raise VerifyException("expected the body's arguments to be the buffers of the inputs and of the results")
        last = self.body.block.last_op
        if last is None or last.name != "loop.yield" or last.operands:
            raise VerifyException("expected the body of te.extern to end in loop.yield without values")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.stage.data)
        printer.print_string(" (")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(") ")
        if (callee := self.called) is not None:
            callee.print(printer)
        else:
            printer.print_region(self.body)
        printer.print_string(" : ")
        printer.print_attribute(FunctionType.from_lists([v.type for v in self.inputs], [r.type for r in self.results]))

    @classmethod
    def read(cls, parser: Parser) -> ExternOp:
        stage = parser.parse_str_literal(" as the stage's name")
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        callee = Callee.parse(parser)
        body = parser.parse_region() if callee is None else None
        parser.parse_punctuation(":")
        start = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, FunctionType) or len(kind.inputs) != len(names):
            parser.raise_error(f"expected the types of {len(names)} inputs and the results, `(...) -> (...)`", start)
        operands = parser.resolve_operands(names, list(kind.inputs), start)
        return ExternOp.make(stage, operands, list(kind.outputs), callee, body)


def empty_body(types: Sequence[Attribute]) -> tuple[Region, Block]:
    """A region whose block has these buffers as arguments."""
    block = Block(arg_types=types)
    return Region(block), block
