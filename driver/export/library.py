"""
A compiled model as a C library: `.so`, `.a` or `.o`, with a header; weights inside, no Python, no mlc at run time.

    <prefix>_run, <prefix>_run_in    made here, as LLVM IR; of symbolic sizes with more (sizes.py)
    <prefix>_check_cpu               what refuses a CPU that lacks features (cpu_check.py)
    mlc_main, the kernels            from the artifact; local to the library
    the weights                      weights.bin, as an object of its own (weights_object.py)
    mlc_runtime_create, ...          the thread pool; all mlc libraries of a process share one
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mlc.codegen.link import LIBRARIES, library_flags
from mlc.codegen.weights_object import write_weights_object
from mlc.driver.export.c_header import c_header
from mlc.driver.export.cpu_check import check_text
from mlc.driver.export.register import register_text
from mlc.runtime.artifact import WEIGHTS, Artifact, written
from mlc.runtime.code import POOL, PROBES
from mlc.runtime.cpu import needed_features
from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory
from mlc.targets.cpu_features import LEVELS
from mlc.targets.target import Target

SUFFIXES = (".so", ".a", ".o", ".h")
RUNTIME = ("mlc_runtime_create", "mlc_runtime_reserve", "mlc_runtime_destroy", "mlc_parallel_for", "mlc_process_pool")
_SHARED = ("-shared", "-fPIC", "-Wl,-z,noexecstack", "-Wl,--build-id=none")  # the checksum of the weights takes long

_API = """\
target triple = "{triple}"
@{prefix}_weights = external hidden global i8
; The address in 64 bits: the weights may lie farther from the code than its instructions reach.
@{prefix}_weights_at = hidden global ptr @{prefix}_weights, align 8

declare i32 @{entry}(ptr, ptr, ptr, ptr)
declare i32 @mlc_runtime_reserve(ptr, i64)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare ptr @memcpy(ptr, ptr, i64)

define i32 @{prefix}_run_in(ptr %inputs, ptr %outputs, {given}ptr %workspace, ptr %rt) {{
entry:
  %unfit = call i32 @{prefix}_check_cpu(ptr null, i64 0)
  %fits = icmp eq i32 %unfit, 0
  br i1 %fits, label %begin, label %refuse
refuse:
  ret i32 %unfit
begin:
  %io = alloca [{count} x ptr], align 8
  %c0 = call ptr @memcpy(ptr %io, ptr %inputs, i64 {input_bytes})
  %behind = getelementptr i8, ptr %io, i64 {input_bytes}
  %c1 = call ptr @memcpy(ptr %behind, ptr %outputs, i64 {output_bytes})
{sizes}{table}  %at = getelementptr i8, ptr %rt, i64 {stride}
  %has = load i64, ptr %at, align 8
  %little = icmp slt i64 %has, {scratch}
  br i1 %little, label %reserve, label %run
reserve:
  %failed = call i32 @mlc_runtime_reserve(ptr %rt, i64 {scratch})
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %stop, label %run
stop:
  ret i32 %failed
run:
  %weights = load ptr, ptr @{prefix}_weights_at, align 8
  %status = call i32 @{entry}(ptr %io, ptr %weights, ptr %workspace, ptr %rt)
  ret i32 %status
}}

define i32 @{prefix}_run(ptr %inputs, ptr %outputs, {given}ptr %rt) {{
entry:
  %slot = alloca ptr, align 8
{room}  %failed = call i32 @posix_memalign(ptr %slot, i64 64, i64 {workspace})
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %stop, label %run
stop:
  ret i32 %failed
run:
  %workspace = load ptr, ptr %slot, align 8
  %status = call i32 @{prefix}_run_in(ptr %inputs, ptr %outputs, {given}ptr %workspace, ptr %rt)
  call void @free(ptr %workspace)
  ret i32 %status
}}
"""
_TABLE = """\
  %functions_at = getelementptr i8, ptr %rt, i64 {functions}
  store ptr @{prefix}_functions, ptr %functions_at, align 8
