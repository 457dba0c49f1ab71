"""
A kernel whose code somebody else's compiler made: C source to an object, and the kernel around it.

    i32 NAME(ptr args, ptr rt)          made here: calls NAME_init once a process, then NAME_body
    i32 NAME_body(ptr args, ptr rt)     the external code
    i32 NAME_init(ptr constants, ptr rt)    the external code, if it has constants or a state to make
    NAME_data                           the constants, one after another
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from mlc.codegen.weights_object import write_weights_object
from mlc.support.abi import C_DECLARATIONS
from mlc.support.errors import UserError
from mlc.support.scratch import scratch_directory
from mlc.targets.target import Target

RUNTIME_HEADER = f"""\
#ifndef MLC_RUNTIME_DECLARED
#define MLC_RUNTIME_DECLARED
#include <stddef.h>
#include <stdint.h>
{C_DECLARATIONS}#endif
"""

_DIRECT = """
declare i32 @{name}_body(ptr, ptr)
define i32 @{name}(ptr %args, ptr %rt) {{
  %status = call i32 @{name}_body(ptr %args, ptr %rt)
  ret i32 %status
}}
"""
# `ready` is 0 before init, 1 while a thread runs it, 2 behind it.
_ONCE = """
@{name}_ready = internal global i32 0, align 4
{data}@{name}_table = internal global [{slots} x ptr] [{constants}], align 8
declare i32 @{name}_init(ptr, ptr)
declare i32 @{name}_body(ptr, ptr)
declare i32 @sched_yield()

define i32 @{name}(ptr %args, ptr %rt) {{
entry:
  %state = load atomic i32, ptr @{name}_ready acquire, align 4
  %done = icmp eq i32 %state, 2
  br i1 %done, label %run, label %begin
begin:
  %exchanged = cmpxchg ptr @{name}_ready, i32 0, i32 1 acq_rel acquire
  %mine = extractvalue {{i32, i1}} %exchanged, 1
  br i1 %mine, label %init, label %wait
init:
  %failed = call i32 @{name}_init(ptr @{name}_table, ptr %rt)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %stop, label %set
stop:
  store atomic i32 0, ptr @{name}_ready release, align 4
  ret i32 %failed
set:
  store atomic i32 2, ptr @{name}_ready release, align 4
  br label %run
wait:
  %yielded = call i32 @sched_yield()
  %again = load atomic i32, ptr @{name}_ready acquire, align 4
  switch i32 %again, label %wait [ i32 0, label %begin i32 2, label %run ]
run:
  %status = call i32 @{name}_body(ptr %args, ptr %rt)
  ret i32 %status
}}
"""


def wrapper_text(name: str, init: bool, offsets: Sequence[int], target: Target) -> str:
    """The LLVM IR of the kernel `name`; `offsets` are those of its constants in NAME_data."""
    head = f'target triple = "{target.triple}"\n'
    if not init:
        return head + _DIRECT.format(name=name)
    data = f"@{name}_data = external hidden global i8\n" if offsets else ""
    places = [f"ptr getelementptr (i8, ptr @{name}_data, i64 {offset})" for offset in offsets] or ["ptr null"]
    return head + _ONCE.format(name=name, data=data, slots=len(places), constants=", ".join(places))


def data_object(data: bytes, name: str, target: Target) -> bytes:
    """The constants of a kernel as an object that defines NAME_data, at a multiple of 64 bytes."""
    with scratch_directory() as directory:
        (directory / "data.bin").write_bytes(data)
        write_weights_object(directory / "data.bin", f"{name}_data", target.architecture, directory / "data.o")
        return (directory / "data.o").read_bytes()


def included_files(source: str, flags: Sequence[str], what: str) -> list[Path]:
    """The headers that C source includes from the directories of `flags`; UserError if it cannot be preprocessed."""
    with scratch_directory() as directory:
        text = _compiled(source, ("-MM", "-MF", "found", *flags), what, directory, "found").decode()
    words = text.partition(":")[2].replace("\\\n", " ").replace("\\ ", "\0").split()
    paths = [Path(word.replace("\0", " ")) for word in words]
    return [path for path in paths if path.is_absolute() and directory not in path.parents]


def compile_c(source: str, flags: Sequence[str], what: str) -> bytes:
    """C99 source as an object of position-independent code; UserError with the compiler's message if that fails."""
    with scratch_directory() as directory:
        return _compiled(source, ("-c", "-fPIC", *flags, "-o", "kernel.o"), what, directory, "kernel.o")


def _compiled(source: str, flags: Sequence[str], what: str, directory: Path, result: str) -> bytes:
    """The file `result` that the C compiler makes of source in a directory."""
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        raise UserError(f"expected a C compiler for the code of {what}, but got no '{compiler[0]}'; set CC")
    (directory / "mlc_runtime.h").write_text(RUNTIME_HEADER)
    (directory / "kernel.c").write_text(source)
    command = [*compiler, "-std=gnu99", f"-I{directory}", *flags, "kernel.c"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"expected the C code of {what} to compile, but got: {done.stderr.strip()}")
    return (directory / result).read_bytes()
