"""sched.knob: a choice of a schedule, and the values that it may take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, IntegerType, StringAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import irdl_op_definition, opt_prop_def, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.sched.handles import INT
from mlc.dialects.text import TextOp

KnobValue: TypeAlias = int | str | tuple[int, ...]
"""A size, a name, or a list: factors, or an order of loops."""


def knob_attribute(value: KnobValue) -> Attribute:
    """The attribute that holds a value of a knob."""
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        return DenseArrayBase.from_list(i64, list(value))
    return IntegerAttr(value, i64)


def knob_value(attribute: Attribute) -> KnobValue:
    """The value of a knob that an attribute holds; VerifyException for any other attribute."""
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, DenseArrayBase):
        return tuple(cast("DenseArrayBase[IntegerType]", attribute).get_values())
    if isinstance(attribute, IntegerAttr):
        return attribute.value.data
    raise VerifyException(f"expected a value of a knob (an integer, a string, a list of integers), but got {attribute}")


def knob_text(value: KnobValue) -> str:
    """A value as the text of IR shows it."""
    if isinstance(value, str):
        return str(StringAttr(value))
    return str(list(value) if isinstance(value, tuple) else value)


@irdl_op_definition
class KnobOp(TextOp):
    """
    A tuning parameter: `%t = sched.knob "tile_j" [16, 32, 64] default 32`, or `... default 32 value 64`.

    The candidates are integers, names (`["on", "off"]`) or lists of integers (`[[0, 1], [1, 0]]`). The value is the
    default unless a tuning record has another one. An integer may be a factor of split and tile; other values say what
    the strategy decided by them.

    TVM: ConfigSpace.define_knob, sample_categorical.
    """

    name = "sched.knob"

    knob = prop_def(StringAttr)
    candidates = prop_def(ArrayAttr[Attribute])
    default = prop_def(Attribute)
    given = opt_prop_def(Attribute)
    """The value where it is not the default."""
    result = result_def(INT)

    @staticmethod
    def make(knob: str, candidates: Sequence[KnobValue], default: KnobValue, value: KnobValue | None = None) -> KnobOp:
        """A knob with its candidates; its value is the default unless one is given."""
        properties: dict[str, Attribute] = {
            "knob": StringAttr(knob),
            "candidates": ArrayAttr([knob_attribute(one) for one in candidates]),
            "default": knob_attribute(default),
        }
        if value is not None and value != default:
            properties["given"] = knob_attribute(value)
        return KnobOp.create(properties=properties, result_types=[INT])

    @property
    def values(self) -> tuple[KnobValue, ...]:
        """The candidates."""
        return tuple(knob_value(one) for one in self.candidates)

    @property
    def default_value(self) -> KnobValue:
        """The default."""
        return knob_value(self.default)

    @property
    def value(self) -> KnobValue:
        """The value of the knob when the schedule is applied."""
        return knob_value(self.default if self.given is None else self.given)

    def verify_(self) -> None:
        known = ", ".join(map(knob_text, self.values))
        for what, one in (("default", self.default), ("value", self.given)):
            if one is not None and knob_value(one) not in self.values:
                text = knob_text(knob_value(one))
                raise VerifyException(f"expected the {what} of knob '{self.knob.data}' among [{known}], but got {text}")

    def write(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.knob.data)
        candidates = ", ".join(map(knob_text, self.values))
        printer.print_string(f" [{candidates}] default {knob_text(knob_value(self.default))}")
        if self.given is not None:
            printer.print_string(f" value {knob_text(self.value)}")

    @classmethod
    def read(cls, parser: Parser) -> KnobOp:
        name = parser.parse_str_literal(" as the knob's name")
        candidates = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _read(parser))
        parser.parse_keyword("default")
        default = _read(parser)
        given = _read(parser) if parser.parse_optional_keyword("value") else None
        return cls.make(name, candidates, default, given)


def _read(parser: Parser) -> KnobValue:
    """A value: an integer, a string, or a list of integers."""
    if (name := parser.parse_optional_str_literal()) is not None:
        return name
    if (number := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return number
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer, " as a knob's value"))
