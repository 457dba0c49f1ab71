"""
Probes: copies of ops that raise when anything outside of the op is read.

So an answer for one op can be reused for every op of equal `signature`.

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

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FunctionType, StringAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue, SSAValues, Use
from xdsl.traits import IsolatedFromAbove

MARK = "\x00"
"""Stands before and after the number of a part that a text leaves open."""

Signature: TypeAlias = tuple[object, ...]


class ContextRead(BaseException):
    """A probe was asked for something around its op; no handler of exceptions in a verifier must catch this."""

    def __init__(self, *read: object) -> None:
        super().__init__()
        found = object.__getattribute__(read[0], "__dict__").get("_number") if read and _is_open(read[0]) else None
        self.number: int | None = found
        """The number of an attribute that was read."""


def _is_open(value: object) -> bool:
    return issubclass(type(value), OpenData)


def _refuse(*values: object) -> NoReturn:
    raise ContextRead(*values)


class _Outside:
    """Stands for everything around a probe."""

    def __getattribute__(self, name: str) -> Any:
        raise ContextRead(self)

    def __bool__(self) -> bool:
        raise ContextRead(self)

    def __eq__(self, other: object) -> bool:
        raise ContextRead(self)

    def __hash__(self) -> int:
        raise ContextRead(self)

    # Operators are looked up in the class; without one there would be a TypeError, which a verifier might catch.
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = __neg__ = __abs__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __index__ = __float__ = __format__ = _refuse
    __iter__ = __len__ = __getitem__ = __contains__ = __call__ = _refuse


_OUTSIDE: Any = _Outside()


class _BlockEnd(_Outside):
    """Stands for the block of a probe that is its block's last op: a terminator asks for no more."""

    def __init__(self, last: Operation) -> None:
        object.__setattr__(self, "_last", last)

    def __getattribute__(self, name: str) -> Any:
        if name != "last_op":
            raise ContextRead(name)
        return object.__getattribute__(self, "_last")


class OpenData(_Outside):
    """Stands for the content of an attribute: what is made without reading it holds for all contents."""

    def __init__(self, number: int) -> None:
        object.__setattr__(self, "_number", number)


class OpenSize(OpenData):
    """Stands for a static size of at least 1."""

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is int and other < 1:
            return False
        raise ContextRead(self)

    def __hash__(self) -> int:
        raise ContextRead(self)

    def __lt__(self, other: object) -> bool:
        if type(other) is int and other <= 1:
            return False
        raise ContextRead(self)


class OpenValue(Attribute):
    """Stands for an attribute that is not even known by its class; what is made without reading it holds for all."""

    name = "mlc.open"

    def __getattribute__(self, name: str) -> Any:
        raise ContextRead(name)

    def __eq__(self, other: object) -> bool:
        raise ContextRead("==")

    def __hash__(self) -> int:
        raise ContextRead("hash")


def open_dense(type: Attribute, number: int) -> DenseIntOrFPElementsAttr:
    """A dense attribute whose elements may not be read; `number` tells it from other attributes of the op."""
    made: DenseIntOrFPElementsAttr = DenseIntOrFPElementsAttr.__new__(DenseIntOrFPElementsAttr)
    vars(made).update(type=type, data=OpenData(number))
    return made


def open_number(attribute: Attribute) -> int | None:
    """The number of an attribute that `open_dense` made; None of others."""
    if not isinstance(attribute, DenseIntOrFPElementsAttr):
        return None
    data = vars(attribute)["data"]
    return object.__getattribute__(data, "_number") if type(data) is OpenData else None


def _open(properties: dict[str, Attribute], first: int) -> dict[str, Attribute]:
    """The properties, dense attributes without readable elements: the k-th property has number `first` + k."""
    return {
        name: open_dense(value.type, first + number) if isinstance(value, DenseIntOrFPElementsAttr) else value
        for number, (name, value) in enumerate(properties.items())
    }


class ProbeResult(OpResult):
    """The result of an op; only its type may be read."""

    op = owner = index = first_use = _name = property(_refuse)  # pyright: ignore[reportAssignmentType, reportIncompatibleMethodOverride] - that is what a probe is for

    def __init__(self, type: Attribute) -> None:
        self._type = type

    def add_use(self, use: Use) -> None:
        """An op may use it, but nothing about its users may be read."""


class ProbeArgument(BlockArgument):
    """The argument of a block; only its type may be read."""

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


class _NamelessResult(OpResult):
    """The result of an op; its name may not be read."""

    _name = property(_refuse)  # pyright: ignore[reportAssignmentType] - that is what it is for


class _NamelessArgument(BlockArgument):
    """The argument of a block; its name may not be read."""

    _name = property(_refuse)  # pyright: ignore[reportAssignmentType] - that is what it is for


def hide_name(value: SSAValue) -> None:
    """Let nobody read the name of a value any more."""
    object.__setattr__(value, "__class__", _NamelessArgument if isinstance(value, BlockArgument) else _NamelessResult)


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
        types += [~id(p.type) if isinstance(p, DenseIntOrFPElementsAttr) else id(p) for p in properties.values()]
    if attributes:
        types += map(id, attributes.values())
    names = (*properties, None, *attributes) if properties or attributes else ()
    count = len(operands)
    same = None if count < 2 or len(set(map(id, operands))) == count else _pattern(operands)
    return (op.__class__, count, op._prev_op is None, op._next_op is None, same, names, *types, *kinds)


