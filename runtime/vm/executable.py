"""
The executable of the vm: `exe({"x": array}) -> {"y": array}`, and TVM's `set_input`, `invoke`, `get_outputs`.

It runs bytecode. A model of known sizes is one segment of kernels; what only the data decides is resolved when its
values are there: found among the functions that were compiled, or compiled then.
"""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from mlc.runtime.arrays import Array, TensorSpec, as_array, check_array, check_names, check_out, output_array
from mlc.runtime.artifact import Artifact
from mlc.runtime.code import Toolchain
from mlc.runtime.executable import Executable
from mlc.runtime.profile import Profile
from mlc.runtime.sizes import text
from mlc.runtime.vm.flatten import segment_of
from mlc.runtime.vm.machine import Register, VirtualMachine
from mlc.runtime.vm.memory import WorkspaceBlocks
from mlc.runtime.vm.program import Body, Function
from mlc.runtime.vm.segment import Segment
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError

LIST = "list of "
"""What stands before the element type in the dtype of an input that is a sequence of tensors."""


@dataclass(frozen=True)
class VmSource:
    """What a saved model needs to be compiled further: the bytes of the model, and the compiler's options."""

    model: bytes
    options: Mapping[str, Any]


class VmExecutable(Executable):
    """A model that the vm runs. Calls from several threads run one after another."""

    def __init__(  # nothing of Executable.__init__ is wanted: the code of a model is in its segments
        self,
        name: str,
        inputs: Sequence[TensorSpec],
        outputs: Sequence[TensorSpec],
        machine: VirtualMachine,
        threads: int,
        pool: WorkspaceBlocks,
    ) -> None:
        self.name, self.machine, self.pool, self.threads, self.executor = name, machine, pool, threads, "vm"
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.source: VmSource | None = None
        self._lock = threading.Lock()
        self._dtypes = [dtype_of(spec.dtype.removeprefix(LIST)) for spec in self.inputs]
        self._known = [all(isinstance(n, int) for n in s.shape) if s.shape is not None else False for s in self.inputs]
        self._given: dict[str, Any] = {}
        self._results: list[Any] = []

    def __call__(self, inputs: Mapping[str, Any], out: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """
        Run the model on arrays by input name; returns the outputs by name.

        An input that is a sequence takes a list of arrays, an absent optional None; outputs are given so as well. `out`
        may give arrays to write outputs into. Raises ValueError for a missing or unknown name and for a wrong shape or
        dtype, UserError where a saved model meets sizes that it was not compiled for.
        """
        arguments = self._arguments(inputs)
        if out is not None:
            check_out(out, [spec.name for spec in self.outputs])
        with self._lock:
            self._results = self._computed(arguments, out)
            return {spec.name: value for spec, value in zip(self.outputs, self._results, strict=True)}

    def set_input(self, function: str = "main", *arrays: Any, **named: Any) -> None:
        """Keep inputs for `invoke`: in order, or by name. The one function is "main"."""
        self._check_function(function)
        if len(arrays) > len(self.inputs):
            raise ValueError(f"expected at most {len(self.inputs)} inputs, but got {len(arrays)}")
        given = dict(zip([spec.name for spec in self.inputs], arrays, strict=False))
        if twice := sorted(given.keys() & named.keys()):
            raise ValueError(f"expected each input once, but got '{twice[0]}' in order and by name")
        check_names({**{spec.name: None for spec in self.inputs}, **named}, self.inputs)
        self._given |= given | named

    def invoke(self, function: str = "main", *arrays: Any, **named: Any) -> list[Any]:
        """Run the model on the inputs that were set, or are given here; returns the outputs in order."""
        self.set_input(function, *arrays, **named)
        return list(self(self._given).values())

    def get_outputs(self) -> list[Any]:
        """The outputs of the last call, in order."""
        return list(self._results)

    def _check_function(self, function: object) -> None:
        if function != "main":
            raise ValueError(f"expected the function 'main', but got {function!r}")

    def _computed(self, arguments: list[Any], out: Mapping[str, Any] | None) -> list[Any]:
        if (segment := self._only_segment) is None:
            results = self.machine.run(0, arguments)
            return results if out is None else self._written(results, out)
        if out is None:
            return segment(arguments)
        results = segment(arguments, self._check_outputs_of(segment, arguments, out))
        if segment.counted:  # outputs are cut to their counts
            return results
        given = [out.get(spec.name) for spec in self.outputs]  # what was given may be no numpy array
        return [result if one is None else one for result, one in zip(results, given, strict=True)]

    @property
    def _only_segment(self) -> Segment | None:
        """The segment that the whole model is, where it is one."""
        body = self.machine.functions[0].body
        if body is None or len(body.code) != 2 or body.code[0][0] != "run":
            return None
        segment = body.segments[0]
        return segment if all(group == "tensor" for group in segment.groups) else None

    def _check_outputs_of(self, segment: Segment, arguments: list[Any], out: Mapping[str, Any]) -> list[Array]:
        results = segment.results(segment.bind(arguments))
        shown = [TensorSpec(s.name, r.shape, s.dtype) for s, r in zip(self.outputs, results, strict=False)]
        for k, spec in enumerate(shown):
            if (given := out.get(spec.name)) is not None:
                results[k] = output_array(given, spec)
        return results

    def _written(self, results: list[Any], out: Mapping[str, Any]) -> list[Any]:
        """Results copied into the arrays that are given for them."""
        found: list[Any] = []
        for spec, result in zip(self.outputs, results, strict=True):
            target = out.get(spec.name)
            if target is not None:
                np.copyto(output_array(target, TensorSpec(spec.name, result.shape, result.dtype.name)), result)
            found.append(result if target is None else target)
        return found

    def _arguments(self, inputs: Mapping[str, Any]) -> list[Register]:
        """The inputs in order, contiguous; ValueError if one is missing, unknown or of another shape or type."""
        if inputs.__class__ is not dict or len(inputs) != len(self.inputs):
            check_names(inputs, self.inputs)
        elif any(spec.name not in inputs for spec in self.inputs):
            check_names(inputs, self.inputs)
        return [self._argument(k, spec, inputs[spec.name]) for k, spec in enumerate(self.inputs)]

    def _argument(self, k: int, spec: TensorSpec, value: Any) -> Register:
        if spec.shape is None and (value is None or isinstance(value, list | tuple)):
            return None if value is None else [self._argument(k, spec, one) for one in cast("Sequence[Any]", value)]
        array = as_array(f"input '{spec.name}'", value)
        if array.dtype is self._dtypes[k] and array.flags.carray and self._known[k] and array.shape == spec.shape:
            return array
        shape = _fitting(spec, array.shape)
        check_array(f"input '{spec.name}'", array, TensorSpec(spec.name, shape, self._dtypes[k].name))
        return array if array.flags.c_contiguous else np.ascontiguousarray(array)

    def clone(self) -> VmExecutable:
        """An executable of the same code with inputs and outputs of its own; calls of the two run one after another."""
        other = copy.copy(self)
        other.__dict__.pop("_submitter", None)
        other._given, other._results = dict(self._given), []
        return other

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the registered functions that the code which is known now calls."""
        bodies = [body for f in self.machine.functions for body in (*f.general, *([f.body] if f.body else []))]
        segments = [s for body in (*bodies, *self.machine.resolved.values()) for s in body.segments]
        return tuple(dict.fromkeys(name for segment in segments for name in segment.functions.names))

    def bytecode(self) -> bytes:
        """The program, with what was resolved so far, as bytes (runtime/vm/program.py)."""
        from mlc.runtime.vm.saved import packed

        return packed(self)[0]

    def disassemble(self) -> str:
        """The text of the bytecode."""
        from mlc.runtime.vm.text import disassembled

        return disassembled(self.bytecode())

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write bytecode and the kernels met so far for `mlc.load_executable`; UserError if it holds something else."""
        from mlc.runtime.vm.saved import save

        save(self, Path(directory))

    def profile(self, inputs: Mapping[str, Any], repeat: int = 10) -> Profile:
        """
        The median time of each kernel of a call over `repeat` runs, one kernel at a time; `print` it for a table.

        Kernels of a part that a call runs several times count that often, with the times of the first run's inputs.
        """
        from mlc.runtime.vm.profiled import profile_of

        arguments = self._arguments(inputs)
        with self._lock:
            return profile_of(self.machine, arguments, max(1, repeat))

    def export(self, path: str | os.PathLike[str]) -> list[Path]:
        """Refused: a library is of AOT code, which calls no compiler; `save` writes what the vm runs."""
        known = self._only_segment is not None
        remedy = 'compile it with executor="aot"' if known else "save it for mlc.load_executable instead"
        raise UserError(f"expected a model of AOT code for a library, but got one of the vm; {remedy}")

    @property
    def graph_json(self) -> dict[str, Any]:
        """The graph of a model that is one segment, as `Executable.graph_json`; UserError for others."""
        if self._only_segment is not None:
            return super().graph_json
        raise UserError('expected the executor "graph" for a graph; call disassemble() for what the vm runs')

    @property
    def report(self) -> dict[str, Any]:
        """
        The compilation report of a model that is one segment.

        For others, it is how many functions were resolved and compiled, and the most memory that intermediates took.
        """
        if (segment := self._only_segment) is not None:
            return segment.artifact.model["report"]
        return {"resolved": len(self.machine.resolved), "compiled": self.machine.misses, "memory": self.pool.most}


def _fitting(spec: TensorSpec, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an input if it fits its spec; ValueError otherwise."""
    if spec.shape is None:
        return shape
    if len(shape) != len(spec.shape):
        raise ValueError(f"expected input '{spec.name}' of rank {len(spec.shape)}, but got shape {shape}")
    for axis, (wanted, got) in enumerate(zip(spec.shape, shape, strict=True)):
        if isinstance(wanted, int) and wanted != got:
            raise ValueError(f"expected axis {axis} of input '{spec.name}' to be {wanted}, but got {got}")
    return shape


def vm_of(
    artifact: Artifact, threads: int, toolchain: Toolchain | None = None, memory_limit: int | None = None
) -> VmExecutable:
    """The vm of a compiled model whose sizes are all known, or symbolic."""
    model, pool = artifact.model, WorkspaceBlocks(memory_limit)
    segment = Segment(segment_of("main", model), artifact, threads, pool, toolchain)
    count = len(segment.inputs)
    shown = len(model["outputs"]) - len(segment.counted)
    results = list(range(count, count + shown))
    code: list[Any] = [("run", 0, list(range(count)), results), ("ret", results)]
    machine = VirtualMachine([Function("main", Body(count + shown, code, [segment]))], None)
    specs = [[TensorSpec(n, tuple(map(text, s)), d) for n, s, d in model[what]] for what in ("inputs", "outputs")]
    executable = VmExecutable("main", specs[0], specs[1][:shown], machine, threads, pool)
    executable.artifact = artifact
    return executable


__all__ = ["LIST", "VmExecutable", "VmSource", "vm_of"]
