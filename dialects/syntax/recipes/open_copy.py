"""
Copies of functions whose types and attributes are open: what is made of one without reading them holds for all others.

The kind of a type or an attribute is its class and structure, without sizes, numbers and texts. Functions share one
open copy if they have one structure (dialects/syntax/recipes/function_form.py), types and attributes of the same
kinds, and the same pattern of equal types.
"""

# The fields of an op are written directly: its constructor registers operands, results and regions one by one.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseIntOrFPElementsAttr, FunctionType
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.index import Index, IndexMapAttr
from mlc.dialects.syntax.recipes.function_form import FunctionForm
from mlc.dialects.syntax.recipes.holes import OPEN_FIELDS, open_attribute, shape_key
from mlc.dialects.syntax.recipes.probe import ContextRead, OpenData, apart, hide_name, open_dense

_REMEMBERED = 1 << 16
_FAMILIES = 1 << 12
_LEARNED = 32
"""Open copies of one structure that are learned from, at most: a structure with more is not taken to repeat."""

T = TypeVar("T")
Key: TypeAlias = tuple[object, ...]


class OpenExpression(OpenData):
    """Stands for an index expression; only its dimensions, and its text as `text` makes it, may be read."""

    def __init__(self, number: int, place: int, dims: frozenset[int], text: Callable[..., str]) -> None:
        super().__init__(number)
        known: dict[str, Any] = {"dims": lambda: set(dims), "uses": dims.__contains__, "__class__": Index}

        def texts(name: Callable[[int], str]) -> str:
            return text(number, place, {dim: name(dim) for dim in sorted(dims)})

        known["text"] = texts
        object.__setattr__(self, "_known", known)

    def __getattribute__(self, name: str) -> Any:
        known = object.__getattribute__(self, "_known")
        return known[name] if name in known else super().__getattribute__(name)


@dataclass(slots=True)
class FormFamily(Generic[T]):
    """What is known of functions of one structure."""

    sample: list[Attribute]
    """The attributes of the first of them."""
    closed: set[int] = field(default_factory=set[int])
    """The numbers of the attributes that are not open, since something reads them."""
    known: dict[Key, T | None] = field(default_factory=dict[Key, "T | None"])

    def close(self, error: BaseException, form: FunctionForm) -> int | None:
        """Close the attribute that was read, if it is the same in two functions: its number, for another try."""
        number = error.number if isinstance(error, ContextRead) else None
        if number is None or number < 0 or number in self.closed or form.attributes[number] != self.sample[number]:
            return None
        self.closed.add(number)
        return number


class FormFamilies(Generic[T]):
    """What is known of functions by their structure and, of one structure, by the kinds of types and attributes."""

    def __init__(self, learn: Callable[[FunctionForm, FormFamily[T]], T | None]) -> None:
        """`learn` finds out what holds for all functions with the open copy of this one; it may close attributes."""
        self._learn = learn
        self._families: dict[Key, FormFamily[T]] = {}
        self._kinds: dict[int, object] = {}
        self._numbers: dict[int, int] = {}
        self._values: dict[Attribute, int] = {}
        self._alive: list[Attribute] = []
        """The attributes that the two above name by their identity."""

    def find(self, form: FunctionForm) -> T | None:
        """What is known of the functions like this one, or can be learned from it; None where there is nothing."""
        if max(len(self._kinds), len(self._values)) >= _REMEMBERED or len(self._families) >= _FAMILIES:
            # Keys name attributes by the identities that are kept alive here.
            for known in (self._kinds, self._numbers, self._values, self._alive, self._families):
                known.clear()
        structure = tuple(form.structure)
        family = self._families.get(structure)
        if family is None:
            self._families[structure] = FormFamily(form.attributes)
            return None
        key = self._key(form, family.closed)
        found = family.known.get(key)
        if found is None and key not in family.known and len(family.known) < _LEARNED:
            found = self._learn(form, family)
            family.known[self._key(form, family.closed)] = found
        return found

    def _key(self, form: FunctionForm, closed: set[int]) -> Key:
        """What the open copies of functions of one structure differ in."""
        first: dict[int, int] = {}
        same = [first.setdefault(id(type), len(first)) for type in form.types]
        kinds = self._kinds_of(form.attributes)
        for number in closed:
            kinds[number] = self._value(form.attributes[number])
        return (*self._kinds_of(form.types), *kinds, *same)

    def _kinds_of(self, attributes: Sequence[Attribute]) -> list[object]:
        found = [*map(self._kinds.get, map(id, attributes))]
        if None in found:
            for number, attribute in enumerate(attributes):
                if found[number] is None:
                    found[number] = self._kinds[id(attribute)] = _kind(attribute)
                    self._alive.append(attribute)
        return found

    def _value(self, attribute: Attribute) -> int:
        """A number for each attribute that is not equal to another one."""
        known = self._numbers.get(id(attribute))
        if known is None:
            known = self._numbers[id(attribute)] = self._values.setdefault(attribute, len(self._values))
            self._alive.append(attribute)
        return known


