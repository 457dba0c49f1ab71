"""Compiled models of symbolic sizes: each call's inputs give the sizes; repeated sizes allocate nothing anew."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from mlc.runtime.artifact import Artifact
from mlc.runtime.code import Toolchain
from mlc.runtime.cpu import missing_features, needed_features
from mlc.runtime.executable import (
    Executable,
    TensorSpec,
    address_of,
    aligned,
    check_array,
    check_names,
    is_ready,
    pointers,
)
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.sizes import REMEMBERED_SHAPES, Bound, Sizes, evaluate, symbolic_buffer_bytes
from mlc.runtime.steps import Profile, Stepper
from mlc.support.errors import UserError

WORKSPACE_SLACK = 4
"""A workspace more than this many times as large as a call needs is replaced by a smaller one."""


class SymbolicExecutable(Executable):
    """A compiled model that takes inputs of many sizes. Calls from several Python threads run one after another."""

    def __init__(
        self, artifact: Artifact, threads: int | None = None, executor: str = "aot", toolchain: Toolchain | None = None
    ) -> None:
        super().__init__(artifact, threads, executor, toolchain)
        model = artifact.model
        self._sizes = Sizes(model)
        self._rooms: dict[tuple[int, ...], int] = {}
        self._io = (ctypes.c_void_p * (len(self.inputs) + len(model["outputs"]) + len(self._sizes.symbols)))()

    def __call__(
        self, inputs: Mapping[str, Any], out: Mapping[str, np.ndarray[Any, Any]] | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Run the model; `out` may give arrays to write outputs into."""
        self._functions.check("the model")
        arrays, bound = self._bound_inputs(inputs)
        results = self._bound_outputs(out, bound)
        with self._lock:
            io = self._io
            for index, value in enumerate((*map(address_of, arrays), *map(address_of, results), *bound.symbols)):
                io[index] = value
            self._reserve(bound.bytes + self._kernel_bytes(bound))
            if self.executor == "graph":
                self._steps_at(bound).run(pointers(arrays, results))
                return self._named(results)
            bases = self._bases
            status = self._main(ctypes.addressof(io), bases["weights"], bases["workspace"], self._rt)
            if status:
                raise self._functions.failure(self._rt, "a kernel", status)
        return self._named(results)

    def _kernel_bytes(self, bound: Bound) -> int:
        """The bytes of the kernels' own buffers, which lie behind those of @main."""
        known = self._rooms.get(bound.symbols)
        if known is None:
            model = self.artifact.model
            calls = [(rows, [evaluate(n, bound.values) for n in sizes]) for rows, sizes in model["kernel_rooms"]]
            most = max((symbolic_buffer_bytes(rows, sizes, self.threads) for rows, sizes in calls), default=0)
            if len(self._rooms) > REMEMBERED_SHAPES:
                self._rooms.clear()
            known = self._rooms[bound.symbols] = model["kernel_workspace_bytes"] + most
        return known

    def _reserve(self, size: int) -> None:
        """A workspace of at least `size` bytes, and of not many times that."""
        if not size <= len(self._workspace) <= WORKSPACE_SLACK * size + (1 << 20):
            self._workspace = aligned(size)
            self._bases["workspace"] = address_of(self._workspace)

    def _bound_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[np.ndarray[Any, Any]], Bound]:
        """The inputs in order, contiguous, and the sizes that they imply."""
        check_names(inputs, self.inputs)
        arrays = [np.asarray(inputs[spec.name]) for spec in self.inputs]
        bound = self._sizes.bind([a.shape for a in arrays])
        for k, (spec, dtype) in enumerate(zip(self.inputs, self._input_dtypes, strict=True)):
            if not is_ready(arrays[k], dtype, arrays[k].shape):
                check_array(f"input '{spec.name}'", arrays[k], TensorSpec(spec.name, arrays[k].shape, spec.dtype))
                arrays[k] = np.ascontiguousarray(arrays[k])
        return arrays, bound

    def _bound_outputs(
        self, out: Mapping[str, np.ndarray[Any, Any]] | None, bound: Bound
    ) -> list[np.ndarray[Any, Any]]:
        """New arrays for the outputs, or those that were given."""
        if out is None:
            return [np.empty(shape, dtype) for shape, dtype in zip(bound.outputs, self._dtypes, strict=True)]
        specs = zip((*self.outputs, *self._counts), bound.outputs, strict=True)
        return self._check_outputs(out, [TensorSpec(spec.name, shape, spec.dtype) for spec, shape in specs])

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """The time of each kernel, run one by one through the same code; `print` it for a table."""
        self._functions.check("the model")
        arrays, bound = self._bound_inputs(inputs)
        results = self._bound_outputs(None, bound)
        with self._lock:
            self._reserve(bound.bytes + self._kernel_bytes(bound))
            return self._steps_at(bound).profile(pointers(arrays, results), max(1, repeat))

    def _steps_at(self, bound: Bound) -> Stepper:
        """A stepper for these sizes, in the current workspace."""
        model = static_model(self.artifact.model, bound)
        return Stepper(model, self._code, self._bases, self._rt, self.observe, self._functions)


