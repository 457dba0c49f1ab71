"""
The open parts of the text of a function: names, sizes of types, numbers, strings and index expressions.

One regular expression cuts them out. To learn from a text, `HoleReader` says for each what stands for it in a probe and
what makes the object of another text; a part that nothing stands for is closed: it has to be the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from xdsl.context import Context
from xdsl.ir import Attribute
from xdsl.parser import Parser

from mlc.dialects.index import Index, IndexMapAttr, const
from mlc.dialects.syntax.dense import NUMBER
from mlc.dialects.syntax.lexer import VALUE_TEXT
from mlc.dialects.syntax.recipes.holes import attribute_of_text, local_numbers, map_of_text, open_attribute
from mlc.dialects.syntax.recipes.probe import OpenData, OpenValue
from mlc.dialects.syntax.token_parser import ATTRIBUTE, EXPRESSION, MAP, STRING, TYPE, VALUE, Hole

_DECIMAL = r"-?[0-9]+(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?)?"
_INTEGERS = r"-?[0-9]+(?:, -?[0-9]+)*"
# The first character of a hole tells its kind; what stands around it tells the rest.
_HOLES = (
    VALUE_TEXT,
    r"<(?:[0-9]+x)+(?=[a-z]+[0-9]*>)",  # tensor<4x8xf32>
    rf"= (?:{_DECIMAL}|\[{_INTEGERS}\])(?=[,}}])",  # axes = [0, 1]
    r"= [0-9]+(?= to )",  # loop.for %i = 0 to 8
    rf": {_INTEGERS}(?=[,)>])",  # (%i : 8), array<i32: 1, 2>
    r"to [0-9]+(?= )",
    rf"constant {_DECIMAL}(?= : [a-z]+[0-9]*)",
    r"constant\(-?[0-9]+(?=\))",
    r'"[^"\\\n]*"(?= \()',  # te.compute "stage" (%i : 8)
    rf"\[[^][\n\"]*{VALUE_TEXT}[^][\n\"]*\]",  # te.read %x[%i + 2]
    rf"dense<(?:[\[ ]*{NUMBER}[\] ]*,?)+>",
)
_CUT = re.compile(f"({'|'.join(_HOLES)})", re.ASCII)
_NAMES = re.compile(VALUE_TEXT, re.ASCII)
_ARRAY = re.compile(r"array<i[0-9]+$")
_SUFFIX = re.compile(r" : [a-z]+[0-9]*")
_TYPES = ("tensor", "memref", "vector")
_REMEMBERED = 1 << 14

Build: TypeAlias = Callable[[str], object]
"""What makes an object of the text of a hole; it answers None where the parser must decide."""


def cut(text: str) -> list[str]:
    """The text cut into fixed pieces, at even places, and holes between them."""
    return _CUT.split(text)


def names_in(text: str) -> list[str]:
    """The names in a text, with their percent signs."""
    return _NAMES.findall(text)


class _OpenIndex(OpenData):
    """Stands for an index expression; nothing may be read from it but its class."""

    def __getattribute__(self, name: str) -> Any:
        return Index if name == "__class__" else super().__getattribute__(name)


class OpenPart(NamedTuple):
    """A hole of a text that is learned from."""

    number: int
    position: int
    """Where the parser takes it."""
    hole: Hole
    build: Build | None
    """None where the property that it is makes it."""


class _Memory(dict[str, object]):
    """Remembers what was made of texts."""

    def __init__(self, build: Build) -> None:
        super().__init__()
        self._build = build

    def __missing__(self, text: str) -> object:
        if len(self) >= _REMEMBERED:
            self.clear()
        made = self[text] = self._build(text)
        return made


def remembered(build: Build) -> Build:
    """The same, asked once for each text."""
    return _Memory(build).__getitem__


class HoleReader:
    """Finds out, for the holes of one text, what stands for them."""

    def __init__(self, context: Context, text: str, type_of: Callable[[str], Attribute | None]) -> None:
        """`text` is a whole source; `type_of` gives the type of a text."""
        self._context = context
        self._text = text
        self._type_of = type_of
        self._types: dict[str, Attribute] = {}

    def parts(self, pieces: Sequence[str], start: int, closed: set[int]) -> list[OpenPart]:
        """The open parts of what is cut from `start` on; the numbers of those that cannot be open go to `closed`."""
        found: list[OpenPart] = []
        at = start
        for number, text in enumerate(pieces[1::2]):
            at += len(pieces[2 * number])
            if text[0] not in "%d" and number not in closed:
                part = None if self._is_counted(pieces, number) else self._part(number, text, at, pieces)
                if part is None:
                    closed.add(number)
                else:
                    found.append(part)
            at += len(text)
        return found

    @staticmethod
    def _is_counted(pieces: Sequence[str], number: int) -> bool:
        """Whether a hole is in the type of a dense literal, whose elements the parser counts."""
        return number > 0 and pieces[2 * number - 1][0] == "d" and pieces[2 * number] == " : tensor"

    def _part(self, number: int, text: str, at: int, pieces: Sequence[str]) -> OpenPart | None:
        before, after, end = pieces[2 * number], pieces[2 * number + 2], at + len(text)
        match text[0]:
            case "<":
                return self._type(number, at, text, before[-6:])
            case '"':
                return OpenPart(number, at, Hole(STRING, end, OpenData(0)), _string)
            case "[":
                numbers = local_numbers(text)
                stands = open_attribute(IndexMapAttr(()), 0)
                return OpenPart(number, at, Hole(MAP, end, stands), remembered(lambda text: map_of_text(text, numbers)))
            case "c":
                suffix = _SUFFIX.match(after)
                end += len(suffix[0]) if suffix is not None and text[8] == " " else 0
                return self._attribute(number, at + len("constant "), end, "", text[9:], after[: end - at - len(text)])
            case ":" if array := _ARRAY.search(before):
                return self._attribute(number, at - len(array[0]), end + 1, array[0], text, ">")
            case ":" if "," in text or text[2] == "-":
                return None
            case "=" if not after.startswith(" to "):
                return OpenPart(number, at + 2, Hole(VALUE, end, object.__new__(OpenValue)), None)
            case _:  # `: 8`, `= 0`, `to 8`
                start = 3 if text[0] == "t" else 2
                hole = Hole(EXPRESSION, end, _OpenIndex(0))
                return OpenPart(number, at + start, hole, remembered(lambda text: const(int(text[start:]))))

    def _type(self, number: int, at: int, text: str, kind: str) -> OpenPart | None:
        end = self._text.index(">", at) + 1
        rest = self._text[at + len(text) : end]
        whole = kind + text + rest
        type = self._type_of(whole) if kind in _TYPES else None
        stands = self._types.get(whole) or (None if type is None else open_attribute(type, number))
        if stands is None:
            return None
        self._types[whole] = stands
        type_of = self._type_of
        return OpenPart(
            number, at - 6, Hole(TYPE, end, stands), remembered(lambda sizes: type_of(f"{kind}{sizes}{rest}"))
        )

    def _attribute(self, number: int, at: int, end: int, before: str, text: str, after: str) -> OpenPart | None:
        """The part for an attribute whose `text` is open; its builder gets a text with a prefix, which it skips."""
        like = Parser(self._context, f"{before}{text}{after}").parse_attribute()
        stands = open_attribute(like, 0)
        if stands is None:
            return None
        skip = len(": ") if before else len("constant ")
        return OpenPart(
            number, at, Hole(ATTRIBUTE, end, stands), remembered(lambda text: attribute_of_text(text[skip:], like))
        )


def _string(text: str) -> str:
    return text[1:-1]
