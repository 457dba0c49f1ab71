"""
Parsing the functions whose text differs from an earlier one's in nothing but the function's name.

The kernels of a large module repeat: of two whose text is the same, and which refer to nothing around them, the second
one is a copy of the first one's ops, with its own name and places. A text is copied from its third occurrence on, once
the copy of the first one has been the same as what the parser made of the second. All else goes through the parser.
"""

# The fields of an op are set directly: its constructor registers operands, results and regions one by one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, LocationAttr, StringAttr, UnknownLoc
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues, Use

from mlc.dialects.syntax.recipes.function_form import function_form
from mlc.dialects.syntax.recipes.open_functions import OpenFunctions, OpenText

if TYPE_CHECKING:
    from mlc.dialects.syntax.source import SourceParser

# The first line of a function, and the token after it, on which its end may depend.
_HEADER = re.compile(r"([a-z_]+\.func [a-z ]*+@)([A-Za-z_][\w$.]*+)([^\n]*\{)\n", re.ASCII)
_AFTER = re.compile(r"\n\s*([A-Za-z_][\w.$]*|[%}^]|\"[\w.$]+\"|\Z)", re.ASCII)
# What a text may say that is not about its function alone, or has no place of its own.
_REFERS = re.compile(r"@|\bloc\(|dense_resource|^ *\^", re.MULTILINE)
_LONGEST = 1 << 16
_REMEMBERED = 1 << 13
_ROOMS = ("mlc.", "xdsl.")
"""The packages whose functions do not read their own names while they are parsed."""

_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class RepeatedText:
    """The text of a function that may be a copy of another one's."""

    key: _Key
    name: str
    start: int
    end: int
    """The position of the next token."""
    opened: OpenText | None
    """The same text, where a recipe for the functions of its skeleton may be learned from it."""


@dataclass(slots=True)
class _Function:
    """A function that was parsed."""

    op: Operation
    count: int = 0
    """How many ops the parser counts in it, itself included, and no terminators that it adds."""
    is_sure: bool = False
    """Whether a copy of it was compared with what the parser makes."""


class RepeatedFunctions:
    """The functions of a text by their text, for the parser of this text."""

    def __init__(self, parser: SourceParser) -> None:
        self._parser = parser
        self._text = parser.lexer.input.content
        self._known: dict[_Key, _Function | None] = {}
        self._open = OpenFunctions(parser)

    def find(self, start: int, room: int) -> Operation | RepeatedText | None:
        """The function at `start`, copied with at most `room` ops; a text to learn from; or None."""
        parser, text = self._parser, self._text
        header = _HEADER.match(text, start)
        if header is None or parser.ssa_values or parser.forward_ssa_references:
            return None
        column = start - text.rfind("\n", 0, start) - 1
        end = text.find("\n" + " " * column + "}", header.end() - 1, start + _LONGEST)
        if end < 0 or (after := _AFTER.match(text, end := end + column + 2)) is None:
            return None
        key = (header[1], text[header.start(3) : end], after[1], column, tuple(parser.dialects_around))
        function = self._known.get(key)
        if function is not None and function.is_sure:
            if function.count > room:
                return None
            parser.skip(after.start(1), function.count)
            return self._copy(function.op, header[2], start)
        around = (header[1], after[1], column, *key[-1])
        opened = self._open.find(key[1], around, header[2], start, header.start(3))
        if isinstance(opened, tuple):
            op, count = opened
            if count > room:
                return None
            parser.skip(after.start(1), count)
            self._remember(key, _Function(op, count, True))
            return op
        if function is None and key in self._known:
            return None
        return RepeatedText(key, header[2], start, after.start(1), opened)

    def learn(self, text: RepeatedText, op: Operation) -> None:
        """Remember what has just been parsed to `op`; compare it with a copy of the op of the same text."""
        parser, known = self._parser, self._known.get(text.key)
        if known is not None:
            if self._is_plain(text, op) and self._is_plain(text, known.op):
                copied = self._copy(known.op, text.name, text.start)
                known.is_sure = _is_same(copied, op)
                known.count = sum(isinstance(nested.location, FileLineColLoc) for nested in op.walk())
            if not known.is_sure:
                self._known[text.key] = None
            return
        is_alone = parser.pos == text.end and not parser.ssa_values and not parser.forward_ssa_references
        self._remember(text.key, _Function(op) if is_alone else None)
        if text.opened is not None and self._is_plain(text, op):
            self._open.learn(text.opened, op, _is_same)

    def _remember(self, key: _Key, function: _Function | None) -> None:
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = function

    def _is_plain(self, text: RepeatedText, op: Operation) -> bool:
        """Whether the op depends on the text alone, and on the name in nothing but its symbol."""
        parser = self._parser
        return (
            parser.pos == text.end
            and not parser.ssa_values
            and not parser.forward_ssa_references
            and isinstance(op.properties.get("sym_name"), StringAttr)
            and isinstance(op.location, FileLineColLoc)
            and function_form(op) is not None
            and op.__class__.__module__.startswith(_ROOMS)
            and not _REFERS.search(f"{text.key[1]}")
            and all(_is_simple(nested) and nested not in parser.positions for nested in op.walk())
        )

    def _copy(self, op: Operation, name: str, start: int) -> Operation:
        """The function of this name that stands at `start`."""
        location = op.location
        assert isinstance(location, FileLineColLoc)
        made = _Copy(self._parser.line(start) - location.line.data).op(op, {})
        made.properties["sym_name"] = StringAttr(name)
        return made


