"""
Parsing the ops whose text differs from an earlier one's in names, sizes, numbers and index expressions.

A line `%a = te.read %x[%i + 2] : f32` has the open parts `%`, `%x[..]`; `%b = graph.relu %a : tensor<4x8xf32>` the
sizes of its type. The third line of a pattern is parsed again by a parser that gets, for each part, an attribute that
may not be read (dialects/syntax/recipes/holes.py). If it makes the same op of it, with these attributes as they are as
its properties and result types, then it makes the op of every line of the pattern so: such lines are not parsed
further.
"""

# The fields of an op are set directly: its constructor registers operands, results and successors one by one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from xdsl.dialects.builtin import UNKNOWN_LOC
from xdsl.ir import Attribute, Operation, OpResult, SSAValue, SSAValues
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from mlc.dialects.index import IndexMapAttr
from mlc.dialects.syntax.recipes.holes import (
    SHAPED,
    LinePart,
    OpenLine,
    attribute_of_text,
    local_numbers,
    map_of_text,
    open_attribute,
    open_line,
    shape_key,
    type_of_text,
)
from mlc.dialects.syntax.recipes.new_op import new_op
from mlc.dialects.syntax.recipes.probe import ContextRead, OpenValue, probe_value
from mlc.dialects.syntax.token_parser import ATTRIBUTE, MAP, TYPE, VALUE, Hole

if TYPE_CHECKING:
    from mlc.dialects.syntax.source import SourceParser

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

_Key: TypeAlias = tuple[object, ...]
_Builder: TypeAlias = Callable[[str], Attribute | None]


@dataclass(slots=True)
class OpenRecipe:
    """How to make the op of a line from the values that it names and from its other open parts."""

    cls: type[Operation]
    operands: tuple[int, ...]
    """For each operand, the number of its name among the line's names, not counting the names of results."""
    results: tuple[int | Attribute, ...]
    """The types of the results: a number among the types of the named values and then of the line, or the type."""
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    parts: tuple[tuple[str, int, _Builder], ...]
    """(property, number of the part, the function that makes the attribute from the part's text)."""

    def make(
        self, values: Sequence[SSAValue], types: Sequence[Attribute], parts: Sequence[LinePart]
    ) -> Operation | None:
        """The op on these values, without a location; None where a text is strange."""
        properties = self.properties.copy()
        for name, number, build in self.parts:
            attribute = build(parts[number].text)
            if attribute is None:
                return None
            properties[name] = attribute
        op = new_op(self.cls, [values[number] for number in self.operands])
        op.results = SSAValues(
            [
                OpResult(types[type] if type.__class__ is int else type, op, number)  # pyright: ignore[reportArgumentType, reportCallIssue] - an int or a type
                for number, type in enumerate(self.results)
            ]
        )
        op.properties = properties
        op.attributes = self.attributes.copy()
        return op


@dataclass(slots=True)
class _Pattern:
    """The recipes of a pattern, by the types of the values; None where parsing needs more than those."""

    results: int
    recipes: dict[_Key, OpenRecipe | None] = field(default_factory=dict[_Key, OpenRecipe | None])
    seen: set[_Key] = field(default_factory=set[_Key])


@dataclass(slots=True)
class OpenSight:
    """A line from which a recipe may be learned."""

    start: int
    end: int
    pattern: _Pattern
    key: _Key
    names: list[str]
    values: list[SSAValue]
    types: list[Attribute]
    """The types of the values, then the parts of the line that are types."""
    parts: list[LinePart]


