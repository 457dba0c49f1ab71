"""
xDSL's printer, which prints an op from the text of an earlier one where they differ only in the names of values.

The text is the same, character for character. What an op prints is remembered by its signature
(dialects/syntax/recipes/probe.py), if it prints the same for all ops of that signature; a type's text is remembered as
well, and a function's by its form (dialects/syntax/recipes/function_form.py), with the name left open.
"""

# The fields of an op are read directly: its properties build a view of the op for each access.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr, UnregisteredOp
from xdsl.ir import Attribute, Operation, SSAValue, TypeAttribute
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove

from mlc.dialects.syntax.dense import dense_text
from mlc.dialects.syntax.recipes.function_form import FunctionForm, function_form
from mlc.dialects.syntax.recipes.open_copy import FormFamilies
from mlc.dialects.syntax.recipes.probe import MARK, ContextRead, Signature, kept_alive, open_number, probe, signature

if TYPE_CHECKING:
    from mlc.dialects.syntax.form_printer import FormText

_REMEMBERED = 1 << 14
_LONGEST = 1000
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_SYMBOL = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)

_FunctionKey: TypeAlias = tuple[object, ...]


class _OpText(NamedTuple):
    """The text of an op, cut at the names of its results and operands."""

    parts: tuple[str, ...]
    values: tuple[int, ...]
    """After each part but the last: the number of a value among the results, then the operands; then properties."""
    dense: bool
    """Whether dense attributes are named among the values."""
    keep: tuple[Attribute, ...]
    """What the signature names by its identity."""


@dataclass(slots=True)
class _FunctionText:
    """The text of a function, without its name."""

    name: str
    """The name of the first one."""
    before: str
    after: str
    op: Operation
    """Keeps alive what the function's form names."""
    is_sure: bool = False
    """Whether a function of another name was printed the same."""


class _Taken(dict[str, int]):
    """How often names are taken in a scope and in those around it, which are not copied."""

    def __init__(self, around: dict[str, int]) -> None:
        super().__init__()
        self._around = around

    def get(self, name: str, default: int = 0) -> int:  # pyright: ignore[reportIncompatibleMethodOverride] - as a printer asks
        own = super().get(name)
        return self._around.get(name, default) if own is None else own