def static_model(model: Mapping[str, Any], bound: Bound) -> dict[str, Any]:
    """The description of the model at these sizes, as of a model of static sizes."""
    values: list[dict[str, Any]] = []
    for value in model["values"]:
        facts: dict[str, Any] = {**value, "shape": [evaluate(n, bound.values) for n in value["shape"]]}
        facts["offset"] = evaluate(facts["offset"], bound.values)
        if facts["storage"] == "workspace":
            facts["offset"] += bound.offsets[facts["buffer"]]
        values.append(facts)
    nodes: list[dict[str, Any]] = []
    for node in model["nodes"]:
        work = {name: evaluate(node[name], bound.values) for name in ("flops", "bytes")}
        nodes.append({**node, **work, "sizes": [evaluate(n, bound.values) for n in node["sizes"]]})
    copies = [[source, target, evaluate(size, bound.values)] for source, target, size in model["copies"]]
    return {
        **model,
        "values": values,
        "nodes": nodes,
        "copies": copies,
        "plan": {**model["plan"], "bytes": bound.bytes},
        "symbol_values": bound.values,
    }


class UnloadedExecutable(Executable):
    """A compiled model for a CPU that this machine does not have: it is saved and exported, but not run."""

    def __init__(
        self, artifact: Artifact, reason: str, threads: int | None, executor: str, toolchain: Toolchain | None
    ) -> None:
        self._reason = reason
        self._functions = CalledFunctions(artifact.model.get("functions", ()))
        self._describe(artifact, threads, executor, toolchain)

    def __call__(
        self, inputs: Mapping[str, Any], out: Mapping[str, np.ndarray[Any, Any]] | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """Refused: UserError with the features that are missing."""
        raise UserError(self._reason)

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """Refused: UserError with the features that are missing."""
        raise UserError(self._reason)


def compiled_executable(
    artifact: Artifact, threads: int | None = None, executor: str = "aot", toolchain: Toolchain | None = None
) -> Executable:
    """The executable of a model just compiled; if this CPU lacks features, one that can only be saved or exported."""
    needed, machine = needed_features(artifact.model), os.uname().machine
    if needed is not None and artifact.model["target"]["triple"].partition("-")[0] == machine:
        if (reason := missing_features(needed, machine)) is not None:
            return UnloadedExecutable(artifact, reason, threads, executor, toolchain)
    return open_executable(artifact, threads, executor, toolchain)


def open_executable(
    artifact: Artifact, threads: int | None = None, executor: str = "aot", toolchain: Toolchain | None = None
) -> Executable:
    """The executable of an artefact: of symbolic sizes if the model has symbols, else of static ones."""
    kind = SymbolicExecutable if artifact.model.get("symbols") else Executable
    return kind(artifact, threads, executor, toolchain)
