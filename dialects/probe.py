"""
What about an op depends on the op alone? `signature` names it, and a probe finds out whether that was all.

Of the ops of a module, most differ from another op in nothing but the values that they name: the same class, operand
and result types and attributes. Where an op's verifier, printer or parser reads nothing else, its answer for one op
holds for all ops of that signature. A probe is a copy of an op that raises ContextRead when anything around the op is
read: what defines an operand, who uses a result, the parent, the neighbours, the location, the names. What a probe
answers without raising is therefore a function of the signature, for upstream's ops and for a user's own alike.
"""

# The fields of an op are read and written directly: their properties build a view of an op for each access.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue, SSAValues, Use

MARK = "\x00"
"""Stands before and after the number of a part that a text leaves open."""

Signature: TypeAlias = tuple[object, ...]


class ContextRead(BaseException):
    """A probe was asked for something around its op; no handler of exceptions in a verifier must catch this."""


class _Outside:
    """Stands for everything around a probe."""

    def __getattribute__(self, name: str) -> Any:
        raise ContextRead(name)

    def __bool__(self) -> bool:
        raise ContextRead("bool")

    def __eq__(self, other: object) -> bool:
        raise ContextRead("==")

    def __hash__(self) -> int:
        raise ContextRead("hash")


_OUTSIDE: Any = _Outside()


class _BlockEnd(_Outside):
    """Stands for the block of a probe that is its block's last op: a terminator asks for no more."""

    def __init__(self, last: Operation) -> None:
        object.__setattr__(self, "_last", last)

    def __getattribute__(self, name: str) -> Any:
        if name != "last_op":
            raise ContextRead(name)
        return object.__getattribute__(self, "_last")


def _refuse(value: object) -> NoReturn:
    raise ContextRead


class _OpenData(_Outside):
    """Stands for the elements of a dense attribute: what is made without reading them holds for all elements."""

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "_number", number)


def open_dense(type: Attribute, number: int) -> DenseIntOrFPElementsAttr:
    """A dense attribute of which only the type may be read; `number` tells it from others in the same op."""
    made: DenseIntOrFPElementsAttr = DenseIntOrFPElementsAttr.__new__(DenseIntOrFPElementsAttr)
    vars(made).update(type=type, data=_OpenData(number))
    return made


def open_number(attribute: Attribute) -> int | None:
    """The number of an attribute that `open_dense` made; None of others."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return None
    data = vars(attribute)["data"]
    return object.__getattribute__(data, "_number") if type(data) is _OpenData else None


def _open(properties: dict[str, Attribute], first: int) -> dict[str, Attribute]:
    """The properties with open elements in each dense attribute; its number is that of the property after `first`."""
    return {
        name: open_dense(value.type, first + number) if isinstance(value, DenseIntOrFPElementsAttr) else value
        for number, (name, value) in enumerate(properties.items())
    }


class ProbeResult(OpResult):
    """The result of an op, of which only the type may be read."""

    op = owner = index = first_use = _name = property(_refuse)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - that is what a probe is for

    def __init__(self, type: Attribute) -> None:
        self._type = type

    def add_use(self, use: Use) -> None:
        """An op may use it, but nothing about its users may be read."""


class ProbeArgument(BlockArgument):
    """The argument of a block, of which only the type may be read."""

    block = owner = index = location = first_use = _name = property(_refuse)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - that is what a probe is for

    def __init__(self, type: Attribute) -> None:
        self._type = type

    def add_use(self, use: Use) -> None:
        """An op may use it, but nothing about its users may be read."""


class _OwnResult(OpResult):
    """A result of a probe: its users and its name may not be read."""

    first_use = _name = property(_refuse)  # pyright: ignore[reportAssignmentType] - that is what a probe is for

    def __init__(self, type: Attribute, op: Operation, index: int) -> None:
        self._type = type
        self.op = op
        self.index = index


_KINDS: dict[type[SSAValue], Callable[[Attribute], SSAValue]] = {OpResult: ProbeResult, BlockArgument: ProbeArgument}


def signature(op: Operation) -> Signature | None:
    """
    A key that is equal for ops that differ only in their values and in what is around them; None where regions or
    blocks belong to the op, or where it stands alone.

    It names types and attributes by identity: it is valid for as long as they live.
    """
    if op.regions or op._successors or op.parent is None:
        return None
    operands, properties, attributes = op._operands, op.properties, op.attributes
    types = types_key(op.results)
    types += types_key(operands)
    kinds = [value.__class__ for value in operands]
    if properties:
        # The elements of a dense attribute are left open: an op whose answer depends on them has none for a signature.
        types += [~id(p.type) if p.__class__ is DenseIntOrFPElementsAttr else id(p) for p in properties.values()]
    if attributes:
        types += map(id, attributes.values())
    names = (*properties, None, *attributes) if properties or attributes else ()
    count = len(operands)
    same = None if count < 2 or len(set(map(id, operands))) == count else _pattern(operands)
    return (op.__class__, count, op._prev_op is None, op._next_op is None, same, names, *types, *kinds)


def types_key(values: Sequence[SSAValue]) -> list[int]:
    """The identities of the values' types; of a type without parameters, which may have many instances, its class's."""
    types = [value._type for value in values]
    return [id(type) if type.__dict__ else id(type.__class__) for type in types]


def _pattern(operands: Sequence[SSAValue]) -> tuple[int, ...]:
    """Which operands are the same value: for each the number of the first one that it equals."""
    first: dict[SSAValue, int] = {}
    return tuple(first.setdefault(value, number) for number, value in enumerate(operands))


def kept_alive(op: Operation) -> tuple[Attribute, ...]:
    """The types and attributes that `signature` names."""
    values = (*op._operands, *op.results)
    properties = [p.type if isinstance(p, DenseIntOrFPElementsAttr) else p for p in op.properties.values()]
    return (*(value._type for value in values), *properties, *op.attributes.values())


def probe_value(value: SSAValue) -> SSAValue:
    """A value of the same type and kind, of which nothing else may be read; ContextRead for unusual kinds."""
    kind = _KINDS.get(value.__class__)
    if kind is None:
        raise ContextRead
    return kind(value._type)


def probe(op: Operation) -> Operation:
    """A probe of an op that has a signature."""
    copy = op.__class__.__new__(op.__class__)
    values: dict[SSAValue, SSAValue] = {}
    for value in op._operands:
        if value not in values:
            values[value] = probe_value(value)
    copy._operands = SSAValues(values[value] for value in op._operands)
    copy._operand_uses = _OUTSIDE
    copy.results = SSAValues(_OwnResult(value._type, copy, number) for number, value in enumerate(op.results))
    copy.properties = _open(op.properties, len(op.results) + len(op._operands))
    copy.attributes = dict(op.attributes)
    end: Any = _BlockEnd(copy)
    copy.location = _OUTSIDE
    copy.parent = end if op._next_op is None else _OUTSIDE
    copy._prev_op = None if op._prev_op is None else _OUTSIDE
    copy._next_op = None if op._next_op is None else _OUTSIDE
    return copy


def is_probe(op: Operation) -> bool:
    """Whether an op is a probe."""
    return op._operand_uses is _OUTSIDE


class VerifiedAround:
    """
    An op whose verifier checks what is around the op by `verify_around`, after all that depends on the op alone.

    The verifier calls it for each op, also where the rest is known from another op of the signature; so `verify_` of
    a probe leaves it out.
    """

    def verify_around(self) -> None:
        """Raise VerifyException where the op is wrong at its place."""
        raise NotImplementedError
