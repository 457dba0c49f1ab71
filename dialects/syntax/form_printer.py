"""
Printing the functions that differ from an earlier one in names and in the contents of types and attributes.

The open copy of a function (dialects/syntax/recipes/open_copy.py) is printed with marks in the places of names, types
and attributes. What prints it without reading them prints all functions with this open copy so: their text is put
together from the pieces between the marks and the texts of the parts, one by one.
"""

# The fields of a printer are shared with its copy.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias

from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.printer import Printer

from mlc.dialects.index import Index, dim_name
from mlc.dialects.syntax.printer import SourcePrinter
from mlc.dialects.syntax.recipes.function_form import FunctionForm
from mlc.dialects.syntax.recipes.open_copy import FormFamily, OpenCopy
from mlc.dialects.syntax.recipes.probe import MARK, ContextRead, OpenData

_NAME = "mlc_open_form"
_ENTER, _EXIT = -1, -2
"""In the order in which names are chosen: the begin and the end of a scope."""

Piece: TypeAlias = "str | int | Callable[[SourcePrinter, FunctionForm, dict[int, str]], str]"
"""A text, the number of a value whose name stands there, or what gives the text of another part."""


@dataclass(slots=True)
class FormText:
    """The text of all functions with one open copy."""

    before: str
    """What stands before the function's name."""
    pieces: list[Piece]
    naming: list[int]
    """The values in the order in which they get their names, and where scopes begin and end."""
    decisions: list[tuple[int, Callable[[Any], bool], bool]]
    """The number of an op, a question about it, and the answer on which the text depends."""

    def after(self, form: FunctionForm, printer: SourcePrinter) -> str | None:
        """The text of a function behind its name; None where an answer is another one."""
        if any(ask(form.ops[number]) != answer for number, ask, answer in self.decisions):
            return None
        names: dict[int, str] = {}
        for value in self.naming:
            if value >= 0:
                names[value] = printer.new_name(form.values[value])
            elif value == _ENTER:
                printer.enter_scope()
            else:
                printer.exit_scope()
        texts: list[str] = []
        for piece in self.pieces:
            if isinstance(piece, str):
                texts.append(piece)
            else:
                texts.append(names[piece] if isinstance(piece, int) else piece(printer, form, names))
        return "".join(texts)


class _OtherCopy(BaseException):
    """An attribute that was read is closed from now on."""


