"""A call of a function that is not mlc's, on whole buffers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.access import IndexParser
from mlc.dialects.external import Callee
from mlc.dialects.index import Index, IndexMapAttr, compact
from mlc.dialects.open_sizes import expect_sizes, open_shapes, print_sizes
from mlc.dialects.text import TextOp, print_types


@irdl_op_definition
class ExternCallOp(TextOp):
    """
    A call of a C function, or of one registered by name; the last `outputs` buffers are written, the others are read.

    `loop.call registered "my.negate" (%x, %y) outputs 1 : memref<4xf32>, memref<4xf32>`
    `loop.call registered "my.rows" (%x, %y) sizes (%n, %n) outputs 1 : memref<?x8xf32>, memref<?xf32>`

    `sizes` are over the kernel's symbols: one for each `?` of the buffers' types, then those that a C function gets.
    """

    name = "loop.call"

    callee = prop_def(StringAttr)
    convention = prop_def(StringAttr)
    arguments = opt_prop_def(ArrayAttr)
    libraries = opt_prop_def(ArrayAttr)
    status = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(DenseArrayBase)
    outputs = prop_def(IntegerAttr)
    sizes_ = opt_prop_def(IndexMapAttr, prop_name="sizes")
    operands_ = var_operand_def(MemRefType | IndexType)

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    @staticmethod
    def make(
        callee: Callee,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        sizes: Sequence[Index] = (),
        symbols: Sequence[SSAValue] = (),
    ) -> ExternCallOp:
        """A call on these buffers; `sizes` are over `symbols`."""
        properties: dict[str, Attribute] = {**callee.properties(), "outputs": IntegerAttr(len(outputs), i64)}
        exprs, used = compact(sizes, symbols)
        if exprs:
            properties["sizes"] = IndexMapAttr.get(exprs)
        return ExternCallOp.create(operands=[*inputs, *outputs, *used], properties=properties)

    @property
    def buffers(self) -> Sequence[SSAValue]:
        """The buffers, those that are written last."""
        return [v for v in self.operands if isinstance(v.type, MemRefType)]

    @property
    def symbols(self) -> Sequence[SSAValue]:
        """The symbols of the kernel over which its sizes are."""
        return [v for v in self.operands if not isinstance(v.type, MemRefType)]

    @property
    def sizes(self) -> Sequence[Index]:
        """The sizes of each `?` of the buffers' types, then those that a C function gets."""
        return self.sizes_.data if self.sizes_ is not None else ()

    def shapes(self) -> list[tuple[Index, ...]]:
        """The shapes of the buffers over the symbols."""
        return open_shapes([v.type for v in self.buffers], self.sizes)

    @property
    def called(self) -> Callee:
        """What it calls."""
        callee = Callee.of(self.properties)
        assert callee is not None
        return callee

    @property
    def num_outputs(self) -> int:
        """The number of buffers that it writes."""
        return self.outputs.value.data

    @property
    def written(self) -> Sequence[SSAValue]:
        """The buffers that it writes."""
        return self.buffers[len(self.buffers) - self.num_outputs :]

    def verify_(self) -> None:
        """The callee is well-formed, and there are as many buffers as it writes at least."""
        self.called.verify(len(self.buffers), len(self.sizes))
        expect_sizes([v.type for v in self.buffers], self.sizes)
        if not 0 <= self.num_outputs <= len(self.buffers):
            raise VerifyException(f"expected at most {len(self.buffers)} outputs, but got {self.num_outputs}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        self.called.print(printer)
        printer.print_string(" (")
        printer.print_list(self.buffers, printer.print_ssa_value)
        printer.print_string(")")
        print_sizes(printer, self.sizes, self.symbols)
        printer.print_string(f" outputs {self.num_outputs}")
        print_types(printer, self.buffers)

    @classmethod
    def read(cls, parser: Parser) -> ExternCallOp:
        callee = Callee.parse(parser)
        if callee is None:
            parser.raise_error('expected what is called: c "symbol" [...] or registered "name"')
        start = parser.pos
        names = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_unresolved_operand)
        index = IndexParser(parser)
        sizes = index.predicates("sizes")
        parser.parse_keyword("outputs")
        outputs = parser.parse_integer(allow_boolean=False, allow_negative=False)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        buffers = parser.resolve_operands(names, types, start)
        first = len(buffers) - min(outputs, len(buffers))
        op = ExternCallOp.make(callee, buffers[:first], buffers[first:], sizes, index.operands())
        op.properties["outputs"] = IntegerAttr(outputs, i64)
        return op
