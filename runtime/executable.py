"""
A compiled model in this process: `exe({"x": array}) -> {"y": array}`.

One native call runs the model. Weights are placed once; a call works in a state of its own (runtime/states.py), so that
calls from several threads run side by side, and allocates only its outputs (runtime/outputs.py).
"""

import copy
import ctypes
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mlc.runtime.arrays import (
    Array,
    TensorSpec,
    address_of,
    aligned,
    check_array,
    check_names,
    check_out,
    input_array,
    is_ready,
    output_array,
    pointers,
)
from mlc.runtime.artifact import WEIGHTS, Artifact, DamagedArtifact, copy_to
from mlc.runtime.code import Code, SharedCode, Toolchain
from mlc.runtime.cpu import refusal
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.outputs import OutputMemory
from mlc.runtime.sizes import text
from mlc.runtime.states import CallState, StatePool, Submitter, most_states
from mlc.runtime.steps import KernelProfile, ObserveCall, Profile, Stepper
from mlc.runtime.vm import PROGRAM
from mlc.support.alignment import ALIGNMENT
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError
from mlc.support.threads import thread_count

__all__ = [
    "EXECUTORS",
    "Executable",
    "KernelProfile",
    "Profile",
    "TensorSpec",
    "address_of",
    "aligned",
    "check_array",
    "check_names",
    "is_ready",
    "load_executable",
    "pointers",
]