def region_signature(op: Operation) -> Signature | None:
    """
    The signature of an op whose regions have one block each; None for other ops.

    Of each block the argument types and the terminator count; the op's symbol name does not.
    """
    if op._successors or op.parent is None:
        return None
    values: list[SSAValue] = [*op._operands]
    parts: list[object] = []
    for region in op.regions:
        block = region._first_block
        if block is None or block is not region._last_block or (last := block._last_op) is None:
            return None
        ending = signature(last)
        if ending is None:
            return None
        values += (*block._args, *last._operands)
        parts += (len(block._args), ending)
    named = [*op.properties.items(), None, *op.attributes.items()]
    parts += [pair if pair is None else (pair[0], _by_value(*pair)) for pair in named]
    count = len(op._operands)
    types = types_key([*op.results, *values])
    kinds = [value.__class__ for value in op._operands]
    same = _pattern(values)
    return (op.__class__, count, op._prev_op is None, op._next_op is None, same, *parts, *types, *kinds)


def _by_value(name: str, attribute: Attribute) -> object:
    """The key by which attributes are compared in a region signature."""
    if name == "sym_name" and isinstance(attribute, StringAttr):
        return StringAttr  # a probe leaves it open
    if isinstance(attribute, FunctionType):
        types = (*attribute.inputs.data, None, *attribute.outputs.data)
        return (FunctionType, *map(id, types))
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return (DenseIntOrFPElementsAttr, id(attribute.type))
    return attribute


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
    values: list[SSAValue] = [*op._operands, *op.results]
    endings: list[Attribute] = []
    for region in op.regions:
        values += region.block.args
        endings += () if (last := region.block.last_op) is None else kept_alive(last)
    properties = [p.type if isinstance(p, DenseIntOrFPElementsAttr) else p for p in op.properties.values()]
    return (*(value._type for value in values), *properties, *op.attributes.values(), *endings)


def probe_value(value: SSAValue) -> SSAValue:
    """A value of the same type and kind, from which only the type can be read; ContextRead for unusual kinds."""
    kind = _KINDS.get(value.__class__)
    if kind is None:
        raise ContextRead
    return kind(value._type)


def probe(op: Operation, values: dict[SSAValue, SSAValue] | None = None) -> Operation:
    """A probe of an op that has a signature; `values` maps values of ops around it to the values of their probes."""
    copy = op.__class__.__new__(op.__class__)
    values = {} if values is None else values
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
    if op.regions:
        name = copy.properties.get("sym_name")
        if isinstance(name, StringAttr):
            copy.properties["sym_name"] = _open_string()
        copy.regions = tuple(_probe_region(region, copy, values) for region in op.regions)
    return copy


def apart(function: Operation) -> Operation:
    """A copy of a function that raises ContextRead when anything around it, its name or a location is read."""
    copy = function.clone()
    for op in copy.walk():
        op.location = _OUTSIDE
    copy.properties["sym_name"] = _open_string()
    copy.parent = copy._prev_op = copy._next_op = _OUTSIDE
    return copy


def _open_string() -> StringAttr:
    """A string that may not be read."""
    made: StringAttr = StringAttr.__new__(StringAttr)
    vars(made)["data"] = _OUTSIDE
    return made


def _probe_region(region: Region, parent: Operation, values: dict[SSAValue, SSAValue]) -> Region:
    """A region of one block; only the types of its arguments and its terminator may be read."""
    block, copy, made = region.block, Block.__new__(Block), Region.__new__(Region)
    copy._args = tuple(ProbeArgument(argument._type) for argument in block.args)
    values.update(zip(block.args, copy._args, strict=True))
    last = block.last_op
    assert last is not None
    copy._first_op = _OUTSIDE
    copy._last_op = probe(last, values)
    copy._next_block = copy._prev_block = None
    copy.first_use = copy._name = _OUTSIDE
    copy.parent = made
    made._first_block = made._last_block = copy
    made.parent = parent
    return made


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


class IsolatedKernel(IsolatedFromAbove):
    """As upstream's, but a probe is not asked for the values that its ops use: the verifier looks at the op itself."""

    def verify(self, op: Operation) -> None:
        if not is_probe(op) and not _uses_own_values(op):
            super().verify(op)


def _uses_own_values(op: Operation) -> bool:
    """Whether all ops in an op use only values that are defined before in it."""
    own: set[int] = set()
    pending = [block.ops for region in reversed(op.regions) for block in region.blocks]
    own.update(id(argument) for region in op.regions for block in region.blocks for argument in block.args)
    for ops in pending:
        for inner in ops:
            if any(id(operand) not in own for operand in inner._operands):
                return False
            own.update(map(id, inner.results))
            for region in inner.regions:
                for block in region.blocks:
                    own.update(map(id, block.args))
                    pending.append(block.ops)
    return True
