"""
How to make the ops of a function from the open parts of its text.

A recipe is a tree of ops whose types and attributes are fixed or in slots; a slot is filled from a hole of the text, or
put together from other slots. `RecipeMaker` learns it from two versions of a function: what a parser made that may not
read the open parts, and the op itself.
"""

# The fields of an op are set directly: its constructor registers operands, results and regions one by one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseIntOrFPElementsAttr, FileLineColLoc, IntAttr, StringAttr, UnknownLoc
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues

from mlc.dialects.syntax.dense import dense_attribute
from mlc.dialects.syntax.recipes.function_holes import OpenPart
from mlc.dialects.syntax.recipes.new_op import new_op
from mlc.dialects.syntax.recipes.probe import ContextRead, open_number
from mlc.dialects.value_names import value_name


class Slot(int):
    """The number of an object that is made for each function."""


Place: TypeAlias = tuple[int, int, tuple[int, ...]]
"""Lines below the function's first, the column without the holes before the op on its line, and these holes."""
_Fill: TypeAlias = "tuple[int | None, Callable[[Any], Any]]"


@dataclass(slots=True)
class ValueRecipe:
    """A result or an argument: its type, and the hole of its name."""

    type: Attribute | Slot
    name: int | None


@dataclass(slots=True)
class OpRecipe:
    """An op; its operands are numbers of values in the order of their definition."""

    cls: type[Operation]
    operands: tuple[int, ...]
    results: list[ValueRecipe]
    properties: dict[str, Attribute]
    open_properties: list[tuple[str, Slot]]
    attributes: dict[str, Attribute]
    place: Place | None
    """None of an op that the text leaves out."""
    regions: list[tuple[list[ValueRecipe], list[OpRecipe]]]


@dataclass(slots=True)
class FunctionRecipe:
    """The ops of a function, and for each slot its hole, or None of one that is put together, and what fills it."""

    op: OpRecipe
    fills: list[_Fill]
    count: int
    """How many ops the parser counts."""

    def make(self, name: Attribute, holes: Sequence[str], file: StringAttr, line: int, column: int) -> Operation | None:
        """The function of this name at this place; None where the text of a hole is strange."""
        slots: list[Any] = []
        for number, fill in self.fills:
            made = fill(slots if number is None else holes[number])
            if made is None:
                return None
            slots.append(made)
        op = _Maker(slots, holes, file, line).op(self.op)
        op.properties["sym_name"] = name
        op.location = _location(file, line, IntAttr(column))
        return op


class _Maker:
    """Makes the ops of one function."""

    def __init__(self, slots: list[Any], holes: Sequence[str], file: StringAttr, line: int) -> None:
        self._slots = slots
        self._holes = holes
        self._file = file
        self._line = line
        self._values: list[SSAValue] = []

    def op(self, recipe: OpRecipe) -> Operation:
        slots, values = self._slots, self._values
        if recipe.operands:
            op = new_op(recipe.cls, [values[number] for number in recipe.operands])
        else:
            op = recipe.cls.__new__(recipe.cls)
        if recipe.results:
            results: list[OpResult] = []
            for number, result in enumerate(recipe.results):
                type = result.type
                value = OpResult(slots[type] if type.__class__ is Slot else type, op, number)  # pyright: ignore[reportArgumentType, reportCallIssue] - a slot or a type
                if result.name is not None:
                    value._name = hint_of(self._holes[result.name])
                results.append(value)
            values += results
            op.results = SSAValues(results)
        op.properties = properties = recipe.properties.copy()
        for name, slot in recipe.open_properties:
            properties[name] = slots[slot]
        op.attributes = recipe.attributes.copy()
        if recipe.place is None:
            op.location = UNKNOWN_LOC
        else:
            lines, column, before = recipe.place
            for number in before:
                column += len(self._holes[number])
            op.location = _location(self._file, self._line + lines, _column(column))
        if recipe.regions:
            op.regions = tuple([self._region(*region, op) for region in recipe.regions])
        return op

    def _region(self, arguments: list[ValueRecipe], ops: list[OpRecipe], parent: Operation) -> Region:
        """The region of one block."""
        region, block = Region(), Block()
        region.parent = parent
        found: list[BlockArgument] = []
        for number, argument in enumerate(arguments):
            type = argument.type
            value = BlockArgument(self._slots[type] if type.__class__ is Slot else type, block, number)  # pyright: ignore[reportArgumentType, reportCallIssue] - a slot or a type
            if argument.name is not None:
                value._name = hint_of(self._holes[argument.name])
            found.append(value)
        block._args = tuple(found)
        self._values += found
        block.parent = region
        region._first_block = region._last_block = block
        last = None
        for recipe in ops:
            op = self.op(recipe)
            op.parent = block
            op._prev_op = last
            if last is None:
                block._first_op = op
            else:
                last._next_op = op
            last = op
        block._last_op = last
        return region


_columns: dict[int, IntAttr] = {}


def _column(number: int) -> IntAttr:
    return _columns.get(number) or _columns.setdefault(number, IntAttr(number))


def _location(file: StringAttr, line: int, column: IntAttr) -> FileLineColLoc:
    """A location; it is not verified, as the parser's are not."""
    number: IntAttr = object.__new__(IntAttr)
    vars(number)["data"] = line
    made: FileLineColLoc = object.__new__(FileLineColLoc)
    vars(made).update(filename=file, line=number, column=column)
    return made


def hint_of(text: str) -> str | None:
    """The name that a value gets from its name in the text, which begins with %."""
    name = text[1:]
    if name[0].isdigit() or (not name.isalnum() and not SSAValue.is_valid_name(name)):
        return None
    return value_name(name) if "_" in name else name


