"""
Which functions are the same but for their names? Their form is: the ops, how values connect them, types and attributes.

What depends on nothing but what is in a function, as the verification and the text of its ops, is the same for all
functions of a form, so for most kernels of a large module it is found out once.
"""

# The fields of an op are read directly: its properties build a view of the op for each access.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TypeAlias

from xdsl.ir import Operation, SSAValue

from mlc.dialects.syntax.probe import types_key

_MOST = 512
"""Ops of the largest function that has a form: larger ones hardly repeat."""

FormKey: TypeAlias = tuple[object, ...]


def function_form(op: Operation) -> tuple[FormKey, tuple[str | None, ...]] | None:
    """
    A key that is equal for functions that differ in their names and places only, and the names of their values.

    None for what is no function, uses values around it, has several blocks in a region, or is too large. The key names
    types and attributes by identity: it is valid for as long as they live.
    """
    if "sym_name" not in op.properties or op._operands or op.results:
        return None
    form = _Form()
    return (tuple(form.key), tuple(form.names)) if form.add(op, is_function=True) else None


class _Form:
    """The key of a function while its ops are added, with all lengths, so that no two functions have one key."""

    def __init__(self) -> None:
        self.key: list[object] = []
        self.names: list[str | None] = []
        self._numbers: dict[int, int] = {}
        self._count = 0

    def add(self, op: Operation, *, is_function: bool = False) -> bool:
        """Whether an op, with all in it, can belong to a form."""
        self._count += 1
        numbers = [*map(self._numbers.get, map(id, op._operands))]
        if self._count > _MOST or op._successors or None in numbers:
            return False
        properties, attributes = op.properties, op.attributes
        self.key += (op.__class__, len(numbers), *numbers, len(properties), *properties)
        self.key += [
            0 if is_function and name == "sym_name" else id(attribute) for name, attribute in properties.items()
        ]
        self.key.append(len(attributes))
        if attributes:
            self.key += (*attributes, *map(id, attributes.values()))
        self._define(op.results)
        self.key.append(len(op.regions))
        for region in op.regions:
            block = region._first_block
            if block is None or block is not region._last_block:
                return False
            self._define(block._args)
            inner = block._first_op
            while inner is not None:
                if not self.add(inner):
                    return False
                inner = inner._next_op
            self.key.append(None)
        return True

    def _define(self, values: tuple[SSAValue, ...]) -> None:
        """The values that follow, by the order of their definition."""
        self.key.append(len(values))
        if values:
            self.key += types_key(values)
            for value in values:
                self._numbers[id(value)] = len(self._numbers)
                self.names.append(value._name)
