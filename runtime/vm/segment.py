"""
Runs a segment: kernels on the buffers of one plan, from its bytecode.

Straight-line code of known addresses becomes a list of calls, whose arguments are laid out once for a workspace; only
the addresses of inputs and outputs are written at each call. Code with branches and loops is stepped through.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mlc.runtime.arrays import Array, address_of
from mlc.runtime.artifact import WEIGHTS, Artifact
from mlc.runtime.code import Toolchain
from mlc.runtime.executable import load_code, mapped
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.program import CELLS, Number, number_of
from mlc.runtime.sizes import Bound, Sizes, evaluate, symbolic_buffer_bytes
from mlc.runtime.vm.memory import WorkspaceBlocks
from mlc.runtime.vm.program import SegmentCode
from mlc.support.abi import KERNEL
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

_RUN_CALLS = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
_LAID_OUT = 8
"""Combinations of sizes whose calls are kept laid out."""


class _Patch(NamedTuple):
    """An argument that is an address in an input or output: where it is written, whose, and the offset in bytes."""

    arguments: Any
    position: int
    tensor: int
    offset: int


class _Layout:
    """The steps of straight-line code for one workspace and one combination of sizes."""

    def __init__(self) -> None:
        self.steps: list[int] = []
        """The addresses of kernels, each followed by that of its arguments."""
        self.calls: Any = None
        """The same as an array of pointers."""
        self.patches: list[_Patch] = []
        self.copies: list[tuple[tuple[int, int], tuple[int, int], int]] = []
        """Source, target and bytes; an end is the number of a tensor and an offset, or -1 and an address."""
        self.arguments: list[Any] = []


class Segment:
    """A segment with its machine code loaded; one call of it runs at a time."""

    def __init__(
        self, code: SegmentCode, artifact: Artifact, threads: int, pool: WorkspaceBlocks, toolchain: Toolchain | None
    ) -> None:
        facts = code.facts
        self.code, self.artifact, self.threads, self.pool = code, artifact, threads, pool
        self.toolchain = toolchain
        self.groups: Sequence[Any] = facts["groups"]
        """For each result "tensor", the length of a list of tensors, or None where there is nothing."""
        self.inputs = [name for name, _, _ in facts["inputs"]]
        self.counted: Sequence[Sequence[int]] = facts.get("counted", ())
        self.outputs = [name for name, _, _ in facts["outputs"]]
        self.values: Sequence[Mapping[str, Any]] = facts["values"]
        self.sizes = (
            Sizes({**facts, "values": [{"shape": s} for s in facts["shapes"]]}) if facts.get("symbols") else None
        )
        self._dtypes = [dtype_of(dtype) for _, _, dtype in facts["outputs"]]
        self._shapes = [] if self.sizes else [tuple(shape) for _, shape, _ in facts["outputs"]]
        self.loaded = load_code(artifact, toolchain)
        self.rt, self._keeper = self.loaded.runtime(threads, facts["scratch_bytes"])
        self.functions = CalledFunctions(facts.get("functions", ()))
        self.functions.attach(self.rt)
        self._weights = mapped(artifact.path / WEIGHTS)
        self._addresses = [self.loaded.address(kernel) for kernel in code.kernels]
        self._kernels = [KERNEL(address) for address in self._addresses]
        try:
            self._run_calls = _RUN_CALLS(self.loaded.address("mlc_run_calls"))
        except AttributeError as error:
            raise UserError(f"{artifact.path}: expected code that the vm runs; compile the model again") from error
        straight = all(name in ("call", "copy", "ret") for name, *_ in code.code)
        self._straight = straight and not any("rows" in value for value in self.values)
        self._layouts: dict[Any, _Layout] = {}

    def bind(self, arrays: Sequence[Array]) -> Bound | None:
        """The sizes that the inputs imply; None where all are known."""
        return None if self.sizes is None else self.sizes.bind([array.shape for array in arrays])

    def fits(self, arguments: Sequence[Any]) -> bool:
        """Whether the segment was compiled for arguments of these types and shapes."""
        specs = self.code.facts["inputs"]
        if len(arguments) != len(specs):
            return False
        for argument, (_, shape, dtype) in zip(arguments, specs, strict=True):
            if not isinstance(argument, np.ndarray) or argument.dtype.name != dtype or argument.ndim != len(shape):
                return False
        if self.sizes is None:
            return all(a.shape == tuple(shape) for a, (_, shape, _) in zip(arguments, specs, strict=True))
        try:
            self.bind(arguments)
        except ValueError:
            return False
        return True

    def results(self, bound: Bound | None) -> list[Array]:
        """New arrays for the outputs."""
        shapes = self._shapes if bound is None else bound.outputs
        return [np.empty(shape, dtype) for shape, dtype in zip(shapes, self._dtypes, strict=True)]

    def __call__(self, arrays: Sequence[Array], given: Sequence[Array] | None = None) -> list[Array]:
        """The outputs for contiguous inputs of the right types; `given` are arrays to write them into."""
        self.functions.check("the model")
        bound = self.bind(arrays)
        results = self.results(bound) if given is None else list(given)
        planned, size = self._memory(bound)
        block = self.pool.take(size)
        try:
            tensors = [*map(address_of, arrays), *map(address_of, results)]
            base = address_of(block)
            if self._straight:
                self._run_laid_out(base, planned, bound, tensors)
            else:
                _Stepping(self, base, planned, bound, tensors).run()
        finally:
            self.pool.give(block)
        for index, axis, count in self.counted:
            results[index] = results[index][(slice(None),) * axis + (slice(int(results[count])),)]
        return results[: len(results) - len(self.counted)]

    def _memory(self, bound: Bound | None) -> tuple[int, int]:
        """Where the kernels' own buffers begin in the workspace, and its bytes."""
        facts = self.code.facts
        if bound is None:
            return facts["planned_bytes"], facts["workspace_bytes"]
        calls = [(rows, [evaluate(n, bound.values) for n in sizes]) for rows, sizes in facts["kernel_rooms"]]
        most = max((symbolic_buffer_bytes(rows, sizes, self.threads) for rows, sizes in calls), default=0)
        return bound.bytes, bound.bytes + facts["kernel_workspace_bytes"] + most

    def place(self, value: int, bound: Bound | None) -> tuple[str, int, int]:
        """The storage of a value: its kind, the number of the input or output, the offset in bytes."""
        facts = self.values[value]
        known: Mapping[str, int] = {} if bound is None else bound.values
        kind: str = facts["storage"]
        buffer: int = facts.get("buffer", 0)
        start = bound.offsets[buffer] if kind == "workspace" and bound is not None else 0
        offset = start + evaluate(facts["offset"], known)
        number: int = facts.get("index", 0) + (len(self.inputs) if kind == "output" else 0)
        return kind, number, offset

    def base_of(self, kind: str, workspace: int) -> int:
        """The address of the weights or the workspace."""
        return workspace if kind == "workspace" else address_of(self._weights)

    def call(self, kernel: int, address: int) -> None:
        """Call a kernel on arguments; RuntimeError if it returns an error."""
        if status := self._kernels[kernel](address, self.rt):
            raise self.functions.failure(self.rt, f"kernel '{self.code.kernels[kernel]}'", status)

    def _run_laid_out(self, base: int, planned: int, bound: Bound | None, tensors: Sequence[int]) -> None:
        key = base, bound and bound.symbols
        if (layout := self._layouts.get(key)) is None:
            while len(self._layouts) >= _LAID_OUT:
                del self._layouts[next(iter(self._layouts))]
            layout = self._layouts[key] = self._laid_out(base, planned, bound)
        for arguments, position, tensor, offset in layout.patches:
            arguments[position] = tensors[tensor] + offset
        if status := self._run_calls(ctypes.addressof(layout.calls), len(layout.calls) >> 1, self.rt):
            raise self.functions.failure(self.rt, "a kernel", status)
        for source, target, size in layout.copies:
            to, of = (tensors[tensor] + at if tensor >= 0 else at for tensor, at in (target, source))
            ctypes.memmove(to, of, size)

    def _laid_out(self, base: int, planned: int, bound: Bound | None) -> _Layout:
        layout = _Layout()
        for name, *operands in self.code.code:
            if name == "call":
                self._lay_out_call(layout, *operands, base=base, planned=planned, bound=bound)
            elif name == "copy":
                source, target, size = operands
                ends = (self._address(source, base, bound), self._address(target, base, bound))
                layout.copies.append((*ends, _known(size, bound)))
        layout.calls = (ctypes.c_void_p * len(layout.steps))(*layout.steps)
        return layout

    def _lay_out_call(
        self,
        layout: _Layout,
        kernel: int,
        values: Sequence[int],
        sizes: Sequence[Any],
        *,
        base: int,
        planned: int,
        bound: Bound | None,
    ) -> None:
        arguments = (ctypes.c_void_p * (len(values) + len(sizes) + 1))()
        for k, value in enumerate(values):
            tensor, offset = self._address(value, base, bound)
            if tensor >= 0:
                layout.patches.append(_Patch(arguments, k, tensor, offset))
            else:
                arguments[k] = offset
        for k, size in enumerate(sizes, len(values)):
            arguments[k] = _known(size, bound)
        arguments[len(values) + len(sizes)] = base + planned
        layout.arguments.append(arguments)
        layout.steps += [self._addresses[kernel], ctypes.addressof(arguments)]

    def _address(self, value: int, base: int, bound: Bound | None) -> tuple[int, int]:
        """The number of a tensor and an offset in it, or -1 and an address."""
        kind, number, offset = self.place(value, bound)
        return (number, offset) if kind in ("input", "output") else (-1, self.base_of(kind, base) + offset)