class FormPrinter(SourcePrinter):
    """Prints an open copy, with marks in the places of its open parts; ContextRead where that cannot be."""

    copy: OpenCopy
    form: FunctionForm
    family: FormFamily[FormText]
    naming: list[int]
    decisions: list[tuple[int, Callable[[Any], bool], bool]]
    parts: list[Piece]

    @classmethod
    def text(cls, printer: SourcePrinter, form: FunctionForm, family: FormFamily[FormText]) -> FormText | None:
        """What the copies of a function have for a text; None if it depends on more."""
        made = cls.__new__(cls)
        vars(made).update(vars(printer))
        made.stream = StringIO()
        made._ssa_values, made._ssa_names, made._block_names = {}, [{}], [{}]
        made._next_valid_name_id, made._next_valid_block_id = [0], [0]
        made._types, made._dialect_resources, made._blocks = {}, {}, {}
        made.form, made.family, made.naming, made.decisions, made.parts = form, family, [], [], []
        made.copy = OpenCopy(form, family.closed, made._expression)
        made.copy.op.properties["sym_name"] = StringAttr(_NAME)
        try:
            made.print_op(made.copy.op)
        except _OtherCopy:
            return cls.text(printer, form, family)
        except (ContextRead, Exception):
            return None
        before, _, after = made.stream.getvalue().partition(_NAME)
        if _NAME in after or "\n" in before or MARK in before or made._dialect_resources:
            return None
        pieces = after.split(MARK)
        return FormText(before, [made._piece(k, p) for k, p in enumerate(pieces) if p], made.naming, made.decisions)

    def _piece(self, number: int, text: str) -> Piece:
        return self.parts[int(text)] if number % 2 else text

    def _mark(self, part: Piece) -> str:
        """A mark for a part of the text."""
        self.parts.append(part)
        return f"{MARK}{len(self.parts) - 1}{MARK}"

    def decide(self, op: Operation, ask: Callable[[Any], bool]) -> bool:
        """The answer to a question about the op; other functions have this text if they have this answer."""
        try:
            return ask(op)
        except ContextRead:
            number = self.copy.ops[op]
            answer = ask(self.form.ops[number])
            self.decisions.append((number, ask, answer))
            return answer

    def leave_open(self, attribute: Attribute, write: Callable[[Any, Any], None]) -> bool:
        """Mark the place of an attribute that `write` prints, with a printer; False for one that is not open."""
        number = self.copy.attributes.get(id(attribute))
        if number is None:
            return False
        self.print_string(self._mark(_writer(number, write)))
        return True

    def _expression(self, number: int, place: int, names: dict[int, str]) -> str:
        """The mark of an index expression, whose dimensions have these names, marks among them."""
        values: dict[int, Any] = {d: self.parts[int(name.split(MARK)[1])] for d, name in names.items() if d >= 0}

        def part(printer: SourcePrinter, form: FunctionForm, names: dict[int, str]) -> str:
            map_: Any = form.attributes[number]
            expr: Index = map_.data[place]
            return expr.text(lambda dim: dim_name(dim) if dim < 0 else f"%{names[values[dim]]}")

        return self._mark(part)

    def print_op(self, op: Operation) -> None:
        stream, self.stream = self.stream, StringIO()
        assert stream is not None
        named = len(self.naming)
        try:
            Printer.print_op(self, op)
            text = self.stream.getvalue()
        except (ContextRead, Exception) as error:
            if self.family.close(error, self.form) is not None:
                raise _OtherCopy from None
            if op.regions:
                raise
            self.naming[named:] = [self.copy.values[value] for value in op.results]
            text = self._mark(_op(self.copy.ops[op]))
        finally:
            self.stream = stream
        stream.write(text)

    def print_ssa_value(self, value: SSAValue) -> str:
        number = self.copy.values.get(value)
        if number is None:
            raise ContextRead
        if value not in self._ssa_values:
            self._ssa_values[value] = ""
            self.naming.append(number)
        name = self._mark(number)
        self.print_string(f"%{name}")
        return name

    def print_attribute(self, attribute: Attribute) -> None:
        if (number := self.copy.types.get(id(attribute))) is not None:
            self.print_string(self._mark(_type(number)))
        elif not self.leave_open(attribute, _print_attribute):
            super().print_attribute(attribute)

    def print_string_literal(self, string: str) -> None:
        if not self._leave_content(string, StringAttr, lambda printer, a: printer.print_string_literal(a.data)):
            super().print_string_literal(string)

    def print_int(self, value: int, type: IntegerType | IndexType | None = None) -> None:
        if not self._leave_content(value, IntegerAttr, lambda printer, a: printer.print_int(a.value.data, type)):
            super().print_int(value, type)

    def print_float(self, value: float, type: AnyFloat) -> None:
        if not self._leave_content(value, FloatAttr, lambda printer, a: printer.print_float(a.value.data, type)):
            super().print_float(value, type)

    def _leave_content(self, content: object, cls: type[Attribute], write: Callable[[Any, Any], None]) -> bool:
        """Mark the place of the content of an attribute of this class; False for content that is not open."""
        if type(content) is not OpenData:
            return False
        number: int = object.__getattribute__(content, "_number")
        if number < 0 or self.form.attributes[number].__class__ is not cls:
            raise ContextRead(content)
        self.print_string(self._mark(_writer(number, write)))
        return True

    def enter_scope(self) -> None:
        self.naming.append(_ENTER)
        super().enter_scope()

    def exit_scope(self) -> None:
        self.naming.append(_EXIT)
        super().exit_scope()


def decide(printer: Printer, op: Operation, ask: Callable[[Any], bool]) -> bool:
    """The answer to a question about an op on which its text depends."""
    return printer.decide(op, ask) if isinstance(printer, FormPrinter) else ask(op)


def _print_attribute(printer: Printer, attribute: Attribute) -> None:
    printer.print_attribute(attribute)


def _writer(number: int, write: Callable[[Any, Any], None]) -> Piece:
    return lambda printer, form, names: printer.text_of(write, form.attributes[number])


def _op(number: int) -> Piece:
    return lambda printer, form, names: printer.text_of(Printer.print_op, form.ops[number])


def _type(number: int) -> Piece:
    return lambda printer, form, names: printer.type_text(form.types[number])
