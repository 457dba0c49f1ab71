"""The last comparison of a validating compilation: the linked program against what @main computed on buffers."""

from __future__ import annotations

from typing import Any

from mlc.driver.pipeline.text import parse_pipeline
from mlc.driver.toolchain import LLVM, is_host
from mlc.runtime.artifact import Artifact
from mlc.runtime.symbolic import compiled_executable
from mlc.targets.target import Target
from mlc.validation.measure import compare_native
from mlc.validation.validate_each import ResultChanged, ValidateInstrument


def check_program(artifact: Artifact, validator: ValidateInstrument, target: Target, threads: int) -> None:
    """
    Run the program on the inputs of @main; ResultChanged, which blames convert-main-to-llvm, where a result differs.

    The kernels have been compared one by one, so that what differs now is how the program calls them. A program for
    another machine is not run, and the validator notes so.
    """
    cases = [name for name in validator.known if name.partition(" #")[0] == "main"]
    if not is_host(target):
        validator.note(f"the program as a whole: it is for {target.name}, and this machine cannot run it")
        return
    executable = compiled_executable(artifact, threads, "aot", LLVM())
    (module_pass,) = parse_pipeline("convert-main-to-llvm")
    for name in cases:
        measured = validator.known[name].measured
        names = [spec.name for spec in executable.inputs]
        results: dict[str, Any] = executable(dict(zip(names, measured.arrays, strict=True)))
        found = compare_native(measured, list(results.values()), validator.known[name].epsilon)
        if found is not None:
            raise ResultChanged(module_pass, validator.known[name].last, f"the program: {found}", found)
        validator.compared += 1