def identity(attribute: Attribute) -> int:
    """The identity of an attribute; of one without parameters, which may have many instances, its class's."""
    return id(attribute) if attribute.__dict__ else id(attribute.__class__)


def _kind(attribute: Any) -> object:
    """The class and structure of an attribute without the contents of its open field; its identity if it has none."""
    cls = attribute.__class__
    if cls is IndexMapAttr:
        return (IndexMapAttr, *[frozenset(e.dims()) for e in attribute.data])
    if cls is DenseIntOrFPElementsAttr:
        return (DenseIntOrFPElementsAttr, id(attribute.type))
    field = OPEN_FIELDS.get(cls)
    if field is None or field == "shape":
        return shape_key(attribute) or identity(attribute)
    fields: dict[str, Any] = attribute.__dict__
    return (cls, *[identity(value) for name, value in fields.items() if name != field])


def _no_text(*parts: object) -> str:
    """Nobody may ask for a text."""
    raise TypeError(parts)


class OpenCopy:
    """The open copy of a function."""

    def __init__(
        self, form: FunctionForm, closed: Collection[int] = (), expression_text: Callable[..., str] = _no_text
    ) -> None:
        """
        The attributes of `form` with the numbers in `closed` are not open.

        `expression_text` gives the text of an open expression: of the number of its attribute, its place there, and the
        names of its dimensions.
        """
        self.op = apart(form.ops[0])
        self.types: dict[int, int] = {}
        """For the identity of an open type its number in the form."""
        self.attributes: dict[int, int] = {}
        """For the identity of an open attribute its number in the form."""
        self.values: dict[SSAValue, int] = {}
        """The values, with their numbers in the form."""
        self.ops = {op: number for number, op in enumerate(self.op.walk())}
        """The ops, with their numbers in the form."""
        self._text = expression_text
        self._form = form
        self._opened: dict[int, Attribute] = {}
        self._places: dict[int, tuple[dict[str, Attribute], str]] = {}
        """For the number of an open attribute the fields that hold it, and its name there."""
        count = 0
        for real, op in zip(form.ops, self.ops, strict=True):
            for fields in (op.properties, op.attributes):
                for name, value in fields.items():
                    of_function = op is self.op and fields is op.properties
                    if of_function and name == "sym_name":
                        continue
                    if of_function and isinstance(value, FunctionType):
                        fields[name] = self._function_type(value)
                    else:
                        fields[name] = value if count in closed else self._attribute(value, count)
                        self._places[count] = fields, name
                        count += 1
            self._define(real.results, op.results)
            for region, copied in zip(real.regions, op.regions, strict=True):
                self._define(region.block.args, copied.block.args)

    def close(self, number: int) -> None:
        """Put the attribute of the form with this number in the place of the open one."""
        fields, name = self._places[number]
        self.attributes.pop(id(fields[name]), None)
        fields[name] = self._form.attributes[number]

    def _define(self, reals: Sequence[SSAValue], values: Sequence[SSAValue]) -> None:
        for real, value in zip(reals, values, strict=True):
            self.values[value] = self._form.number_of(real)
            value._type = self._type(value._type)
            hide_name(value)

    def _type(self, type: Attribute) -> Attribute:
        known = self._opened.get(id(type))
        if known is None:
            known = open_attribute(type, -1) if isinstance(_kind(type), tuple) else None
            if known is None:
                known = type
            else:
                self.types[id(known)] = next(number for number, one in enumerate(self._form.types) if one is type)
            self._opened[id(type)] = known
        return known

    def _function_type(self, type: FunctionType) -> FunctionType:
        made: FunctionType = object.__new__(FunctionType)
        for name, types in (("inputs", type.inputs), ("outputs", type.outputs)):
            array: ArrayAttr[Attribute] = object.__new__(ArrayAttr)
            vars(array)["data"] = tuple([self._type(one) for one in types.data])
            vars(made)[name] = array
        return made

    def _attribute(self, attribute: Any, number: int) -> Attribute:
        if not isinstance(_kind(attribute), tuple):
            return attribute
        if attribute.__class__ is IndexMapAttr:
            made: Any = object.__new__(IndexMapAttr)
            data = [OpenExpression(number, k, frozenset(e.dims()), self._text) for k, e in enumerate(attribute.data)]
            vars(made)["data"] = tuple(data)
        elif attribute.__class__ is DenseIntOrFPElementsAttr:
            made = open_dense(attribute.type, number)
        else:
            made = open_attribute(attribute, number)
        if made is None:
            return attribute
        self.attributes[id(made)] = number
        return made
