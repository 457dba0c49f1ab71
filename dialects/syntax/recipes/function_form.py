"""
Which functions are the same but for their names? Their form is: the ops, how values connect them, types and attributes.

What depends on nothing but what is in a function, as the verification and the text of its ops, is the same for all
functions of a form, so for most kernels of a large module it is found out once.
"""

# The fields of an op are read directly: its properties build a view of the op for each access.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Attribute, Operation, SSAValue

_MOST = 512
"""Ops of the largest function that has a form: larger ones hardly repeat."""

FormKey: TypeAlias = tuple[object, ...]


def function_form(op: Operation) -> FunctionForm | None:
    """The form of a function; None for what is none, uses values around it, has several blocks, or is too large."""
    if "sym_name" not in op.properties or op._operands or op.results:
        return None
    form = FunctionForm()
    return form if form.add(op, is_function=True) else None


class FunctionForm:
    """The structure of a function without its name and location; its ops are added one by one."""

    def __init__(self) -> None:
        self.structure: list[object] = []
        """The ops and how they are connected, with all lengths, so that no two functions have the same."""
        self.types: list[Attribute] = []
        """The types of values in the order of their definition, and those in function types."""
        self.attributes: list[Attribute] = []
        self.ops: list[Operation] = []
        self.values: list[SSAValue] = []
        """The values in the order of their definition."""
        self._numbers: dict[int, int] = {}

    @property
    def key(self) -> FormKey:
        """
        Equal for functions that differ in their names and places only.

        It names types and attributes by identity: it is valid for as long as they live.
        """
        return (*self.structure, None, *identities(self.types), None, *map(id, self.attributes))

    def add(self, op: Operation, *, is_function: bool = False) -> bool:
        """Record an op and everything inside it; False if the function cannot have a form."""
        self.ops.append(op)
        numbers = [*map(self._numbers.get, map(id, op._operands))]
        if len(self.ops) > _MOST or op._successors or None in numbers:
            return False
        properties, attributes = op.properties, op.attributes
        self.structure += (op.__class__, len(numbers), *numbers, len(properties), *properties, len(attributes))
        if is_function:
            self._add_properties(properties)
        else:
            self.attributes += properties.values()
        if attributes:
            self.structure += attributes
            self.attributes += attributes.values()
        self._define(op.results)
        self.structure.append(len(op.regions))
        for region in op.regions:
            block = region._first_block
            if block is None or block is not region._last_block or block._name:
                return False
            self._define(block._args)
            inner = block._first_op
            while inner is not None:
                if not self.add(inner):
                    return False
                inner = inner._next_op
            self.structure.append(None)
        return True

    def _add_properties(self, properties: dict[str, Attribute]) -> None:
        """The properties of a function, but for its name; its type counts as the types that it lists."""
        for name, value in properties.items():
            if isinstance(value, FunctionType):
                self.structure += (FunctionType, len(value.inputs.data), len(value.outputs.data))
                self.types += (*value.inputs.data, *value.outputs.data)
            elif name != "sym_name":
                self.attributes.append(value)

    def number_of(self, value: SSAValue) -> int:
        """The number of a value in the order of definition."""
        return self._numbers[id(value)]

    def _define(self, values: Sequence[SSAValue]) -> None:
        """The values that follow, by the order of their definition."""
        self.structure.append(len(values))
        for value in values:
            self.types.append(value._type)
            self._numbers[id(value)] = len(self.values)
            self.values.append(value)


def identities(types: Sequence[Attribute]) -> list[int]:
    """The identities of types; of one without parameters, which may have many instances, its class's."""
    return [id(type) if type.__dict__ else id(type.__class__) for type in types]
