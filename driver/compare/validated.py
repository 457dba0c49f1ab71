"""The last comparison of a validating compilation: the linked program against what @main computed on buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlc.dialects.graph.types import Array
from mlc.driver.pipeline.text import parse_pipeline
from mlc.driver.toolchain import LLVM
from mlc.runtime.artifact import Artifact
from mlc.runtime.symbolic import compiled_executable
from mlc.validation.isolated import isolated
from mlc.validation.measure import compare_native
from mlc.validation.validate_each import ResultChanged, ValidateInstrument

_SECONDS = 600.0
"""Seconds of CPU time after which a program that is validated is taken to run forever."""


def _results(artifact: Artifact, threads: int, arrays: Sequence[Array]) -> list[Array]:
    """What the program computes from the inputs of @main."""
    executable = compiled_executable(artifact, threads, "aot", LLVM())
    names = [spec.name for spec in executable.inputs]
    results: dict[str, Any] = executable(dict(zip(names, arrays, strict=True)))
    return list(results.values())


def check_program(artifact: Artifact, validator: ValidateInstrument, threads: int) -> None:
    """
    Run the program on the inputs of @main; ResultChanged, which blames convert-main-to-llvm, where a result differs.

    The kernels have been compared one by one, so that what differs now is how the program calls them.
    """
    cases = [name for name in validator.known if name.partition(" #")[0] == "main"]
    (module_pass,) = parse_pipeline("convert-main-to-llvm")
    for name in cases:
        measured = validator.known[name].measured
        # pointers that are mixed up may end the process that runs the program: it is a child of this one
        run = isolated(lambda arrays=measured.arrays: _results(artifact, threads, arrays), _SECONDS)
        if run.value is None:
            raise ResultChanged(
                module_pass, validator.known[name].last, f"the program ended its process: {run.died}", None
            )
        found = compare_native(measured, run.value, validator.known[name].epsilon)
        if found is not None:
            raise ResultChanged(module_pass, validator.known[name].last, f"the program: {found}", found)
        validator.compared += 1