EXECUTORS = ("aot", "graph", "steps")
"""One native function; TVM's graph executor (runtime/graph); kernel by kernel from Python, control flow included."""
_empty = np.empty
_MAIN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Executable:
    """A compiled model. Calls from several threads run side by side, each on its part of the model's threads."""

    _submitter: Submitter | None = None
    _original: "Executable | None" = None

    def __init__(
        self, artifact: Artifact, threads: int | None = None, executor: str = "aot", toolchain: Toolchain | None = None
    ) -> None:
        if executor not in EXECUTORS:
            raise UserError(f"expected executor to be one of {', '.join(EXECUTORS)}, but got '{executor}'")
        if (reason := refusal(artifact.model)) is not None:
            raise UserError(reason)
        self._describe(artifact, threads, executor, toolchain)
        self._start()

    def _describe(self, artifact: Artifact, threads: int | None, executor: str, toolchain: Toolchain | None) -> None:
        """Set all fields but the loaded code and its memory."""
        model = artifact.model
        self._toolchain = toolchain
        self.observe: ObserveCall | None = None
        self.threads = thread_count(threads)
        self.executor = executor
        self.artifact = artifact
        self.inputs = tuple(TensorSpec(n, tuple(map(text, s)), d) for n, s, d in model["inputs"])
        self.outputs = tuple(TensorSpec(n, tuple(map(text, s)), d) for n, s, d in model["outputs"])
        self._counted: list[list[int]] = model.get("counted", [])
        shown = len(self.outputs) - len(self._counted)
        self.outputs, self._counts = self.outputs[:shown], self.outputs[shown:]
        self._output_names = [spec.name for spec in self.outputs]

    def _start(self) -> None:
        """Load the code, and allocate the memory that it works on."""
        artifact, model = self.artifact, self.artifact.model
        self._code = load_code(artifact, self._toolchain)
        self._functions = CalledFunctions(model.get("functions", ()))
        self._weights = mapped(artifact.path / WEIGHTS)
        self._weights_at = address_of(self._weights)
        self._main = _MAIN(self._code.address(model["entry"]))
        self._input_rows = [(s.name, dtype_of(s.dtype), s.shape) for s in self.inputs]
        self._output_rows = [(s.name, dtype_of(s.dtype), s.shape) for s in (*self.outputs, *self._counts)]
        self._output_memory = OutputMemory.of(self._output_rows)
        operands = len(self.inputs) + len(model["outputs"]) + len(model.get("symbols", ()))
        sizes = model["scratch_bytes"], model["workspace_bytes"]
        # not a method of this object: an executable that nobody holds is freed at once
        self._new_state = partial(CallState, self._code, self.threads, *sizes, operands, self._functions)
        self._states = StatePool(self._new_state)

    def __call__(self, inputs: Mapping[str, Any], out: "Mapping[str, Any] | None" = None) -> dict[str, Any]:
        """
        Run the model on arrays by input name; returns the outputs by name.

        Inputs are numpy arrays, objects that export their memory by DLPack (`__dlpack__`), or what numpy makes arrays
        of; contiguous ones are used where they lie. `out` may give arrays to write outputs into, which are returned.
        Raises ValueError for a missing or unknown name and for a wrong shape or dtype.
        """
        self._functions.check("the model")
        arrays = self._check_inputs(inputs)
        if out is None:
            memory = self._output_memory
            rows = self._output_rows
            results = [_empty(shape, dtype) for _, dtype, shape in rows] if memory is None else memory.arrays()
        else:
            results = self._check_outputs(out)
        states = self._states
        state = states.take()
        try:
            if self.executor == "aot":
                operands, index = state.operands, 0
                for array in arrays:
                    operands[index] = address_of(array)
                    index += 1
                for array in results:
                    operands[index] = address_of(array)
                    index += 1
                if status := (state.call or self._prepared(state))():
                    raise self._functions.failure(state.rt, "a kernel", status)
            else:
                self._run(state, arrays, results)
        finally:
            states.give(state)
        if out is None and not self._counted:
            return dict(zip(self._output_names, results))  # noqa: B905 as many; the check takes a tenth of the call
        return self._named(results, out)

    def _prepared(self, state: CallState) -> Callable[[], int]:
        """The call of the model's main function in a state, on the operands that the state holds then."""
        state.call = partial(self._main, state.at, self._weights_at, state.workspace_at, state.rt)
        return state.call

    def _run(self, state: CallState, arrays: list[Array], results: list[Array]) -> None:
        """Run the model in a state, kernel by kernel, from inputs that fit to outputs that fit."""
        self._steps(state).run(pointers(arrays, results))

    def submit(self, inputs: Mapping[str, Any], out: "Mapping[str, Any] | None" = None) -> "Future[dict[str, Any]]":
        """
        Call the model on another thread; the future gives what the call returns, or raises what it raises.

        Inputs and `out` belong to the call until the future is done. As many calls run side by side as the process has
        CPUs (at least two); further ones wait.
        """
        submitter = self._submitter or self.__dict__.setdefault("_submitter", Submitter(most_states()))
        return submitter.submit(self, inputs, out)

    def clone(self) -> "Executable":
        """An executable of the same code and weights with states of its own: calls of the two share nothing else."""
        other = copy.copy(self)
        other.__dict__.pop("_submitter", None)
        other._original = self  # it owns the files
        if "_states" in self.__dict__:
            other._states = StatePool(other._new_state)
        return other

    def _named(self, results: list[Array], out: "Mapping[str, Any] | None" = None) -> dict[str, Any]:
        """The outputs by name; outputs of a data-dependent length are cut to it."""
        for index, axis, count in self._counted:
            results[index] = results[index][(slice(None),) * axis + (slice(int(results[count])),)]
        # counts of data-dependent lengths, the last results, are left out
        named: dict[str, Any] = dict(zip(self._output_names, results))  # noqa: B905
        if out and not self._counted:  # return what was given, which may be no numpy array
            for name, given in out.items():
                if given is not None:
                    named[name] = given
        return named

    def _check_inputs(self, inputs: Mapping[str, Any]) -> list[Array]:
        """The inputs in order, contiguous; ValueError if one is missing, unknown or of another shape or dtype."""
        arrays: list[Array] = []
        if inputs.__class__ is dict and len(inputs) == len(self._input_rows):
            for name, dtype, shape in self._input_rows:
                array = inputs.get(name)
                # is_ready, written out: it takes a tenth of a call of a small model
                if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                    break
                if not array.flags.carray:
                    break
                arrays.append(array)
            else:
                return arrays
        check_names(inputs, self.inputs)
        return [input_array(inputs[spec.name], spec) for spec in self.inputs]

    def _check_outputs(self, out: "Mapping[str, Any] | None", specs: Sequence[TensorSpec] = ()) -> list[Array]:
        """The arrays to write outputs into: those given, else new ones; `specs` replaces the model's own specs."""
        if out is None and not specs:
            return [np.empty(shape, dtype) for _, dtype, shape in self._output_rows]
        out = {} if out is None else out
        if out.__class__ is not dict:
            check_out(out, [name for name, _, _ in self._output_rows])
        results: list[Array] = []
        given = 0
        for index, (name, dtype, shape) in enumerate(self._output_rows):
            wanted = specs[index].shape if specs else shape
            array = out.get(name)
            given += name in out
            if array is None:
                array = np.empty(wanted, dtype)
            elif not is_ready(array, dtype, wanted):
                array = output_array(array, specs[index] if specs else self.outputs[index])
            results.append(array)
        if given != len(out):
            check_out(out, self._output_names)
        return results

    def _steps(self, state: CallState) -> Stepper:
        """The stepper of a state, which runs the model kernel by kernel."""
        stepper: Stepper | None = state.kept.get("stepper")
        if stepper is None:
            stepper = state.kept["stepper"] = self._stepper(self.artifact.model, state)
        stepper.observe = self.observe
        return stepper

    def _stepper(self, model: Mapping[str, Any], state: CallState) -> Stepper:
        bases = {"weights": self._weights_at, "workspace": state.workspace_at}
        return Stepper(model, self._code, bases, state.rt, self.observe, self._functions)

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """The median time of each kernel over `repeat` runs, one kernel at a time; `print` it for a table."""
        self._functions.check("the model")
        arrays, results = self._check_inputs(inputs), self._check_outputs(None)
        state = self._states.take()
        try:
            return self._steps(state).profile(pointers(arrays, results), max(1, repeat))
        finally:
            self._states.give(state)

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the registered functions that the model calls; it does not run before they are registered."""
        return self._functions.names

    @property
    def graph_json(self) -> dict[str, Any]:
        """
        The calls of the model and the buffers that they work on, as model.json has them.

        For `executor="graph"` it is TVM's graph JSON (docs/executors.md).
        """
        if self.executor == "graph":
            from mlc.runtime.graph.convert import GraphWriter

            return GraphWriter(self.artifact.model).write()
        names = ("inputs", "outputs", "plan", "values", "nodes", "copies")
        return {name: self.artifact.model[name] for name in names}

    @property
    def report(self) -> dict[str, Any]:
        """Statistics of the compilation: seconds by phase, operations by level, calls, kernels, warnings."""
        return self.artifact.model["report"]

    def save(self, directory: "str | os.PathLike[str]") -> None:
        """Write the compiled model to a directory for `mlc.load_executable`; UserError if it holds something else."""
        copy_to(self.artifact, directory)

    def export(self, path: "str | os.PathLike[str]") -> list[Path]:
        """
        Write a .so, .a or .o with its header, or a .h alone, for C programs without Python; returns the paths written.

        Raises UserError for another suffix, a missing directory, tool or toolchain, and code for another machine.
        """
        if self._toolchain is None:
            raise UserError("expected the compiler to export a library; load the model with mlc.load_executable")
        return self._toolchain.export(self.artifact, Path(path))


def mapped(path: Path) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """A file's bytes, mapped."""
    if not path.stat().st_size:
        return aligned(ALIGNMENT)
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)


