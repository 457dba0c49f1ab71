"""
Parsing the ops whose text differs from an earlier one's in nothing but the names of values.

A line `%5 = graph.add %4, %4 : tensor<8xf32>` has the pattern `% = graph.add %, % : tensor<8xf32>`. The second line of
a pattern, with operands of the same types, is parsed again by a parser that knows nothing but those types
(dialects/syntax/recipes/probe.py). If it makes the same op of it without asking for more, the lines that follow are not
parsed: an op is made from the operands that they name. A line `%5 = graph.constant dense<[1.0, 2.0]> : tensor<2xf32>`
has the pattern `% = graph.constant dense<> : tensor<2xf32>`: the elements are left open as well. All else, and
everything that is wrong, goes through the parser.
"""

# The fields of an op are set directly: its constructor registers operands, results and successors one by one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.parser import Parser

from mlc.dialects.syntax.dense import DENSE, dense_attribute
from mlc.dialects.syntax.lexer import VALUE_NAME
from mlc.dialects.syntax.recipes.new_op import new_op
from mlc.dialects.syntax.recipes.open_ops import OpenOps, OpenSight
from mlc.dialects.syntax.recipes.probe import ContextRead, open_number, probe_value, types_key

if TYPE_CHECKING:
    from mlc.dialects.syntax.source import SourceParser

# The text of an op that ends with its line, and the token after it: where the op ends may depend on that one as well.
_LINE = re.compile(r'([^\n]*)\n\s*([A-Za-z_][\w.$]*|[%}^]|"[\w.$]+")', re.ASCII)
_NAME = re.compile(VALUE_NAME)
_LONGEST = 1000
_REMEMBERED = 1 << 14
_FIELDS = {
    "_operands",
    "_operand_uses",
    "results",
    "_successors",
    "_successor_uses",
    "properties",
    "attributes",
    "location",
    "regions",
}

_Types: TypeAlias = tuple[object, ...]
_Key: TypeAlias = tuple[str, str, int, *tuple[str, ...]]
"""The text between the names, the token after it, the number of dense literals, and the dialects around."""


@dataclass(slots=True)
class Recipe:
    """How to make the op of a line from the values that it names."""

    cls: type[Operation]
    operands: tuple[int, ...]
    """For each operand, the number of its name among the line's names, not counting the names of results."""
    result_types: tuple[Attribute, ...]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    operand_types: tuple[Attribute, ...]
    """The types of the named values, kept alive because a recipe is found by their identity."""
    dense: tuple[tuple[str, Any], ...]
    """For each dense literal the property that it is, and its type."""

    def make(self, values: Sequence[SSAValue], literals: Sequence[str]) -> Operation | None:
        """The op on these values, with these dense literals, without a location; None for a strange literal."""
        elements: dict[str, Attribute] = {}
        for (name, type), text in zip(self.dense, literals, strict=True):
            attribute = dense_attribute(type, text)
            if attribute is None:
                return None
            elements[name] = attribute
        op = new_op(self.cls, [values[number] for number in self.operands])
        op.results = SSAValues([OpResult(type, op, number) for number, type in enumerate(self.result_types)])
        op.properties = {**self.properties, **elements} if elements else self.properties.copy()
        op.attributes = self.attributes.copy()
        return op


@dataclass(slots=True)
class _Pattern:
    """The recipes of a pattern, by the types of the values; None where parsing needs more than those."""

    results: int
    """How many of the names are results; -1 where no line of the pattern is an op."""
    recipes: dict[_Types, Recipe | None] = field(default_factory=dict[_Types, Recipe | None])
    seen: set[_Types] = field(default_factory=set[_Types])


@dataclass(slots=True)
class Line:
    """A line that may become a recipe."""

    start: int
    end: int
    """The position of the next token."""
    pattern: _Pattern
    types: _Types
    names: list[str]
    """Of the operands, in order; one may stand there twice."""
    values: list[SSAValue]
    literals: list[str]
    """Of the dense attributes."""


