"""
A reducer of one's own: how te.compute combines values along its reduction axes, as a region of scalar ops.

    reducer ::= `combine` "name" `(` (%argument `:` type),* `)` `from` `(` neutral element,* `)` region

The region has two arguments for each reduced value: all values so far, then all new ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, TensorType
from xdsl.ir import Attribute, Region
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.te.elements import YieldOp

OWN = "own."
"""What the combiner of a stage with a reducer of its own begins with, so that it is none of those with a name."""


@dataclass(frozen=True)
class CustomReducer:
    """A commutative, associative function of two (tuples of) scalars, with its neutral elements."""

    name: str
    region: Region
    identity: tuple[Attribute, ...]

    def clone(self) -> CustomReducer:
        """The reducer with a region of its own, for a further op."""
        return CustomReducer(self.name, self.region.clone(), self.identity)

    def verify(self, results: Sequence[Attribute]) -> None:
        """The region takes and gives values of the elements of `results`; the neutral elements have these types."""
        elements = [t.element_type for t in results if isinstance(t, TensorType)]
        block = self.region.block
        if [a.type for a in block.args] != [*elements, *elements]:
            raise VerifyException(
                f"expected the reducer's arguments to be of types {_types(elements)}, twice, "
                f"but got {_types([a.type for a in block.args])}"
            )
        last = block.last_op
        if not isinstance(last, YieldOp) or [v.type for v in last.values] != elements:
            raise VerifyException(f"expected the reducer to end in te.yield of types {_types(elements)}")
        wrong = next((op for op in block.ops if op.name.partition(".")[0] not in ("arith", "math", "te")), None)
        wrong = wrong or next((op for op in block.ops if op.name in ("te.read", "te.index")), None)
        if wrong is not None:
            raise VerifyException(f"expected ops of arith and math in the reducer, but got '{wrong.name}'")
        got = [a.type if isinstance(a, FloatAttr | IntegerAttr) else a for a in self.identity]
        if got != elements:
            raise VerifyException(f"expected neutral elements of types {_types(elements)}, but got {_types(got)}")

    def print(self, printer: Printer) -> None:
        """The counterpart of `parse`."""
        printer.print_string(" combine ")
        printer.print_string_literal(self.name)
        printer.print_string(" ")
        with printer.in_parens():
            for k, argument in enumerate(self.region.block.args):
                printer.print_string(", " if k else "")
                printer.print_ssa_value(argument)
                printer.print_string(" : ")
                printer.print_attribute(argument.type)
        printer.print_string(" from ")
        with printer.in_parens():
            printer.print_list(self.identity, printer.print_attribute)
        printer.print_string(" ")
        printer.print_region(self.region, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> CustomReducer | None:
        """A reducer; None where `combine` does not follow."""
        if not parser.parse_optional_keyword("combine"):
            return None
        name = parser.parse_str_literal(" as the reducer's name")
        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
        parser.parse_keyword("from")
        identity = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_attribute)
        return CustomReducer(name, parser.parse_region(arguments), tuple(identity))


def _types(types: Sequence[Attribute]) -> str:
    return "(" + ", ".join(map(str, chain(types))) + ")"
