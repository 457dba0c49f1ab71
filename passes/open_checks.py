"""
Verifying the functions that differ from an earlier one in the contents of types and attributes.

The verifier of an op that is defined with xDSL's IRDL has two halves: xDSL checks the definition (how many operands, of
which classes, which properties), then the op's own `verify_` checks the rest. The first half hardly ever reads the
sizes of types and the values of attributes. So both run on the open copy of a function
(dialects/syntax/recipes/open_copy.py): what accepts the copy without reading contents accepts all functions that have
this copy. The other checks are called for each function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from xdsl.ir import Operation
from xdsl.irdl import OpDef

from mlc.dialects.syntax.recipes.function_form import FunctionForm
from mlc.dialects.syntax.recipes.open_copy import FormFamily, OpenCopy
from mlc.dialects.syntax.recipes.probe import ContextRead

Check: TypeAlias = Callable[[Any], None]
Checks: TypeAlias = list[tuple[int, Check]]
"""The checks of a function that read the contents of its types and attributes, and the numbers of their ops."""


def open_checks(first: Check, form: FunctionForm, family: FormFamily[Checks]) -> Checks:
    """The checks that may fail or read contents, op by op: of `first` and the checks of the op's class."""
    copy = OpenCopy(form, family.closed)
    return [
        (copy.ops[op], check)
        for op in copy.op.walk(region_first=True)
        for check in (first, *_halves(op.__class__))
        if not _holds_for_all(check, op, copy, form, family)
    ]


def _holds_for_all(check: Check, op: Operation, copy: OpenCopy, form: FunctionForm, family: FormFamily[Checks]) -> bool:
    """
    Whether a check accepts an op of the open copy.

    Where the check reads an attribute, the copy gets the function's own in its place, and the check runs again.
    """
    while True:
        try:
            check(op)
            return True
        except (ContextRead, Exception) as error:
            number = family.close(error, form)
            if number is None:
                return False
            copy.close(number)


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