"""
_SIZES = """\
  %past = getelementptr i8, ptr %io, i64 {before}
  %c2 = call ptr @memcpy(ptr %past, ptr %symbols, i64 {symbol_bytes})
"""
_ROOM = """\
  %threads_at = getelementptr i8, ptr %rt, i64 {threads}
  %threads = load i32, ptr %threads_at, align 4
  %bytes = call i64 @{prefix}_workspace_bytes(ptr %symbols, i32 %threads)
"""


def export(artifact: Artifact, path: Path) -> list[Path]:
    """
    Write the library that the suffix asks for (.so, .a, .o; .h: no library), and its header; return the files.

    Raises UserError, and then writes nothing, if a tool fails or the model is for another machine.
    """
    if path.suffix not in SUFFIXES:
        raise UserError(f"expected a file that ends in {', '.join(SUFFIXES)}, but got '{path.name}'")
    if not path.parent.is_dir():
        raise UserError(f"{path.parent}: no such directory")
    machine = machine_of(artifact.model)
    if path.suffix != ".h":
        check_exportable(artifact, machine)
    prefix = "mlc_" + re.sub(r"\W", "_", path.stem.removeprefix("lib"))
    wanted = list(dict.fromkeys([path, path.with_suffix(".h")]))
    for one in wanted:
        if one.is_dir():
            raise UserError(f"expected a file to write at {one}, but there is a directory")
    # beside the library: renames, which publish the files, stay in one file system
    with written(path), scratch_directory(path.parent) as directory:
        made = directory / "publish"
        made.mkdir()
        (made / wanted[-1].name).write_text(c_header(artifact.model, prefix))
        if path.suffix != ".h":
            _library(artifact, prefix, machine, directory, made / path.name)
        for one in wanted:
            (made / one.name).replace(one)
    return wanted


def check_exportable(artifact: Artifact, machine: str) -> None:
    """UserError if there can be no library of the model here."""
    if machine != os.uname().machine:
        here = os.uname().machine
        raise UserError(f"expected a target of this machine ({here}) to export a library, but got {machine}")
    if machine not in LEVELS:
        raise UserError(f"expected a machine of {', '.join(LEVELS)} to export a library, but got {machine}")
    if needed_features(artifact.model) is None:
        raise UserError(
            f"expected a model that tells which CPU it needs, but an older mlc made {artifact.path}; compile it again"
        )


def _library(artifact: Artifact, prefix: str, machine: str, directory: Path, path: Path) -> None:
    """Write the library, by way of object files in `directory`."""
    files = _objects(artifact, prefix, directory)
    write_weights_object(artifact.path / WEIGHTS, f"{prefix}_weights", machine, files[-1])
    if path.suffix == ".so":
        link_library(files, path, functions_of(artifact.model, prefix), directory, artifact.model.get("libraries", ()))
    elif path.suffix == ".a":
        run_tool(["ar", "rcsD", str(path), *map(str, files)], path)
    else:
        relocatable(files, path)


def api_text(model: Mapping[str, Any], prefix: str) -> str:
    """The LLVM IR of the functions that a C program calls."""
    from mlc.driver.export.sizes import size_functions
    from mlc.support.abi import RT_FUNCTIONS, RT_SCRATCH_STRIDE, RT_THREADS

    inputs, outputs, symbols = len(model["inputs"]), len(model["outputs"]), len(model.get("symbols", ()))
    behind = {"before": 8 * (inputs + outputs), "symbol_bytes": 8 * symbols}
    text = _API.format(
        triple=model["target"]["triple"],
        entry=model["entry"],
        prefix=prefix,
        count=inputs + outputs + symbols,
        input_bytes=8 * inputs,
        output_bytes=8 * outputs,
        stride=RT_SCRATCH_STRIDE,
        scratch=model["scratch_bytes"],
        given="ptr %symbols, " if symbols else "",
        sizes=_SIZES.format(**behind) if symbols else "",
        table=_TABLE.format(functions=RT_FUNCTIONS, prefix=prefix) if model.get("functions") else "",
        room=_ROOM.format(threads=RT_THREADS, prefix=prefix) if symbols else "",
        workspace="%bytes" if symbols else max(64, model["workspace_bytes"]),
    )
    check = check_text(prefix, machine_of(model), needed_features(model) or ())
    register = register_text(model["functions"], prefix) if model.get("functions") else ""
    return text + check + register + (f"\n{size_functions(model, prefix)}" if symbols else "")


def machine_of(model: Mapping[str, Any]) -> str:
    """The machine that a model is compiled for: x86_64, aarch64, ..."""
    return model["target"]["triple"].partition("-")[0]


def functions_of(model: Mapping[str, Any], prefix: str) -> list[str]:
    """The names of the functions of a model that a C program calls."""
    sized = ("symbols", "output_shapes", "workspace_bytes") if model.get("symbols") else ()
    called = ("register",) if model.get("functions") else ()
    return [f"{prefix}_{name}" for name in ("check_cpu", "run", "run_in", *sized, *called)]


def _objects(artifact: Artifact, prefix: str, directory: Path) -> list[Path]:
    """Object files: the model with only its functions visible, the pool, the weights (written later)."""
    from mlc.codegen.native import emit_object

    api = emit_object(api_text(artifact.model, prefix), plain_target(artifact.model))
    model, pool = model_objects(artifact, prefix, [api], functions_of(artifact.model, prefix), directory)
    return [model, pool, directory / "weights.o"]


def plain_target(model: Mapping[str, Any]) -> Target:
    """The target of code that runs on every CPU of the model's machine."""
    return replace(Target.parse(LEVELS[machine_of(model)][-1]), triple=model["target"]["triple"])


