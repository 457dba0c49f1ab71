"""
A compiled model in this process: `exe({"x": array}) -> {"y": array}`.

One native call runs the model. Workspace and weights are placed once; a call allocates only its outputs.
"""

import ctypes
import mmap
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlc.runtime.artifact import WEIGHTS, Artifact, DamagedArtifact, copy_to
from mlc.runtime.code import Code, SharedCode, Toolchain
from mlc.runtime.cpu import refusal
from mlc.runtime.functions import CalledFunctions
from mlc.runtime.sizes import text
from mlc.runtime.steps import KernelProfile, ObserveCall, Profile, Stepper
from mlc.support.alignment import ALIGNMENT
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError
from mlc.support.threads import thread_count

__all__ = ["Executable", "KernelProfile", "Profile", "TensorSpec", "load_executable"]

EXECUTORS = ("aot", "graph")
_MAIN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model."""

    name: str
    shape: tuple[Any, ...]
    """Integers; the text of an expression where a size is symbolic."""
    dtype: str
    """numpy's name of the element type."""

    def __str__(self) -> str:
        if any(isinstance(size, str) for size in self.shape):
            return f"{self.name}: ({', '.join(map(str, self.shape))}) {self.dtype}"
        return f"{self.name}: {'x'.join(map(str, self.shape)) or 'scalar'} {self.dtype}"