@dataclass(eq=False, repr=False)
class SourcePrinter(Printer):
    """Prints modules; it must not outlive a change of what it prints by reference only, so make one for each print."""

    _ops: dict[Signature, _OpText | None] = field(default_factory=dict[Signature, "_OpText | None"], init=False)
    _seen: set[Signature] = field(default_factory=set[Signature], init=False)
    _types: dict[int, tuple[str, Attribute]] = field(default_factory=dict[int, tuple[str, Attribute]], init=False)

    _numbers: dict[float, str] = field(default_factory=dict[float, str], init=False)
    _functions: dict[_FunctionKey, _FunctionText | None] = field(
        default_factory=dict[_FunctionKey, "_FunctionText | None"], init=False
    )
    _seen_functions: set[int] = field(default_factory=set[int], init=False)
    _forms: dict[int, FormFamilies[FormText]] = field(default_factory=dict[int, "FormFamilies[FormText]"], init=False)
    """By the indentation."""

    remembers_functions: ClassVar[bool] = True
    """Whether an op's text depends on nothing that a function's form leaves out, as its location."""

    def print_op(self, op: Operation) -> None:
        is_plain = not self.print_debuginfo and not self.diagnostic.op_messages
        text = self._text(op) if is_plain else None
        if text is not None:
            self._current_column += len(text)
            print(text, end="", file=self.stream)
        elif not is_plain or not self.remembers_functions or not self._print_function(op):
            super().print_op(op)

    def _print_function(self, op: Operation) -> bool:
        """Print a function by its form; False where it has none."""
        form = function_form(op) if op.regions else None
        name = op.properties.get("sym_name")
        if form is None or not isinstance(name, StringAttr) or not _SYMBOL.fullmatch(name.data):
            return False
        if self._next_line_callback:
            return False
        if any(self._ssa_names) or any(self._block_names) or not op.has_trait(IsolatedFromAbove):
            return self._print_open(form, name.data) is not None
        names = tuple([value._name for value in form.values])
        key = (*form.key, names, self._indent, self._next_valid_name_id[-1], self._next_valid_block_id[-1])
        known = self._functions.get(key)
        if known is not None and known.is_sure:
            self._print_lines(known.before, name.data, known.after)
            return True
        text = self._print_open(form, name.data)
        if (number := hash(key)) not in self._seen_functions:
            self._seen_functions.add(number)
            return text is not None
        if text is not None:
            self._remember_function(key, _FunctionText(name.data, *text, op, is_sure=True))
        elif known is None and key in self._functions:
            return False
        else:
            self._learn_function(op, name.data, key, known)
        return True

    def _print_lines(self, *texts: str) -> None:
        for text in texts:
            print(text, end="", file=self.stream)
            self._current_line += text.count("\n")

    def _print_open(self, form: FunctionForm, name: str) -> tuple[str, str] | None:
        """Print a function as one with other contents; what stands before and after its name, or None."""
        if self.__class__ is not SourcePrinter:
            return None  # another class may print a part otherwise
        forms = self._forms.get(self._indent)
        if forms is None:
            from mlc.dialects.syntax.form_printer import FormPrinter

            forms = self._forms[self._indent] = FormFamilies(partial(FormPrinter.text, self))
        known = forms.find(form)
        after = None if known is None else known.after(form, self)
        if known is None or after is None:
            return None
        self._print_lines(known.before, name, after)
        return known.before, after

    def _remember_function(self, key: _FunctionKey, text: _FunctionText | None) -> None:
        if len(self._functions) >= _REMEMBERED:
            self._functions.clear()
        self._functions[key] = text

    def _learn_function(self, op: Operation, name: str, key: _FunctionKey, known: _FunctionText | None) -> None:
        """Print a function, and compare it with a known one of its form, or remember it."""
        stream, self.stream = self.stream, StringIO()
        handles = len(self._dialect_resources)
        try:
            super().print_op(op)
        finally:
            text, self.stream = self.stream.getvalue(), stream
            print(text, end="", file=stream)
        before, mark, after = text.partition(f"@{name}")
        is_open = (
            mark and f"@{name}" not in after and "\n" not in before and not handles and not self._dialect_resources
        )
        if known is None:
            self._remember_function(key, _FunctionText(name, before + "@", after, op) if is_open else None)
        elif f"{known.before}{name}{known.after}" != text:
            self._functions[key] = None
        else:
            known.is_sure = name != known.name

    def _text(self, op: Operation) -> str | None:
        """The text of an op that is known, or that can be made known; None where it must be printed."""
        key = signature(op)
        if key is None:
            return None
        if key not in self._ops:
            if key not in self._seen:
                self._seen.add(key)
                return None
            if len(self._ops) >= _REMEMBERED:
                self._ops.clear()
            self._ops[key] = self._ask(op)
        known = self._ops[key]
        if known is None:
            return None
        taken = [*map(self._ssa_values.get, op._operands)]
        if None in taken:
            return None
        names = [*map(self.new_name, op.results), *taken]
        if known.dense:
            names += [
                dense_text(value, self, self._numbers) if isinstance(value, DenseIntOrFPElementsAttr) else ""
                for value in op.properties.values()
            ]
        pieces: list[str | None] = [known.parts[0]]
        for number, part in zip(known.values, known.parts[1:], strict=True):
            pieces += (names[number], part)
        return "".join(filter(None, pieces))

    def new_name(self, value: SSAValue) -> str:
        """The name of a value that is defined here, chosen as `print_ssa_value` does."""
        if (name := self._ssa_values.get(value)) is not None:
            return name
        if hint := value._name:
            taken = self._ssa_names[-1]
            count = taken.get(hint, 0)
            taken[hint] = count + 1
            name = f"{hint}_{count}" if count else hint
        else:
            name = self._get_new_valid_name_id()
        self._ssa_values[value] = name
        return name

    def _ask(self, op: Operation) -> _OpText | None:
        """The text of all ops with this one's signature; None where it depends on more."""
        if isinstance(op, UnregisteredOp):  # it is changed while it is printed
            return None
        try:
            text = self._print_probe(probe(op))
        except (ContextRead, Exception):
            return None
        if text is None:
            return None
        pieces = text.split(MARK)
        values = tuple(map(int, pieces[1::2]))
        dense = max(values, default=0) >= len(op.results) + len(op._operands)
        return _OpText(tuple(pieces[::2]), values, dense, kept_alive(op))

    def _print_probe(self, op: Operation) -> str | None:
        """The text of a probe, with marks for names; None if it is long or needs names of other values."""
        printer = copy(self)
        printer.stream = stream = StringIO()
        printer._dialect_resources = {}
        values = dict.fromkeys((*op.results, *op._operands))
        numbers = {value: number for number, value in reversed([*enumerate((*op.results, *op._operands))])}
        printer._ssa_values = {value: f"{MARK}{numbers[value]}{MARK}" for value in values}
        Printer.print_op(printer, op)
        text = stream.getvalue()
        alone = len(printer._ssa_values) == len(values) and not printer._dialect_resources
        return text if alone and len(text) <= _LONGEST and "\n" not in text else None

    def enter_scope(self) -> None:
        self._next_valid_name_id.append(self._next_valid_name_id[-1])
        self._next_valid_block_id.append(self._next_valid_block_id[-1])
        self._ssa_names.append(_Taken(self._ssa_names[-1]))
        self._block_names.append(_Taken(self._block_names[-1]))

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, TypeAttribute):
            self.print_string(self.type_text(attribute))
        else:
            self._print_no_type(attribute)

    def type_text(self, type: Attribute) -> str:
        """The text of a type."""
        known = self._types.get(id(type))
        if known is None:
            if len(self._types) >= _REMEMBERED:
                self._types.clear()
            known = self._types[id(type)] = self.text_of(Printer.print_attribute, type), type
        return known[0]

    def text_of(self, write: Callable[[Any, Any], None], printed: Attribute | Operation) -> str:
        """What `write` prints, with this printer."""
        stream, self.stream = self.stream, StringIO()
        column = self._current_column
        try:
            write(self, printed)
            return self.stream.getvalue()
        finally:
            self.stream, self._current_column = stream, column

    def _print_no_type(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            number = open_number(attribute)
            text = dense_text(attribute, self, self._numbers) if number is None else f"{MARK}{number}{MARK}"
            self.print_string(f"{text} : ")
            self.print_attribute(attribute.type)
        else:
            super().print_attribute(attribute)

    def print_string_literal(self, string: str) -> None:
        if _PLAIN.fullmatch(string):
            self.print_string(f'"{string}"')
        else:
            super().print_string_literal(string)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            print(text, end="", file=self.stream)

    def _print_new_line(self, indent: int | None = None, print_message: bool = True) -> None:
        if self._next_line_callback:
            super()._print_new_line(indent, print_message)
            return
        self._current_line += 1
        self._current_column = (self._indent if indent is None else indent) * self.indent_num_spaces
        print("\n" + " " * self._current_column, end="", file=self.stream)