class RecipeMaker:
    """Learns a recipe; ContextRead is raised where the probe does not show how the function comes about."""

    def __init__(
        self,
        parts: Sequence[OpenPart],
        literals: Sequence[int],
        names: Mapping[SSAValue, int],
        places: Mapping[Operation, Place],
    ) -> None:
        """The open parts, the holes of dense literals, and for the probe's values and ops holes and places."""
        self._parts = {id(part.hole.attribute): part for part in reversed(parts)}
        self._literals = literals
        self._names = names
        self._places = places
        self._slots: dict[int, Slot] = {}
        self._keep: list[object] = []
        self._fills: list[_Fill] = []
        self._values: dict[SSAValue, int] = {}

    def function(self, made: Operation, op: Operation) -> FunctionRecipe:
        """The recipe of a function."""
        recipe = self._op(made, op, is_function=True)
        return FunctionRecipe(recipe, self._fills, len(self._places))

    def _op(self, made: Operation, op: Operation, *, is_function: bool = False) -> OpRecipe:
        if made.__class__ is not op.__class__ or len(made._operands) != len(op._operands) or made._successors:
            raise ContextRead("ops")
        if made.attributes != op.attributes or [*made.properties] != [*op.properties]:
            raise ContextRead("attributes")
        operands = tuple([self._values[value] for value in made._operands])
        results = self._define(made.results, op.results)
        closed: dict[str, Attribute] = {}
        slots: list[tuple[str, Slot]] = []
        for name, value in made.properties.items():
            closed[name] = op.properties[name]
            if not (is_function and name == "sym_name"):
                term = self._property(name, value, op)
                if isinstance(term, Slot):
                    slots.append((name, term))
        place = self._places.get(made)
        if place is None and not isinstance(op.location, UnknownLoc):
            raise ContextRead("location")
        regions = [self._region(*pair) for pair in zip(made.regions, op.regions, strict=True)]
        return OpRecipe(op.__class__, operands, results, closed, slots, {**op.attributes}, place, regions)

    def _region(self, made: Region, region: Region) -> tuple[list[ValueRecipe], list[OpRecipe]]:
        arguments = self._define(made.block._args, region.block._args)
        ops = [self._op(*pair) for pair in zip(made.block.ops, region.block.ops, strict=True)]
        return arguments, ops

    def _define(self, made: Sequence[SSAValue], values: Sequence[SSAValue]) -> list[ValueRecipe]:
        found: list[ValueRecipe] = []
        for one, value in zip(made, values, strict=True):
            self._values[one] = len(self._values)
            found.append(ValueRecipe(self._term(one._type, value._type), self._names.get(one)))
        return found

    def _property(self, name: str, made: Attribute, op: Operation) -> Any:
        """A property; a hole that is a value is read as the op's class declares this property."""
        part = self._parts.get(id(made))
        if part is None or part.build is not None:
            return self._term(made, op.properties[name])
        declared: Any = getattr(op.__class__, "declared", {}).get(name)
        # Of a class of one's own, the base's method may not be what its `parse` does.
        if "attribute_of_text" not in vars(declared.__class__):
            raise ContextRead("value")
        return self._slot(made, part.number, lambda text: declared.attribute_of_text(text[2:]))

    def _term(self, made: Any, real: Any) -> Any:
        """What is fixed, of the real op, or the slot of what is not."""
        if (part := self._parts.get(id(made))) is not None:
            if part.build is None:
                raise ContextRead("value")
            return self._slot(made, part.number, part.build)
        if isinstance(made, DenseIntOrFPElementsAttr) and (number := open_number(made)) is not None:
            literal = self._literals[number - 1]
            type = self._term(made.type, real.type)
            if isinstance(type, Slot):
                raise ContextRead("type")
            return self._slot(made, literal, lambda text: dense_attribute(type, text[6:-1]))
        parts = self._inside(made)
        if parts is not None and made.__class__ is real.__class__:
            inside = self._inside(real)
            terms = {name: self._term(part, inside[name]) for name, part in parts.items()}  # pyright: ignore[reportOptionalSubscript] - of the same class
            if any(isinstance(term, Slot) for term in terms.values()):
                return self._slot(made, None, _composer(made, terms))
        elif made != real:
            raise ContextRead("attribute")
        return real

    @staticmethod
    def _inside(made: Any) -> dict[Any, Any] | None:
        """What an attribute or a tuple consists of; None of something else."""
        if isinstance(made, tuple):
            return dict(enumerate(cast("tuple[Any, ...]", made)))
        return dict(vars(made)) if isinstance(made, Attribute) and vars(made) else None

    def _slot(self, made: object, number: int | None, fill: Callable[[Any], Any]) -> Slot:
        """The slot of an object of the probe."""
        known = self._slots.get(id(made))
        if known is None:
            known = self._slots[id(made)] = Slot(len(self._fills))
            self._keep.append(made)
            self._fills.append((number, fill))
        return known


def _composer(made: Any, terms: Mapping[Any, Any]) -> Callable[[list[Any]], Any]:
    """What makes an attribute or a tuple of these parts."""
    open_ = {name: term for name, term in terms.items() if isinstance(term, Slot)}
    if isinstance(made, tuple):
        items = [*terms.values()]
        return lambda slots: tuple([slots[item] if item.__class__ is Slot else item for item in items])
    cls = made.__class__

    def compose(slots: list[Any]) -> Attribute:
        attribute: Attribute = object.__new__(cls)
        fields = vars(attribute)
        fields.update(terms)
        for name, slot in open_.items():
            fields[name] = slots[slot]
        return attribute

    return compose
