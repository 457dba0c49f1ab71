"""
A vm model on disk.

    program.vm                     the bytecode
    segments/0, segments/1, ..     an artefact for each segment
    model.onnx                     the model, where the vm compiles parts of it at calls

What is loaded without the compiler runs the functions that were met before it was saved, and refuses others.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, cast

from mlc.runtime.arrays import TensorSpec
from mlc.runtime.artifact import Artifact, DamagedArtifact, written
from mlc.runtime.code import Toolchain
from mlc.runtime.cpu import refusal
from mlc.runtime.vm.machine import Key, VirtualMachine
from mlc.runtime.vm.memory import StoragePool
from mlc.runtime.vm.program import BadBytecode, Body, Function, SegmentCode, decoded, encoded
from mlc.runtime.vm.segment import Segment
from mlc.support.errors import UserError
from mlc.support.files import read_file
from mlc.support.scratch import scratch_directory
from mlc.support.threads import thread_count

if TYPE_CHECKING:
    from mlc.runtime.vm.executable import VmExecutable

PROGRAM, SEGMENTS, MODEL = "program.vm", "segments", "model.onnx"


def packed(executable: VmExecutable) -> tuple[bytes, list[Segment]]:
    """The bytecode of an executable, and its segments in the order of their numbers."""
    segments: list[Segment] = []
    machine = executable.machine

    def body_of(body: Body) -> dict[str, Any]:
        for segment in body.segments:
            if segment not in segments:
                segments.append(segment)
        return body.packed([segments.index(segment) for segment in body.segments])

    functions: list[Any] = []
    for index, function in enumerate(machine.functions):
        known = [[None, body_of(body)] for body in (*_known(function), *function.general)]
        bodies = known + [[key, body_of(body)] for key, body in machine.resolved.items() if key[0] == index]
        wants = sorted(function.wants)
        facts = {"name": function.name, "open": function.body is None, "origin": list(function.origin)}
        functions.append({**facts, "wants": wants, "bodies": bodies})
    program = {
        "name": executable.name,
        **{what: [[s.name, s.shape, s.dtype] for s in getattr(executable, what)] for what in ("inputs", "outputs")},
        "functions": functions,
        "segments": [segment.code.packed() for segment in segments],
        "memory_limit": executable.pool.limit,
        "kept": machine.kept,
        "options": None if executable.source is None else executable.source.options,
    }
    return encoded(program), segments


def save(executable: VmExecutable, directory: Path) -> None:
    """Write an executable into a directory, which is made, or replaced if it holds one."""
    if directory.exists() and (
        not directory.is_dir() or (any(directory.iterdir()) and not (directory / PROGRAM).exists())
    ):
        raise UserError(f"expected {directory} to be empty or a saved vm model, but it holds something else")
    directory.parent.mkdir(parents=True, exist_ok=True)
    data, segments = packed(executable)
    with written(directory), scratch_directory(directory.parent) as scratch:
        fresh = scratch / "new"
        (fresh / SEGMENTS).mkdir(parents=True)
        (fresh / PROGRAM).write_bytes(data)
        if executable.source is not None:
            (fresh / MODEL).write_bytes(executable.source.model)
        for number, segment in enumerate(segments):
            copytree(segment.artifact.path, fresh / SEGMENTS / str(number))
        if directory.exists():
            directory.rename(scratch / "old")
        fresh.rename(directory)


def is_saved_vm(directory: str | os.PathLike[str]) -> bool:
    """Whether a directory holds a saved vm model."""
    return (Path(directory) / PROGRAM).is_file()


def load(
    directory: Path, threads: int | None = None, executor: str = "vm", toolchain: Toolchain | None = None
) -> VmExecutable:
    """The executable that `save` wrote; UserError if it is damaged, for another machine, or for another executor."""
    from mlc.runtime.vm.executable import VmExecutable, VmSource

    if executor not in ("auto", "aot", "vm"):
        raise UserError(f"expected executor vm for a saved vm model, but got '{executor}'")
    try:
        program = decoded(read_file(directory / PROGRAM))
        pool, count = StoragePool(program["memory_limit"]), thread_count(threads)
        segments = [
            _segment(directory / SEGMENTS / str(number), SegmentCode.unpacked(value), count, pool, toolchain)
            for number, value in enumerate(program["segments"])
        ]
        functions, found = _functions(program["functions"], segments)
    except (BadBytecode, DamagedArtifact) as error:
        raise UserError(f"{directory}: {error}") from error
    machine = VirtualMachine(functions, None, program["kept"])
    machine.resolved.update(found)
    source = None
    if program["options"] is not None:
        source = VmSource(read_file(directory / MODEL), program["options"])
        if toolchain is not None:
            machine.resolver = toolchain.resolver(directory / MODEL, source.options, functions, pool, count)
    inputs, outputs = (
        [TensorSpec(name, shape if shape is None else tuple(shape), dtype) for name, shape, dtype in program[what]]
        for what in ("inputs", "outputs")
    )
    executable = VmExecutable(program["name"], inputs, outputs, machine, count, pool)
    executable.source = source
    return executable


def _segment(path: Path, code: SegmentCode, threads: int, pool: StoragePool, toolchain: Toolchain | None) -> Segment:
    artifact = Artifact.open(path)
    if (reason := refusal(artifact.model)) is not None:
        raise UserError(reason)
    return Segment(code, artifact, threads, pool, toolchain)


def _functions(values: list[Any], segments: list[Segment]) -> tuple[list[Function], dict[Key, Body]]:
    """The functions, and the bodies of the open ones by key."""
    functions: list[Function] = []
    found: dict[Key, Body] = {}
    for value in values:
        bodies = [(_tuples(key), Body.unpacked(body, segments)) for key, body in value["bodies"]]
        free = [body for key, body in bodies if key is None]
        known, general = (None, free) if value["open"] else (free[0], [])
        functions.append(
            Function(value["name"], known, general, origin=tuple(value["origin"]), wants=set(value["wants"]))
        )
        found |= {key: body for key, body in bodies if key is not None}
    return functions, found


def _known(function: Function) -> list[Body]:
    return [] if function.body is None else [function.body]


def _tuples(value: Any) -> Any:
    """Lists of a decoded key as the tuples that they were."""
    return tuple(map(_tuples, cast("list[Any]", value))) if isinstance(value, list) else value


__all__ = ["is_saved_vm", "load", "packed", "save"]
