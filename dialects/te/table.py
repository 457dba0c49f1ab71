"""te.table: a constant tensor of a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.text import TextOp, parse_dense


@irdl_op_definition
class TableOp(TextOp):
    """Constants that stages read: `%t = te.table dense<[1.0, 2.0]> : tensor<2xf32>`."""

    name = "te.table"

    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    @staticmethod
    def make(value: DenseIntOrFPElementsAttr) -> TableOp:
        """The table of these numbers."""
        return TableOp.create(properties={"value": value}, result_types=[value.type])

    def verify_(self) -> None:
        if self.value.type != self.result.type:
            raise VerifyException(f"expected a table of type {self.result.type}, but got {self.value.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def read(cls, parser: Parser) -> TableOp:
        return TableOp.make(parse_dense(parser))
