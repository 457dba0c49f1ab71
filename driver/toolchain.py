"""
Objects and linking that the runtime asks the compiler for: `LLVM` is the Toolchain of every executable made where
the whole of mlc is installed. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.runtime import executable
from mlc.runtime.artifact import Artifact
from mlc.runtime.code import POOL, PROBES, Code, SharedCode
from mlc.support.scratch import scratch_directory

if TYPE_CHECKING:
    from mlc.driver.cache import Cache
    from mlc.runtime.executable import Executable
    from mlc.runtime.vm.machine import Resolver
    from mlc.runtime.vm.memory import WorkspaceBlocks
    from mlc.runtime.vm.program import Function
    from mlc.targets.target import Target


class LLVM:
    """Links with LLVM in memory, and exports C libraries."""

    def load(self, objects: Mapping[str, bytes], libraries: Sequence[str] = ()) -> Code:
        """Link object files in memory, with libraries."""
        from mlc.codegen.jit import JitCode, load_libraries

        load_libraries(libraries)
        return JitCode(objects)

    def resolver(
        self, path: Path, options: Mapping[str, Any], functions: list[Function], pool: WorkspaceBlocks, threads: int
    ) -> Resolver:
        """The compiler of a saved vm model, from the model's file."""
        from mlc.driver.vm.compiler import resolver_of

        return resolver_of(path, options, functions, pool, threads)

    def export(self, artifact: Artifact, path: Path) -> list[Path]:
        """Write a C library; the paths of the files."""
        from mlc.driver.export.library import export

        return export(artifact, path)


def load_code(objects: Mapping[str, bytes], libraries: Sequence[str] = ()) -> Code:
    """Link objects, the pool's among them, into this process: by the C compiler, or else by LLVM."""
    from mlc.codegen.link import has_compiler, link_shared

    if not has_compiler():
        return LLVM().load(objects, libraries)
    with scratch_directory() as directory:
        return SharedCode(link_shared(objects.values(), directory / "code.so", libraries))


def load_executable(directory: str | os.PathLike[str], threads: int | None = None, executor: str = "aot") -> Executable:
    """The executable that `Executable.save` wrote. Its code runs here: load only what you trust."""
    return executable.load_executable(directory, threads, executor, LLVM())


def pool_object(target: Target, cache: Cache | None) -> bytes:
    """The thread pool for a shared library."""
    from mlc.codegen.pool import module as pool_ir
    from mlc.targets.target import baseline

    target = baseline(target)  # a program makes a runtime before it asks whether the CPU fits the model
    # The process-wide symbol is declared in assembly, which LLVM here parses for this machine only.
    return _object("pool", pool_ir.module(target, shared=is_host(target)), target, cache)


def probes_object(target: Target, cache: Cache | None) -> bytes:
    """The probes that measure the machine and trace tasks."""
    from mlc.codegen.probes import probes_module

    return _object("probes", probes_module(target), target, cache)


def runtime_objects(target: Target, cache: Cache | None) -> dict[str, bytes]:
    """The objects that every program is linked with: the pool and the probes."""
    return {POOL: pool_object(target, cache), PROBES: probes_object(target, cache)}


def functions_object(names: Sequence[str], target: Target, cache: Cache | None) -> bytes:
    """The functions through which kernels call the registered ones of a program."""
    from mlc.codegen.functions import functions_text

    return _object("functions", functions_text(names, target), target, cache)


def _object(what: str, text: str, target: Target, cache: Cache | None) -> bytes:
    """The object file of LLVM IR text, from the cache where it is there."""
    from mlc.driver.cache import key_of

    key = key_of([what, text, target.cpu, target.features])
    data = None if cache is None else cache.kernel(key)
    if data is None:
        data = _emitted(text, target)
        if cache is not None:
            cache.publish_kernel(key, data)
    return data


@lru_cache(maxsize=8)
def _emitted(text: str, target: Target) -> bytes:
    """The object file of a text; a process without a cache makes that of the pool once."""
    from mlc.codegen.native import emit_object

    return emit_object(text, target)


def is_host(target: Target) -> bool:
    """Whether this machine can link and load code for the target."""
    import platform
    import sys

    return target.architecture == platform.machine() and sys.platform in target.triple


@cache
def host_probes() -> Code:
    """The probes for this machine, linked into this process."""
    from mlc.targets.target import native_target

    return LLVM().load({PROBES: probes_object(native_target(), None)})
