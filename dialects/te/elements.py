"""Ops of a stage's scalar body other than reads: te.yield and te.index."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import IsTerminator, Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import IndexParser, print_exprs, verify_access
from mlc.dialects.index import Index, IndexMapAttr
from mlc.dialects.text import TextOp


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The value(s) of one element: `te.yield %v : f32`."""

    name = "te.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator())
    assembly_format = "($values^ `:` type($values))? attr-dict"


@irdl_op_definition
class IndexOp(TextOp):
    """An index expression as a value: `%v = te.index %i * 2 + 1`."""

    name = "te.index"
    args = var_operand_def(IndexType)
    map = prop_def(IndexMapAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())

    @staticmethod
    def make(expr: Index, operands: Sequence[SSAValue]) -> IndexOp:
        return IndexOp.create(
            operands=operands, properties={"map": IndexMapAttr.get([expr])}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        if len(self.map.data) != 1:
            raise VerifyException(f"expected one index expression, but got {len(self.map.data)}")
        verify_access(self.map.data, None, self.args, 1)

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_exprs(printer, self.map.data, self.args)

    @classmethod
    def read(cls, parser: Parser) -> IndexOp:
        index = IndexParser(parser)
        return IndexOp.make(index.expr(), index.operands())