def model_objects(
    artifact: Artifact, prefix: str, more: Sequence[bytes], visible: Sequence[str], directory: Path
) -> tuple[Path, Path]:
    """Two object files: the model and `more` with only the functions `visible` shown, and the thread pool."""
    objects = artifact.objects()
    pool = objects.pop(POOL)
    objects.pop(PROBES, None)
    files: list[Path] = []
    for index, data in enumerate([*more, *objects.values()]):
        file = directory / f"{index:04}.o"
        file.write_bytes(data)
        files.append(file)
    model, pool_file = directory / f"{prefix}.o", directory / "mlc_runtime.o"
    pool_file.write_bytes(pool)
    relocatable(files, model)
    run_tool(["objcopy", *(f"--keep-global-symbol={name}" for name in visible), str(model)], model)
    return model, pool_file


def relocatable(files: Sequence[Path], path: Path) -> None:
    """Several objects as one."""
    run_tool([*compiler(), "-r", "-nostdlib", "-o", str(path), *map(str, files)], path)


def link_library(
    files: Sequence[Path], path: Path, functions: Sequence[str], directory: Path, libraries: Sequence[str]
) -> None:
    """A shared library that shows the model's functions and the runtime's."""
    script = directory / "symbols.map"
    names = "; ".join([*functions, *RUNTIME])
    script.write_text(f"{{ global: {names}; local: *; }};\n")
    flags = [*_SHARED, f"-Wl,--version-script={script}", f"-Wl,-soname,{path.name}"]
    run_tool([*compiler(), *flags, "-o", str(path), *map(str, files), *library_flags([*libraries, *LIBRARIES])], path)


def compiler() -> list[str]:
    """The command of the C compiler."""
    return os.environ.get("CC", "cc").split()


def run_tool(command: Sequence[str], path: Path) -> None:
    """Run a tool; its failure is one message."""
    if shutil.which(command[0]) is None:
        raise UserError(f"expected '{command[0]}' to write {path.name}, but there is none; install gcc and binutils")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"expected {path.name} to be written, but {command[0]} said: {done.stderr.strip()}")