class RepeatedOps:
    """The patterns of a text, for the parser of this text."""

    def __init__(self, parser: SourceParser) -> None:
        self._parser = parser
        self._text = parser.lexer.input.content
        self._patterns: dict[_Key, _Pattern] = {}
        self._open = OpenOps(parser)

    def find(self, start: int) -> Operation | Line | OpenSight | None:
        """The op of the line at `start`, parsed to its end; a line to learn from; or None."""
        match = _LINE.match(self._text, start)
        if match is None:
            return None
        text, after = match.groups()
        literals: list[str] = []
        if "dense<" in text and '"' not in text:
            literals = DENSE.findall(text)
            text = DENSE.sub("dense<>", text)
        if len(text) > _LONGEST or text.endswith("{") or not _is_plain(text):
            return None
        if not literals:
            found = self._open.find(text, after, start, match.start(2))
            if not isinstance(found, bool):
                return found
            if found:
                return None
        pieces = _NAME.split(text)
        names = pieces[1::2]
        key = ("\n".join(pieces[::2]), after, len(literals), *self._parser.dialects_around)
        pattern = self._patterns.get(key)
        if pattern is None:
            self._note(key)
            return None
        count = pattern.results
        if count < 0:
            return None
        found = [*map(self._parser.ssa_values.get, names[count:])]
        values = [value[0] for value in found if value is not None and len(value) == 1]
        if len(values) != len(found) or not self._parser.is_new(names[:count]):
            return None
        types: _Types = (*types_key(values), *[value.__class__ for value in values])
        if len(names) != len(set(names)):
            types += tuple(map(names.index, names))
        recipe = pattern.recipes.get(types)
        end = match.start(2)
        if recipe is not None:
            op = recipe.make(values, literals)
            return None if op is None else self._parser.accept(op, names[:count], start, end)
        if types in pattern.recipes:
            return None
        if types not in pattern.seen:
            pattern.seen.add(types)
            return None
        return Line(start, end, pattern, types, names[count:], values, literals)

    def _note(self, key: _Key) -> None:
        """Remember a new pattern; which of its names are results is plain from its text."""
        text = key[0]
        if len(self._patterns) >= _REMEMBERED:
            self._patterns.clear()
        head = text.partition("=")[0] if text.startswith("\n") else ""
        self._patterns[key] = _Pattern(head.count("\n"))

    def learn(self, line: Line | OpenSight, op: Operation) -> None:
        """Make a recipe from a line that has just been parsed to `op`, if the probes allow it."""
        if isinstance(line, OpenSight):
            self._open.learn(line, op)
            return
        recipe = None
        if op.regions:
            line.pattern.results = -1  # its text does not end with the line
        elif not op._successors and self._parser.pos == line.end and op.location == UNKNOWN_LOC:
            try:
                recipe = self._probe(line, op)
            except (ContextRead, Exception):
                recipe = None  # the parser reads more than the types of the values
        line.pattern.recipes[line.types] = recipe

    def _probe(self, line: Line, op: Operation) -> Recipe | None:
        """The recipe if the text gives `op` for all values of these types."""
        known = {name: (probe_value(value),) for name, value in zip(line.names, line.values, strict=True)}
        numbers: dict[SSAValue, int] = {value: line.names.index(name) for name, (value,) in known.items()}
        parser = self._parser.probe(line.start, known, {}, opens=bool(line.literals))
        made = Parser.parse_operation(parser)
        if parser.pos != line.end or parser.dialect_resources or not made.__dict__.keys() <= _FIELDS:
            return None
        dense = _open_properties(made)
        if len(dense) != len(line.literals):
            return None
        for (name, type), literal in zip(dense, line.literals, strict=True):
            if dense_attribute(type, literal) != op.properties.get(name):
                return None
        operands = tuple(numbers.get(operand, -1) for operand in made._operands)
        expected = [None if number < 0 else line.values[number] for number in operands]
        same = (
            made.__class__ is op.__class__
            and expected == [*op._operands]
            and made.result_types == op.result_types
            and [*made.properties] == [*op.properties]
            and all(value == op.properties[name] for name, value in made.properties.items() if name not in dict(dense))
            and made.attributes == op.attributes
            and made.location == UNKNOWN_LOC
            and not made.regions
            and not made._successors
        )
        if not same:
            return None
        types = tuple(value._type for value in line.values)
        # Of the op and not of the copy: types and attributes are found by identity further on.
        return Recipe(
            op.__class__, operands, tuple(op.result_types), {**op.properties}, {**op.attributes}, types, dense
        )


def _open_properties(op: Operation) -> tuple[tuple[str, Any], ...]:
    """The names and types of the properties that a dense literal gives, in the order of the literals."""
    found: dict[int, tuple[str, Any]] = {}
    for name, value in op.properties.items():
        if isinstance(value, DenseIntOrFPElementsAttr) and (number := open_number(value)) is not None:
            found[number] = name, value.type
    return tuple(found[number] for number in sorted(found))


def _is_plain(text: str) -> bool:
    """Whether each `%` of the line begins a name: no comment, and no `%` or escape in a string."""
    if '"' not in text:
        return "//" not in text
    if "\\" in text or "//" in text:
        return False
    parts = text.split('"')
    return len(parts) % 2 == 1 and not any("%" in part for part in parts[1::2])
