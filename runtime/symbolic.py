"""Compiled models of symbolic sizes: each call's inputs give the sizes; repeated sizes allocate nothing anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlc.runtime.arrays import Array, TensorSpec, address_of, as_array, check_names, input_array, is_ready, pointers
from mlc.runtime.artifact import Artifact
from mlc.runtime.code import Toolchain
from mlc.runtime.cpu import missing_features, needed_features, refusal
from mlc.runtime.executable import Executable
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.sizes import REMEMBERED_SHAPES, Bound, EmptySize, Sizes, evaluate, symbolic_buffer_bytes
from mlc.runtime.steps import Profile
from mlc.support.errors import UserError
from mlc.support.threads import thread_count

WORKSPACE_SLACK = 4
"""A workspace more than this many times as large as a call needs is replaced by a smaller one."""


class SymbolicExecutable(Executable):
    """A compiled model that takes inputs of many sizes. Calls from several threads run side by side."""

    def __init__(
        self, artifact: Artifact, threads: int | None = None, executor: str = "aot", toolchain: Toolchain | None = None
    ) -> None:
        super().__init__(artifact, threads, executor, toolchain)
        self._sizes = Sizes(artifact.model)
        self._rooms: dict[tuple[int, ...], int] = {}
        self.for_empty: Callable[[], Executable] | None = None
        """Gives the executable of calls with a size of 0, which the code does not admit; None: they are refused."""

    def __call__(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Run the model; `out` may give arrays to write outputs into."""
        self._functions.check("the model")
        try:
            arrays, bound = self._bound_inputs(inputs)
        except EmptySize:
            if self.for_empty is None:
                raise
            return self.for_empty()(inputs, out)
        results = self._bound_outputs(out, bound)
        state = self._states.take()
        try:
            state.resize(bound.bytes + self._kernel_bytes(bound), WORKSPACE_SLACK)
            if self.executor == "steps":
                self._stepper(static_model(self.artifact.model, bound), state).run(pointers(arrays, results))
            else:
                operands = state.operands
                for index, value in enumerate((*map(address_of, arrays), *map(address_of, results), *bound.symbols)):
                    operands[index] = value
                status = self._main(state.at, self._weights_at, state.workspace_at, state.rt)
                if status:
                    raise self._functions.failure(state.rt, "a kernel", status)
        finally:
            self._states.give(state)
        return self._named(results, out)

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

    def _bound_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[Array], Bound]:
        """The inputs in order, contiguous, and the sizes that they imply."""
        check_names(inputs, self.inputs)
        arrays = [as_array(f"input '{spec.name}'", inputs[spec.name]) for spec in self.inputs]
        bound = self._sizes.bind([a.shape for a in arrays])
        for k, (name, dtype, _) in enumerate(self._input_rows):
            if not is_ready(arrays[k], dtype, arrays[k].shape):
                arrays[k] = input_array(arrays[k], TensorSpec(name, arrays[k].shape, self.inputs[k].dtype))
        return arrays, bound

    def _bound_outputs(self, out: Mapping[str, Any] | None, bound: Bound) -> list[Array]:
        """New arrays for the outputs, or those that were given."""
        if out is None:
            if self._output_memory is not None:
                return self._output_memory.arrays_of(bound.outputs)
            rows = zip(bound.outputs, self._output_rows, strict=True)
            return [np.empty(shape, dtype) for shape, (_, dtype, _) in rows]
        specs = zip((*self.outputs, *self._counts), bound.outputs, strict=True)
        return self._check_outputs(out, [TensorSpec(spec.name, shape, spec.dtype) for spec, shape in specs])

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """The time of each kernel, run one by one through the same code; `print` it for a table."""
        self._functions.check("the model")
        arrays, bound = self._bound_inputs(inputs)
        results = self._bound_outputs(None, bound)
        state = self._states.take()
        try:
            state.resize(bound.bytes + self._kernel_bytes(bound), WORKSPACE_SLACK)
            stepper = self._stepper(static_model(self.artifact.model, bound), state)
            return stepper.profile(pointers(arrays, results), max(1, repeat))
        finally:
            self._states.give(state)


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

    def __call__(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
    """The executable of an artefact: of the vm if that is asked for, of symbolic sizes if the model has symbols."""
    if executor == "vm":
        from mlc.runtime.vm.executable import vm_of

        if (reason := refusal(artifact.model)) is not None:
            raise UserError(reason)
        return vm_of(artifact, thread_count(threads), toolchain)
    if executor == "graph":
        from mlc.runtime.graph.executable import GraphExecutable

        return GraphExecutable(artifact, threads, executor, toolchain)
    kind = SymbolicExecutable if artifact.model.get("symbols") else Executable
    return kind(artifact, threads, executor, toolchain)