def load_code(artifact: Artifact, toolchain: Toolchain | None) -> Code:
    """The artefact's machine code in this process; what is not linked yet, the toolchain links."""
    if artifact.code is not None:
        return SharedCode(artifact.code)
    if toolchain is None:
        raise UserError(
            f"expected linked code in {artifact.path}, but it was saved where there was no C compiler; "
            "load it with mlc.load_executable where llvmlite is installed"
        )
    return toolchain.load(artifact.objects(), artifact.model.get("libraries", ()))


def load_executable(
    directory: "str | os.PathLike[str]",
    threads: int | None = None,
    executor: str = "aot",
    toolchain: Toolchain | None = None,
) -> Executable:
    """
    The executable that `Executable.save` wrote. Its code runs here: load only what you trust.

    Neither xDSL nor llvmlite is needed; `toolchain` serves artefacts that are not linked, and exporting. Raises
    UserError if the directory holds none, is damaged, or needs another machine or CPU.
    """
    if not Path(directory).is_dir():
        raise UserError(f"{directory}: expected a directory that Executable.save wrote")
    if (Path(directory) / PROGRAM).is_file():
        from mlc.runtime.vm import saved

        return saved.load(Path(directory), threads, executor, toolchain)
    try:
        artifact = Artifact.open(directory)
    except DamagedArtifact as error:
        raise UserError(str(error)) from error
    from mlc.runtime.symbolic import open_executable

    return open_executable(artifact, threads, executor, toolchain)