def aligned(size: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """`size` bytes of memory that start at a multiple of `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -address_of(raw) % ALIGNMENT
    return raw[start : start + size]


def _address_in_dict(array: "np.ndarray[Any, Any]") -> int:
    return array.__array_interface__["data"][0]


_DATA_POINTER_OFFSET = object.__basicsize__
"""Offset in bytes of an array object's data pointer: behind the object's head, as numpy's C interface fixes it."""
_word_at = ctypes.c_size_t.from_address


def _address_in_object(array: "np.ndarray[Any, Any]") -> int:
    return _word_at(id(array) + _DATA_POINTER_OFFSET).value


def _finds_addresses() -> bool:
    """Whether reading the data pointer from the array object works in this Python; the read itself is always safe."""
    if sys.implementation.name != "cpython":
        return False
    arrays = [np.empty(shape) for shape in (1, (3, 5), (2, 0))] + [np.arange(9)[2:]]
    return all(_address_in_object(a) == _address_in_dict(a) for a in arrays)


# A tenth of the time of `__array_interface__`, which builds a dictionary at each call.
address_of = _address_in_object if _finds_addresses() else _address_in_dict
"""The address of the elements of a numpy array (subclasses included)."""


def is_ready(array: object, dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> bool:
    """Whether an argument needs no conversion: an array of this dtype and shape, contiguous and aligned."""
    return type(array) is np.ndarray and array.dtype is dtype and array.shape == shape and array.flags.carray


class Executable:
    """A compiled model. Calls from several Python threads run one after another."""

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
        self._lock = threading.Lock()

    def _start(self) -> None:
        """Load the code, and allocate the memory that it works on."""
        artifact, model = self.artifact, self.artifact.model
        self._code = _load(artifact, self._toolchain)
        self._rt, self._keeper = self._code.runtime(self.threads, model["scratch_bytes"])
        self._functions = CalledFunctions(model.get("functions", ()))
        self._functions.attach(self._rt)
        self._workspace = aligned(model["workspace_bytes"])
        self._weights = _map(artifact.path / WEIGHTS)
        self._bases = {"weights": address_of(self._weights), "workspace": address_of(self._workspace)}
        self._main = _MAIN(self._code.address(model["entry"]))
        self._io = (ctypes.c_void_p * (len(self.inputs) + len(model["outputs"])))()
        self._input_dtypes = [dtype_of(spec.dtype) for spec in self.inputs]
        self._dtypes = [dtype_of(spec.dtype) for spec in (*self.outputs, *self._counts)]
        self._stepper: Stepper | None = None

    def __call__(
        self, inputs: Mapping[str, Any], out: "Mapping[str, np.ndarray[Any, Any]] | None" = None
    ) -> "dict[str, np.ndarray[Any, Any]]":
        """
        Run the model on arrays by input name; returns the outputs by name.

        `out` may give arrays to write outputs into. Raises ValueError for a missing or unknown name and for a wrong
        shape or dtype.
        """
        self._functions.check("the model")
        arrays = self._check_inputs(inputs)
        results = self._check_outputs(out)
        with self._lock:
            if self.executor == "graph":
                self._steps().run(pointers(arrays, results))
                return self._named(results)
            io = self._io
            for index, array in enumerate((*arrays, *results)):
                io[index] = address_of(array)
            bases = self._bases
            status = self._main(ctypes.addressof(io), bases["weights"], bases["workspace"], self._rt)
            if status:
                raise self._functions.failure(self._rt, "a kernel", status)
        return self._named(results)

    def _named(self, results: "list[np.ndarray[Any, Any]]") -> "dict[str, np.ndarray[Any, Any]]":
        """The outputs by name; outputs of a data-dependent length are cut to it."""
        for index, axis, count in self._counted:
            results[index] = results[index][(slice(None),) * axis + (slice(int(results[count])),)]
        return {spec.name: array for spec, array in zip(self.outputs, results, strict=False)}

    def _check_inputs(self, inputs: Mapping[str, Any]) -> "list[np.ndarray[Any, Any]]":
        """The inputs in order, contiguous; ValueError if one is missing, unknown or of another shape or dtype."""
        if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise ValueError(f"expected inputs as a dict of name -> array, but got {type(inputs).__name__}")
        known = [spec.name for spec in self.inputs]
        for name in inputs:
            if name not in known:
                raise ValueError(f"expected inputs {', '.join(known)}, but got an unknown input '{name}'")
        arrays: list[np.ndarray[Any, Any]] = []
        for spec, dtype in zip(self.inputs, self._input_dtypes, strict=True):
            if spec.name not in inputs:
                raise ValueError(f"expected inputs {', '.join(known)}, but input '{spec.name}' is missing")
            array = inputs[spec.name]
            if is_ready(array, dtype, spec.shape):
                arrays.append(array)
                continue
            array = np.asarray(array)
            check_array(f"input '{spec.name}'", array, spec)
            arrays.append(array if array.flags.c_contiguous else np.ascontiguousarray(array))
        return arrays

    def _check_outputs(
        self, out: "Mapping[str, np.ndarray[Any, Any]] | None", specs: Sequence[TensorSpec] = ()
    ) -> "list[np.ndarray[Any, Any]]":
        """The arrays to write outputs into: those given, else new ones; `specs` replaces the model's own specs."""
        specs = specs or (*self.outputs, *self._counts)
        if out is None:
            return [np.empty(spec.shape, dtype) for spec, dtype in zip(specs, self._dtypes, strict=True)]
        if not isinstance(out, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
            raise ValueError(f"expected out as a dict of name -> array, but got {type(out).__name__}")
        known = [spec.name for spec in self.outputs]
        for name in out:
            if name not in known:
                raise ValueError(f"expected outputs {', '.join(known)}, but got an unknown output '{name}'")
        results: list[np.ndarray[Any, Any]] = []
        for spec, dtype in zip(specs, self._dtypes, strict=True):
            array = out.get(spec.name)
            if array is None:
                array = np.empty(spec.shape, dtype)
            if is_ready(array, dtype, spec.shape):
                results.append(array)
                continue
            check_array(f"output '{spec.name}'", array, spec)
            if not (array.flags.c_contiguous and array.flags.writeable):
                raise ValueError(f"expected output '{spec.name}' to be a contiguous array that can be written")
            results.append(array)
        return results

    def _steps(self) -> Stepper:
        """The stepper, which runs the model kernel by kernel."""
        if self._stepper is None:
            bases, rt = self._bases, self._rt
            self._stepper = Stepper(self.artifact.model, self._code, bases, rt, self.observe, self._functions)
        return self._stepper

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """The median time of each kernel over `repeat` runs, one kernel at a time; `print` it for a table."""
        self._functions.check("the model")
        arrays, results = self._check_inputs(inputs), self._check_outputs(None)
        with self._lock:
            return self._steps().profile(pointers(arrays, results), max(1, repeat))

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the registered functions that the model calls; it does not run before they are registered."""
        return self._functions.names

    @property
    def graph_json(self) -> dict[str, Any]:
        """The calls of the model and the buffers they work on, as the graph executor steps through them."""
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


def check_names(inputs: Mapping[str, Any], specs: "Sequence[TensorSpec]") -> None:
    """ValueError unless `inputs` has exactly the names of the specs."""
    if not isinstance(inputs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] callers need not be typed
        raise ValueError(f"expected inputs as a dict of name -> array, but got {type(inputs).__name__}")
    known = [spec.name for spec in specs]
    for name in inputs:
        if name not in known:
            raise ValueError(f"expected inputs {', '.join(known)}, but got an unknown input '{name}'")
    for name in known:
        if name not in inputs:
            raise ValueError(f"expected inputs {', '.join(known)}, but input '{name}' is missing")


def pointers(inputs: "list[np.ndarray[Any, Any]]", outputs: "list[np.ndarray[Any, Any]]") -> dict[str, list[int]]:
    """The addresses of inputs and outputs by kind, as the stepper's nodes refer to them."""
    return {"input": [address_of(a) for a in inputs], "output": [address_of(a) for a in outputs]}


def check_array(what: str, array: object, spec: TensorSpec) -> None:
    """ValueError if an array has another shape or dtype, or is not aligned to its element."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"expected {what} to be an array, but got {type(array).__name__}")
    if array.shape != spec.shape:
        raise ValueError(f"expected {what} of shape {spec.shape}, but got {array.shape}")
    if array.dtype.name != spec.dtype or not array.dtype.isnative:
        raise ValueError(f"expected {what} of dtype {spec.dtype}, but got {array.dtype}; convert it with astype")
    if array.flags.c_contiguous and not array.flags.aligned:
        raise ValueError(
            f"expected {what} at a multiple of {array.dtype.alignment} bytes, "
            f"but got address {address_of(array):#x}; pass a copy"
        )


def _map(path: Path) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """A file's bytes, mapped."""
    if not path.stat().st_size:
        return aligned(ALIGNMENT)
    with path.open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)


def _load(artifact: Artifact, toolchain: Toolchain | None) -> Code:
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
    try:
        artifact = Artifact.open(directory)
    except DamagedArtifact as error:
        raise UserError(str(error)) from error
    from mlc.runtime.symbolic import open_executable

    return open_executable(artifact, threads, executor, toolchain)
