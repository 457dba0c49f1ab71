"""
Runs code of tensors: frames of registers, and the cache of functions that were resolved.

    resolve f (r0, r1)  ->  known code? push a frame
                        ->  key: shapes of r0, r1, and values of those that f wants -> cached? push a frame
                        ->  ask the compiler for the code at these sizes -> keep it -> push a frame
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np

from mlc.runtime.arrays import Array
from mlc.runtime.vm.program import Body, Function
from mlc.runtime.vm.segment import Segment
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

Register: TypeAlias = "Array | list[Any] | None"
"""A tensor, a list of tensors (a sequence), or nothing (an absent optional)."""
Key: TypeAlias = "tuple[Any, ...]"
"""The function, and for each argument its type and shape, and its bytes if its value is wanted."""
Observe: TypeAlias = "Callable[[Segment, Sequence[Array]], None]"
"""Called before a segment runs, with its inputs."""
KEPT_FUNCTIONS = 128
"""Resolved functions that are kept by default."""
MAX_FRAMES = 10_000
"""Limit of nested calls."""


class Resolver(Protocol):
    """The compiler, as the vm calls it."""

    def resolve(self, function: Function, arguments: Sequence[Register], wanted: frozenset[int]) -> Body | set[int]:
        """The code of a function for these arguments; or the arguments whose values it depends on as well."""
        ...

    def generalized(
        self, function: Function, arguments: Sequence[Register], open_axes: Mapping[int, tuple[int, ...]]
    ) -> Body | None:
        """One segment for all sizes of these axes of the arguments; None where the function cannot be one."""
        ...


def _open_axes(key: Key, other: Key) -> dict[int, tuple[int, ...]] | None:
    """The axes of arguments in which two calls of a function differ; None if they differ in more than sizes."""
    if key[0] != other[0]:
        return None
    found: dict[int, tuple[int, ...]] = {}
    for k, ((kind, _), (before, _)) in enumerate(zip(key[1:], other[1:], strict=True)):
        if kind == before:
            continue
        if not (_is_tensor(kind) and _is_tensor(before)) or kind[0] != before[0] or len(kind[1]) != len(before[1]):
            return None
        found[k] = tuple(a for a, (m, n) in enumerate(zip(kind[1], before[1], strict=True)) if m != n)
    return found


def _is_tensor(kind: Any) -> bool:
    return bool(kind) and isinstance(kind[0], str)


class _Frame:
    """One call of a function."""

    def __init__(self, body: Body, arguments: Sequence[Register], results: Sequence[int]) -> None:
        self.body, self.at, self.results = body, 0, results
        self.registers: list[Any] = [*arguments, *[None] * (body.registers - len(arguments))]


class VirtualMachine:
    """Functions, and the code that was found for the open ones; `kept` of these at most."""

    def __init__(self, functions: list[Function], resolver: Resolver | None, kept: int = KEPT_FUNCTIONS) -> None:
        self.functions, self.resolver, self.kept = functions, resolver, kept
        self.resolved: OrderedDict[Key, Body] = OrderedDict()
        self.misses = 0
        """How often a function was compiled."""

    def body(self, index: int, arguments: Sequence[Register]) -> Body:
        """The code of a function for these arguments; UserError without a compiler for code that is not kept."""
        function = self.functions[index]
        if function.body is not None:
            return function.body
        while (body := self.resolved.get(key := self.key(index, arguments))) is None:
            if (general := self._general(function, key, arguments)) is not None:
                return general
            if self.resolver is None:
                raise UserError(
                    f"expected '{function.name}' for sizes that this saved model was called with before, but got "
                    f"{described(arguments, function.wants)}; compile the model with mlc.compile to admit others"
                )
            self.misses += 1
            answer = self.resolver.resolve(function, arguments, frozenset(function.wants))
            if isinstance(answer, set):
                function.wants |= answer
                continue
            self.resolved[key] = answer
            while len(self.resolved) > self.kept:
                self.resolved.popitem(last=False)
        self.resolved.move_to_end(key)
        return body

    def _general(self, function: Function, key: Key, arguments: Sequence[Register]) -> Body | None:
        """
        The code of a function for many sizes: that which fits, or new code where it was called with other sizes before.
        """
        for body in function.general:
            if body.segments[0].fits(arguments):
                return body
        if self.resolver is None or function.wants:
            return None
        for other in self.resolved:
            axes = _open_axes(key, other)
            if axes is None or axes in function.tried:
                continue
            function.tried.append(axes)
            self.misses += 1
            body = self.resolver.generalized(function, arguments, axes)
            if body is not None and body.segments[0].fits(arguments):
                function.general.append(body)
                return body
        return None

    def key(self, index: int, arguments: Sequence[Register]) -> Key:
        """What decides the code of an open function."""
        wants = self.functions[index].wants
        return (index, *((_kind(a), _content(a) if k in wants else None) for k, a in enumerate(arguments)))

    def run(self, index: int, arguments: Sequence[Register], observe: Observe | None = None) -> list[Any]:
        """The results of a function; `observe` is called before each run of a segment."""
        frames = [_Frame(self.body(index, arguments), arguments, ())]
        while True:
            frame = frames[-1]
            name, *operands = frame.body.code[frame.at]
            frame.at += 1
            if name == "ret":
                values = [frame.registers[r] for r in operands[0]]
                frames.pop()
                if not frames:
                    return values
                _assign(frames[-1].registers, frame.results, values)
            elif name in ("invoke", "resolve"):
                called, given, results = operands
                if len(frames) >= MAX_FRAMES:
                    raise UserError(f"expected at most {MAX_FRAMES} nested calls, but got more")
                passed = [frame.registers[r] for r in given]
                frames.append(_Frame(self.body(called, passed), passed, results))
            else:
                _step(frame, name, operands, observe)


def _step(frame: _Frame, name: str, operands: Sequence[Any], observe: Observe | None) -> None:
    """Run one instruction within a frame."""
    registers = frame.registers
    if name == "run":
        segment, given, results = operands
        _assign(registers, results, run_segment(frame.body.segments[segment], [registers[r] for r in given], observe))
    elif name == "goto":
        frame.at = operands[0]
    elif name == "iffalse":
        if not registers[operands[0]].item():
            frame.at = operands[1]
    elif name == "unlessless":
        if not registers[operands[0]].item() < registers[operands[1]].item():
            frame.at = operands[2]
    elif name == "const":
        registers[operands[0]] = _constant(operands[1])
    elif name == "increment":
        registers[operands[0]] = np.asarray(registers[operands[1]] + 1)
    elif name == "move":
        registers[operands[0]] = registers[operands[1]]
    elif name == "list":
        registers[operands[0]] = [registers[r] for r in operands[1]]
    elif name == "append":
        registers[operands[0]].append(registers[operands[1]])
    else:
        registers[operands[0]] = _stacked(registers[operands[1]], operands[2])


def _constant(value: Any) -> Array:
    """The tensor of a `const`."""
    if isinstance(value, int):
        return np.array(value, np.bool_ if isinstance(value, bool) else np.int64)
    dtype, shape, content = value
    return np.frombuffer(content, dtype_of(dtype)).reshape(shape)


def _assign(registers: list[Any], places: Sequence[int], values: Sequence[Any]) -> None:
    for place, value in zip(places, values, strict=True):
        registers[place] = value


def _stacked(rows: list[Array], row: Any) -> Array:
    """Rows along a new axis 0; of no rows an empty tensor of the declared type."""
    if rows:
        if len(shapes := list(dict.fromkeys(str(one.shape) for one in rows))) > 1:
            raise UserError(
                f"expected rows of one shape from each iteration of a loop, but got {', '.join(shapes[:4])}"
            )
        return np.stack(rows)
    if row is None:
        raise UserError("expected a loop that runs, or an output of declared shape, but its body never ran")
    dtype, shape = row
    return np.zeros((0, *shape), dtype_of(dtype))


def flattened(values: Sequence[Register]) -> list[Array]:
    """The tensors of registers as contiguous arrays; a list becomes its tensors, one by one."""
    found: list[Array] = []
    for value in values:
        if isinstance(value, list):
            found += flattened(value)
        elif value is not None:
            found.append(value if value.flags.c_contiguous else np.ascontiguousarray(value))
    return found


def run_segment(segment: Segment, values: Sequence[Register], observe: Observe | None = None) -> list[Any]:
    """The results of a segment, tensors of sequences as lists."""
    arrays = flattened(values)
    if observe is not None:
        observe(segment, arrays)
    outputs = iter(segment(arrays))
    results: list[Any] = []
    for group in segment.groups:
        if group is None or isinstance(group, int):
            results.append(None if group is None else [next(outputs) for _ in range(group)])
        else:
            results.append(next(outputs))
    return results


def _kind(value: Register) -> Any:
    """The type and shape of an argument."""
    if isinstance(value, list):
        return tuple(_kind(one) for one in value)
    return None if value is None else (value.dtype.name, value.shape)


def _content(value: Register) -> Any:
    """The bytes of an argument."""
    if isinstance(value, list):
        return tuple(_content(one) for one in value)
    return None if value is None else value.tobytes()


def described(arguments: Sequence[Register], wants: set[int]) -> str:
    """Arguments for a message: types, shapes, and the values that matter."""

    def one(value: Register, wanted: bool) -> str:
        if isinstance(value, list):
            return f"[{', '.join(one(item, wanted) for item in cast('list[Register]', value))}]"
        if value is None:
            return "nothing"
        said = f"{value.dtype.name}{list(value.shape)}"
        return f"{said} = {np.array2string(value, threshold=8).replace(chr(10), '')}" if wanted else said

    return ", ".join(one(value, k in wants) for k, value in enumerate(arguments)) or "nothing"


__all__ = ["KEPT_FUNCTIONS", "Key", "Register", "Resolver", "VirtualMachine", "described", "flattened", "run_segment"]
