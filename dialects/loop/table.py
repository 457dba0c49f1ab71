"""loop.table: constants of a kernel, which blocks load."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, MemRefType
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.constants import numbers
from mlc.dialects.text import TextOp, parse_dense


@irdl_op_definition
class TableOp(TextOp):
    """A buffer of constants: `%t = loop.table dense<[1.0, 2.0]> : tensor<2xf32>`, a memref of this shape."""

    name = "loop.table"

    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())

    @staticmethod
    def make(value: DenseIntOrFPElementsAttr) -> TableOp:
        """The buffer of these numbers."""
        t = MemRefType(value.get_element_type(), value.get_shape())
        return TableOp.create(properties={"value": value}, result_types=[t])

    def verify_(self) -> None:
        """The buffer has the shape and the elements of the numbers."""
        t = self.result.type
        if self.value.get_element_type() != t.element_type or tuple(self.value.get_shape()) != tuple(t.get_shape()):
            raise VerifyException(f"expected a table of type {t}, but got numbers of {self.value.type}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_attribute(self.value)

    @classmethod
    def read(cls, parser: Parser) -> TableOp:
        return TableOp.make(parse_dense(parser))

    def bytes(self) -> bytes:
        """The numbers as they lie in memory; a boolean is one byte."""
        if str(self.value.get_element_type()) == "i1":
            return bytes(int(v) & 1 for v in numbers(self.value))
        return self.value.data.data