def _known(number: Any, bound: Bound | None) -> int:
    """A number of straight-line code."""
    return number if isinstance(number, int) else evaluate(number["size"], bound.values if bound else {})


class _Stepping:
    """One run of code with branches and loops."""

    def __init__(self, segment: Segment, base: int, planned: int, bound: Bound | None, tensors: Sequence[int]) -> None:
        self.segment, self.base, self.scratch, self.bound, self.tensors = segment, base, base + planned, bound, tensors
        self.done: dict[int, int] = {}
        self.counts: dict[int, int] = {}

    def run(self) -> None:
        """Run the code from its beginning to `ret`."""
        code, at = self.segment.code.code, 0
        while True:
            name, *operands = code[at]
            if name == "ret":
                return
            at = self._step(name, operands, at + 1)

    def _step(self, name: str, operands: Sequence[Any], following: int) -> int:
        """Run one instruction; the index of the next."""
        if name == "call":
            self._call(*operands)
        elif name == "copy":
            source, target, size = operands
            ctypes.memmove(self.pointer(target), self.pointer(source), self.number(size))
        elif name == "fill":
            ctypes.memset(self.pointer(operands[0]), 0, self.number(operands[1]))
        elif name == "store":
            self._cell(operands[0]).value = self.number(operands[1])
        elif name == "goto":
            return operands[0]
        elif name == "unless":
            return following if self.number(operands[0]) else operands[1]
        elif name == "count":
            loop, number = operands
            self.done[loop], self.counts[loop] = 0, 0 if number is None else self.number(number)
        elif name == "until":
            return operands[1] if self.done[operands[0]] >= self.counts[operands[0]] else following
        else:
            self.done[operands[0]] += 1
            return operands[1]
        return following

    def _call(self, kernel: int, values: Sequence[int], sizes: Sequence[Any]) -> None:
        given = [*map(self.pointer, values), *map(self.number, sizes), self.scratch]
        arguments = (ctypes.c_void_p * len(given))(*given)
        self.segment.call(kernel, ctypes.addressof(arguments))

    def pointer(self, value: int) -> int:
        """The address of a value now."""
        kind, number, offset = self.segment.place(value, self.bound)
        base = self.tensors[number] if kind in ("input", "output") else self.segment.base_of(kind, self.base)
        rows = self.segment.values[value].get("rows", ())
        return base + offset + sum(self.number(index) * self.number(size) for index, size in rows)

    def number(self, number: Number) -> int:
        """The current value of a number."""
        return number_of(number, self.bound.values if self.bound else {}, self.done, self._cell)

    def _cell(self, value: int) -> Any:
        """The one element of a value."""
        return CELLS[self.segment.values[value]["dtype"].removeprefix("u")].from_address(self.pointer(value))


__all__ = ["Segment"]
