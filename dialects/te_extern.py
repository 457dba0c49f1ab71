"""
`te.extern`: a stage that is opaque to schedules, with a body in the loop dialect or a call of a function.

    extern ::= `te.extern` "stage" `(` %input,* `)` sizes (callee | region) `:` `(` type,* `)` `->` type

The region's arguments are the buffers of the inputs, then of the results, then the sizes; it ends in loop.yield.
`dialects/external.py` describes `callee`. `sizes` (`dialects/open_sizes.py`) has one expression for each `?` in the
types of inputs and results, then the further sizes that a C function or the region gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    FunctionType,
    IndexType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
)
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

from mlc.dialects.access import IndexParser
from mlc.dialects.external import Callee
from mlc.dialects.index import Index, IndexMapAttr, compact
from mlc.dialects.open_sizes import expect_sizes, open_shapes, print_sizes
from mlc.dialects.scalar import INDEX
from mlc.dialects.text import TextOp


@irdl_op_definition
class ExternOp(TextOp):
    """
    A stage whose values mlc does not look into: a loop body, or a call of a C or registered function on whole buffers.

    `%y = te.extern "negate" (%x) registered "my.negate" : (tensor<4xf32>) -> tensor<4xf32>`
    `%y = te.extern "rows" (%x) sizes (%n, %n) registered "my.rows" : (tensor<?x8xf32>) -> tensor<?xf32>`
    """

    name = "te.extern"

    stage = prop_def(StringAttr)
    callee = opt_prop_def(StringAttr)
    convention = opt_prop_def(StringAttr)
    arguments = opt_prop_def(ArrayAttr)
    libraries = opt_prop_def(ArrayAttr)
    status = opt_prop_def(UnitAttr)
    unsigned = opt_prop_def(DenseArrayBase)
    sizes_ = opt_prop_def(IndexMapAttr, prop_name="sizes")
    operands_ = var_operand_def(TensorType | IndexType)
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
        sizes: Sequence[Index] = (),
        symbols: Sequence[SSAValue] = (),
    ) -> ExternOp:
        """A stage that calls `callee`, or has a body; `sizes` are over `symbols`."""
        properties: dict[str, Attribute] = {"stage": StringAttr(stage)}
        properties |= callee.properties() if callee is not None else {}
        exprs, used = compact(sizes, symbols)
        if exprs:
            properties["sizes"] = IndexMapAttr.get(exprs)
        return ExternOp.create(
            operands=[*inputs, *used], properties=properties, result_types=result_types, regions=[body or Region()]
        )

    @property
    def inputs(self) -> Sequence[SSAValue]:
        """The tensors that it reads."""
        return [v for v in self.operands if isinstance(v.type, TensorType)]

    @property
    def symbols(self) -> Sequence[SSAValue]:
        """The symbols of the kernel over which its sizes are."""
        return [v for v in self.operands if not isinstance(v.type, TensorType)]

    @property
    def sizes(self) -> Sequence[Index]:
        """The sizes of each `?` of the inputs' and the results' types, then those that its function gets besides."""
        return self.sizes_.data if self.sizes_ is not None else ()

    def shape_of(self, value: SSAValue) -> tuple[Index, ...]:
        """The shape of an input or a result, over the symbols."""
        values = [*self.inputs, *self.results]
        return open_shapes([v.type for v in values], self.sizes)[values.index(value)]

    @property
    def stage_name(self) -> str:
        """The stage's name."""
        return self.stage.data

    @property
    def called(self) -> Callee | None:
        """What it calls; None if it has a body."""
        return Callee.of(self.properties)

    def buffer_types(self) -> list[MemRefType[Any]]:
        """The types of the buffers that the body has as arguments, in front of its sizes."""
        return buffer_types([v.type for v in (*self.inputs, *self.results)])

    @property
    def size_arguments(self) -> Sequence[SSAValue]:
        """The arguments of the body that hold the sizes."""
        return self.body.block.args[len(self.inputs) + len(self.results) :]

    def verify_(self) -> None:
        """It has results, either a body or a callee, and the body is over the buffers and ends in loop.yield."""
        callee = self.called
        if (callee is not None) == bool(self.body.blocks):
            raise VerifyException("expected te.extern to have either a body or a callee")
        if not self.results:
            raise VerifyException("expected te.extern to have a result, which it writes")
        expect_sizes([v.type for v in (*self.inputs, *self.results)], self.sizes)
        if callee is not None:
            callee.verify(len(self.inputs) + len(self.results), len(self.sizes))
            return
        if [arg.type for arg in self.body.block.args] != [*self.buffer_types(), *[INDEX] * len(self.sizes)]:
            raise VerifyException(
                "expected the body's arguments to be the buffers of the inputs and of the results, then the sizes"
            )
        last = self.body.block.last_op
        if last is None or last.name != "loop.yield" or last.operands:
            raise VerifyException("expected the body of te.extern to end in loop.yield without values")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.stage.data)
        printer.print_string(" (")
        printer.print_list(self.inputs, printer.print_ssa_value)
        printer.print_string(")")
        print_sizes(printer, self.sizes, self.symbols)
        printer.print_string(" ")
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
        index = IndexParser(parser)
        sizes = index.predicates("sizes")
        callee = Callee.parse(parser)
        body = parser.parse_region() if callee is None else None
        parser.parse_punctuation(":")
        start = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, FunctionType) or len(kind.inputs) != len(names):
            parser.raise_error(f"expected the types of {len(names)} inputs and the results, `(...) -> (...)`", start)
        operands = parser.resolve_operands(names, list(kind.inputs), start)
        return ExternOp.make(stage, operands, list(kind.outputs), callee, body, sizes, index.operands())


def buffer_types(types: Sequence[Attribute]) -> list[MemRefType[Any]]:
    """The types of the buffers of tensors of these types."""
    return [MemRefType(t.element_type, t.shape) for t in cast("Sequence[TensorType[Any]]", types)]


def empty_body(types: Sequence[Attribute]) -> tuple[Region, Block]:
    """A region whose block has these buffers as arguments."""
    block = Block(arg_types=types)
    return Region(block), block
