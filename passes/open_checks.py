"""
Verifying the functions that differ from an earlier one in the contents of types and attributes.

The verifier of an op that is defined with xDSL's IRDL has two halves: xDSL checks the definition (how many operands, of
which classes, which properties), then the op's own `verify_` checks the rest. The first half hardly ever reads the
sizes of types and the values of attributes. So both run on a copy of a function whose types and attributes are open
(dialects/syntax/holes.py): what accepts the copy without reading them accepts all functions of the same open form. The
other checks are called for each function.
"""

# The fields of an op are read and written directly: their properties build a view of the op for each access.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import OpDef

from mlc.dialects.syntax.function_form import FunctionForm
from mlc.dialects.syntax.holes import OPEN_FIELDS, open_attribute, shape_key
from mlc.dialects.syntax.probe import ContextRead, apart, open_dense

_REMEMBERED = 1 << 14

Check: TypeAlias = Callable[[Any], None]
Checks: TypeAlias = list[tuple[int, Check]]
"""The checks of a function that read the contents of its types and attributes, and the numbers of their ops."""
_Key: TypeAlias = tuple[object, ...]


class OpenForms:
    """What is known to be right about functions, whatever their types and attributes contain."""

    def __init__(self) -> None:
        self._kinds: dict[int, tuple[object, Attribute]] = {}
        self._known: dict[_Key, Checks] = {}
        self._seen: set[int] = set()

    def key(self, form: FunctionForm) -> _Key:
        """What a function is but for the contents of its types and attributes, and which types are the same."""
        if len(self._kinds) >= _REMEMBERED:  # a key names by their identity what is kept alive by these
            for known in (self._kinds, self._known, self._seen):
                known.clear()
        first: dict[int, int] = {}
        same = [first.setdefault(id(type), len(first)) for type in form.types]
        return (*form.structure, None, *map(self._kind, form.types), *map(self._kind, form.attributes), *same)

    def checks(self, key: _Key) -> Checks | None:
        """The checks that a function of this key still needs, in their order; None where it needs all."""
        return self._known.get(key)

    def learn(self, key: _Key, form: FunctionForm) -> None:
        """Remember the key of a function that is right at its second sight, with the checks that read contents."""
        if (number := hash(key)) in self._seen:
            self._known[key] = [*_open_checks(form)]
        else:
            self._seen.add(number)

    def _kind(self, attribute: Attribute) -> object:
        known = self._kinds.get(id(attribute))
        if known is None:
            known = self._kinds[id(attribute)] = _kind(attribute), attribute
        return known[0]


def _kind(attribute: Attribute) -> object:
    """What an attribute is but for its open field: a tuple; the identity of one that is closed."""
    closed = id(attribute) if attribute.__dict__ else id(attribute.__class__)
    if attribute.__class__ is FunctionType:
        return (FunctionType,)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return (DenseIntOrFPElementsAttr, id(attribute.type))
    field = OPEN_FIELDS.get(attribute.__class__)
    if field is None or field == "shape":
        return shape_key(attribute) or closed
    rest = [value for name, value in vars(attribute).items() if name != field]
    return (attribute.__class__, *[id(value) if value.__dict__ else id(value.__class__) for value in rest])


def _open(attribute: Attribute) -> Attribute:
    """The attribute with its open field open."""
    if not isinstance(_kind(attribute), tuple):
        return attribute
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return open_dense(attribute.type, 0)
    opened = open_attribute(attribute, 0)
    return attribute if opened is None else opened


def _open_checks(form: FunctionForm) -> Iterator[tuple[int, Check]]:
    """The checks of a right function that read the contents of types or attributes."""
    copy = apart(form.ops[0])
    numbers = {op: number for number, op in enumerate(copy.walk())}
    opened: dict[int, Attribute] = {}
    for op in numbers:
        op.properties = {n: v if op is copy and n == "sym_name" else _open(v) for n, v in op.properties.items()}
        op.attributes = {name: _open(value) for name, value in op.attributes.items()}
        values: list[SSAValue] = [*op.results, *(a for region in op.regions for a in region.block.args)]
        for value in values:
            value._type = opened.setdefault(id(value._type), _open(value._type))
    for op in copy.walk(region_first=True):
        for check in _halves(op.__class__):
            try:
                check(op)
            except (ContextRead, Exception):
                yield numbers[op], check


def _halves(cls: type[Operation]) -> tuple[Check, ...]:
    """The check of an IRDL op's definition and its own; the whole of other ops, and where xDSL is not as expected."""
    function = cls.verify_
    cells = getattr(function, "__closure__", None) or ()
    if function.__module__ != "xdsl.irdl.operations" or function.__name__ != "verify_":
        return (cls.verify_,)
    found: dict[str, Any] = {
        name: cell.cell_contents for name, cell in zip(function.__code__.co_freevars, cells, strict=True)
    }
    definition, own = found.pop("op_def", None), found.pop("custom_verify", None)
    if not isinstance(definition, OpDef) or found:
        return (cls.verify_,)
    return (definition.verify,) if own is None else (definition.verify, own)