@dataclass(slots=True)
class _Copy:
    """Copies ops to a place `lines` lines further down."""

    lines: int

    def op(self, op: Operation, values: dict[int, SSAValue]) -> Operation:
        """The op on the copies of its operands, which `values` has by the identity of the values."""
        made = op.__class__.__new__(op.__class__)
        if op._operands:
            made._operands = operands = SSAValues([values[id(value)] for value in op._operands])
            made._operand_uses = uses = tuple([Use(made, number) for number in range(len(operands))])
            for operand, use in zip(operands, uses, strict=True):
                operand.add_use(use)
        if op.results:
            made.results = results = SSAValues([OpResult(r._type, made, k) for k, r in enumerate(op.results)])
            for old, new in zip(op.results, results, strict=True):
                new._name = old._name
                values[id(old)] = new
        made.properties = op.properties.copy()
        made.attributes = op.attributes.copy()
        made.location = self.location(op.location)
        if op.regions:
            made.regions = tuple([self.region(region, made, values) for region in op.regions])
        return made

    def region(self, region: Region, parent: Operation, values: dict[int, SSAValue]) -> Region:
        """The region of one block."""
        made, block, new = Region(), region.block, Block()
        made.parent = parent
        new._args = arguments = tuple([BlockArgument(a._type, new, a.index) for a in block._args])
        for old, argument in zip(block._args, arguments, strict=True):
            argument._name = old._name
            values[id(old)] = argument
        new.parent = made
        made._first_block = made._last_block = new
        last, op = None, block._first_op
        while op is not None:
            here = self.op(op, values)
            here.parent = new
            here._prev_op = last
            if last is None:
                new._first_op = here
            else:
                last._next_op = here
            last, op = here, op._next_op
        new._last_op = last
        return made

    def location(self, location: LocationAttr) -> LocationAttr:
        """The location `lines` lines further down; like the parser's locations, it is not verified."""
        if not isinstance(location, FileLineColLoc):
            return location
        line: IntAttr = object.__new__(IntAttr)
        vars(line)["data"] = location.line.data + self.lines
        made: FileLineColLoc = object.__new__(FileLineColLoc)
        vars(made).update(filename=location.filename, line=line, column=location.column)
        return made


def _is_simple(op: Operation) -> bool:
    """Whether `_Copy` copies all of an op of a function that has a form."""
    return isinstance(op.location, (FileLineColLoc, UnknownLoc)) and vars(op).keys() <= _FIELDS


_FIELDS = frozenset(Operation.__dataclass_fields__)


def _is_same(copied: Operation, op: Operation) -> bool:
    """Whether a copy, which is of no further use, is the same as an op, with its places and names."""
    same = copied.is_structurally_equivalent(op) and _places(copied) == _places(op)
    copied.drop_all_references()
    return same


def _places(op: Operation) -> list[object]:
    """The locations of an op and those in it, and the names of their values."""
    found: list[object] = []
    for nested in op.walk():
        found += (nested.location, *(value._name for value in nested.results))
        found += [a._name for region in nested.regions for block in region.blocks for a in block._args]
    return found
