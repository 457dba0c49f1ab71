"""Smaller sizes: a number in a module's text, or a size of the arguments with all types inferred anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import FunctionType, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.graph import GraphOp, ParamOp
from mlc.dialects.graph.ops.structure import ConstantOp
from mlc.dialects.graph.symbols import retype
from mlc.dialects.syntax.source import parse_module
from mlc.passes.graph.cleanup.infer_types import infer_types
from mlc.validation.reduction.edits import tidied
from mlc.validation.reduction.subject import Subject

_IN_SHAPE = r"(?<=[<x]){n}(?=x)"
_ALONE = r"(?<![\w.%@#$<\"-]){n}(?![\w.\"])"
_SIZES = re.compile(_IN_SHAPE.format(n=r"(\d+)") + "|" + _ALONE.format(n=r"(\d+)"))


@dataclass(frozen=True)
class Resizing:
    """The number `old` becomes `new`: everywhere in the text, or on one axis or all axes of what a function reads."""

    old: int
    new: int
    how: str
    """text: all numbers; shapes: those in types; arguments: sizes of arguments and weights."""
    place: tuple[int, int] | None = None
    """Argument and axis, where only one size changes."""


def resizings(subject: Subject) -> Iterator[Resizing]:
    """What can be tried, the largest numbers first, and of each the smallest replacement first."""
    found = {int(a or b) for a, b in _SIZES.findall(subject.text)}
    for old in sorted((n for n in found if 1 < n < 1 << 31), reverse=True):
        for new in dict.fromkeys((1, 2, 3, 4, old // 2, old - 1)):
            if 0 < new < old:
                for how in ("arguments", "text", "shapes"):
                    yield Resizing(old, new, how)
    function = subject.entry_function
    if isinstance(function, FuncOp):
        for number, arg in enumerate(function.body.block.args):
            for axis, old in enumerate(_shape(arg.type)):
                for new in dict.fromkeys((1, 2, old // 2)):
                    if 0 < new < old:
                        yield Resizing(old, new, "arguments", (number, axis))


def resized(subject: Subject, resizing: Resizing, ctx: Context) -> Subject | None:
    """The subject with other sizes; None if they do not fit together."""
    if resizing.how == "arguments":
        return _with_arguments(subject, resizing)
    if subject.inputs is not None or (subject.weights is not None and len(subject.used_weights() or ())):
        return None  # arrays have the sizes that they have
    return _with_text(subject, resizing, ctx)


def _with_text(subject: Subject, resizing: Resizing, ctx: Context) -> Subject | None:
    patterns = [_IN_SHAPE] if resizing.how == "shapes" else [_IN_SHAPE, _ALONE]
    text = re.sub("|".join(p.format(n=resizing.old) for p in patterns), str(resizing.new), subject.text)
    try:
        module = parse_module(text, "<reduced>", ctx)
    except Exception:  # sizes that do not fit together
        return None
    _copy_locations(list(subject.module.walk()), list(module.walk()))
    return tidied(Subject(module, subject.weights, None, subject.entry))


def _copy_locations(old: Sequence[Operation], new: Sequence[Operation]) -> None:
    if len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            b.location = a.location


def _shape(t: Attribute) -> tuple[int, ...]:
    return tuple(t.get_shape()) if isinstance(t, TensorType) else ()


def _with_arguments(subject: Subject, resizing: Resizing) -> Subject | None:
    copy = subject.copy()
    function = copy.entry_function
    if not isinstance(function, FuncOp):
        return None
    changed = _resize_arguments(copy, function, resizing)
    if resizing.place is None:
        changed |= any([_resize_op(copy, op, resizing) for op in function.body.walk() if isinstance(op, GraphOp)])
    if not changed:
        return None
    block = function.body.block
    try:
        function.function_type = FunctionType.from_lists(list(block.arg_types), function.function_type.outputs.data)
        infer_types(copy.module)
    except Exception:  # an op refuses its new operands
        return None
    return tidied(copy)


def _resize_arguments(subject: Subject, function: FuncOp, resizing: Resizing) -> bool:
    changed = False
    for number, arg in enumerate(function.body.block.args):
        axes = [k for k, n in enumerate(_shape(arg.type)) if n == resizing.old]
        if resizing.place is not None:
            axes = [axis for axis in axes if (number, axis) == resizing.place]
        if not axes:
            continue
        _retype(arg, axes, resizing.new)
        if subject.inputs is not None:
            subject.inputs[number] = _sliced(subject.inputs[number], axes, resizing.new)
        changed = True
    return changed


def _resize_op(subject: Subject, op: GraphOp, resizing: Resizing) -> bool:
    """Resize a weight or constant; the given type of a reshape and the like, too."""
    axes = [k for k, n in enumerate(_shape(op.results[0].type)) if n == resizing.old]
    if not axes or not op.result_given:
        return False
    if isinstance(op, ConstantOp):
        small = ConstantOp.make(_sliced(op.array(), axes, resizing.new))
        op.properties["value"] = small.properties["value"]
    if isinstance(op, ParamOp) and subject.weights is not None and op.entry in subject.weights:
        subject.weights.add(op.entry, _sliced(subject.weights.array(op.entry), axes, resizing.new))
    _retype(op.results[0], axes, resizing.new)
    return not op.operands


def _retype(value: SSAValue, axes: Sequence[int], size: int) -> None:
    t = value.type
    assert isinstance(t, TensorType)
    shape = [size if k in axes else n for k, n in enumerate(t.get_shape())]
    retype(value, TensorType(t.element_type, shape, t.encoding))


def _sliced(array: Any, axes: Sequence[int], size: int) -> Any:
    index = tuple(slice(size) if k in axes else slice(None) for k in range(np.ndim(array)))
    return np.ascontiguousarray(array[index])