class OpenOps:
    """The patterns of a text, for the parser of this text."""

    def __init__(self, parser: SourceParser) -> None:
        self._parser = parser
        self._patterns: dict[_Key, _Pattern] = {}
        self._shapes: dict[int, tuple[object, Attribute]] = {}

    def find(self, text: str, after: str, start: int, end: int) -> Operation | OpenSight | bool:
        """The op of a line; a line to learn from; True where it must be parsed, False where another way may do."""
        line = open_line(text)
        if line is None:
            return False
        key = (*line.fixed, after, *self._parser.dialects_around)
        pattern = self._patterns.get(key)
        if pattern is None:
            self._note(key, line)
            return True
        if (count := pattern.results) < 0:
            return False
        names = line.names
        found = [*map(self._parser.ssa_values.get, names[count:])]
        values = [value[0] for value in found if value is not None and len(value) == 1]
        if len(values) != len(found) or not self._parser.is_new(names[:count]):
            return True
        types = [value._type for value in values]
        for part in line.parts:
            if part.kind == TYPE:
                if (type := type_of(self._parser, part.text)) is None:
                    return True
                types.append(type)
        key = self._types_key(names, values, types)
        recipe = pattern.recipes.get(key)
        if recipe is not None:
            op = recipe.make(values, types, line.parts)
            return True if op is None else self._parser.accept(op, names[:count], start, end)
        if key in pattern.recipes:
            return False
        if key not in pattern.seen:
            pattern.seen.add(key)
            return True
        return OpenSight(start, end, pattern, key, names[count:], values, types, line.parts)

    def _note(self, key: _Key, line: OpenLine) -> None:
        if len(self._patterns) >= _REMEMBERED:
            self._patterns.clear()
        head = line.fixed[0]
        count = 0
        if not head:  # the line begins with a name
            count = next((k for k, text in enumerate(line.fixed) if "=" in text), 0)
            count = count if line.fixed[count].startswith(" =") else -1  # `%a:2 = ` names two results
        self._patterns[key] = _Pattern(count)

    def _types_key(self, names: list[str], values: Sequence[SSAValue], types: Sequence[Attribute]) -> _Key:
        """What a recipe depends on: the types but for their sizes, which of them are the same, and which names are."""
        shapes, kinds, ids = self._shapes, list[object](), list[int]()
        for type in types:
            known = shapes.get(id(type))
            if known is None:
                if len(shapes) >= _REMEMBERED:
                    shapes.clear()
                    self._patterns.clear()
                shape = shape_key(type) or (id(type) if type.__dict__ else id(type.__class__))
                known = shapes[id(type)] = shape, type
            kinds.append(known[0])
            if known[0].__class__ is tuple:
                ids.append(id(type))
        first: dict[int, int] = {}
        same = [first.setdefault(number, len(first)) for number in ids]
        key = (*kinds, None, *same, None, *[value.__class__ for value in values])
        return key if len(names) == len(set(names)) else (*key, *map(names.index, names))

    def learn(self, line: OpenSight, op: Operation) -> None:
        """Make a recipe from a line that has just been parsed to `op`, if the probe allows it."""
        recipe = None
        if op.regions:
            line.pattern.results = -1
        elif not op._successors and self._parser.pos == line.end and op.location == UNKNOWN_LOC:
            try:
                recipe = self._probe(line, op)
            except (ContextRead, Exception):
                recipe = None  # the parser reads more than it may
        line.pattern.recipes[line.key] = recipe

    def _probe(self, line: OpenSight, op: Operation) -> OpenRecipe | None:
        """The recipe if the text gives `op` for all values and parts of these kinds."""
        opened: dict[int, Attribute] = {}
        for number, type in enumerate(line.types):
            if self._shapes[id(type)][0].__class__ is tuple and id(type) not in opened:
                like = open_attribute(type, number)
                assert like is not None
                opened[id(type)] = like
        known = {name: (probe_value(value),) for name, value in zip(line.names, line.values, strict=True)}
        numbers: dict[SSAValue, int] = {}
        for name, (value,) in known.items():
            value._type = opened.get(id(value._type), value._type)
            numbers[value] = line.names.index(name)
        holes = self._holes(line, opened)
        if holes is None:
            return None
        at = {line.start + part.start: hole for part, hole in zip(line.parts, holes, strict=True)}
        parser = self._parser.probe(line.start, known, at)
        made = Parser.parse_operation(parser)
        if at or parser.pos != line.end or parser.dialect_resources or not made.__dict__.keys() <= _FIELDS:
            return None
        operands = tuple(numbers.get(operand, -1) for operand in made._operands)
        if [None if n < 0 else line.values[n] for n in operands] != [*op._operands]:
            return None
        if made.__class__ is not op.__class__ or made.attributes != op.attributes:
            return None
        if made.location != UNKNOWN_LOC or made.regions or made._successors:
            return None
        results = _results(made, op, line.types, opened)
        parts = self._properties(made, op, line, holes)
        if results is None or parts is None:
            return None
        return OpenRecipe(op.__class__, operands, results, {**op.properties}, {**op.attributes}, parts)

    def _holes(self, line: OpenSight, opened: dict[int, Attribute]) -> list[Hole] | None:
        """The placeholders for a line's parts; None where one cannot be left open."""
        holes: list[Hole] = []
        types = iter(line.types[len(line.values) :])
        for part in line.parts:
            if part.kind == TYPE:
                stands = opened.get(id(next(types)))
            elif part.kind == VALUE:
                stands = object.__new__(OpenValue)
            else:
                stands = open_attribute(self._sample(line, part), 0)
            if stands is None:
                return None
            holes.append(Hole(part.kind, line.start + part.end, stands))
        return holes

    def _sample(self, line: OpenSight, part: LinePart) -> Attribute:
        """An attribute of the class and the type that a part of the line gives."""
        if part.kind == MAP:
            return IndexMapAttr(())
        text = self._parser.lexer.input.content[line.start + part.start : line.start + part.end]
        return Parser(self._parser.ctx, text).parse_attribute()

    def _properties(
        self, made: Operation, op: Operation, line: OpenSight, holes: Sequence[Hole]
    ) -> tuple[tuple[str, int, _Builder], ...] | None:
        """The properties that come from parts of the line; None where one is not the one that the op has."""
        if [*made.properties] != [*op.properties]:
            return None
        numbers = {id(hole.attribute): number for number, hole in enumerate(holes)}
        found: list[tuple[str, int, _Builder]] = []
        for name, value in made.properties.items():
            number = numbers.get(id(value))
            if number is None:
                if value != op.properties[name]:
                    return None
                continue
            build = self._builder(op, name, line, line.parts[number])
            if build is None or build(line.parts[number].text) != op.properties[name]:
                return None
            found.append((name, number, build))
        return tuple(found)

    def _builder(self, op: Operation, name: str, line: OpenSight, part: LinePart) -> _Builder | None:
        """What makes a property of the text of such a part."""
        if part.kind == MAP:
            numbers = local_numbers(part.text)
            return lambda text: map_of_text(text, numbers)
        if part.kind == ATTRIBUTE:
            like = self._sample(line, part)
            return lambda text: attribute_of_text(text, like)
        declared: Any = getattr(op.__class__, "declared", {}).get(name)
        # Of a class of one's own, the base's method may not be what its `parse` does.
        return declared.attribute_of_text if "attribute_of_text" in vars(declared.__class__) else None


