"""
Parsing the functions whose text differs from an earlier one's in names, sizes, numbers and index expressions.

The text is cut into fixed pieces, the skeleton, and holes between them (dialects/syntax/recipes/function_holes.py).
When a skeleton has been seen several times with the same pattern of equal names and sizes, its function is parsed again
by a parser that gets, for each hole, an object that raises when it is read. If the parser makes the same ops, with
these objects unread somewhere in their types and attributes, then it does so for every such function of the skeleton:
from then on, they are made from a recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from mlc.dialects.syntax.lexer import SourceLexer
from mlc.dialects.syntax.recipes.function_holes import HoleReader, cut, names_in
from mlc.dialects.syntax.recipes.function_recipes import FunctionRecipe, Place, RecipeMaker
from mlc.dialects.syntax.recipes.open_ops import type_of
from mlc.dialects.syntax.recipes.probe import ContextRead

if TYPE_CHECKING:
    from xdsl.utils.lexer import Input

    from mlc.dialects.syntax.source import SourceParser

_REMEMBERED = 1 << 10
_TRIES = 4
"""How often a probe may find that holes must be closed."""

_Key: TypeAlias = tuple[object, ...]
_kind = itemgetter(0)


@dataclass(slots=True)
class _Skeleton:
    """The functions of a fixed text."""

    names: list[int]
    """The holes whose equality matters: names and sizes."""
    sizes: list[int]
    maps: list[int]
    closed: set[int]
    recipes: dict[_Key, FunctionRecipe | None] = field(default_factory=dict[_Key, FunctionRecipe | None])
    seen: set[_Key] = field(default_factory=set[_Key])

    def key(self, holes: Sequence[str]) -> _Key:
        """What functions of one recipe have in common."""
        counts: list[int] = []
        texts = [holes[number] for number in self.names]
        for number in self.maps:
            names = names_in(holes[number])
            counts.append(len(names))
            texts += names
        first: dict[str, int] = {}
        same = [first.setdefault(text, len(first)) for text in texts]
        ranks = [holes[number].count("x") for number in self.sizes]
        return (*same, None, *counts, *ranks, *[holes[number] for number in self.closed])


@dataclass(slots=True)
class OpenText:
    """The text of a function from which a recipe may be learned."""

    skeleton: _Skeleton
    pieces: list[str]
    start: int
    body: int
    """Where the text behind the name begins."""


class OpenFunctions:
    """The skeletons of a text, for the parser of this text."""

    def __init__(self, parser: SourceParser) -> None:
        self._parser = parser
        self._skeletons: dict[_Key, _Skeleton] = {}
        self._seen: set[int] = set()

    def find(
        self, text: str, around: _Key, name: str, start: int, body: int
    ) -> tuple[Operation, int] | OpenText | None:
        """The function of this text behind its name, and how many ops it counts; a text to learn from; or None."""
        pieces = cut(text)
        holes = pieces[1::2]
        key = (*around, "".join(map(_kind, holes)), *pieces[::2])
        skeleton = self._skeletons.get(key)
        if skeleton is None:
            self._note(key, holes)
            return None
        key = skeleton.key(holes)
        recipe = skeleton.recipes.get(key)
        if recipe is not None:
            op = self._make(recipe, holes, StringAttr(name), start)
            return None if op is None else (op, recipe.count)
        if key in skeleton.recipes:
            return None
        if key not in skeleton.seen:
            skeleton.seen.add(key)
            return None
        return OpenText(skeleton, pieces, start, body)

    def _note(self, key: _Key, holes: Sequence[str]) -> None:
        if (number := hash(key)) not in self._seen:
            self._seen.add(number)
            return
        if len(self._skeletons) >= _REMEMBERED:
            self._skeletons.clear()
        sizes = [number for number, text in enumerate(holes) if text[0] == "<"]
        names = [number for number, text in enumerate(holes) if text[0] in "<%"]
        maps = [number for number, text in enumerate(holes) if text[0] == "["]
        self._skeletons[key] = _Skeleton(names, sizes, maps, set())

    def learn(self, text: OpenText, op: Operation, is_same: Callable[[Operation, Operation], bool]) -> None:
        """Make a recipe from a text that has just been parsed to `op`, if the probe allows it and it makes the same."""
        recipe = None
        for _ in range(_TRIES):
            closed = len(text.skeleton.closed)
            try:
                recipe = self._probe(text, op)
            except (ContextRead, Exception):
                recipe = None  # the parser reads more than it may
            if recipe is not None or len(text.skeleton.closed) == closed:
                break
        holes = text.pieces[1::2]
        if recipe is not None:
            made = self._make(recipe, holes, op.properties["sym_name"], text.start)
            if made is None or not is_same(made, op):
                recipe = None
        if len(text.skeleton.seen) >= _REMEMBERED:
            text.skeleton.seen.clear()
            text.skeleton.recipes.clear()
        text.skeleton.recipes[text.skeleton.key(holes)] = recipe

    def _make(self, recipe: FunctionRecipe, holes: Sequence[str], name: Attribute, start: int) -> Operation | None:
        place = self._parser.place(start)
        return recipe.make(name, holes, self._parser.file, place.line, place.column)

    def _probe(self, text: OpenText, op: Operation) -> FunctionRecipe | None:
        """The recipe; None where more holes must be closed."""
        from mlc.dialects.syntax.recipes.function_probe import FunctionProbe

        parser, pieces, closed = self._parser, text.pieces, text.skeleton.closed
        reader = HoleReader(parser.ctx, parser.lexer.input.content, partial(type_of, parser))
        parts = reader.parts(pieces, text.body, closed)
        at = {part.position: part.hole for part in parts}
        probe = FunctionProbe.at(parser, text.start, at)
        made = probe.parse_operation()
        if at:
            closed.update(part.number for part in parts if part.position in at)
            return None
        spans = _spans(pieces, text.body)
        literals = [number for number, hole in enumerate(pieces[1::2]) if hole[0] == "d"]
        if probe.pos != parser.pos or probe.dialect_resources or probe.opened != len(literals):
            raise ContextRead("end")
        _check_names(parser.lexer.input, text.start, probe.pos, pieces)
        numbers = {start: number for number, (start, _) in enumerate(spans)}
        names = {value: numbers[start] for value, start in probe.names.items()}
        places = {made: self._place(pos, spans) for made, pos in probe.places.items()}
        first = places[made][0]
        places = {made: (line - first, column, before) for made, (line, column, before) in places.items()}
        return RecipeMaker(parts, literals, names, places).function(made, op)

    def _place(self, position: int, spans: Sequence[tuple[int, int]]) -> Place:
        """The line of an op, its column without the holes before it, and these."""
        place = self._parser.place(position)
        begin = position - place.column + 1
        before = tuple(number for number, (start, end) in enumerate(spans) if begin <= start and end <= position)
        return place.line, place.column - sum(spans[n][1] - spans[n][0] for n in before), before


def _spans(pieces: Sequence[str], start: int) -> list[tuple[int, int]]:
    """Where the holes begin and end."""
    found: list[tuple[int, int]] = []
    for number, piece in enumerate(pieces):
        if number % 2:
            found.append((start, start + len(piece)))
        start += len(piece)
    return found


def _check_names(source: Input[str], start: int, end: int, pieces: Sequence[str]) -> None:
    """Raise ContextRead where a name is a part of a string or of a comment."""
    lexer = SourceLexer(source)
    lexer.pos = start
    count = 0
    while (token := lexer.lex()).span.start < end:
        count += token.text[0] == "%"
    holes = pieces[1::2]
    if count != sum(1 if hole[0] == "%" else len(names_in(hole)) for hole in holes if hole[0] in "%["):
        raise ContextRead("name")
