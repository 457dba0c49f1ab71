"""The text form of graph ops: see `base` for the grammar."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, TypeAttribute
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.syntax.form_printer import FormPrinter, decide
from mlc.dialects.syntax.source import SourceParser
from mlc.dialects.syntax.token_parser import VALUE

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

    from mlc.dialects.graph.base import GraphOp
    from mlc.dialects.graph.op_attributes import OpAttr

G = TypeVar("G", bound="GraphOp")


def parse_op(cls: type[G], parser: Parser) -> G:
    """Parse everything after an op's name."""
    operands = parser.parse_optional_undelimited_comma_separated_list(
        parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
    )
    properties = {name: d.encode(d.default) for name, d in cls.declared.items() if d.default is not None}
    attributes = parse_attributes(cls, parser, properties)
    _check_given(cls, parser, properties, attributes)
    parser.parse_punctuation(":", f" before the type of {cls.name}")
    position = parser.pos
    if (function := parser.parse_optional_function_type()) is not None:
        values = parser.resolve_operands(operands or [], function.inputs.data, position)
        return cls.create(
            operands=values, result_types=function.outputs.data, properties=properties, attributes=attributes
        )
    type = parser.parse_type()
    types = _short_types(cls, parser, len(operands or []), properties, type, position)
    values = parser.resolve_operands(operands or [], types, position)
    return cls.create(operands=values, result_types=[type], properties=properties, attributes=attributes)


def _check_given(
    cls: type[GraphOp], parser: Parser, properties: dict[str, Attribute], attributes: dict[str, Attribute]
) -> None:
    """A parse error for a declared attribute that is not given; one of another name may have been meant."""
    missing = next((name for name in cls.declared if name not in properties), None)
    if missing is None:
        return
    other = next((name for name in attributes if "." not in name), None)
    got = "" if other is None else f", but got '{other}'"
    parser.raise_error(f"expected attribute '{missing}' of {cls.name}{got}", parser.pos)


def _short_types(
    cls: type[GraphOp],
    parser: Parser,
    count: int,
    properties: dict[str, Attribute],
    type: TypeAttribute,
    position: int,
) -> Sequence[Attribute]:
    result: Any = type  # a tensor, as the verifier checks later
    try:
        types = cls.create(properties=properties).operand_types_from(result, count)
    except VerifyException as error:
        parser.raise_error(str(error), position)
    if types is None:
        parser.raise_error(f"expected the types of the operands and results of {cls.name}, `(types) -> type`", position)
    return types


def parse_attributes(cls: type[GraphOp], parser: Parser, properties: dict[str, Attribute]) -> dict[str, Attribute]:
    """Parse `{name = value, ..}`: declared names go to `properties`, the others are returned."""
    attributes: dict[str, Attribute] = {}
    if parser.parse_optional_punctuation("{") is None:
        return attributes
    seen: set[str] = set()
    while parser.parse_optional_punctuation("}") is None:
        if seen:
            parser.parse_punctuation(",", " between attributes")
        position = parser.pos
        name = parser.parse_identifier_or_str_literal(" as the name of an attribute")
        if name in seen:
            parser.raise_error(f"attribute '{name}' is given twice", position)
        seen.add(name)
        if (d := cls.declared.get(name)) is not None:
            parser.parse_punctuation("=", f" after attribute '{name}'")
            found = parser.hole(VALUE) if isinstance(parser, SourceParser) and parser.holes else None
            properties[name] = d.encode(d.parse(parser)) if found is None else found
        else:
            given = parser.parse_optional_punctuation("=") is not None
            attributes[name] = parser.parse_attribute() if given else UnitAttr()
            if isinstance(parser, SourceParser):
                parser.entry_at(name, position)
    return attributes


def print_op(op: GraphOp, printer: Printer) -> None:
    """Print everything after an op's name."""
    if op.operands:
        printer.print_string(" ")
        printer.print_list(op.operands, printer.print_operand)
    print_attributes(op, printer)
    printer.print_string(" : ")
    if decide(printer, op, _says_types):
        printer.print_attribute(op.results[0].type)
    else:
        printer.print_function_type(op.operand_types, op.result_types)


def _says_types(op: GraphOp) -> bool:
    """Whether the type of the result says those of the operands."""
    types = op.operand_types_from(op.type, len(op.operands)) if len(op.results) == 1 else None
    return types is not None and tuple(types) == op.operand_types


def _is_shown(name: str, declared: OpAttr[Any, Any], op: GraphOp) -> bool:
    """Whether an attribute differs from the declared default."""
    return declared.decode(op.properties[name]) != declared.default


def print_attributes(op: GraphOp, printer: Printer, skip: tuple[str, ...] = ()) -> None:
    """Print the attributes that do not have their default value, in the order of declaration."""
    shown = {
        name: d
        for name, d in op.declared.items()
        if name in op.properties and name not in skip and decide(printer, op, partial(_is_shown, name, d))
    }
    if not shown and not op.attributes:
        return
    printer.print_string(" {")
    first = True
    for name, d in shown.items():
        printer.print_string(("" if first else ", ") + f"{name} = ")
        first = False
        if not isinstance(printer, FormPrinter) or not printer.leave_open(op.properties[name], d.print):
            d.print(printer, op.properties[name])
    for name, attribute in op.attributes.items():
        printer.print_string("" if first else ", ")
        first = False
        printer.print_identifier_or_string_literal(name)
        if not isinstance(attribute, UnitAttr):
            printer.print_string(" = ")
            printer.print_attribute(attribute)
    printer.print_string("}")