def type_of(parser: SourceParser, text: str) -> Attribute | None:
    """The type of a text such as `tensor<4x8xf32>`, one object for each; None where the parser must decide."""
    shaped = parser.shaped
    if (known := shaped.get(text)) is not None:
        return known
    match = SHAPED.fullmatch(text)
    if match is None:
        return None
    kind, sizes, element = match.groups()
    example = f"{kind}{'1x' * sizes.count('x')}{element}"
    like = shaped.get(example)
    if like is None:
        try:
            like = shaped[example] = Parser(parser.ctx, example).parse_type()
        except ParseError:
            return None
    made = type_of_text(sizes, like) if shape_key(like) is not None else None
    if made is not None:
        shaped[text] = made
    return made


def _results(
    made: Operation, op: Operation, types: Sequence[Attribute], opened: dict[int, Attribute]
) -> tuple[int | Attribute, ...] | None:
    """For each result where its type comes from; None where it is not the one that the op has."""
    numbers = {id(opened[id(type)]): number for number, type in enumerate(types) if id(type) in opened}
    if len(made.results) != len(op.results):
        return None
    found: list[int | Attribute] = []
    for result, real in zip(made.results, op.results, strict=True):
        number = numbers.get(id(result._type))
        expected = result._type if number is None else types[number]
        if expected != real._type:
            return None
        found.append(real._type if number is None else number)
    return tuple(found)
