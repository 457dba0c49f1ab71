"""
What `mlc diff` compares: a side is a module (a file, a model after a pipeline) or an executable (saved, compiled).

Each side has its text, a module or lines, and can be run: the outputs by name, and the tensors that it computes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.syntax.source import parse_module
from mlc.driver.compare.interpret import LoadedModule, after_pipeline, load_module, run_loaded
from mlc.driver.models.compilation import Compilation
from mlc.driver.models.load import load
from mlc.driver.options import Options
from mlc.driver.pipeline.manager import make_context
from mlc.driver.toolchain import LLVM, load_executable
from mlc.runtime.executable import Executable
from mlc.runtime.symbolic import compiled_executable
from mlc.support.dtypes import dtype_of
from mlc.support.errors import UserError
from mlc.support.scratch import remove_scratch
from mlc.validation.compare.value_diff import ComputedTensor, TensorRecorder
from mlc.validation.inputs import random_arrays
from mlc.validation.signature import function_named, named_inputs, random_inputs, signature_of

Arrays = Mapping[str, Any]


@dataclass
class RunResult:
    """What one side computed."""

    outputs: dict[str, Any]
    tensors: list[ComputedTensor] = field(default_factory=list[ComputedTensor])


@dataclass
class ModuleSide:
    """A module, run in the interpreters."""

    name: str
    loaded: LoadedModule
    seed: int = 0
    weights: str | None = None

    @property
    def module(self) -> ModuleOp:
        """The module."""
        return self.loaded.module

    def functions(self) -> list[str]:
        """The names of the functions to run: @main, or else all that can be."""
        found: list[str] = []
        for op in self.module.body.block.ops:
            try:
                found.append(signature_of(op).function) if op.regions and op.regions[0].blocks else None
            except UserError:
                continue
        return ["main"] if "main" in found else found

    def names(self, function: str | None) -> list[str]:
        """The names of the inputs of a function."""
        signature = signature_of(function_named(self.module, function))
        sizes = () if signature.level == "main" else signature.symbols
        return [*(a.name for a in signature.inputs), *sizes]

    def inputs(self, given: Arrays, function: str | None) -> dict[str, Any]:
        """The given arrays by the names of inputs, and random ones for the others."""
        signature = signature_of(function_named(self.module, function))
        return random_inputs(signature, named_inputs(signature, given), self.seed)

    def run(self, inputs: Arrays, function: str | None) -> RunResult:
        """Run a function."""
        recorder = TensorRecorder(function_named(self.module, function))
        outputs = run_loaded(self.loaded, inputs, function, self.weights, trace=recorder, seed=self.seed)
        return RunResult(outputs, recorder.tensors())


@dataclass
class ExecutableSide:
    """Machine code, run kernel by kernel; `module` is its text on the level that is compared, if it is known."""

    name: str
    executable: Executable
    module: ModuleOp | None = None
    seed: int = 0

    def functions(self) -> list[str]:
        """There is one entry."""
        return ["main"]

    def names(self, function: str | None) -> list[str]:
        """The names of the inputs."""
        del function
        return [spec.name for spec in self.executable.inputs]

    def inputs(self, given: Arrays, function: str | None) -> dict[str, Any]:
        """The given arrays, and random ones for the other inputs."""
        del function
        specs = {spec.name: spec for spec in self.executable.inputs}
        for name in given:
            if name not in specs:
                raise UserError(f"expected inputs {', '.join(specs)}, but got an unknown input '{name}'")
        arrays = dict(given)
        for k, (name, spec) in enumerate(specs.items()):
            sizes = tuple(n for n in spec.shape if isinstance(n, int))
            if name not in arrays and len(sizes) != len(spec.shape):
                raise UserError(f"expected an array for input {spec}, whose sizes are open; give it with --input")
            if name not in arrays:
                arrays[name] = random_arrays(((sizes, dtype_of(spec.dtype).name),), self.seed + k)[0]
        return arrays

    def run(self, inputs: Arrays, function: str | None) -> RunResult:
        """Run all kernels."""
        del function
        tensors: list[ComputedTensor] = []

        def observe(node: Mapping[str, Any], arrays: list[Any]) -> None:
            origin = node["origins"][-1] if node["origins"] else ""
            title = f"{origin} ({node['kernel']})" if origin else node["kernel"]
            tensors.extend(ComputedTensor(origin, k, title, array) for k, array in enumerate(arrays))

        self.executable.observe = observe
        try:
            return RunResult(self.executable(inputs), tensors)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(str(error)) from error

    def lines(self) -> list[str]:
        """The calls of kernels, each a line: source nodes, kernel, operands, results, schedule."""
        graph = self.executable.artifact.model
        return [_call_line(node, graph["values"]) for node in graph["nodes"]]


Side = ModuleSide | ExecutableSide


def _call_line(node: Mapping[str, Any], values: Sequence[Mapping[str, Any]]) -> str:
    def shown(indices: Sequence[int]) -> str:
        return ", ".join("x".join(map(str, [*values[i]["shape"], values[i]["dtype"]])) for i in indices)

    origins, schedule = ", ".join(node["origins"]), f" [{node['schedule']}]" if node["schedule"] else ""
    return f"{origins or '-'}: {node['kernel']}({shown(node['inputs'])}) -> {shown(node['outputs'])}{schedule}"


@dataclass(frozen=True)
class LoadOptions:
    """How a side is loaded and run: the shapes and symbols of a model's inputs, its weights, the seed of its inputs."""

    shapes: Mapping[str, Sequence[Any]] | None = None
    symbols: Mapping[str, Sequence[int]] | None = None
    weights: str | None = None
    seed: int = 0


def file_side(path: str, options: LoadOptions) -> Side:
    """The side of a file, or of a directory that `mlc compile -o DIR` wrote."""
    if Path(path).is_dir():
        if options.weights is not None:
            raise UserError(f"expected no weights for the compiled model {path}, which has its own")
        return ExecutableSide(path, load_executable(path, executor="steps"), None, options.seed)
    loaded = load_module(Path(path), options.shapes, options.symbols)
    return ModuleSide(path, loaded, options.seed, options.weights)


def pipeline_side(path: str, pipeline: str, options: LoadOptions) -> ModuleSide:
    """The module of a file after a pipeline."""
    loaded = load_module(Path(path), options.shapes, options.symbols)
    loaded = after_pipeline(loaded, pipeline, options.weights)
    return ModuleSide(f"{path} after {pipeline}", loaded, options.seed)


def compiled_side(path: str, name: str, compiler: Options, level: str, options: LoadOptions) -> ExecutableSide:
    """A model compiled with the options `compiler`, which keep the text of `level`."""
    compilation = Compilation(load(path, options.shapes, options.symbols), compiler)
    artifact = compilation.write(Path(tempfile.gettempdir()))
    try:
        module = parse_module(compilation.texts[level], f"{name}.{level}", make_context())
        executable = compiled_executable(artifact, compiler.threads, "steps", LLVM())
        return ExecutableSide(name, executable, module, options.seed)
    finally:
        remove_scratch(artifact.path)


__all__ = [
    "ExecutableSide",
    "LoadOptions",
    "ModuleSide",
    "RunResult",
    "Side",
    "compiled_side",
    "file_side",
    "pipeline_side",
]
